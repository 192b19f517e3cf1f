// A parsed --where expression.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rtrace/base/pattern.h"
#include "rtrace/sink/where.h"

namespace rtrace::sink {

// Wide enough for signed and unsigned 64 bits alike, and for the sums of a whole expression.
using WideInteger = __int128;

struct WhereNode {
  enum class Kind : uint8_t {
    integer,
    real,
    text,
    argument,   // `index`, from 0
    parameter,  // `text`
    result,
    duration,
    error,
    name,
    thread,
    depth,
    negate,
    add,
    subtract,
    bit_and,
    bit_or,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    matches,
    matches_not,
    logical_not,
    logical_and,
    logical_or,
  };
  Kind kind = Kind::integer;
  WideInteger integer = 0;
  long double real = 0;
  size_t index = 0;
  std::string text;
  std::vector<std::string> members;  // behind a name: ".st_size"
  std::optional<Pattern> pattern;
  size_t left = 0, right = 0;  // of WhereTree::nodes
  size_t term = 0;             // the comparison or the sum that it is part of, by its outermost node
};

// The root is the last node; operands stand before their operators.
struct Where::Tree {
  std::vector<WhereNode> nodes;
};

}  // namespace rtrace::sink
