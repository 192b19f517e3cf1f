// All that is the same at every call of one function, worked out once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "location.h"
#include "rtrace/decode/call_decoder.h"

namespace rtrace::decode {

struct Layout {
  struct Parameter {
    std::string name;
    std::string spelling;
    proto::TypeRef type;  // decayed
    Location location;
    bool at_entry = true;    // its value is made at entry
    bool at_return = false;  // its value is made at return (both: inout)
  };
  std::vector<Parameter> parameters;
  size_t first_at_return = 0;
  proto::TypeRef result;
  Location result_location;
  bool has_format = false;   // the last parameter types further arguments
  bool scans = false;        // those are filled by the call
  ArgumentAllocator behind;  // where those go on
  bool vectors = false;
  bool result_refers = false;  // a length in the result's type is an argument's value
  bool descriptors = false;

  explicit Layout(const proto::Prototype& prototype);
  bool has_key(std::string_view key) const;
  // Nothing is shown at return but the result. Further arguments are read when the last ones are.
  bool all_at_entry() const { return first_at_return >= parameters.size() && !scans; }
};

// What the decoders of a function will read, as far as it can be named before the call.
// With `shapes` what pointers in memory lead to is named too.
class Shapes;
agent::CapturePlan plan_at_entry(const Layout& layout, const Limits& limits, Shapes* shapes = nullptr);
agent::CapturePlan plan_at_return(const Layout& layout, const Limits& limits, Shapes* shapes = nullptr);
agent::CapturePlan plan_of_guess(const Limits& limits);

// What one capture may hold of a struct or an array; larger ones are read while the thread is stopped.
inline constexpr uint64_t kMaxFixed = 4096;
inline constexpr uint64_t kLongestAddress = 128;  // sockaddr_storage
// Of a format string, for its conversions; more is shown of none.
inline constexpr uint32_t kMaxFormat = 4096;
// Of the stack, for a format's arguments: 128 eightbytes beyond the registers.
inline constexpr uint16_t kFormatStack = 1024;

}  // namespace rtrace::decode
