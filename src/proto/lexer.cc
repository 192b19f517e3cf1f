#include "lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "rtrace/base/text.h"

namespace rtrace::proto {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
}  // namespace

std::string Token::quoted() const {
  if (kind == Kind::end) return "end of line";
  std::string clean;
  append_printable(clean, spelling.substr(0, 40), false);
  return fmt::format("'{}'", clean);
}

Lexer::Lexer(std::string_view line) : rest_(line), token_(scan()), second_(scan()) {}

Token Lexer::take() {
  Token taken = token_;
  token_ = second_;
  second_ = scan();
  return taken;
}

// A word that is no number is reported where a number is expected, so that text behind the end of an item,
// which is ignored, cannot fail it.
Token Lexer::scan() {
  while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  if (rest_.empty()) return {};
  auto cut = [this](Token::Kind kind, size_t length) {
    Token token{kind, rest_.substr(0, length), 0};
    rest_.remove_prefix(length);
    return token;
  };
  char first = rest_.front();
  auto word_end = static_cast<size_t>(std::find_if_not(rest_.begin(), rest_.end(), is_word) - rest_.begin());
  if (is_word_start(first)) return cut(Token::Kind::word, word_end);
  if (is_digit(first)) {
    auto value = parse_number(rest_.substr(0, word_end));
    Token token = cut(value ? Token::Kind::number : Token::Kind::mark, word_end);
    token.number = value.value_or(0);
    return token;
  }
  if (first == '"') {
    size_t end = rest_.find('"', 1);
    if (end == std::string_view::npos) return cut(Token::Kind::mark, rest_.size());
    Token token = cut(Token::Kind::text, end + 1);
    token.spelling = token.spelling.substr(1, end - 1);
    return token;
  }
  return cut(Token::Kind::mark, 1);
}

}  // namespace rtrace::proto
