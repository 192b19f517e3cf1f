#include "stepping.h"

#include <csignal>

#include "rtrace/agent/signal_calls.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

// Of what a jump covers, and of a copied call. A repeated string instruction takes one for each round.
constexpr int kMostSteps = 16;

void hold_signals_back(pid_t tid, uint64_t mask, uint64_t more, Image& image) {
  image.space().foothold().note_mask(image.space().memory(), tracee::own_tid(tid), mask);
  // A step sets it only as it resumes the thread. If we die first, this takes the thread into the bridging
  // handler behind its next instruction, and that gives the mask back.
  tracee::set_trap_flag(tid, true);
  (void)tracee::set_signal_mask(tid, mask | ~agent::kFaults | more);
  moment::enter(Moment::held_back);
}

void give_mask_back(pid_t tid, uint64_t mask, Image& image) {
  (void)tracee::set_signal_mask(tid, mask);
  tracee::set_trap_flag(tid, false);
  image.space().foothold().note_mask(image.space().memory(), 0, 0);
}

bool is_in_copy(const arch::Regs& regs, Image& image) {
  return image.in_copy(regs.pc()) && !image.space().is_behind(regs);
}

}  // namespace

bool is_own_fault(pid_t tid, int signal) {
  const auto info =
      (agent::kFaults & tracee::signal_bit(signal)) != 0 ? tracee::signal_info(tid) : std::nullopt;
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
  hold_signals_back(tid, *mask, signal != 0 ? tracee::signal_bit(signal) : 0, image);
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
