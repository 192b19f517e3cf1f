#include <algorithm>

#include "rtrace/arch/placement.h"
#include "rtrace/mech/trampolines.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kDeepest = uint64_t{8} << 20;  // of a stack that is looked at
constexpr size_t kMostStacks = 4;                 // of one thread

VirtAddr first_word(VirtAddr sp, const tracee::MapsEntry& mapping, Below below) {
  const uint64_t first = below == Below::red_zone ? sp.value - arch::kRedZone : sp.value;
  return std::max(mapping.range.begin, VirtAddr{first / sizeof(uint64_t) * sizeof(uint64_t)});
}

// Up to the mapping's end, or to where it has been looked at already: a handler's own stack may lie above the
// interrupted one in the same mapping.
Range still_to_look_at(const std::vector<Range>& looked, const tracee::MapsEntry& mapping, VirtAddr begin) {
  VirtAddr end = begin + std::min<uint64_t>(mapping.range.end - begin, kDeepest);
  for (const Range& range : looked)
    if (range.end > begin) end = std::min(end, std::max(range.begin, begin));
  return {begin, end};
}

std::vector<uint64_t> stack_words(const tracee::ProcessMemory& memory, Range range) {
  const VirtAddr begin = range.begin;
  std::vector<uint64_t> words(range.size() / sizeof(uint64_t));
  const size_t got = memory.read(begin, std::as_writable_bytes(std::span(words)));
  words.resize(got / sizeof(uint64_t));
  return words;
}

// What reads as a signal frame tells where the interrupted stack ends: the return to rt_sigreturn first, rsp
// at 168, cs at 192 (kernel: arch/x86/include/asm/sigframe.h).
void add_interrupted_stacks(std::span<const uint64_t> words, std::vector<VirtAddr>& tops) {
  constexpr size_t kSp = 168 / 8, kSelectors = 192 / 8;
  constexpr uint64_t kUserCode = 0x33;  // arch/x86/include/asm/segment.h, __USER_CS
  for (size_t at = 0; at + kSelectors < words.size(); ++at)
    if ((words[at + kSelectors] & 0xffff) == kUserCode) tops.push_back({words[at + kSp]});
}

}  // namespace

std::optional<StoppedThread> look_at(pid_t tid, const tracee::ProcessMemory& memory,
                                     const std::vector<tracee::MapsEntry>& maps, Below below) {
  const auto regs = tracee::registers(tid);
  if (!regs) return std::nullopt;
  StoppedThread thread{tid, regs->pc(), regs->raw.fs_base, {}, true};
  thread.stack_known =
      regs->never_in_program() || tracee::find_mapping(maps, regs->sp()) != nullptr;  // a kernel's worker
  std::vector<Range> looked;
  std::vector<VirtAddr> tops = {regs->sp()};
  for (size_t next = 0; next < tops.size(); ++next) {
    const auto* mapping = tracee::find_mapping(maps, tops[next]);
    if (mapping == nullptr) continue;
    const Range range = still_to_look_at(looked, *mapping, first_word(tops[next], *mapping, below));
    if (range.empty()) continue;
    looked.push_back(range);
    const auto words = stack_words(memory, range);
    if (looked.size() < kMostStacks) add_interrupted_stacks(words, tops);
    thread.stack.insert(thread.stack.end(), words.begin(), words.end());
  }
  return thread;
}

}  // namespace rtrace::mech
