// The types of which all others are made.
#pragma once

#include <optional>

#include "die.h"
#include "rtrace/proto/type.h"

namespace rtrace::dwarf {

// DW_TAG_base_type.
proto::TypeRef base_type(const Die& type);
// The type of text's characters, where a pointer to that type is a string; nullptr where it is none.
// `unsigned char` and `signed char` are numbers.
proto::TypeRef text_character(const std::optional<Die>& type);
// Whether it is `unsigned char` under whatever name.
bool is_byte(const std::optional<Die>& type);

// How a value of that type is passed and returned (psABI 3.2.3; the C++ ABI's "non-trivial for the purposes
// of calls").
struct Passing {
  bool by_reference = false;
  std::string refusal;  // why it cannot be known where the value is; empty where it can
};
Passing passing_of(const std::optional<Die>& type, const Die& unit);
// In bytes; 0 where it is not known.
uint64_t vector_size(const Die& vector);

}  // namespace rtrace::dwarf
