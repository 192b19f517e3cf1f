#include "foretelling.h"

#include <algorithm>
#include <cstring>

#include "interrupted.h"
#include "rtrace/arch/jump.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::mech {
namespace {

using Word = std::array<std::byte, sizeof(VirtAddr::value)>;

Word word_of(VirtAddr address) {
  Word word;
  std::memcpy(word.data(), &address.value, word.size());
  return word;
}

// stub.S, foretell_jump: a jump by the word behind it, and behind that how to go on without. Where those ways
// begin is added to `ways`, also of wrappers that have been led past before.
bool lead_past(const tracee::ProcessMemory& memory, Range code, VirtAddr call, std::vector<VirtAddr>& ways) {
  constexpr std::array kJump = {std::byte{0xff}, std::byte{0x25}, std::byte{0},
                                std::byte{0},    std::byte{0},    std::byte{0}};
  std::vector<std::byte> bytes(code.size());
  if (memory.read(code.begin, bytes) != bytes.size()) return false;
  auto at = bytes.begin();
  while ((at = std::search(at, bytes.end(), kJump.begin(), kJump.end())) != bytes.end()) {
    at += kJump.size();
    const VirtAddr place = code.begin + static_cast<uint64_t>(at - bytes.begin());
    const VirtAddr way = place + sizeof(Word);
    const auto word = std::span(bytes)
                          .subspan(place - code.begin)
                          .first(std::min<size_t>(sizeof(Word), static_cast<size_t>(bytes.end() - at)));
    const bool leads = std::ranges::equal(word, word_of(call));
    if (leads && memory.write(place, word_of(way)) != 0) return false;
    if (leads || std::ranges::equal(word, word_of(way))) ways.push_back(way);
  }
  return true;
}

// stub.S: seem_called, then jump. Where such a way leads to, as the call does.
VirtAddr end_of(VirtAddr way, const tracee::ProcessMemory& memory) {
  constexpr size_t kSeemCalled = 5 + 8;  // push, movl
  std::array<std::byte, arch::kNearJump> jump{};
  const VirtAddr at = way + kSeemCalled;
  if (memory.read(at, jump) != jump.size()) return {};
  return arch::near_jump_target(jump, at).value_or(VirtAddr{});
}

// A thread that stands at the call goes on without, in one step, for we may die at any. Told anew, for it may
// have been led past by another wrapper's note.
bool go_without(pid_t tid, const tracee::ProcessMemory& memory, VirtAddr call,
                const std::vector<VirtAddr>& ways) {
  const auto regs = tracee::registers(tid);
  if (!regs || regs->pc() != call) return true;
  const auto function = memory.read_value<uint64_t>(regs->sp() - sizeof(uint64_t));
  const auto way = std::ranges::find_if(
      ways, [&](VirtAddr one) { return function && end_of(one, memory) == VirtAddr{*function}; });
  if (way == ways.end()) return false;
  (void)tracee::set_pc(tid, *way);
  return true;
}

}  // namespace

bool retire_foretelling(const tracee::ProcessMemory& memory, std::span<const Range> code, VirtAddr call,
                        std::span<const StoppedThread> threads) {
  const Range bytes{call, call + kForetellingCall.size()};
  const auto comes_back = [&](const StoppedThread& thread) { return interrupted_in(bytes, thread.stack); };
  std::vector<VirtAddr> ways;
  return std::ranges::all_of(code, [&](Range range) { return lead_past(memory, range, call, ways); }) &&
         std::ranges::none_of(threads, comes_back) &&
         std::ranges::all_of(threads, [&](const StoppedThread& thread) {
           return go_without(thread.tid, memory, call, ways);
         });
}

bool Trampolines::foretell(const BorrowedFrame& frame) {
  if (foretelling_.at) return foretelling_.at == frame.call();
  const tracee::ProcessMemory& memory = space_.memory();
  if (!begun_ || !std::ranges::equal(space_.own_code(frame.call(), frame.padding.size()), frame.padding))
    return false;
  Foretelling made{frame.call(), frame.padding};
  made.patch = ledger_.publish(space_.pid(), made.at, made.padding, kForetellingCall);
  const bool noted =
      made.patch != PatchLedger::kNone && link_.note_foretelling(memory, made.at, made.padding);
  const moment::Scope writing(Moment::byte_write);
  if (!noted || memory.write(made.at, kForetellingCall) != 0) {
    ledger_.withdraw(made.patch);
    return false;
  }
  foretelling_ = made;
  RTRACE_LOG(mech, 2, "returns to {} are foretold in {}", frame.ret, space_.pid());
  return true;
}

bool Trampolines::publish_foretelling() {
  if (!foretelling_.at) return true;
  foretelling_.patch = ledger_.publish(space_.pid(), foretelling_.at, foretelling_.padding, kForetellingCall);
  return foretelling_.patch != PatchLedger::kNone;
}

}  // namespace rtrace::mech
