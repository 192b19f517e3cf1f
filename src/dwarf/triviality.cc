#include "triviality.h"

namespace rtrace::dwarf {
namespace {

constexpr unsigned kMaxDepth = 16;
// Entries that are looked at for one class, its members' classes included.
constexpr unsigned kMaxEntries = 1U << 16;

// What the members of one class say.
struct Evidence {
  bool nontrivial = false;
  bool copies_deleted = false;
  bool copies_allowed = false;
};

bool is_deleted(const Die& function) {
  return flag(function, DW_AT_deleted) || flag(function, DW_AT_GNU_deleted);
}

// C++20 [dcl.fct.def.default]: one that is defaulted where it is first declared is not user-provided.
bool is_user_provided(const Die& function) {
  return !flag(function, DW_AT_artificial) &&
         constant(function, DW_AT_defaulted) != uint64_t{DW_DEFAULTED_in_class};
}

// A constructor from one reference to its own class.
bool is_copy_or_move(const Die& function, const Die& aggregate) {
  std::string_view name = raw_text(function, DW_AT_name);
  std::string_view own = raw_text(aggregate, DW_AT_name);
  if (name.empty() || name != own.substr(0, own.find('<'))) return false;
  unsigned parameters = 0;
  bool of_itself = false;
  for_each_child(function, [&](const Die& child) {
    if (tag_of(child) != DW_TAG_formal_parameter || flag(child, DW_AT_artificial)) return true;
    ++parameters;
    auto type = bare_type(referred(child, DW_AT_type));
    unsigned tag = type ? tag_of(*type) : 0;
    if (tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type) {
      auto target = bare_type(referred(*type, DW_AT_type));
      of_itself = target && target->addr == aggregate.addr;
    }
    return parameters < 2;
  });
  return parameters == 1 && of_itself;
}

void weigh_function(const Die& function, const Die& aggregate, Evidence& evidence) {
  if (constant(function, DW_AT_virtuality).value_or(0) != DW_VIRTUALITY_none) evidence.nontrivial = true;
  if (raw_text(function, DW_AT_name).starts_with('~')) {
    if (is_user_provided(function)) evidence.nontrivial = true;
  } else if (is_copy_or_move(function, aggregate)) {
    (is_deleted(function) ? evidence.copies_deleted : evidence.copies_allowed) = true;
    if (is_user_provided(function) && !is_deleted(function)) evidence.nontrivial = true;
  }
}

bool is_class(const Die& die) {
  unsigned tag = tag_of(die);
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

bool is_nontrivial(const Die& aggregate, unsigned depth, unsigned& left);

bool holds_nontrivial(const Die& member, unsigned depth, unsigned& left) {
  if (flag(member, DW_AT_external) || flag(member, DW_AT_declaration)) return false;
  auto type = bare_type(referred(member, DW_AT_type));
  for (unsigned i = 0; type && tag_of(*type) == DW_TAG_array_type && i < kMaxDepth; ++i)
    type = bare_type(referred(*type, DW_AT_type));
  return type && is_class(*type) && is_nontrivial(*type, depth + 1, left);
}

bool is_nontrivial(const Die& aggregate, unsigned depth, unsigned& left) {
  // Compilers that know say so (DWARF 5, 5.7.1).
  const auto convention = constant(aggregate, DW_AT_calling_convention);
  if (convention == uint64_t{DW_CC_pass_by_reference}) return true;
  if (convention == uint64_t{DW_CC_pass_by_value} || depth == kMaxDepth) return false;
  Evidence evidence;
  for_each_child(aggregate, [&](const Die& child) {
    if (left == 0) return false;
    --left;
    unsigned tag = tag_of(child);
    if (tag == DW_TAG_subprogram) weigh_function(child, aggregate, evidence);
    if (tag == DW_TAG_inheritance && constant(child, DW_AT_virtuality).value_or(0) != DW_VIRTUALITY_none)
      evidence.nontrivial = true;
    if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
      evidence.nontrivial = evidence.nontrivial || holds_nontrivial(child, depth, left);
    return !evidence.nontrivial;
  });
  return evidence.nontrivial || (evidence.copies_deleted && !evidence.copies_allowed);
}

}  // namespace

bool is_passed_by_reference(const Die& aggregate) {
  unsigned left = kMaxEntries;
  return is_nontrivial(aggregate, 0, left);
}

}  // namespace rtrace::dwarf
