#include "prototypes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base_types.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"
#include "rtrace/proto/parser.h"

namespace rtrace::dwarf {
namespace {

using proto::Length;
using proto::Param;
using proto::Prototype;
using proto::TypeRef;

constexpr size_t kMaxParameters = 64;

// The parameters of one entry, and whether more may follow.
struct Parameters {
  std::vector<Die> named;
  bool variadic = false;
  bool empty() const { return named.empty() && !variadic; }
};

// g++ has those of a template's pack in an entry of their own.
void collect_parameters(const Die& parent, Parameters& found) {
  for_each_child(parent, [&](const Die& child) {
    const unsigned tag = tag_of(child);
    if (tag == DW_TAG_formal_parameter) found.named.push_back(child);
    if (tag == DW_TAG_unspecified_parameters) found.variadic = true;
    if (tag == DW_TAG_GNU_formal_parameter_pack && tag_of(parent) != tag) collect_parameters(child, found);
    return found.named.size() <= kMaxParameters;
  });
}

Parameters parameters_in(const Die& function) {
  Parameters found;
  collect_parameters(function, found);
  return found;
}

// The function's own, as they are passed to it; a specification's where it has none.
Parameters parameters_of(const std::vector<Die>& chain) {
  Parameters found;
  for (const Die& die : chain) {
    found = parameters_in(die);
    if (!found.empty()) break;
  }
  return found;
}

std::optional<Die> type_of(const std::vector<Die>& chain) {
  auto die = bearer(chain, DW_AT_type);
  return die ? referred(*die, DW_AT_type) : std::nullopt;
}

std::string name_in(const std::vector<Die>& chain) {
  auto die = bearer(chain, DW_AT_name);
  return die ? name_of(*die) : std::string();
}

bool any_flag(const std::vector<Die>& chain, unsigned attribute) {
  return std::any_of(chain.begin(), chain.end(), [&](const Die& die) { return flag(die, attribute); });
}

bool is_c(const Die& unit) {
  switch (constant(unit, DW_AT_language).value_or(0)) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_ObjC:
      return true;
    default:
      return false;
  }
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// What people call the number of bytes behind a pointer beside it.
bool names_length(const Param& param) {
  if (param.type->kind != proto::Type::Kind::integer || param.type->size < 4) return false;
  if (param.type->name == "size_t" || param.type->name == "ssize_t") return true;
  std::string name = lower_case(param.name);
  static constexpr std::array<std::string_view, 6> kWhole = {"n", "l", "sz", "cb", "nb", "num"};
  return std::find(kWhole.begin(), kWhole.end(), name) != kWhole.end() ||
         holds_any(name, {"len", "size", "count", "bytes"});
}

// The debug info does not know which functions print.
bool is_printf_like(std::string_view function, const Param& last) {
  std::string name = lower_case(last.name);
  return last.type->kind == proto::Type::Kind::string && last.type->inner->size == 1 &&
         holds_any(name, {"fmt", "format"}) && !holds_any(lower_case(function), {"scan"});
}

// Which of the first two eightbytes hold something.
void cover(const proto::Type& type, uint64_t offset, std::array<bool, 2>& covered) {
  const uint64_t end = offset + std::max<uint64_t>(type.size, 1);
  if (type.kind == proto::Type::Kind::structure && !type.members.empty()) {
    for (const proto::Member& member : type.members) cover(*member.type, offset + member.offset, covered);
    return;
  }
  for (uint64_t at = offset; at < std::min<uint64_t>(end, 16); ++at) covered[at / 8] = true;
}

// GCC takes a register for an unnamed bit-field, Clang none, and the debug info does not mention it.
bool may_hold_unnamed_bits(const proto::Type& type) {
  if (type.kind != proto::Type::Kind::structure || type.members.empty() || type.size <= 8 || type.size > 16)
    return false;
  std::array<bool, 2> covered{};
  cover(type, 0, covered);
  return !covered[0] || (!covered[1] && type.align < 16);
}

bool has_flexible_array(const proto::Type& type) {
  return type.kind == proto::Type::Kind::structure && !type.members.empty() &&
         type.members.back().type->kind == proto::Type::Kind::array &&
         type.members.back().type->length.kind != Length::Kind::fixed;
}

// Why compilers would not agree where a value of that type is; empty where they do.
std::string why_compilers_differ(const proto::Type& type) {
  if (may_hold_unnamed_bits(type))
    return "compilers differ in how they pass a struct with unnamed bit-fields";
  if (has_flexible_array(type)) return "compilers differ in how they pass a struct with a flexible array";
  return {};
}

// LLVM's release notes of version 18: from then on __int128 is aligned to 16 on the stack, as the psABI says.
bool is_clang_before_18(const Die& unit) {
  constexpr std::string_view kName = "clang version ";
  const std::string_view producer = raw_text(unit, DW_AT_producer);
  const auto at = producer.find(kName);
  if (at == std::string_view::npos) return false;
  const auto digits = producer.substr(at + kName.size());
  const auto version = parse_number(digits.substr(0, digits.find_first_not_of("0123456789")));
  return !version || *version < 18;
}

// With -g1, and for Rust with debuginfo=1, functions stand there without their parameters, and a unit without
// any type: that a function has none says nothing then.
bool describes_types(const Die& unit) {
  bool found = false;
  for_each_child(unit, [&](const Die& child) {
    found = tag_of(child) == DW_TAG_base_type;
    return !found;
  });
  return found;
}

class Reader {
 public:
  Reader(const Die& function, const Die& unit, TypeReader& types)
      : chain_(with_origins(function)), unit_(unit), types_(types) {}

  // Empty, or why there is no prototype.
  std::string read(Prototype& prototype) {
    prototype.name = name_in(chain_);
    prototype.no_return = any_flag(chain_, DW_AT_noreturn);
    prototype.narrow_char = true;
    std::string reason = why_no_convention();
    if (reason.empty()) reason = read_result(prototype);
    if (reason.empty()) reason = read_parameters(prototype);
    if (!reason.empty()) return reason;
    types_.settle();
    return complete(prototype);
  }

 private:
  // DWARF 5, 3.3.1.1: DW_CC_nocall, for compilers that changed what is passed.
  std::string why_no_convention() const {
    auto die = bearer(chain_, DW_AT_calling_convention);
    auto convention = die ? constant(*die, DW_AT_calling_convention) : std::nullopt;
    if (!convention || *convention == DW_CC_normal) return {};
    return "its calling convention is the compiler's own";
  }

  std::string why_not_by_value(const std::optional<Die>& type, const Passing& passing) const {
    if (!passing.refusal.empty()) return passing.refusal;
    auto bare = bare_type(type);
    if (!bare || constant(unit_, DW_AT_language) != uint64_t{DW_LANG_Rust}) return {};
    unsigned tag = tag_of(*bare);
    if (tag != DW_TAG_structure_type && tag != DW_TAG_union_type && tag != DW_TAG_array_type) return {};
    return "Rust does not say how it passes structs";
  }

  std::string read_result(Prototype& prototype) {
    auto type = type_of(chain_);
    Passing passing = passing_of(type, unit_);
    if (std::string reason = why_not_by_value(type, passing); !reason.empty()) return reason;
    if (passing.by_reference) {
      // The caller's memory for it is the hidden first argument, and comes back in rax.
      prototype.returns = types_.pointer_to(type);
      prototype.params.push_back({"", proto::with_lens(proto::make_address(), proto::Lens::hide)});
      return {};
    }
    prototype.returns = types_.read(type);
    return why_compilers_differ(*prototype.returns);
  }

  std::string read_parameters(Prototype& prototype) {
    Parameters found = parameters_of(chain_);
    if (found.named.empty() && has(chain_[0], DW_AT_declaration) && is_c(unit_) &&
        !any_flag(chain_, DW_AT_prototyped))
      return "declared without its parameters";
    if (found.empty() && prototype.params.empty() && !type_of(chain_) && !describes_types(unit_))
      return "its debug information describes no parameters";
    if (found.named.size() > kMaxParameters) return "it has too many parameters";
    for (const Die& parameter : found.named) {
      std::string reason = read_parameter(parameter, prototype);
      if (!reason.empty()) return reason;
    }
    if (is_clang_before_18(unit_) && may_put_wide_integers_on_stack(prototype))
      return "Clang before version 18 places __int128 on the stack as no other compiler does";
    make_buffers(prototype);
    if (found.variadic && !prototype.params.empty() &&
        is_printf_like(prototype.name, prototype.params.back()))
      prototype.params.back().type = proto::make_format(proto::make_character());
    return {};
  }

  // A parameter takes two registers at most.
  static bool may_put_wide_integers_on_stack(const Prototype& prototype) {
    constexpr size_t kSurelyInRegisters = 3;
    return prototype.params.size() > kSurelyInRegisters &&
           std::any_of(prototype.params.begin(), prototype.params.end(), [](const Param& param) {
             return param.type->kind == proto::Type::Kind::integer && param.type->size == 16;
           });
  }

  std::string read_parameter(const Die& parameter, Prototype& prototype) {
    auto chain = with_origins(parameter);
    auto type = type_of(chain);
    if (!type) return "a parameter has no type";
    Passing passing = passing_of(type, unit_);
    if (std::string reason = why_not_by_value(type, passing); !reason.empty()) return reason;
    TypeRef made = passing.by_reference ? types_.pointer_to(type) : types_.read(type);
    if (made->kind == proto::Type::Kind::nothing) return "a parameter has no type";
    if (std::string reason = why_compilers_differ(*made); !reason.empty()) return reason;
    bool is_pointer = made->kind == proto::Type::Kind::pointer;
    auto target = is_pointer ? bare_type(type) : std::nullopt;
    bytes_.push_back(target && tag_of(*target) == DW_TAG_pointer_type &&
                     is_byte(referred(*target, DW_AT_type)));
    prototype.params.push_back({name_in(chain), std::move(made)});
    return {};
  }

  // `unsigned char *` with a length beside it, behind it or else before it.
  void make_buffers(Prototype& prototype) const {
    const size_t hidden = prototype.params.size() - bytes_.size();
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (!bytes_[i]) continue;
      const size_t at = hidden + i;
      size_t length = prototype.params.size();
      if (at + 1 < prototype.params.size() && names_length(prototype.params[at + 1]))
        length = at + 1;
      else if (i > 0 && names_length(prototype.params[at - 1]))
        length = at - 1;
      if (length < prototype.params.size())
        prototype.params[at].type = proto::make_buffer({Length::Kind::argument, false, length + 1});
    }
  }

  static std::string complete(Prototype& prototype) try {
    proto::complete(prototype);
    return {};
  } catch (const Error& error) {
    return error.what();
  }

  std::vector<Die> chain_;
  const Die& unit_;
  TypeReader& types_;
  std::vector<bool> bytes_;  // which of the visible parameters are `unsigned char *`
};

}  // namespace

Answer prototype_of(const Die& function, const Die& unit, std::string origin, TypeReader& types,
                    const std::shared_ptr<const proto::TypeScope>& scope) {
  auto prototype = std::make_shared<Prototype>();
  std::string reason = Reader(function, unit, types).read(*prototype);
  types.settle();
  if (!reason.empty()) return {nullptr, std::move(reason)};
  prototype->scope = scope;
  prototype->origin = std::move(origin);
  return {std::move(prototype), {}};
}

}  // namespace rtrace::dwarf
