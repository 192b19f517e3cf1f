// printf(3) conversions to the types of the arguments they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rtrace/proto/type.h"

namespace rtrace::decode {

// In the order of the arguments, those of `*` included. Positional conversions (`%2$s`) come in argument
// order. A conversion that is not known ends the list, for nothing behind it can be placed. `named` is the
// number of parameters before them: `%.*s` is a string whose length is argument named + n.
std::vector<proto::TypeRef> format_arguments(std::string_view format, size_t named);

// scanf(3)'s, which are pointers to what it stores. `stored` is its result.
struct ScanArguments {
  std::vector<proto::TypeRef> types;
  std::vector<bool> filled;  // for each of them, whether something was stored there
};
ScanArguments scan_arguments(std::string_view format, int64_t stored);

}  // namespace rtrace::decode
