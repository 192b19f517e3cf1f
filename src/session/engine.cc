#include "engine.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "beginning.h"
#include "engine_core.h"
#include "own_pages.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/descriptor_limit.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"
#include "stepping.h"
#include "wrapper_rules.h"

namespace rtrace::session {
namespace {

constexpr long kBirthTick = 50'000, kTrampolineTick = 20'000, kRecordTick = 1'000;  // us

volatile sig_atomic_t kicked = 0;

// A signal that arrives just before waitid would be lost on it, so the alarm repeats until the loop has seen
// the flag.
void on_kick(int) {
  kicked = 1;
  const itimerval again{{0, 20'000}, {0, 20'000}};
  setitimer(ITIMER_REAL, &again, nullptr);
}

void on_alarm(int) {}

void catch_signal(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // no SA_RESTART: waitid has to return
  sigaction(signal, &action, nullptr);
}

void prepare_signals() {
  for (int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGTTOU, SIGTTIN, SIGPIPE}) ::signal(signal, SIG_IGN);
  catch_signal(SIGUSR1, on_kick);
  catch_signal(SIGTERM, on_kick);
  catch_signal(SIGALRM, on_alarm);
  ::signal(SIGXFSZ, SIG_IGN);  // what we make for tracees may be larger than files of ours may be: an answer
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

bool run_engine(const Options& options, Shared& shared, const EngineWiring& wiring) {
  bring_in_engine();
  setpgid(0, 0);
  prepare_signals();
  tracee::raise_descriptor_limit();
  prctl(PR_SET_NAME, "rtrace-engine", 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
  if (getppid() != wiring.front_end) on_kick(SIGUSR1);  // it died before that
  moment::keep_in(&shared.moment);
  try {
    if (const char* when = getenv("RTRACE_DIE_AT"); when != nullptr && !moment::die_at(when))
      throw Error::make("RTRACE_DIE_AT={}: MOMENT:N or MOMENT:N:both is expected", when);
    // The process ends right after: what it holds goes with it, and unmapping piece by piece takes longer.
    auto* engine = new Engine(options, shared, wiring);
    engine->run();
    return true;
  } catch (const Error& error) {
    const std::string text = fmt::format("rtrace: {}\n", error.what());
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    shared.attach_failed = 1;
    return false;
  }
}

Engine::Engine(const Options& options, Shared& shared, const EngineWiring& wiring)
    : options_(options),
      shared_(shared),
      wiring_(wiring),
      reporter_(options, shared, wiring.event_fd, wiring.front_end),
      ledger_(shared.patches),
      registry_(options, reporter_),
      services_{options_, reporter_, registry_, cache_, ledger_, recording_of(options_)},
      calls_(services_),
      syscalls_(services_),
      cpu_(options.cpu) {}

bool Engine::should_end() const {
  return shared_.detach_requested != 0 || reporter_.reader_gone() || getppid() != wiring_.front_end;
}

void Engine::run() {
  calibrate();
  tracee::look_at_ends([this](pid_t tid) { about_to_end(tid); });
  attach_all();
  if (!options_.command.empty() && !launch()) detach_all();
  if (options_.command.empty() && !tasks_.empty()) tell_started(tasks_.begin()->second->id);
  if (options_.command.empty() && !processes_.empty()) tell_ready();
  bool met_event = false;
  while (!tasks_.empty() || !births_.empty()) {
    if (kicked != 0 || reporter_.reader_gone()) {
      kicked = 0;
      if (should_end()) break;
    }
    keep_time();
    const bool busy = take_records_in_turn(met_event);
    moment::enter(Moment::waiting);
    const auto answer = queue_.next(tasks_, busy ? tracee::Block::no : tracee::Block::yes);
    met_event = answer.event.has_value();
    if (answer.event)
      serve(*answer.event);
    else if (answer.no_children)
      break;
    else
      nothing_was_due_ = monotonic_now();
  }
  const bool alone = is_alone();
  detach_all();
  reporter_.end();
  closing_words();
  if (alone) say_alone("its visible process was killed; all traced processes run on untraced");
  const ToFrontEnd done{ToFrontEnd::Kind::done, 0};
  (void)!send(wiring_.socket, &done, sizeof done, MSG_NOSIGNAL);
}

bool Engine::is_alone() const {
  return getppid() != wiring_.front_end;
}

// Nobody prints what is in the ring any more.
void Engine::say_alone(std::string_view words) {
  const std::string text = fmt::format("rtrace: {}\n", words);
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// What no event tells of must be looked at again by itself: a birth that only the child told of, which its
// parent may never tell; trampolines.
void Engine::keep_time() {
  const bool half =
      std::any_of(births_.begin(), births_.end(), [](const auto& birth) { return birth.second.parent == 0; });
  if (half) begin_stale_births();
  promote_hot();
  if (owners_) tend_trampolines();
  const long interval = recorded_lately() ? kRecordTick : owners_ ? kTrampolineTick : half ? kBirthTick : 0;
  if (interval == tick_us_) return;
  tick_us_ = interval;
  const itimerval timer{{0, interval}, {0, interval}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  if (kicked != 0) on_kick(0);  // its alarm has just been replaced
}

void Engine::handle(const tracee::WaitEvent& event) {
  auto found = tasks_.find(event.tid);
  if (found == tasks_.end()) return on_unknown(event);
  Task& task = *found->second;
  const auto stop = tracee::classify(event.status);
  // Before anything else is done: what we take is not the program's time.
  clock_stop(task);
  if (!std::holds_alternative<tracee::Trap>(stop)) settle_clock(task, Asked::nothing);
  moment::enter(Moment::stop_peeked);
  if (task.opens_trap) open_trap(task);
  RTRACE_LOG(session, 3, "{}: code {} status {:#x}", event.tid, event.status.code,
             static_cast<unsigned>(event.status.status));
  std::visit([&](auto what) { on(task, what); }, stop);
}

// A remote call needs a consumed stop and a thread that stands where its program does: on the site, the int3
// not yet passed.
NeedStopped Engine::stop_here(Task& task, const arch::Regs& at) {
  return [this, &task, at, held = false]() mutable -> std::optional<pid_t> {
    if (held) return task.id.tid;
    if (tracee::seccomp_of_stopped(task.id.tid) == tracee::Seccomp::forbids) return std::nullopt;
    if (tracee::set_registers(task.id.tid, at) == tracee::Alive::gone) return std::nullopt;
    (void)tracee::consume(task.id.tid, tracee::Block::no);  // or it was consumed already
    queue_.forget(task.id.tid);
    held = true;
    return task.id.tid;
  };
}

void Engine::on(Task& task, tracee::Trap) {
  auto regs = tracee::registers(task.id.tid);
  settle_clock(task, regs ? Asked::registers : Asked::nothing);
  if (!regs) return;  // killed while stopped: its end will be reported
  task.thread_pointer = regs->raw.fs_base;
  Image* image = task.process->image.get();
  if (mech::BreakpointSite* site = image != nullptr ? image->space().hit(*regs) : nullptr) {
    regs->set_pc(site->address);
    at_site(task, *site, *regs);
    return;
  }
  if (image != nullptr && image->space().met_removed(*regs)) {
    regs->set_pc(regs->pc() - 1);
    (void)tracee::set_registers(task.id.tid, *regs);
    return go_on(task, 0);
  }
  if (!step_aside(task, *regs)) deliver(task, SIGTRAP);
}

// A site that is met again has cost its thread time, and under a storm of signals the next one is pending
// already: it would take the thread out of the copy once more, and it would never get on. So the displaced
// instruction is stepped.
//
// Whoever is about to be given a signal in what a trampoline has moved is stepped, too: were its handler to
// return to the function's own code, and we to die meanwhile, that would be the middle of our jump.
void Engine::step_out(Task& task, Image& image, int signal) {
  const pid_t tid = task.id.tid;
  const SteppedOut stepped = step_out_of_copy(tid, image, signal);
  queue_.forget(tid);
  task.stepped_in_vain = signal != 0 && !stepped.own && !stepped.out;
  if (stepped.own)
    handle(*stepped.own);
  else
    go_on(task, 0);
}

// The one change of the thread that a hit makes. Until then our death leaves the SIGTRAP to the handler in
// the process; where none stands it would kill, so that the stop is consumed first.
void Engine::commit(Task& task, Image& image, const arch::Regs& before, const arch::Regs& regs) {
  if (!is_caught(task, image)) {
    (void)tracee::consume(task.id.tid, tracee::Block::no);
    queue_.forget(task.id.tid);
  }
  moment::enter(Moment::registers_due);
  if (arch::equal_but_pc(before, regs))
    (void)tracee::set_pc(task.id.tid, regs.pc());
  else
    (void)tracee::set_registers(task.id.tid, regs);
  moment::enter(Moment::registers_written);
}

// A thread blocks all signals for a moment when it begins, when it ends and when it makes others. The mask is
// read at its first hits, at sites where that was found once, and where signals are what the call is about: a
// request more at each hit would be felt.
static Look where_to_look(Task& task, mech::BreakpointSite& site) {
  constexpr unsigned kFirstHits = 16;
  if (is_with_all(task.trap_blocked)) site.met_blocked = true;
  const bool young = task.hits < kFirstHits;
  if (young) ++task.hits;
  return young || site.met_blocked || site.watches_signals() ? Look::yes : Look::no;
}

void Engine::at_rendezvous(const Task& task, Image& image, const NeedStopped& need_stopped) {
  image.sync(Image::Moment::hook, task.id, need_stopped);
  remember(image.objects());
  if (image.settled()) tell_started(task.id);
  if (task.process->pid == task.id.tid && !ready_ && image.is_armed()) tell_ready();
}

// Where a call begins that limits the process's own address space.
static void tell_of_limit(const mech::BreakpointSite& site, const arch::Regs& regs, const Process& process,
                          Reporter& reporter) {
  const bool limits = static_cast<int>(regs.integer_argument(site.limits - 1U)) == RLIMIT_AS &&
                      regs.integer_argument(site.limits) != 0;
  const std::string words = fmt::format(
      "process {} ({}) limits its address space (RLIMIT_AS), of which the recorder for trampolines has "
      "taken a part, up to a gigabyte: its allocations may fail; not with --mechanism=breakpoint",
      process.pid, process.name);
  if (limits) reporter.notice_once(process.name + "'s limit", words);
}

void Engine::at_site(Task& task, mech::BreakpointSite& site, arch::Regs regs) {
  const pid_t tid = task.id.tid;
  const std::shared_ptr<Image> image = task.process->image;
  const VirtAddr address = site.address;
  const bool replayed = task.replays.take(address, regs.sp());
  const bool observed =
      !task.process->silent && !task.muted && !replayed && (site.return_site || !site.probes.empty());
  task.rewound.reset();
  syscalls_.settle(task);
  const NeedStopped need_stopped =
      site.rendezvous || site.initializer ? stop_here_alone(task, regs) : stop_here(task, regs);
  if (const auto where = cpu_.hit(task.process->pid, tid, task.clock.stopped_at(), task.account.late))
    queue_.set_tracee(*where);
  const bool first = task.hits == 0;
  const Look look = where_to_look(task, site);
  const bool may_be_taken = look == Look::yes || is_blocked_alone(task.trap_blocked);
  const bool taken = may_be_taken && taken_for_hit(tid);
  if (observed) calls_.observe(task, site, regs, need_stopped);
  if (observed) note_heat(task, *image, site);
  if (task.process->attached && first) note_reset_at_first_hit(task);
  if (!task.process->launching) restore_trap(task, look, need_stopped);
  keep_bridge(task, *image, need_stopped);
  const auto carried_out = at_signal_call(task, *image, site, regs, need_stopped);
  const bool begins = site.executes && begins_privileged(task, *image, {regs.integer_argument(0)});
  if (site.asks) answer_recorder(task, *image, regs);
  if (site.limits != 0) tell_of_limit(site, regs, *task.process, reporter_);
  if (site.initializer) image->on_initializer(address, need_stopped);
  if (site.resolver || site.resolved) image->on_resolver(tid, site, regs, need_stopped);
  if (site.rendezvous) at_rendezvous(task, *image, need_stopped);
  // The object that holds the site may have been the one that went.
  arch::Regs next = regs;
  if (const mech::BreakpointSite* still = image->space().find(address)) image->space().pass(*still, next);
  if (site.asks) next.raw.rax = static_cast<uint64_t>(tid);
  if (carried_out) next = carried_out->regs;
  open_mask(tid, carried_out);
  commit(task, *image, regs, next);
  settle_signals(task, taken, carried_out);
  if (begins) return let_begin(task);
  (replayed && may_step_out(task, *image)) ? step_out(task, *image, 0) : go_on(task, 0);
  if (observed) calls_.report(task);
  if (carried_out && shows_syscalls(task)) syscalls_.report(task);
}

// A signal of the program's own: it and its handler see the program's code only, never a copy of ours.
void Engine::deliver(Task& task, int signal) {
  if (take_fault(task, signal)) return;
  const pid_t tid = task.id.tid;
  Image* image = task.process->image.get();
  if (image != nullptr && waits_for_steps(task, *image, signal)) return step_out(task, *image, signal);
  if (auto regs = tracee::registers(tid)) {
    bool changed = image != nullptr && leave_copy(task, *image, *regs, signal);
    if (task.rewound) changed |= tracee::undo_rewind(*task.rewound, *regs);
    changed |= answer_interruption(task, signal, *regs);
    if (changed) (void)tracee::set_registers(tid, *regs);
  }
  task.rewound.reset();
  if (const auto mask = tracee::signal_mask(tid))
    task.trap_blocked = trap_blocked_now(*mask, task.trap_blocked);
  judge_found(task);
  if (!task.process->silent && !task.muted && !task.process->launching)
    reporter_.take(task.id, timestamp(), decode::SignalDelivered{signal});
  gives_up_handler(task, signal);
  if (signal == SIGTRAP && hand_over_alone(task)) return;
  go_on(task, is_dropped(task, signal) ? 0 : signal);
}

void Engine::on(Task& task, tracee::SignalDelivery stop) {
  deliver(task, stop.signal);
}

void Engine::on(Task& task, tracee::GroupStop) {
  syscalls_.settle(task);
  task.listening = true;
  task.interrupted = false;
  runs_on(task);
  (void)tracee::listen(task.id.tid);
}

void Engine::on(Task& task, tracee::Interrupted) {
  let_run(task);
}

void Engine::on(Task& task, tracee::OtherEvent) {
  if (owners_) vfork_ended(task);
  go_on(task, 0);
}

void Engine::on(Task& task, tracee::Exited stop) {
  ended(task, decode::Exited{stop.status});
}

void Engine::on(Task& task, tracee::Killed stop) {
  ended(task, decode::Killed{stop.signal, stop.core_dumped});
}

template <typename End>
void Engine::ended(Task& task, End end) {
  Process& process = *task.process;
  const bool process_ended = task.id.tid == process.pid;
  (void)tracee::consume(task.id.tid, tracee::Block::no);
  if (!process.silent) syscalls_.abandon(task);
  if (process_ended) take_all_records(process);
  if (!task.open_counts.empty()) hand_on_counts(process, &task);  // they are calls before they are left
  if (!process.silent) calls_.abandon_all(task);
  end_record_of(task);
  if (process_ended) {
    hand_on_counts(process, &task);
    tell_lost_by_borrowing(process, task.id);
  }
  if (process_ended && !process.silent && !process.launching) reporter_.take(task.id, timestamp(), end);
  remove_task(task);
  if (process_ended) end_process(process);
}

}  // namespace rtrace::session
