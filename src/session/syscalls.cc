#include "syscalls.h"

#include <linux/audit.h>
#include <string.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "descriptor_names.h"
#include "launch_arguments.h"
#include "syscall_names.h"

namespace rtrace::session {
namespace {

constexpr int64_t kLargestError = 4095;  // MAX_ERRNO of include/linux/err.h

// Results that only tracers see, of calls that the kernel is about to begin again (include/linux/errno.h).
struct Restart {
  int number;
  std::string_view text;
  bool always = false;  // whatever the signal is
};
constexpr std::array<Restart, 4> kRestarts = {{
    {512, "ERESTARTSYS (To be restarted if SA_RESTART is set)"},
    {513, "ERESTARTNOINTR (To be restarted)", true},
    {514, "ERESTARTNOHAND (To be restarted if no handler)"},
    {516, "ERESTART_RESTARTBLOCK (Interrupted by signal)"},
}};

const Restart* restart_of(int64_t result) {
  const auto* found = std::find_if(kRestarts.begin(), kRestarts.end(),
                                   [&](const Restart& restart) { return restart.number == -result; });
  return found == kRestarts.end() ? nullptr : found;
}

bool is_error(int64_t result) {
  return result < 0 && result >= -kLargestError;
}

// What the program finds in errno. Of a call that is told of because a signal has interrupted it: where its
// handler is none of SA_RESTART, which cannot be seen.
int error_of(int64_t result) {
  const Restart* restart = restart_of(result);
  if (restart == nullptr) return static_cast<int>(-result);
  return restart->always ? 0 : EINTR;
}

// -1 and the error's name, for every call alike: the kernel knows no other way to fail.
decode::Value error_value(int64_t result) {
  decode::Value value;
  value.kind = decode::Value::Kind::error_result;
  decode::Value shown;  // `?`
  const Restart* restart = restart_of(result);
  if (restart == nullptr) {
    shown.kind = decode::Value::Kind::integer;
    shown.is_signed = true;
    shown.raw = ~uint64_t{0};
    value.raw = static_cast<uint64_t>(-result);
  }
  value.text =
      restart != nullptr ? std::string(restart->text) : decode::error_text(static_cast<int>(-result));
  value.members.push_back(std::move(shown));
  return value;
}

// As a function with the same arguments would find them: the kernel takes the fourth in r10, for `syscall`
// itself overwrites rcx (psABI, A.2.1).
arch::Regs as_call(const arch::Regs& regs, const tracee::SyscallInfo& info) {
  arch::Regs call = regs;
  call.raw.rdi = info.arguments[0];
  call.raw.rsi = info.arguments[1];
  call.raw.rdx = info.arguments[2];
  call.raw.rcx = info.arguments[3];
  call.raw.r8 = info.arguments[4];
  call.raw.r9 = info.arguments[5];
  return call;
}

}  // namespace

// A 32-bit call from 64-bit code (`int $0x80`) has numbers of its own.
Probe& SyscallTracer::probe_of(uint64_t number, uint32_t architecture) {
  const bool native = architecture == AUDIT_ARCH_X86_64;
  const uint64_t key = native ? number : number | uint64_t{1} << 63;
  auto [known, fresh] = probes_.try_emplace(key, nullptr);
  if (fresh)
    known->second =
        &services_.registry.add_syscall(native ? syscall_name(number) : fmt::format("i386_{:#x}", number));
  return *known->second;
}

uint64_t SyscallTracer::time_of(const Task& task) const {
  return services_.options.raw_times ? task.clock.stopped_at() : task.clock.time();
}

// Of execve(2) another thread may have begun it, by its own clock.
uint64_t SyscallTracer::time_since(const Task& task, const OpenSyscall& open) const {
  const uint64_t now = time_of(task);
  return now - std::min(now, open.entered.monotonic);
}

// What a function spends in a system call that is shown is not its own time.
void SyscallTracer::count_inside(Task& task, uint64_t nanoseconds) {
  task.own_time += nanoseconds;
  task.stack.count_inside(nanoseconds);
}

void SyscallTracer::observe(Task& task, const tracee::SyscallInfo& info, const arch::Regs& regs) {
  now_ = timestamp();
  now_.monotonic = task.clock.stopped_at();
  returned_.clear();
  entered_.clear();
  if (info.moment == tracee::SyscallInfo::Moment::entry) enter(task, info, regs);
  if (info.moment == tracee::SyscallInfo::Moment::exit && task.syscall) leave(task, info.result, regs);
}

// No signal was delivered since, for that settles it: nobody but us has interrupted it. Our interrupt need
// not show as a stop of its own; the call's exit takes its place (kernel/signal.c, ptrace_stop).
bool SyscallTracer::is_resumed(Task& task, const tracee::SyscallInfo& info, const arch::Regs& regs) {
  if (!task.syscall || (!task.syscall->goes_on && !task.syscall->interrupted)) return false;
  const bool same = (info.number == task.syscall->number || info.number == SYS_restart_syscall) &&
                    regs.sp() == task.syscall->entry.sp();
  if (same) task.syscall->interrupted.reset();
  if (same) task.syscall->goes_on = false;
  return same;
}

void SyscallTracer::enter(Task& task, const tracee::SyscallInfo& info, const arch::Regs& regs) {
  if (is_resumed(task, info, regs)) return;
  abandon(task);
  Probe& probe = probe_of(info.number, info.architecture);
  services_.registry.hit(probe);
  const Memory& memory = task.process->image->space().memory();
  OpenSyscall open;
  open.label = &probe.label;
  open.decoder = probe.decoder;
  open.call = static_cast<event::CallId>(next_call_++);
  open.depth = static_cast<unsigned>(task.stack.depth());
  open.entered = {now_.realtime, time_of(task)};
  open.number = info.number;
  open.entry = as_call(regs, info);
  auto decoded = probe.decoder->enter(open.entry, memory);
  if (services_.options.descriptors) {
    name_descriptors(task.id, decoded.arguments);
    for (decode::Value& value : decoded.before) name_descriptors(task.id, value);
  }
  open.before = std::move(decoded.before);
  arch::Regs program = regs;
  (void)task.process->image->space().to_program(program);
  if (services_.options.frames > 0 && services_.options.call_lines)
    trace_ =
        backtraces_.take(*task.process->image, program, Backtraces::At::instant, services_.options.frames);
  decode::CallEntered record;
  record.label = open.label;
  record.call = open.call;
  record.depth = open.depth;
  record.return_address = program.pc();
  record.arguments = std::move(decoded.arguments);
  record.more_at_return = decoded.more_at_return;
  entered_.push_back(std::move(record));
  task.syscall = std::move(open);
}

void SyscallTracer::leave(Task& task, int64_t result, const arch::Regs& regs) {
  OpenSyscall& open = *task.syscall;
  const Memory& memory = task.process->image->space().memory();
  decode::Carried carried;
  carried.before = &open.before;
  arch::Regs exit = regs;
  exit.raw.rax = static_cast<uint64_t>(is_error(result) ? -1 : result);
  carried.failed = is_error(result);
  auto decoded = open.decoder->leave(open.entry, exit, memory, {}, carried);
  if (services_.options.descriptors) {
    name_descriptors(task.id, decoded.arguments);
    name_descriptors(task.id, decoded.result);
  }
  decode::CallReturned record;
  record.label = open.label;
  record.call = open.call;
  record.depth = open.depth;
  record.duration = record.self = time_since(task, open);
  record.arguments = std::move(decoded.arguments);
  record.result = is_error(result) ? error_value(result) : std::move(decoded.result);
  if (is_error(result)) record.error = error_of(result);
  if (result == -EINTR || restart_of(result) != nullptr) {
    open.interrupted = std::move(record);
    return;
  }
  count_inside(task, record.self);
  returned_.push_back(std::move(record));
  task.syscall.reset();
}

void SyscallTracer::observe_carried_out(Task& task, uint64_t number, const std::array<uint64_t, 6>& arguments,
                                        const arch::Regs& regs) {
  observe(task, {tracee::SyscallInfo::Moment::entry, AUDIT_ARCH_X86_64, number, arguments}, regs);
}

void SyscallTracer::carried_out(Task& task, const arch::Regs& regs) {
  if (task.syscall) leave(task, 0, regs);
}

void SyscallTracer::taken_back(Task& task) {
  task.syscall.reset();
  entered_.clear();
  trace_.reset();
}

void SyscallTracer::report(Task& task) {
  if (trace_ && !entered_.empty() && task.process->image != nullptr)
    entered_.back().frames = backtraces_.describe(*task.process->image, *trace_);
  trace_.reset();
  for (auto& record : entered_) services_.reporter.take(task.id, now_, std::move(record));
  for (auto& record : returned_) services_.reporter.take(task.id, now_, std::move(record));
  returned_.clear();
  entered_.clear();
}

void SyscallTracer::settle(Task& task) {
  if (!task.syscall || !task.syscall->interrupted || task.syscall->goes_on) return;
  count_inside(task, task.syscall->interrupted->self);
  services_.reporter.take(task.id, timestamp(), std::move(*task.syscall->interrupted));
  task.syscall.reset();
}

void SyscallTracer::goes_on(Task& task) {
  if (task.syscall && task.syscall->interrupted) task.syscall->goes_on = true;
}

void SyscallTracer::handled(Task& task) {
  if (task.syscall) task.syscall->goes_on = false;
  settle(task);
}

std::optional<OpenSyscall> SyscallTracer::take_exec(Task& task) {
  const bool executes =
      task.syscall && (task.syscall->number == SYS_execve || task.syscall->number == SYS_execveat);
  if (executes) return std::exchange(task.syscall, std::nullopt);
  // The command's own: it was called before there was a program to trace.
  return task.process->launching ? std::optional<OpenSyscall>(std::in_place) : std::nullopt;
}

// What we were asked to run and what the kernel has run say what its arguments were. How long it took is not
// known.
void SyscallTracer::launched(Task& task) {
  if (!services_.options.syscalls || services_.options.ltrace_compat) return;
  LaunchArguments given(task.id.pid, services_.options.command);
  Probe& probe = probe_of(SYS_execve, AUDIT_ARCH_X86_64);
  services_.registry.hit(probe);
  const auto now = timestamp();
  decode::CallEntered entered;
  entered.label = &probe.label;
  entered.call = static_cast<event::CallId>(next_call_++);
  entered.arguments = probe.decoder->enter(given.registers(), given.memory()).arguments;
  decode::CallReturned returned;
  returned.label = entered.label;
  returned.call = entered.call;
  returned.result.kind = decode::Value::Kind::integer;
  returned.result.is_signed = true;
  services_.reporter.take(task.id, now, std::move(entered));
  services_.reporter.take(task.id, now, std::move(returned));
}

void SyscallTracer::executed(Task& task, const OpenSyscall& open) {
  if (open.label == nullptr) return launched(task);
  decode::CallReturned record;
  record.label = open.label;
  record.call = open.call;
  record.depth = open.depth;
  record.result.kind = decode::Value::Kind::integer;
  record.duration = record.self = time_since(task, open);
  services_.reporter.take(task.id, timestamp(), std::move(record));
}

void SyscallTracer::abandon(Task& task) {
  settle(task);
  if (task.syscall) report_abandoned(task, time_since(task, *task.syscall), false);
}

// One that our own interrupt has made come back goes on without us.
void SyscallTracer::leave_open(Task& task) {
  if (!task.syscall) return;
  task.clock.halted(monotonic_now());
  const uint64_t duration = time_since(task, *task.syscall);
  count_inside(task, duration);
  report_abandoned(task, duration, true);
}

void SyscallTracer::report_abandoned(Task& task, uint64_t duration, bool still_open) {
  const OpenSyscall& open = *task.syscall;
  decode::Carried carried;
  carried.before = &open.before;
  services_.reporter.take(task.id, timestamp(),
                          decode::CallAbandoned{open.label, open.call, open.depth, duration, duration, false,
                                                still_open, open.decoder->abandon(open.entry, {}, carried)});
  task.syscall.reset();
}

}  // namespace rtrace::session
