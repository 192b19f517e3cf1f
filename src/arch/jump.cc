#include "rtrace/arch/jump.h"

#include <cstring>

namespace rtrace::arch {

std::optional<int32_t> rel32(VirtAddr target, VirtAddr next) {
  auto distance = static_cast<int64_t>(target - next);
  auto narrow = static_cast<int32_t>(distance);
  return narrow == distance ? std::optional(narrow) : std::nullopt;
}

std::optional<std::array<std::byte, kNearJump>> encode_jmp(VirtAddr from, VirtAddr to) {
  std::optional<int32_t> displacement = rel32(to, from + kNearJump);
  if (!displacement) return std::nullopt;
  std::array<std::byte, kNearJump> code{std::byte{0xe9}};
  std::memcpy(code.data() + 1, &*displacement, sizeof *displacement);
  return code;
}

std::optional<VirtAddr> near_jump_target(std::span<const std::byte> bytes, VirtAddr from) {
  if (bytes.size() < kNearJump || bytes[0] != std::byte{0xe9}) return std::nullopt;
  int32_t displacement = 0;
  std::memcpy(&displacement, bytes.data() + 1, sizeof displacement);
  return VirtAddr{from.value + kNearJump + static_cast<uint64_t>(int64_t{displacement})};
}

std::optional<std::array<std::byte, kShortJump>> encode_short_jmp(VirtAddr from, VirtAddr to) {
  const auto distance = static_cast<int64_t>(to - (from + kShortJump));
  const auto narrow = static_cast<int8_t>(distance);
  if (narrow != distance) return std::nullopt;
  return std::array{std::byte{0xeb}, static_cast<std::byte>(narrow)};
}

std::optional<VirtAddr> short_jump_target(std::span<const std::byte> bytes, VirtAddr from) {
  if (bytes.size() < kShortJump || bytes[0] != std::byte{0xeb}) return std::nullopt;
  const auto displacement = static_cast<int8_t>(bytes[1]);
  return VirtAddr{from.value + kShortJump + static_cast<uint64_t>(int64_t{displacement})};
}

std::array<std::byte, kFarJump> encode_far_jmp(VirtAddr to) {
  std::array<std::byte, kFarJump> code{std::byte{0xff}, std::byte{0x25}};
  std::memcpy(code.data() + kFarJump - sizeof to.value, &to.value, sizeof to.value);
  return code;
}

}  // namespace rtrace::arch
