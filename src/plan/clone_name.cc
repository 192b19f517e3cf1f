#include "rtrace/plan/clone_name.h"

#include <algorithm>
#include <array>

namespace rtrace::plan {
namespace {

bool all_digits(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Takes one ".kind.N" off the end of `name` and returns the kind; empty where there is none. The suffixes are
// those of GCC's clone_function_name() callers (ipa-sra, ipa-cp, ipa-split, lto; ipa-visibility, since GCC 10
// without a number).
std::string_view strip_suffix(std::string_view& name) {
  static constexpr std::string_view kLocalAlias = ".localalias";
  if (name.size() > kLocalAlias.size() && name.ends_with(kLocalAlias)) {
    name.remove_suffix(kLocalAlias.size());
    return kLocalAlias.substr(1);
  }
  static constexpr std::array<std::string_view, 5> kKinds = {"isra", "constprop", "part", "lto_priv",
                                                             "localalias"};
  auto number = name.rfind('.');
  if (number == std::string_view::npos || number == 0 || !all_digits(name.substr(number + 1))) return {};
  auto dot = name.rfind('.', number - 1);
  if (dot == std::string_view::npos || dot == 0) return {};
  std::string_view kind = name.substr(dot + 1, number - dot - 1);
  if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) return {};
  name = name.substr(0, dot);
  return kind;
}

}  // namespace

bool is_cold_part(std::string_view symbol) {
  for (auto at = symbol.find(".cold"); at != std::string_view::npos; at = symbol.find(".cold", at + 1)) {
    auto end = at + 5;
    if (at > 0 && (end == symbol.size() || symbol[end] == '.')) return true;
  }
  return false;
}

std::optional<CloneName> clone_of(std::string_view symbol) {
  if (is_cold_part(symbol)) return std::nullopt;
  CloneName clone{symbol, false};
  for (std::string_view kind = strip_suffix(clone.plain); !kind.empty(); kind = strip_suffix(clone.plain))
    clone.raw_arguments |= kind != "lto_priv" && kind != "localalias";
  if (clone.plain.size() == symbol.size()) return std::nullopt;
  return clone;
}

}  // namespace rtrace::plan
