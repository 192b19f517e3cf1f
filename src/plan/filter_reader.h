// Text of a filter -> rules. A reader lives for one reading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rtrace/plan/filter.h"

namespace rtrace::plan {

bool library_matches(const Filter::Rule& rule, const ObjectNames& object);

class FilterReader {
 public:
  // `mapped` decides between the two readings of a sign that may belong to an object's name.
  FilterReader(std::string_view text, const std::vector<ObjectNames>& mapped)
      : text_(text), mapped_(mapped) {}

  std::vector<Filter::Rule> read();
  // True after a reading that other mapped objects might turn into another one.
  bool ambiguous() const { return ambiguous_; }
  // The whole text as the library part of one rule, without operators (-l).
  Filter::Rule read_library();

 private:
  // A place where the library part may end, and the size that its glob has up to there.
  struct Cut {
    size_t at;
    size_t glob_size;
  };
  struct Scan {
    std::string glob;
    std::vector<Cut> cuts;
    size_t stop = 0;
  };

  [[noreturn]] void fail(size_t position, const std::string& message) const;
  bool is_sign(size_t at) const { return at < text_.size() && (text_[at] == '+' || text_[at] == '-'); }
  bool is_quote(size_t at) const { return at < text_.size() && (text_[at] == '"' || text_[at] == '\''); }

  bool first_sign(std::vector<Filter::Rule>& rules);
  void symbols(Filter::Rule& rule);
  void symbol_regex(Filter::Rule& rule);
  void symbol_glob(Filter::Rule& rule);
  void library(Filter::Rule& rule);
  void set_library(Filter::Rule& rule, const std::string& glob) const;
  Scan scan_library() const;
  bool may_be_operator(size_t sign, size_t stop) const;
  const Cut& choose(const Scan& scan) const;

  std::string quoted();
  size_t element(size_t at, std::string& glob) const;
  size_t operator_name(size_t at, std::string& glob) const;
  size_t group_end(size_t at) const;
  size_t unquoted(size_t begin, size_t end, char c) const;
  size_t regex_end(size_t at, std::string_view followers) const;
  Pattern regex(size_t begin, size_t end) const;

  std::string_view text_;
  const std::vector<ObjectNames>& mapped_;
  size_t at_ = 0;
  bool ambiguous_ = false;
};

// Filters as ltrace reads them: every sign splits, regular expressions are basic, a leading sign of either
// kind follows "everything".
std::vector<Filter::Rule> read_ltrace_filter(std::string_view text);

// Glob text to a pattern; a text whose only special characters are escapes is a literal name, which can be
// looked up.
Pattern glob_pattern(const std::string& glob);

// The place behind the ']' that closes the bracket expression at `at`, npos where nothing does.
size_t bracket_end(std::string_view text, size_t at);
// The same of a glob that is part of the text of a filter. Throws FilterError where it does not close or
// can match nothing.
size_t checked_bracket_end(std::string_view filter, std::string_view glob, size_t at);

}  // namespace rtrace::plan
