// Whole-name patterns: globs and POSIX extended regular expressions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rtrace/base/error.h"

namespace rtrace {

class PatternError : public Error {
 public:
  PatternError(size_t position, const std::string& message) : Error(message), position_(position) {}
  size_t position() const { return position_; }  // in the pattern's text

 private:
  size_t position_;
};

// `*`, `?`, `[...]` with `!` or `^` complement, ranges and POSIX classes; `\` takes the next character as
// itself. A `[` without its `]` is itself. fnmatch(3) without FNM_PATHNAME, but with no length limit and no
// locale.
bool glob_match(std::string_view pattern, std::string_view text);

// The bracket expression at `at` is one that ends. Throws PatternError where it holds a range that goes down
// or a class that there is not, which would match nothing.
void check_glob_bracket(std::string_view pattern, size_t at);

// Matches the whole of a name, as all patterns of rtrace do.
class Pattern {
 public:
  static Pattern any();
  static Pattern literal(std::string text);
  static Pattern glob(std::string text);
  // regcomp(3) with REG_EXTENDED, anchored at both ends; `basic` takes POSIX basic syntax. Throws
  // PatternError with regcomp's words.
  static Pattern regex(const std::string& text);
  static Pattern basic_regex(const std::string& text);
  // As it stands between slashes: `\/` in it is a slash.
  static Pattern slashed_regex(std::string_view text);

  bool matches(std::string_view text) const;
  // Whether any part of the text matches; only a regex can match less than the whole. A NUL stands behind the
  // text. With Ends::later there is more of the text, so that `$` does not match at its end.
  enum class Ends : bool { later, there };
  bool found_in(std::string_view text, Ends ends = Ends::there) const;
  // The one name that can match, where there is just one: such patterns are looked up, not searched.
  std::optional<std::string> literal_name() const;
  bool matches_everything() const { return kind_ == Kind::any; }
  // As the user wrote it.
  const std::string& text() const { return text_; }

 private:
  enum class Kind { any, literal, glob, regex };
  struct Compiled;
  Kind kind_ = Kind::any;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rtrace
