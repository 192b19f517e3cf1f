#include "rtrace/arch/regs.h"

#include <cstring>
#include <type_traits>

#include "rtrace/base/error.h"

namespace rtrace::arch {

uint64_t Regs::integer_argument(unsigned index) const {
  CHECK(index < kIntegerArguments);
  const uint64_t values[] = {raw.rdi, raw.rsi, raw.rdx, raw.rcx, raw.r8, raw.r9};
  return values[index];
}

// syscall(2): r10 stands in for rcx, which the instruction itself overwrites.
uint64_t Regs::syscall_argument(unsigned index) const {
  CHECK(index < kIntegerArguments);
  const uint64_t values[] = {raw.rdi, raw.rsi, raw.rdx, raw.r10, raw.r8, raw.r9};
  return values[index];
}

bool equal_but_pc(const Regs& one, const Regs& other) {
  static_assert(std::has_unique_object_representations_v<user_regs_struct>);
  Regs moved = one;
  moved.set_pc(other.pc());
  return std::memcmp(&moved.raw, &other.raw, sizeof moved.raw) == 0;
}

}  // namespace rtrace::arch
