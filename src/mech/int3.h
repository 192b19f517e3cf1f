// The byte that sites are made of.
#pragma once

#include <cstddef>
#include <span>

#include "rtrace/arch/regs.h"

namespace rtrace::mech {

inline constexpr std::byte kInt3{arch::kInt3};

inline std::span<const std::byte> one(const std::byte& byte) {
  return {&byte, 1};
}

}  // namespace rtrace::mech
