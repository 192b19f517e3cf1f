#include "regex_size.h"

#include <regex.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

namespace rtrace {
namespace {

class RegexSize {
 public:
  RegexSize(std::string_view text, int flags) : text_(text), extended_((flags & REG_EXTENDED) != 0) {}

  size_t count() {
    for (size_t at = 0; at < text_.size();) at = element(at);
    while (!outer_.empty()) close();
    return looped_ > kMostWays ? kMost : all_.size.nodes;
  }

 private:
  struct Size {
    size_t nodes = 0;
    size_t ways = 0;  // more than one to pass a piece without a character
    void add(const Size& other, size_t times = 1) {
      nodes = std::min(nodes + other.nodes * times, kMost);
      ways = std::min(ways + other.ways * times, kMost);
    }
  };
  // What an operator stands behind.
  struct Piece {
    Size size;
    bool may_be_empty = true;
  };
  // What is inside an open parenthesis so far, or in the whole.
  struct Group {
    Size size;
    Piece last;
    bool so_far_empty = true;  // whether what is in front of `last` may be, since the last '|'
    size_t empty_choices = 0;
  };

  size_t element(size_t at) {
    const bool escaped = text_[at] == '\\' && at + 1 < text_.size();
    const char c = text_[at + (escaped ? 1 : 0)];
    const size_t behind = at + (escaped ? 2 : 1);
    const bool special = escaped != extended_;
    if (c == '[' && !escaped) {
      const size_t end = behind_bracket(text_, at);
      add({{1, 0}, false});
      return end == std::string_view::npos ? behind : end;
    }
    if (special && c == '(') {
      outer_.push_back(std::exchange(all_, {}));
    } else if (special && c == ')') {
      close();
    } else if (special && c == '{') {
      return interval(behind);
    } else if (c == '*' ? !escaped : special && (c == '+' || c == '?')) {
      if (all_.last.may_be_empty) add_way();
      if (c != '?') loop();
      repeat(c == '+' ? 2 : 1, c != '+');
    } else if (special && c == '|') {
      add({{1, 0}, true});
      end_choice();
    } else {
      add({{1, 0}, !escaped && (c == '^' || c == '$')});
    }
    return behind;
  }

  void add(const Piece& piece) {
    all_.so_far_empty &= all_.last.may_be_empty;
    all_.last = piece;
    all_.size.add(piece.size);
  }

  void end_choice() {
    all_.empty_choices += all_.so_far_empty && all_.last.may_be_empty ? 1 : 0;
    all_.so_far_empty = true;
    all_.last = {};
  }

  void close() {
    if (outer_.empty()) return;
    end_choice();
    const Group inner = std::exchange(all_, outer_.back());
    outer_.pop_back();
    Piece piece{inner.size, inner.empty_choices > 0};
    piece.size.add({1, piece.may_be_empty ? inner.empty_choices - 1 : 0});
    add(piece);
  }

  // An interval whose end is missing is none, and of one character more.
  size_t interval(size_t at) {
    const size_t begin = at;
    size_t most = 0, number = 0;
    for (;
         at < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at])) != 0 || text_[at] == ',');
         ++at) {
      number =
          text_[at] == ',' ? 0 : std::min<size_t>(number * 10 + static_cast<size_t>(text_[at] - '0'), kMost);
      most = std::max(most, number);
    }
    const std::string_view range = text_.substr(begin, at - begin);
    if (range.ends_with(',')) loop();
    repeat(most + 1, range.starts_with('0') || range.starts_with(','));
    const std::string_view closing = extended_ ? "}" : "\\}";
    return text_.substr(at).starts_with(closing) ? at + closing.size() : at;
  }

  void add_way() {
    all_.last.size.add({0, 1});
    all_.size.add({0, 1});
  }

  void loop() { looped_ = std::min(looped_ + all_.last.size.ways, kMost); }

  void repeat(size_t times, bool or_not_at_all) {
    const Size once = all_.last.size;
    all_.size.add(once, times - 1);
    all_.last.size.add(once, times - 1);
    all_.last.may_be_empty |= or_not_at_all;
  }

  static constexpr size_t kMost = 1 << 20, kMostWays = 16;
  std::string_view text_;
  bool extended_;
  std::vector<Group> outer_;  // what stood before each open parenthesis
  Group all_;
  size_t looped_ = 0;  // ways of what is passed again and again
};

}  // namespace

size_t regex_size(std::string_view text, int flags) {
  return RegexSize(text, flags).count();
}

size_t behind_bracket(std::string_view text, size_t at) {
  size_t i = at + 1;
  if (i < text.size() && text[i] == '^') ++i;
  for (bool first = true; i < text.size(); first = false) {
    if (text[i] == ']' && !first) return i + 1;
    const char kind = i + 1 < text.size() ? text[i + 1] : '\0';
    size_t close = std::string_view::npos;
    if (text[i] == '[' && (kind == ':' || kind == '.' || kind == '='))
      close = text.find(std::string{kind, ']'}, i + 2);
    i = close != std::string_view::npos ? close + 2 : i + 1;
  }
  return std::string_view::npos;
}

}  // namespace rtrace
