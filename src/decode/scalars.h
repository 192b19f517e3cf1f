// Numbers to values: integers under their lenses, enumerations, flags, bit vectors, errno.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "rtrace/decode/value.h"
#include "rtrace/proto/type.h"

namespace rtrace::decode {

// The little-endian integer in the first `size` bytes, extended to 64 bits.
uint64_t extend(std::span<const std::byte> bytes, uint64_t size, bool is_signed);

// An integer of 16 bytes.
Value wide_integer_value(const proto::Type& type, std::span<const std::byte> bytes, proto::Lens lens);

// An integer, character, enumeration, flags or descriptor. `raw` is extended as the type says.
Value integral_value(const proto::Type& type, uint64_t raw, proto::Lens lens);
Value floating_value(std::span<const std::byte> bytes, uint64_t size, proto::Lens lens);
Value address_value(uint64_t address);

}  // namespace rtrace::decode
