#include "mask_syscalls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "rtrace/arch/insn.h"

namespace rtrace::session {
namespace {

using Code = std::span<const std::byte>;

constexpr auto bytes(auto... values) {
  return std::array<std::byte, sizeof...(values)>{static_cast<std::byte>(values)...};
}
constexpr auto kNumber = bytes(0xb8, 14, 0, 0, 0);        // mov $SYS_rt_sigprocmask, %eax
constexpr auto kSetSize = bytes(0x41, 0xba, 8, 0, 0, 0);  // mov $8, %r10d
constexpr auto kBlocks = bytes(0x31, 0xff);               // xor %edi, %edi
constexpr std::byte kOtherHow{0xbf};                      // mov $..., %edi
constexpr size_t kLoadedWithin = 96;                      // bytes before

// As what is searched fastest.
std::string_view text_of(Code code) {
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

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

bool sets_size(Code before) {
  const Code near = before.last(std::min(before.size(), kLoadedWithin));
  return text_of(near).find(text_of(kSetSize)) != std::string_view::npos;
}

bool blocks(Code before) {
  for (size_t back = kBlocks.size(); back <= std::min(before.size(), kLoadedWithin); ++back) {
    const size_t at = before.size() - back;
    if (stands_at(before, at, kBlocks)) return true;
    if (before[at] == kOtherHow && stands_at(before, at + 2, bytes(0, 0, 0))) return false;
  }
  return false;
}

}  // namespace

std::vector<MaskSyscall> find_mask_syscalls(Code code, VirtAddr at) {
  std::vector<MaskSyscall> found;
  const std::string_view text = text_of(code);
  for (size_t i = text.find(text_of(kNumber)); i != text.npos; i = text.find(text_of(kNumber), i + 1)) {
    const auto system_call = system_call_behind(code, i + kNumber.size(), at);
    if (!system_call) continue;
    const Code before = code.first(*system_call);
    if (sets_size(before)) found.push_back({at + *system_call, blocks(before)});
  }
  return found;
}

}  // namespace rtrace::session
