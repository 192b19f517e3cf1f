// Words of one line of ltrace's prototype language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rtrace::proto {

constexpr bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_word(char c) {
  return is_word_start(c) || (c >= '0' && c <= '9');
}
constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\n';
}

struct Token {
  enum class Kind : uint8_t { end, word, number, text, mark };
  Kind kind = Kind::end;
  std::string_view spelling;  // of a text: what stands between its quotes
  uint64_t number = 0;

  bool is(char mark) const { return kind == Kind::mark && spelling[0] == mark; }
  bool is(std::string_view word) const { return kind == Kind::word && spelling == word; }
  // For messages: "'foo'", or "end of line".
  std::string quoted() const;
};

class Lexer {
 public:
  explicit Lexer(std::string_view line);

  const Token& peek() const { return token_; }
  const Token& peek_second() const { return second_; }
  Token take();

 private:
  Token scan();
  std::string_view rest_;
  Token token_;
  Token second_;
};

}  // namespace rtrace::proto
