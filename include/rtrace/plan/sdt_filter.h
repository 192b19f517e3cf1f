// `sdt:PROVIDER:NAME` and `sdt:PROVIDER:BEGIN..[PROVIDER:]END` of -x (man page: FILTERS).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rtrace/base/pattern.h"
#include "rtrace/elf/sdt_note.h"

namespace rtrace::plan {

class SdtFilter {
 public:
  // One side of it: both patterns are globs; those of a pair are literal names.
  struct Side {
    Pattern provider, name;
    bool matches(const elf::SdtNote& note) const;
    // "ruby:gc__*"
    std::string text() const { return provider.text() + ":" + name.text(); }
  };

  // Whether -x takes the text for one of these: it begins with "sdt:", but not with "sdt::", a C++ name.
  static bool is_meant(std::string_view text);
  // Throws FilterError.
  static SdtFilter parse(std::string_view text);

  const Side& first() const { return first_; }
  // Of a pair.
  const std::optional<Side>& end() const { return end_; }
  // What a probe is called that matches: "ruby:gc__mark__begin", "ruby:begin..end".
  std::string label(const elf::SdtNote& note) const;

 private:
  Side first_;
  std::optional<Side> end_;
};

}  // namespace rtrace::plan
