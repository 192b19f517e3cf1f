// A filter as it stands for one object: the rules whose library part matches, so that walking a symbol table
// compares names only.
#pragma once

#include <string_view>
#include <vector>

#include "rtrace/plan/filter.h"

namespace rtrace::plan {

class SymbolFilter {
 public:
  // The filter must outlive it.
  SymbolFilter(const Filter& filter, const ObjectNames& object);

  bool matches(std::string_view symbol) const;
  // Whether a rule that adds names this very symbol, without any pattern.
  bool names(std::string_view symbol) const;
  bool may_match() const { return !rules_.empty(); }
  std::optional<std::vector<std::string>> literal_names() const;

 private:
  std::vector<const Filter::Rule*> rules_;
};

}  // namespace rtrace::plan
