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
    return std::min(group_.total << std::min(ways_, kMostWays), kMost);
  }

 private:
  // Of an open parenthesis what is in it so far.
  struct Group {
    size_t total = 0;
    bool repeats = false, chooses = false;
  };

  size_t element(size_t at) {
    const bool escaped = text_[at] == '\\' && at + 1 < text_.size();
    const char c = text_[at + (escaped ? 1 : 0)];
    const size_t behind = at + (escaped ? 2 : 1);
    const bool special = escaped != extended_;
    if (c == '[' && !escaped) {
      const size_t end = behind_bracket(text_, at);
      add_one();
      return end == std::string_view::npos ? behind : end;
    }
    if (special && c == '(') {
      outer_.push_back(std::exchange(group_, {}));
      repeated_ = false;
    } else if (special && c == ')') {
      close();
    } else if (special && c == '{') {
      return interval(behind);
    } else if (c == '*' ? !escaped : special && (c == '+' || c == '?')) {
      repeat(c == '+' ? 2 : 1);
    } else {
      group_.chooses |= special && c == '|';
      add_one();
    }
    return behind;
  }

  void add_one() {
    last_ = 1;
    ++group_.total;
    repeated_ = false;
  }

  void close() {
    if (outer_.empty()) return;
    const Group inner = std::exchange(group_, outer_.back());
    outer_.pop_back();
    last_ = inner.total + 1;
    group_.total = std::min(group_.total + last_, kMost);
    group_.repeats |= inner.repeats;
    repeated_ = inner.repeats;
    if (inner.repeats && inner.chooses) ++ways_;
  }

  // Its end is looked for behind the digits, so that what is none is of one character more.
  size_t interval(size_t at) {
    size_t most = 0, number = 0;
    for (;
         at < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at])) != 0 || text_[at] == ',');
         ++at) {
      number =
          text_[at] == ',' ? 0 : std::min<size_t>(number * 10 + static_cast<size_t>(text_[at] - '0'), kMost);
      most = std::max(most, number);
    }
    repeat(most + 1);
    const std::string_view closing = extended_ ? "}" : "\\}";
    return text_.substr(at).starts_with(closing) ? at + closing.size() : at;
  }

  void repeat(size_t times) {
    if (repeated_) ++ways_;
    repeated_ = group_.repeats = true;
    group_.total = std::min(group_.total + last_ * (times - 1), kMost);
    last_ = std::min(last_ * times, kMost);
  }

  static constexpr size_t kMost = 1 << 20, kMostWays = 20;
  std::string_view text_;
  bool extended_;
  std::vector<Group> outer_;  // what stood before each open parenthesis
  Group group_;
  size_t last_ = 0;
  size_t ways_ = 0;        // pieces that may be passed in two ways
  bool repeated_ = false;  // what stands directly in front
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
