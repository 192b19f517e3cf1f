#include "foretelling.h"

#include <algorithm>
#include <cstring>

#include "interrupted.h"
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

// stub.S, foretell_jump: a jump by the word behind it, and behind that how to go on without.
bool lead_past(const tracee::ProcessMemory& memory, Range code, VirtAddr call) {
  constexpr std::array kJump = {std::byte{0xff}, std::byte{0x25}, std::byte{0},
                                std::byte{0},    std::byte{0},    std::byte{0}};
  const Word word = word_of(call);
  std::array<std::byte, kJump.size() + word.size()> wanted{};
  std::ranges::copy(word, std::ranges::copy(kJump, wanted.begin()).out);
  std::vector<std::byte> bytes(code.size());
  if (memory.read(code.begin, bytes) != bytes.size()) return false;
  auto at = bytes.begin();
  while ((at = std::search(at, bytes.end(), wanted.begin(), wanted.end())) != bytes.end()) {
    const VirtAddr place = code.begin + static_cast<uint64_t>(at - bytes.begin()) + kJump.size();
    if (memory.write(place, word_of(place + word.size())) != 0) return false;
    at += wanted.size();
  }
  return true;
}

// What the call does, for a thread that stands at it.
bool make_call(const StoppedThread& thread, const tracee::ProcessMemory& memory, VirtAddr ret) {
  auto regs = tracee::registers(thread.tid);
  if (!regs) return true;
  const VirtAddr place = regs->sp() - sizeof(uint64_t);
  const auto function = memory.read_value<uint64_t>(place);
  if (!function || memory.write(place, word_of(ret)) != 0) return false;
  regs->raw.rsp = place.value;
  regs->raw.rip = *function;
  (void)tracee::set_registers(thread.tid, *regs);
  return true;
}

}  // namespace

bool retire_foretelling(const tracee::ProcessMemory& memory, std::span<const Range> code, VirtAddr call,
                        std::span<const StoppedThread> threads) {
  const Range bytes{call, call + kForetellingCall.size()};
  const auto comes_back = [&](const StoppedThread& thread) { return interrupted_in(bytes, thread.stack); };
  const auto goes_on = [&](const StoppedThread& thread) {
    return thread.pc != call || make_call(thread, memory, bytes.end);
  };
  return std::ranges::all_of(code, [&](Range range) { return lead_past(memory, range, call); }) &&
         std::ranges::none_of(threads, comes_back) && std::ranges::all_of(threads, goes_on);
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
