// What functions look like: one type model for every source of prototypes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/proto/type.h"

namespace rtrace::proto {

enum class Direction : uint8_t { in, out, inout };

struct Param {
  std::string name;  // empty where the source has none
  TypeRef type;
  Direction direction = Direction::in;
};

struct Prototype {
  std::string name;
  TypeRef returns;
  std::vector<Param> params;
  // Index of the first parameter printed at return (`+`, out, a length from the return value); params.size()
  // where there is none.
  size_t first_at_return = 0;
  bool no_return = false;
  // That of a result of type `char`: it has 8 bits. Prototype files say `char` of getc's int, too, which may
  // be EOF.
  bool narrow_char = false;
  std::shared_ptr<const TypeScope> scope;  // keeps alive the structs that its types refer to by name
  std::string origin;                      // "custom.conf:1", for --explain
};

// "int open(path=string, flags=hex(int))", in ltrace's language.
std::string spell(const Prototype& prototype);

}  // namespace rtrace::proto
