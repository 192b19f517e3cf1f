// The C++ library's classes that are shown as what they hold. Known by libstdc++'s names for their members:
// what has the same name in another library, or another layout, stays a struct.
#include <string_view>

#include "base_types.h"
#include "types.h"

namespace rtrace::dwarf {
namespace {

using proto::Container;
using proto::TypeRef;

constexpr unsigned kMaxParts = 4096;

// Whether the class has a member of that name at that offset.
bool has_member(const Die& type, std::string_view name, uint64_t offset) {
  unsigned left = kMaxParts;
  bool found = false;
  for_each_child(type, [&](const Die& child) {
    if (tag_of(child) == DW_TAG_member && raw_text(child, DW_AT_name) == name)
      found = constant(child, DW_AT_data_member_location) == offset;
    return !found && --left > 0;
  });
  return found;
}

bool has_base(const Die& type, std::string_view prefix) {
  unsigned left = kMaxParts;
  bool found = false;
  for_each_child(type, [&](const Die& child) {
    if (tag_of(child) == DW_TAG_inheritance)
      if (auto base = bare_type(referred(child, DW_AT_type)))
        found = raw_text(*base, DW_AT_name).starts_with(prefix);
    return !found && --left > 0;
  });
  return found;
}

// Members stand first, a class's methods, of which there are hundreds, between them and these.
std::optional<Die> first_template_parameter(const Die& type) {
  std::optional<Die> found;
  for_each_child(type, [&](const Die& child) {
    if (tag_of(child) == DW_TAG_template_type_parameter) found = referred(child, DW_AT_type);
    return tag_of(child) != DW_TAG_template_type_parameter;
  });
  return found;
}

}  // namespace

// A struct is named only, for it may hold containers of itself.
TypeRef TypeReader::element_of(const Die& type) {
  const auto bare = bare_type(type);
  const unsigned tag = bare ? tag_of(*bare) : 0;
  const bool is_class = tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
  return is_class ? named(*bare) : read(type);
}

// nullptr where it is none.
TypeRef TypeReader::container(const Die& type) {
  const std::string_view name = raw_text(type, DW_AT_name);
  const uint64_t size = constant(type, DW_AT_byte_size).value_or(0);
  const bool is_string = name.starts_with("basic_string<") && size == 32 &&
                         has_member(type, "_M_dataplus", 0) && has_member(type, "_M_string_length", 8);
  const bool is_view = name.starts_with("basic_string_view<") && size == 16 &&
                       has_member(type, "_M_len", 0) && has_member(type, "_M_str", 8);
  const bool is_vector = name.starts_with("vector<") && !name.starts_with("vector<bool") && size == 24 &&
                         has_base(type, "_Vector_base<");
  if (!is_string && !is_view && !is_vector) return nullptr;
  const auto parameter = first_template_parameter(type);
  if (!parameter) return nullptr;
  if (is_vector) return proto::make_container(Container::vector, element_of(*parameter));
  const TypeRef character = text_character(parameter);
  if (character == nullptr) return nullptr;
  return proto::make_container(is_string ? Container::string : Container::string_view, character);
}

}  // namespace rtrace::dwarf
