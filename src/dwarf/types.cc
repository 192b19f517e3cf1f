#include "types.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "base_types.h"

namespace rtrace::dwarf {
namespace {

using proto::Length;
using proto::Member;
using proto::TypeRef;

constexpr unsigned kMaxNesting = 32;
// Pointers that are followed from a parameter on. The decoder follows those of a recursive struct further.
constexpr unsigned kMaxPointers = 4;
// Structs that one prototype brings in.
constexpr unsigned kMaxStructures = 256;
constexpr size_t kMaxEnumerators = 65536;
// Values that a type holds, its members' members included: what walks a type walks them all. One that holds
// more is shown as its bytes.
constexpr uint64_t kMaxWeight = 2048;
// Elements of an array that the classification of arguments looks at.
constexpr uint64_t kHeavyElements = 16;

bool is_structure(unsigned tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

std::string_view word_of(unsigned tag) {
  return tag == DW_TAG_union_type ? "union" : tag == DW_TAG_class_type ? "class" : "struct";
}

// Bits side by side, all of which have names of their own, or none of which has.
bool is_field(uint64_t value, uint64_t named_bits) {
  const uint64_t low = value & (~value + 1);
  const bool together = ((value + low) & value) == 0;
  return together && ((value & named_bits) == 0 || (value & ~named_bits) == 0);
}

// What counts on from one has fields among its numbers by chance.
bool counts_on(const std::set<uint64_t>& numbers) {
  return *numbers.rbegin() - *numbers.begin() + 1 == numbers.size();
}

// Whether C or C++ code means bits by such an enumeration, which DWARF does not say: as gdb takes it, where
// the values are single bits, but for 0; here at least three of them. Names for several bits may be there
// too: for all of them, or, fewer by half than the bits, for some side by side. Those come first, the widest
// before the others, for rendering takes them in their order.
bool set_of_bits(std::vector<proto::Enumerator>& all, uint64_t mask) {
  const auto value_of = [&](const proto::Enumerator& one) { return static_cast<uint64_t>(one.value) & mask; };
  uint64_t bits = 0;
  std::set<uint64_t> numbers, fields;
  for (const proto::Enumerator& one : all) {
    if (value_of(one) != 0) numbers.insert(value_of(one));
    if (std::has_single_bit(value_of(one))) bits |= value_of(one);
  }
  for (const uint64_t number : numbers)
    if (!std::has_single_bit(number) && number != bits && number != mask) fields.insert(number);
  if (std::popcount(bits) < 3 || 2 * fields.size() > static_cast<size_t>(std::popcount(bits))) return false;
  if (!std::ranges::all_of(fields, [&](uint64_t field) { return is_field(field, bits); })) return false;
  if (!fields.empty() && counts_on(numbers)) return false;
  std::ranges::stable_sort(all, std::greater(), [&](const proto::Enumerator& one) {
    return std::max(std::popcount(value_of(one)), 1);
  });
  return true;
}

// C's FILE is nobody's to look into, as in ltrace's own list of types.
bool is_opaque(const Die& structure) {
  return flag(structure, DW_AT_declaration) || raw_text(structure, DW_AT_name) == "_IO_FILE";
}

TypeRef opaque_bytes(uint64_t size) {
  return proto::make_array(proto::make_integer(1, false), {Length::Kind::fixed, false, size});
}

// A length that nobody knows: the decoder shows `?`.
constexpr Length kUnknown{Length::Kind::member, false, 0};

Length length_of(const Die& subrange) {
  if (auto count = constant(subrange, DW_AT_count)) return {Length::Kind::fixed, false, *count};
  auto upper = constant(subrange, DW_AT_upper_bound);
  uint64_t lower = constant(subrange, DW_AT_lower_bound).value_or(0);
  // An array without elements has -1 there, in as many bytes as the producer likes.
  if (!upper || *upper == UINT64_MAX || *upper == UINT32_MAX || *upper < lower) return kUnknown;
  return {Length::Kind::fixed, false, *upper - lower + 1};
}

struct BitField {
  uint64_t start = 0;  // in bits from the struct's begin
  uint64_t size = 0;
};

// DWARF 5, 5.7.6: DW_AT_data_bit_offset; before DWARF 4 DW_AT_bit_offset, counted from the most significant
// bit of the storage unit.
std::optional<BitField> bit_field_of(const Die& member, uint64_t offset, uint64_t type_size) {
  auto size = constant(member, DW_AT_bit_size);
  if (!size || *size == 0 || *size > 64) return std::nullopt;
  if (auto start = constant(member, DW_AT_data_bit_offset)) return BitField{*start, *size};
  auto from_top = constant(member, DW_AT_bit_offset);
  uint64_t storage = constant(member, DW_AT_byte_size).value_or(type_size) * 8;
  if (!from_top || *from_top + *size > storage) return std::nullopt;
  return BitField{offset * 8 + storage - *from_top - *size, *size};
}

// In units of the declared type, as compilers place bit-fields: so the member keeps that type's alignment.
void place(Member& member, const BitField& field) {
  const uint64_t unit = member.type->size * 8;
  member.offset = field.start / unit * member.type->size;
  uint64_t inside = field.start % unit;
  if (inside + field.size > unit) {  // packed
    member.offset = field.start / 8;
    inside = field.start % 8;
  }
  member.bit_offset = static_cast<uint8_t>(inside);
  member.bit_size = static_cast<uint8_t>(field.size);
}

// Nothing in the debug info says so, but where a member or the next element of an array would lie.
bool is_packed(const std::vector<Member>& members, uint64_t size) {
  return std::any_of(members.begin(), members.end(), [size](const Member& member) {
    const uint64_t align = std::max<uint64_t>(member.type->align, 1);
    return member.offset % align != 0 || size % align != 0;
  });
}

bool is_integral(const proto::Type& type) {
  return type.kind == proto::Type::Kind::integer || type.kind == proto::Type::Kind::enumeration ||
         type.kind == proto::Type::Kind::flags || type.kind == proto::Type::Kind::character;
}

}  // namespace

TypeRef TypeReader::read(const std::optional<Die>& type) {
  if (!type || nesting_ == kMaxNesting) return proto::make_void();
  ++nesting_;
  TypeRef made = read_kind(defined(*type));
  --nesting_;
  return made;
}

TypeRef TypeReader::read_kind(const Die& type) {
  switch (tag_of(type)) {
    case DW_TAG_base_type:
      return base_type(type);
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
      return pointer_to(referred(type, DW_AT_type));
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_array_type:
      return compound(type);
    case DW_TAG_subroutine_type:
      return proto::make_address();
    case DW_TAG_ptr_to_member_type:
      return member_pointer(type);
    case DW_TAG_subrange_type:
      return read(referred(type, DW_AT_type));
    case DW_TAG_unspecified_type:
      return raw_text(type, DW_AT_name) == "decltype(nullptr)" ? proto::make_address() : proto::make_void();
    default:
      return alias(type);
  }
}

// Each is made once: what many members share would be read for every one of them.
TypeRef TypeReader::compound(const Die& type) {
  auto [known, fresh] = compounds_.try_emplace(type.addr, nullptr);
  // What holds itself by value exists in broken debug info only.
  if (!fresh) return known->second ? known->second : proto::make_void();
  const unsigned tag = tag_of(type);
  TypeRef made = tag == DW_TAG_array_type         ? array(type)
                 : tag == DW_TAG_enumeration_type ? enumeration(type)
                                                  : structure(type);
  return compounds_[type.addr] = made;
}

// Typedefs lend their name, qualifiers say nothing.
TypeRef TypeReader::alias(const Die& type) {
  TypeRef target = read(referred(type, DW_AT_type));
  std::string name = tag_of(type) == DW_TAG_typedef ? name_of(type) : std::string();
  return name.empty() ? target : proto::with_name(target, std::move(name));
}

TypeRef TypeReader::pointer_to(const std::optional<Die>& pointee) {
  auto bare = bare_type(pointee);
  if (!bare || nesting_ == kMaxNesting) return proto::make_address();
  if (TypeRef character = text_character(pointee)) return proto::make_string(character);
  unsigned tag = tag_of(*bare);
  if (tag == DW_TAG_subroutine_type || tag == DW_TAG_unspecified_type) return proto::make_address();
  if (is_structure(tag)) return is_opaque(*bare) ? proto::make_address() : proto::make_pointer(named(*bare));
  return proto::make_pointer(read(pointee));
}

// The C++ ABI, 2.3: an offset, or a function's address and the adjustment of `this`.
TypeRef TypeReader::member_pointer(const Die& type) {
  auto target = bare_type(referred(type, DW_AT_type));
  if (!target || tag_of(*target) != DW_TAG_subroutine_type) return proto::make_integer(8, true);
  return proto::make_structure({{"ptr", proto::make_address(), 0}, {"adj", proto::make_integer(8, true), 8}},
                               16, 8);
}

TypeRef TypeReader::enumeration(const Die& type) {
  auto bare = bare_type(referred(type, DW_AT_type));
  TypeRef underlying = bare ? read(bare) : nullptr;
  const uint64_t size = constant(type, DW_AT_byte_size).value_or(underlying ? underlying->size : 4);
  if (size != 1 && size != 2 && size != 4 && size != 8) return opaque_bytes(std::min<uint64_t>(size, 64));
  std::vector<proto::Enumerator> enumerators;
  bool negative = false;
  for_each_child(type, [&](const Die& child) {
    auto value = constant(child, DW_AT_const_value);
    if (tag_of(child) != DW_TAG_enumerator || !value) return true;
    enumerators.push_back({name_of(child), static_cast<int64_t>(*value)});
    negative |= static_cast<int64_t>(*value) < 0;
    return enumerators.size() < kMaxEnumerators;
  });
  bool is_signed = underlying ? underlying->is_signed : negative;
  TypeRef integer = proto::make_integer(static_cast<unsigned>(size), is_signed);
  const std::string given = name_of(type);
  const std::string name = given.empty() ? "enum" : given;
  // std::byte, and the integers of one's own that C++ makes like it.
  if (enumerators.empty()) return proto::with_name(integer, name);
  const bool is_set =
      (is_signed && negative)
          ? false
          : set_of_bits(enumerators, size == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size) - 1);
  return proto::with_name(is_set ? proto::make_flags(std::move(integer), std::move(enumerators))
                                 : proto::make_enumeration(std::move(integer), std::move(enumerators)),
                          name);
}

// Of numbers, whatever they are called.
TypeRef TypeReader::vector(const Die& type) {
  TypeRef element = read(referred(type, DW_AT_type));
  const uint64_t size = vector_size(type);
  const bool is_number = element->size == 1 || element->size == 2 || element->size == 4 || element->size == 8;
  if (!is_number || size == 0 || size > 64) return opaque_bytes(std::min<uint64_t>(size, 64));
  if (element->kind != proto::Type::Kind::floating)
    element = proto::make_integer(static_cast<unsigned>(element->size), element->is_signed);
  return proto::make_vector(element, size / element->size);
}

TypeRef TypeReader::array(const Die& type) {
  if (flag(type, DW_AT_GNU_vector)) return vector(type);
  std::vector<Length> lengths;
  for_each_child(type, [&](const Die& child) {
    if (tag_of(child) == DW_TAG_subrange_type) lengths.push_back(length_of(child));
    return lengths.size() < kMaxNesting;
  });
  auto element = referred(type, DW_AT_type);
  TypeRef character = lengths.size() == 1 && lengths[0] != kUnknown ? text_character(element) : nullptr;
  TypeRef made = character ? proto::make_string_in_place(character, lengths[0]) : read(element);
  if (!character) {
    if (lengths.empty()) lengths.push_back(kUnknown);
    for (auto length = lengths.rbegin(); length != lengths.rend(); ++length)
      made = proto::make_array(made, *length);
  }
  return weight(*made) > kMaxWeight ? opaque_bytes(made->size) : made;
}

uint64_t TypeReader::weight(const proto::Type& type) const {
  switch (type.kind) {
    case proto::Type::Kind::array: {
      uint64_t elements = type.length.kind == Length::Kind::fixed ? type.length.value : 1;
      return 1 + std::clamp<uint64_t>(elements, 1, kHeavyElements) * weight(*type.inner);
    }
    case proto::Type::Kind::structure: {
      uint64_t sum = 1;
      for (const Member& member : type.members) sum += weight(*member.type);
      return sum;
    }
    default:
      return 1;
  }
}

TypeRef TypeReader::structure(const Die& type) {
  if (TypeRef made = container(type)) return proto::with_name(made, name_of(type));
  std::vector<Member> members;
  // Clang notes the alignment that a member asks for with the member only.
  uint64_t align = constant(type, DW_AT_alignment).value_or(1);
  for_each_child(type, [&](const Die& child) {
    add_member(child, members);
    if (tag_of(child) == DW_TAG_member) align = std::max(align, constant(child, DW_AT_alignment).value_or(1));
    return members.size() <= kMaxWeight;
  });
  const uint64_t size = constant(type, DW_AT_byte_size).value_or(0);
  if (!is_packed(members, size))
    for (const Member& member : members) align = std::max(align, member.type->align);
  TypeRef made = proto::make_structure(std::move(members), size, align);
  if (weight(*made) > kMaxWeight) made = opaque_bytes(size);
  std::string name = name_of(type);
  return proto::with_name(made, name.empty() ? std::string(word_of(tag_of(type))) : name);
}

void TypeReader::add_member(const Die& member, std::vector<Member>& members) {
  unsigned tag = tag_of(member);
  if (tag != DW_TAG_member && tag != DW_TAG_inheritance) return;
  // Static members lie elsewhere, and the pointer to the virtual table is the compiler's.
  if (flag(member, DW_AT_external) || flag(member, DW_AT_declaration) || flag(member, DW_AT_artificial))
    return;
  auto type = referred(member, DW_AT_type);
  if (!type) return;
  // A virtual base's place is worked out at run time, by an expression.
  if (has(member, DW_AT_data_member_location) && !constant(member, DW_AT_data_member_location)) return;
  Member made{name_of(member), read(type), constant(member, DW_AT_data_member_location).value_or(0)};
  // An empty base has nothing to show.
  if (tag == DW_TAG_inheritance && made.type->kind == proto::Type::Kind::structure &&
      made.type->members.empty())
    return;
  if (has(member, DW_AT_bit_size)) {
    auto field = bit_field_of(member, made.offset, made.type->size);
    if (!field || !is_integral(*made.type) || made.type->size == 0) return;
    place(made, *field);
  }
  members.push_back(std::move(made));
}

TypeRef TypeReader::named(const Die& structure) {
  auto [known, fresh] = named_.try_emplace(structure.addr, nullptr);
  if (fresh) {
    std::string name = name_of(structure);
    known->second =
        proto::make_named(name.empty() ? std::string(word_of(tag_of(structure))) : std::move(name));
  }
  if (known->second->target.expired()) pending_.push_back({structure, depth_ + 1});
  return known->second;
}

void TypeReader::settle() {
  for (unsigned made = 0; !pending_.empty() && made < kMaxStructures; pending_.pop_front()) {
    const Pending next = pending_.front();
    proto::Type& waiting = *named_[next.die.addr];
    if (next.depth > kMaxPointers || !waiting.target.expired()) continue;
    depth_ = next.depth;
    TypeRef type = read(next.die);
    scope_->types.emplace(fmt::format("{}", next.die.addr), type);
    waiting.target = type;
    ++made;
  }
  pending_.clear();
  depth_ = 0;
}

}  // namespace rtrace::dwarf
