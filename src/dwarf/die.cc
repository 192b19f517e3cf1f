#include "die.h"

#include <fmt/format.h>

#include <iterator>

namespace rtrace::dwarf {
namespace {

constexpr size_t kMaxName = 256;
// A declaration, its abstract instance, its concrete one: real chains have three links.
constexpr size_t kMaxOrigins = 8;
constexpr unsigned kMaxQualifiers = 64;

std::optional<Dwarf_Attribute> attribute_of(const Die& die, unsigned attribute) {
  Die self = die;
  Dwarf_Attribute found;
  if (dwarf_attr(&self, attribute, &found) == nullptr) return std::nullopt;
  return found;
}

bool is_qualifier(unsigned tag) {
  switch (tag) {
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
    case DW_TAG_immutable_type:
    case DW_TAG_packed_type:
    case DW_TAG_shared_type:
      return true;
    default:
      return false;
  }
}

}  // namespace

unsigned tag_of(const Die& die) {
  Die self = die;
  int tag = dwarf_tag(&self);
  return tag < 0 ? 0 : static_cast<unsigned>(tag);
}

bool has(const Die& die, unsigned attribute) {
  return attribute_of(die, attribute).has_value();
}

bool flag(const Die& die, unsigned attribute) {
  auto found = attribute_of(die, attribute);
  bool set = false;
  return found && dwarf_formflag(&*found, &set) == 0 && set;
}

std::optional<uint64_t> constant(const Die& die, unsigned attribute) {
  auto found = attribute_of(die, attribute);
  if (!found) return std::nullopt;
  // DWARF 5, 7.5.5: data1 to data8 carry no sign, and producers write negative values as sdata.
  unsigned form = dwarf_whatform(&*found);
  Dwarf_Sword with_sign = 0;
  if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
    if (dwarf_formsdata(&*found, &with_sign) != 0) return std::nullopt;
    return static_cast<uint64_t>(with_sign);
  }
  Dwarf_Word value = 0;
  if (dwarf_formudata(&*found, &value) != 0) return std::nullopt;
  return value;
}

std::string_view raw_text(const Die& die, unsigned attribute) {
  auto found = attribute_of(die, attribute);
  if (!found) return {};
  const char* text = dwarf_formstring(&*found);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::optional<Die> referred(const Die& die, unsigned attribute) {
  auto found = attribute_of(die, attribute);
  Die target;
  if (!found || dwarf_formref_die(&*found, &target) == nullptr) return std::nullopt;
  return target;
}

std::string printable(std::string_view name) {
  std::string text;
  for (char c : name.substr(0, kMaxName)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 0x7f)
      text += c;
    else
      fmt::format_to(std::back_inserter(text), "\\{:03o}", byte);
  }
  return text;
}

std::string name_of(const Die& die) {
  return printable(raw_text(die, DW_AT_name));
}

std::vector<Die> with_origins(const Die& die) {
  std::vector<Die> chain = {die};
  while (chain.size() < kMaxOrigins) {
    auto next = referred(chain.back(), DW_AT_abstract_origin);
    if (!next) next = referred(chain.back(), DW_AT_specification);
    if (!next) break;
    chain.push_back(*next);
  }
  return chain;
}

std::optional<Die> bearer(const std::vector<Die>& chain, unsigned attribute) {
  for (const Die& die : chain)
    if (has(die, attribute)) return die;
  return std::nullopt;
}

Die defined(const Die& type) {
  auto definition = referred(type, DW_AT_signature);
  return definition ? *definition : type;
}

std::optional<Die> bare_type(std::optional<Die> type) {
  for (unsigned i = 0; type && is_qualifier(tag_of(*type)); ++i) {
    if (i == kMaxQualifiers) return std::nullopt;
    type = referred(*type, DW_AT_type);
  }
  return type ? std::optional(defined(*type)) : std::nullopt;
}

}  // namespace rtrace::dwarf
