#include "stepping.h"

#include <csignal>

#include "rtrace/base/moment.h"
#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

// What an instruction can raise itself: a blocked fault kills.
constexpr uint64_t kFaults = tracee::signal_bit(SIGSEGV) | tracee::signal_bit(SIGBUS) |
                             tracee::signal_bit(SIGFPE) | tracee::signal_bit(SIGILL) |
                             tracee::signal_bit(SIGTRAP) | tracee::signal_bit(SIGSYS);
// Of what a jump covers, and of a copied call. A repeated string instruction takes one for each round.
constexpr int kMostSteps = 16;

void give_mask_back(pid_t tid, uint64_t mask, Image& image) {
  (void)tracee::set_signal_mask(tid, mask);
  image.space().foothold().note_mask(image.space().memory(), 0, 0);
}

bool is_in_copy(const arch::Regs& regs, Image& image) {
  return image.in_copy(regs.pc()) && !image.space().is_behind(regs);
}

}  // namespace

bool is_own_fault(pid_t tid, int signal) {
  const auto info = (kFaults & tracee::signal_bit(signal)) != 0 ? tracee::signal_info(tid) : std::nullopt;
  return info && info->si_code > 0;
}

bool may_step_out(const Task& task, Image& image) {
  const pid_t tid = task.id.tid;
  if (task.process->trap.kind != TrapDisposition::Kind::standard || !image.survival().stands() ||
      image.stands_at_syscall(tid))
    return false;
  auto regs = tracee::registers(tid);
  return regs && !tracee::rewind_interrupted_syscall(*regs, tracee::Restart::anew);
}

SteppedOut step_out_of_copy(pid_t tid, Image& image, int signal) {
  const auto mask = tracee::signal_mask(tid);
  if (!mask) return {};
  if (signal == 0) (void)tracee::consume(tid, tracee::Block::no);
  image.space().foothold().note_mask(image.space().memory(), tid, *mask);
  const uint64_t held_back = signal != 0 ? tracee::signal_bit(signal) : 0;
  (void)tracee::set_signal_mask(tid, *mask | ~kFaults | held_back);
  SteppedOut done;
  for (int steps = 0; steps < kMostSteps && !done.own; ++steps) {
    const auto regs = tracee::registers(tid);
    done.out = !regs || !is_in_copy(*regs, image);
    if (done.out || image.stands_at_syscall(tid)) break;
    if (tracee::step(tid, steps == 0 ? signal : 0) == tracee::Alive::gone) break;
    moment::enter(Moment::stepping);
    const auto event = tracee::consume(tid, tracee::Block::yes);
    if (!event) break;
    if (!std::holds_alternative<tracee::Trap>(tracee::classify(event->status))) done.own = event;
  }
  give_mask_back(tid, *mask, image);
  return done;
}

}  // namespace rtrace::session
