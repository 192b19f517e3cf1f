// The filter language of -e, -l and -x (man page: FILTERS).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/base/pattern.h"

namespace rtrace::plan {

// The names under which an object can be meant in a filter.
struct ObjectNames {
  std::string path;    // "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2"; globs beginning with '/' match it
  std::string soname;  // "libruby-3.1.so.3.1", may be empty
  bool main_program = false;
  // SONAME, basename and the stems without version ("libruby-3.1", "libruby").
  std::vector<std::string> all() const;
};

// A filter that does not parse. what() is the whole message: what is wrong, the filter, and a caret under the
// place.
class FilterError : public Error {
 public:
  FilterError(std::string_view filter, size_t position, const std::string& message);
  size_t position() const { return position_; }

 private:
  size_t position_;
};

enum class Syntax : uint8_t { rtrace, ltrace };  // ltrace: --ltrace-compat

class Filter {
 public:
  struct Rule {
    bool add = true;
    Pattern symbol;
    Pattern library;
    bool library_is_main = false;  // MAIN
    bool library_is_path = false;  // begins with '/'
    bool demangled = false;        // the symbol pattern holds "::", "(" or a blank
  };

  // Parses without knowledge of the mapped objects; where a `+` or `-` could be an operator or part of an
  // object's name, both readings are kept until matching (`mentions` below). Throws FilterError.
  static Filter parse(std::string_view text, Syntax syntax = Syntax::rtrace);
  // `-l PATTERN`: every symbol of the matching libraries.
  static Filter of_library(std::string_view pattern);

  // The reading that holds when these objects are mapped: a literal reading that names one of them wins over
  // operators. Cheap; called once for each change of the link map.
  Filter resolved_for(const std::vector<ObjectNames>& mapped) const;

  // That rule alone.
  Filter only(size_t rule) const;

  bool matches(std::string_view symbol, const ObjectNames& object) const;
  // False where no symbol of the object can match: its tables need not be read.
  bool may_match_in(const ObjectNames& object) const;
  // The names to look up where only literal names can match in this object; nullopt where tables must be
  // searched.
  std::optional<std::vector<std::string>> literal_names(const ObjectNames& object) const;

  const std::string& text() const { return text_; }
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::string text_;
  Syntax syntax_ = Syntax::rtrace;
  std::vector<Rule> rules_;
  bool ambiguous_ = false;  // a sign may be an operator or part of an object's name
};

}  // namespace rtrace::plan
