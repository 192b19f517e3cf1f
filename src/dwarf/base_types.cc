#include "base_types.h"

#include <fmt/format.h>

#include <algorithm>

#include "triviality.h"

namespace rtrace::dwarf {
namespace {

using proto::Length;
using proto::Lens;
using proto::TypeRef;

// Struct members that are looked at for types with registers of their own.
constexpr unsigned kMaxTypedefs = 8;
constexpr unsigned kMaxBaseTypes = 1U << 16;
// Nothing larger than a zmm register is passed in registers, whatever it holds.
constexpr uint64_t kLargestRegister = 64;

TypeRef bytes_of(uint64_t size) {
  return proto::make_array(proto::make_integer(1, false), {Length::Kind::fixed, false, size});
}

TypeRef integer(uint64_t size, bool is_signed) {
  if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16)
    return proto::make_integer(static_cast<unsigned>(size), is_signed);
  return bytes_of(size);
}

TypeRef floating(uint64_t size) {
  if (size == 4 || size == 8 || size == 16) return proto::make_float(static_cast<unsigned>(size));
  return bytes_of(size);
}

TypeRef complex(uint64_t size) {
  TypeRef part = floating(size / 2);
  return part->kind == proto::Type::Kind::floating ? proto::make_complex(part) : bytes_of(size);
}

bool names_wide_characters(std::optional<Die> type) {
  // The typedefs are what tells C's wchar_t from an int.
  for (unsigned i = 0; type && i < kMaxTypedefs; ++i) {
    if (raw_text(*type, DW_AT_name) == "wchar_t") return true;
    unsigned tag = tag_of(*type);
    if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type) return false;
    type = referred(*type, DW_AT_type);
  }
  return false;
}

// What is left to look at, and what is known of how the unit was compiled.
struct Search {
  unsigned left = kMaxBaseTypes;
  bool has_avx = false;
};

std::string why_not_passed(const Die& bare, unsigned depth, Search& search);

// Registers of 32 bytes are used only where the compiler may use AVX; else such values lie in memory.
std::string why_vector_not_passed(const Die& vector, const Search& search) {
  const uint64_t size = vector_size(vector);
  if (size == 32 && !search.has_avx)
    return "vectors of 32 bytes travel in registers with -mavx only, and the debug info does not say so";
  if (size != 8 && size != 16 && size != 32) return fmt::format("vectors of {} bytes cannot be shown", size);
  return {};
}

std::string why_base_not_passed(const Die& type) {
  const uint64_t encoding = constant(type, DW_AT_encoding).value_or(0);
  const uint64_t size = constant(type, DW_AT_byte_size).value_or(0);
  std::string_view name = raw_text(type, DW_AT_name);
  // Only `long double` has the x87's format; 128-bit floats travel in xmm registers.
  bool quad = encoding == DW_ATE_float && size == 16 && name.find("long double") == std::string_view::npos;
  bool odd = encoding == DW_ATE_float && size != 4 && size != 8 && size != 16;
  if (quad || odd || encoding == DW_ATE_decimal_float)
    return fmt::format("values of type {} cannot be shown", printable(name));
  return {};
}

std::string why_struct_not_passed(const Die& type, unsigned depth, Search& search) {
  // Compilers leave out classes whose virtual table or constructors they emit elsewhere.
  if (flag(type, DW_AT_declaration))
    return fmt::format("the debug info does not define {}, which is passed by value", name_of(type));
  if (constant(type, DW_AT_byte_size).value_or(0) > kLargestRegister) return {};
  std::string reason;
  for_each_child(type, [&](const Die& child) {
    if (search.left == 0) {
      reason = "a struct that is passed by value holds too much";
      return false;
    }
    --search.left;
    unsigned tag = tag_of(child);
    if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
      if (auto inner = bare_type(referred(child, DW_AT_type)))
        reason = why_not_passed(*inner, depth + 1, search);
    return reason.empty();
  });
  return reason;
}

std::string why_not_passed(const Die& bare, unsigned depth, Search& search) {
  if (depth == kMaxTypedefs) return "a struct nested too deeply is passed by value";
  switch (tag_of(bare)) {
    case DW_TAG_base_type:
      return why_base_not_passed(bare);
    case DW_TAG_array_type: {
      if (flag(bare, DW_AT_GNU_vector)) return why_vector_not_passed(bare, search);
      auto element = bare_type(referred(bare, DW_AT_type));
      return element ? why_not_passed(*element, depth + 1, search) : std::string();
    }
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
      return why_struct_not_passed(bare, depth, search);
    default:
      return {};
  }
}

bool is_aggregate(unsigned tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

}  // namespace

uint64_t vector_size(const Die& vector) {
  if (auto size = constant(vector, DW_AT_byte_size)) return *size;
  auto element = bare_type(referred(vector, DW_AT_type));
  uint64_t count = 0;
  for_each_child(vector, [&](const Die& child) {
    if (auto upper = constant(child, DW_AT_upper_bound)) count = *upper + 1;
    if (auto elements = constant(child, DW_AT_count)) count = *elements;
    return false;
  });
  uint64_t size = 0;
  const uint64_t of_one = element ? constant(*element, DW_AT_byte_size).value_or(0) : 0;
  return __builtin_mul_overflow(count, of_one, &size) ? 0 : size;
}

TypeRef base_type(const Die& type) {
  const uint64_t size = constant(type, DW_AT_byte_size).value_or(0);
  std::string_view name = raw_text(type, DW_AT_name);
  switch (constant(type, DW_AT_encoding).value_or(0)) {
    case DW_ATE_boolean:
      return proto::with_name(proto::with_lens(integer(size, false), Lens::boolean), "bool");
    case DW_ATE_address:
      return proto::make_address();
    case DW_ATE_float:
      return floating(size);
    case DW_ATE_complex_float:
      return complex(size);
    case DW_ATE_signed_char:
      return name == "char" ? proto::make_character() : integer(size, true);
    case DW_ATE_unsigned_char:
      return name == "char" ? proto::make_character() : integer(size, false);
    case DW_ATE_UTF:
      return size == 1 || size == 2 || size == 4 ? proto::make_character(static_cast<unsigned>(size))
                                                 : bytes_of(size);
    case DW_ATE_signed:
    case DW_ATE_signed_fixed:
      return integer(size, true);
    default:
      return integer(size, false);
  }
}

TypeRef text_character(const std::optional<Die>& type) {
  auto bare = bare_type(type);
  if (!bare || tag_of(*bare) != DW_TAG_base_type) return nullptr;
  const uint64_t encoding = constant(*bare, DW_AT_encoding).value_or(0);
  const uint64_t size = constant(*bare, DW_AT_byte_size).value_or(0);
  bool is_char = encoding == DW_ATE_signed_char || encoding == DW_ATE_unsigned_char;
  if (is_char && size == 1 && raw_text(*bare, DW_AT_name) == "char") return proto::make_character();
  if (encoding == DW_ATE_UTF && size == 1) return proto::make_character();
  bool wide = encoding == DW_ATE_UTF || names_wide_characters(type);
  if (wide && (size == 2 || size == 4)) return proto::make_integer(static_cast<unsigned>(size), false);
  return nullptr;
}

bool is_byte(const std::optional<Die>& type) {
  auto bare = bare_type(type);
  return bare && tag_of(*bare) == DW_TAG_base_type &&
         constant(*bare, DW_AT_encoding) == uint64_t{DW_ATE_unsigned_char} &&
         constant(*bare, DW_AT_byte_size) == uint64_t{1} && raw_text(*bare, DW_AT_name) != "char";
}

Passing passing_of(const std::optional<Die>& type, const Die& unit) {
  auto bare = bare_type(type);
  if (!bare) return {};
  if (is_aggregate(tag_of(*bare)) && is_passed_by_reference(*bare)) return {true, {}};
  Search search;
  const std::string_view producer = raw_text(unit, DW_AT_producer);
  for (std::string_view option : {"-mavx", "-march=x86-64-v3", "-march=x86-64-v4"})
    search.has_avx |= producer.find(option) != std::string_view::npos;
  return {false, why_not_passed(*bare, 0, search)};
}

}  // namespace rtrace::dwarf
