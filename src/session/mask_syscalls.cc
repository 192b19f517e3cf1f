#include "mask_syscalls.h"

#include <algorithm>
#include <array>
#include <optional>

#include "rtrace/arch/insn.h"

namespace rtrace::session {
namespace {

using Code = std::span<const std::byte>;

constexpr auto bytes(auto... values) {
  return std::array<std::byte, sizeof...(values)>{static_cast<std::byte>(values)...};
}
constexpr auto kNumber = bytes(0xb8, 14, 0, 0, 0);  // mov $SYS_rt_sigprocmask, %eax
constexpr auto kBlocks = bytes(0x31, 0xff);         // xor %edi, %edi: SIG_BLOCK
constexpr std::byte kOtherHow{0xbf};                // mov $..., %edi
constexpr size_t kHowWithin = 80;                   // bytes before

bool stands_at(Code code, size_t at, Code what) {
  return code.size() - at >= what.size() &&
         std::equal(what.begin(), what.end(), code.begin() + static_cast<ptrdiff_t>(at));
}

// The `syscall` behind it, a few instructions on.
std::optional<size_t> system_call_behind(Code code, size_t next, VirtAddr at) {
  constexpr int kFurther = 4;
  for (int i = 0; i < kFurther; ++i) {
    const auto insn = arch::decode(code.subspan(next), at + next);
    if (!insn) return std::nullopt;
    if (insn->kind == arch::Insn::Kind::syscall) return next;
    if (insn->kind != arch::Insn::Kind::other && insn->kind != arch::Insn::Kind::nop) return std::nullopt;
    next += insn->length;
  }
  return std::nullopt;
}

// By the last that looks like it.
bool blocks(Code code, size_t system_call) {
  for (size_t back = 2; back <= std::min(system_call, kHowWithin); ++back) {
    const size_t at = system_call - back;
    if (stands_at(code, at, kBlocks)) return true;
    if (code[at] == kOtherHow && stands_at(code, at + 2, bytes(0, 0, 0))) return false;
  }
  return false;
}

}  // namespace

std::vector<VirtAddr> find_mask_syscalls(Code code, VirtAddr at) {
  std::vector<VirtAddr> found;
  for (size_t i = 0; i < code.size(); ++i) {
    if (!stands_at(code, i, kNumber)) continue;
    const auto system_call = system_call_behind(code, i + kNumber.size(), at);
    if (system_call && blocks(code, *system_call)) found.push_back(at + *system_call);
  }
  return found;
}

}  // namespace rtrace::session
