#include "symbol_filter.h"

#include "filter_reader.h"
#include "rtrace/base/text.h"
#include "rtrace/plan/clone_name.h"
#include "rtrace/plan/demangled_name.h"

namespace rtrace::plan {
namespace {

// A pattern that was copied with the result type that demanglers put before templates' names.
bool names_a_result(std::string_view pattern) {
  return without_result(pattern) != pattern;
}

bool name_matches(const Filter::Rule& rule, std::string_view symbol) {
  if (rule.symbol.matches(symbol)) return true;
  if (!rule.demangled) return false;
  auto demangled = demangle(symbol);
  if (!demangled) return false;
  const auto means = [&](std::string_view name) {
    const std::string_view bare = without_result(name);
    return rule.symbol.matches(bare) || rule.symbol.matches(without_parameters(bare)) ||
           (names_a_result(rule.symbol.text()) && rule.symbol.matches(name));
  };
  return means(*demangled) ||
         (demangled->find("[abi:") != std::string::npos && means(without_abi_tags(*demangled)));
}

// Clones go by the name of their function too. A `.cold` part is entered by a jump in the middle of a call,
// so no pattern may mark it by chance.
bool symbol_matches(const Filter::Rule& rule, std::string_view symbol) {
  if (rule.add && is_cold_part(symbol)) return rule.symbol.literal_name() == symbol;
  if (name_matches(rule, symbol)) return true;
  auto clone = clone_of(symbol);
  return clone && name_matches(rule, clone->plain);
}

}  // namespace

SymbolFilter::SymbolFilter(const Filter& filter, const ObjectNames& object) {
  for (const Filter::Rule& rule : filter.rules()) {
    if (!library_matches(rule, object)) continue;
    if (!rule.add && rule.symbol.matches_everything()) {
      rules_.clear();
    } else if (rule.add || !rules_.empty()) {
      rules_.push_back(&rule);
    }
  }
}

bool SymbolFilter::matches(std::string_view symbol) const {
  bool marked = false;
  for (const Filter::Rule* rule : rules_)
    if (marked != rule->add && symbol_matches(*rule, symbol)) marked = rule->add;
  return marked;
}

bool SymbolFilter::names(std::string_view symbol) const {
  for (const Filter::Rule* rule : rules_)
    if (rule->add && rule->symbol.literal_name() == symbol) return true;
  return false;
}

std::optional<std::vector<std::string>> SymbolFilter::literal_names() const {
  std::vector<std::string> names;
  for (const Filter::Rule* rule : rules_) {
    if (!rule->add) continue;
    auto name = rule->symbol.literal_name();
    if (!name || rule->demangled) return std::nullopt;
    names.push_back(*name);
  }
  return names;
}

}  // namespace rtrace::plan
