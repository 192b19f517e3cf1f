// The jumps that rtrace writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rtrace/base/address.h"

namespace rtrace::arch {

inline constexpr size_t kShortJump = 2;
inline constexpr size_t kNearJump = 5;
inline constexpr size_t kFarJump = 14;

// The distance as a rel32, where it is one. `next` is the address behind the displacement's instruction.
std::optional<int32_t> rel32(VirtAddr target, VirtAddr next);

// `jmp rel32` that stands at `from`; nullopt where that does not reach `to`.
std::optional<std::array<std::byte, kNearJump>> encode_jmp(VirtAddr from, VirtAddr to);

// Where a `jmp rel32` that stands at `from` leads; nullopt where the bytes are none.
std::optional<VirtAddr> near_jump_target(std::span<const std::byte> bytes, VirtAddr from);

// `jmp rel8`, likewise.
std::optional<std::array<std::byte, kShortJump>> encode_short_jmp(VirtAddr from, VirtAddr to);
std::optional<VirtAddr> short_jump_target(std::span<const std::byte> bytes, VirtAddr from);

// `jmp *0(%rip)` with the address directly behind it: reaches everything from everywhere, and changes no
// register.
std::array<std::byte, kFarJump> encode_far_jmp(VirtAddr to);

}  // namespace rtrace::arch
