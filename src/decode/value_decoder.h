// A type and the bytes of a value to a Value tree. One for each side of a call; bounded in what it reads and
// makes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rtrace/base/memory.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/decode/value.h"
#include "rtrace/proto/type.h"

namespace rtrace::decode {

// Where a value's bytes are: at hand (registers, a struct already read), in the tracee, or both.
struct Place {
  std::span<const std::byte> bytes;
  VirtAddr address;  // 0 where it has none
};

// The values that lengths refer to.
class LengthSource {
 public:
  virtual ~LengthSource() = default;
  // Argument `number`, from 1, as an integer; nullopt where it is none or cannot be read.
  virtual std::optional<int64_t> argument(uint64_t number) const = 0;
  virtual std::optional<int64_t> result() const = 0;
};

// A length without end.
inline constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();

class ValueDecoder {
 public:
  ValueDecoder(const Memory& memory, const Limits& limits, const LengthSource& lengths)
      : memory_(memory), limits_(limits), lengths_(lengths) {}

  // An argument or a result, with all that it leads to, up to a number of values that is its own: however
  // large the others are, each is shown.
  Value decode(const proto::Type& type, Place place);
  // Of what a call that has failed did not fill: its address, where it is behind a pointer.
  Value unfilled(const proto::Type& type, Place place);

 private:
  // Hostile data must not make a tree that nobody can read; more than that are shown where somebody asks for
  // longer arrays.
  static constexpr uint64_t kMostValues = 1024;

  struct Expansion {
    const proto::Type* type = nullptr;
    Place place;
  };
  using Scalar = std::array<std::byte, 16>;

  std::span<const std::byte> load(Place place, uint64_t size, std::span<std::byte> storage) const;
  Value decode_part(const proto::Type& type, Place place, proto::Lens outer);
  Value decode_kind(const proto::Type& type, Place place, proto::Lens lens);
  Value integral(const proto::Type& type, Place place, proto::Lens lens) const;
  Value pointer(const proto::Type& type, Place place, proto::Lens lens);
  Value pointee(const proto::Type& type, VirtAddr address, proto::Lens lens);
  Value structure(const proto::Type& type, Place place, proto::Lens lens);
  Value bit_field(const proto::Member& member, Place place, proto::Lens outer);
  Value array(const proto::Type& type, Place place, proto::Lens lens);
  Value string(const proto::Type& type, Place place);
  Value narrow_string(VirtAddr address, uint64_t most) const;
  Value text_of(const proto::Type& type, std::span<const std::byte> bytes, uint64_t most) const;
  Value buffer(const proto::Type& type, Place place);
  Value socket_address(const proto::Type& type, Place place);
  const proto::Type& chosen(const proto::Type& type) const;
  Value container(const proto::Type& type, Place place, proto::Lens lens);
  Value text_at(const proto::Type& character, VirtAddr address, uint64_t count) const;
  std::optional<uint64_t> pointer_at(Place place) const;
  // The number of elements; nullopt where the length is unknown or negative. An unbounded one is UINT64_MAX.
  std::optional<uint64_t> count_of(const proto::Length& length);
  std::optional<int64_t> value_of(const proto::Length& length) const;
  std::optional<int64_t> member_value(uint64_t number) const;
  std::optional<Value> expansion_limit(const proto::Type& type, VirtAddr address) const;

  const Memory& memory_;
  const Limits& limits_;
  const LengthSource& lengths_;
  std::vector<Expansion> structs_;  // being decoded, the innermost last
  std::optional<uint64_t> left_;    // of the result, for lengths that share it
  uint64_t budget_ = 0;             // of values
};

// Characters of 2 or 4 bytes as UTF-8, up to a NUL or `most` of them. What is no character becomes U+FFFD.
struct WideText {
  std::string utf8;
  uint64_t count = 0;  // of elements read
  bool terminated = false;
};
WideText wide_text(std::span<const std::byte> bytes, uint64_t character_size, uint64_t most);

}  // namespace rtrace::decode
