#include "symbol_order.h"

#include <algorithm>
#include <tuple>

namespace rtrace::elf {

void sort_and_merge(std::vector<Symbol>& symbols) {
  auto key = [](const Symbol& s) { return std::tuple(s.name, s.table, !s.default_version, s.size == 0); };
  // Addresses first: nearly all differ, and a library has tens of thousands.
  std::sort(symbols.begin(), symbols.end(), [&](const Symbol& a, const Symbol& b) {
    return a.address == b.address ? key(a) < key(b) : a.address < b.address;
  });
  auto same = [](const Symbol& a, const Symbol& b) { return a.address == b.address && a.name == b.name; };
  symbols.erase(std::unique(symbols.begin(), symbols.end(), same), symbols.end());
}

bool is_better_name(const Symbol& a, const Symbol& b) {
  auto rank = [](const Symbol& symbol) {
    int binding = symbol.binding == Symbol::Binding::global ? 0
                  : symbol.binding == Symbol::Binding::weak ? 1
                                                            : 2;
    return std::tuple(binding, symbol.name.find_first_not_of('_'), symbol.name);
  };
  return rank(a) < rank(b);
}

}  // namespace rtrace::elf
