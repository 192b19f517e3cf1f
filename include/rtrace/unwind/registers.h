// The registers of one frame, by DWARF's numbers.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rtrace/base/address.h"

namespace rtrace::unwind {

// psABI 3.6.2, figure 3.36: rax rdx rcx rbx rsi rdi rbp rsp r8 to r15, and the return address.
class Registers {
 public:
  static constexpr size_t kCount = 17;
  static constexpr size_t kBp = 6, kSp = 7, kPc = 16;

  Registers() = default;
  explicit Registers(const user_regs_struct& raw);

  std::optional<uint64_t> get(size_t number) const {
    if (number >= kCount || (known_ >> number & 1) == 0) return std::nullopt;
    return value_[number];
  }
  void set(size_t number, std::optional<uint64_t> value) {
    const uint32_t bit = uint32_t{1} << number;
    known_ = value ? known_ | bit : known_ & ~bit;
    value_[number] = value.value_or(0);
  }
  std::optional<VirtAddr> pc() const { return address(kPc); }
  std::optional<VirtAddr> sp() const { return address(kSp); }

 private:
  std::optional<VirtAddr> address(size_t number) const {
    auto value = get(number);
    return value ? std::optional(VirtAddr{*value}) : std::nullopt;
  }

  std::array<uint64_t, kCount> value_{};
  uint32_t known_ = 0;
};

}  // namespace rtrace::unwind
