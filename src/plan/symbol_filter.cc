#include "symbol_filter.h"

#include "clone_name.h"
#include "filter_reader.h"
#include "rtrace/base/text.h"

namespace rtrace::plan {
namespace {

// A demangled name without its parameter list and what follows that: "Foo::bar" of "Foo::bar(int) const".
std::string_view without_parameters(std::string_view name) {
  auto close = name.rfind(')');
  if (close == std::string_view::npos) return name;
  size_t depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return name.substr(0, i);
  }
  return name;
}

bool name_matches(const Filter::Rule& rule, std::string_view symbol) {
  if (rule.symbol.matches(symbol)) return true;
  if (!rule.demangled) return false;
  auto demangled = demangle(symbol);
  if (!demangled) return false;
  return rule.symbol.matches(*demangled) || rule.symbol.matches(without_parameters(*demangled));
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
