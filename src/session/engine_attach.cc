// How processes come under the engine: -p, and the launched command.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "rtrace/mech/repair.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr int kAttempts = 50;
constexpr int kAttachAtOnce = 20;
constexpr timespec kAttachPause{0, 1'000'000};
// ns: what stands in the way of an attach may have gone by then.
constexpr uint64_t kExecEnds = 300'000'000, kOrphanLeaves = 10'000'000'000, kOrphanUntold = 100'000'000;
constexpr uint64_t kAnotherComes = 50'000'000;  // ns: the first thread ends, for one that has called exec
constexpr std::chrono::seconds kRepairWait(3);
// ms that the process may go on before another thread is asked: one in an uninterruptible sleep may not stop
// for long, all others do as soon as they get a processor.
constexpr unsigned kHoldWait = 20, kHoldWaitForProcessor = 500;

}  // namespace

void Engine::attach_all() {
  bool any = !options_.command.empty();
  for (pid_t pid : options_.pids) {
    const bool attached = attach(pid);
    if (!attached) shared_.attach_failed = 1;
    any = any || attached;
  }
  if (!any) shared_.nothing_traced = 1;
}

// While a thread execs the process's first one is a zombie, and its memory that of neither program.
bool Engine::attach(pid_t pid) {
  const uint64_t begun = monotonic_now();
  bool told = false;
  for (int attempt = 1;; ++attempt) {
    if (processes_.contains(pid)) return true;
    const auto failure = try_attach(pid);
    if (!failure) return true;
    const uint64_t waited = monotonic_now() - begun;
    if (waited >= failure->may_pass || should_end()) {
      reporter_.say("cannot attach to " + failure->words);
      return false;
    }
    if (failure->tracer_leaves != 0 && waited > kOrphanUntold && !std::exchange(told, true))
      reporter_.notice(fmt::format("{}: process {} (rtrace-engine) is leaving it; waiting for that", pid,
                                   failure->tracer_leaves));
    attend();
    if (attempt > kAttachAtOnce) nanosleep(&kAttachPause, nullptr);
  }
}

// To those that are attached already.
void Engine::attend() {
  if (tasks_.empty()) return;
  keep_time();
  (void)take_records();
  for (size_t most = tasks_.size(); most > 0; --most) {
    const auto event = queue_.next(tasks_, tracee::Block::no).event;
    if (!event) return;
    serve(*event);
  }
}

// Why what was said of it may pass, if it may.
Engine::NotAttached Engine::not_attached(pid_t pid, const Standing& standing, const std::string& reason) {
  NotAttached answer{fmt::format("{}: {}", pid, reason)};
  if (standing.tracer_leaves) {
    answer.may_pass = kOrphanLeaves;
    answer.tracer_leaves = standing.tracer;
  } else if (first_thread_ends(pid, standing)) {
    answer.may_pass = kExecEnds;
  }
  return answer;
}

std::optional<Engine::NotAttached> Engine::try_attach(pid_t pid) {
  const Standing standing = standing_of(pid);
  if (const std::string reason = why_not_attachable(pid, standing); !reason.empty())
    return not_attached(pid, standing, reason);
  repair_before(pid);
  std::string no_image;
  std::shared_ptr<Image> image = read_image(pid, no_image);
  Process& process = add_process(pid);
  process.trap = read_trap_disposition(pid);
  process.found_stopped = standing.process && standing.process->state == 'T';
  if (const int error_number = seize_all(process)) {
    const Standing now = standing_of(pid);
    const std::string reason = why_seize_failed(now, error_number);
    detach({pid});
    NotAttached answer = not_attached(pid, now, reason);
    if (error_number == EPERM && now.tracer == 0) answer.may_pass = std::max(answer.may_pass, kAnotherComes);
    if (error_number == ESRCH) answer.may_pass = std::max(answer.may_pass, kExecEnds);
    return answer;
  }
  const std::string name = process.name;
  image = image_of_seized(pid, std::move(image), no_image);
  if (image == nullptr) {
    // What could not be read may have gone with the process.
    const std::string gone = why_not_attachable(pid, standing_of(pid));
    if (processes_.contains(pid)) forget_lost(process);
    detach({pid});
    return NotAttached{fmt::format("{} ({}): {}", pid, name, gone.empty() ? no_image : gone)};
  }
  if (process.image == nullptr) {
    process.image = std::move(image);
    begin_attached(process);
  } else {
    process.attached = true;
    announce(process);
  }
  return std::nullopt;
}

// Since its image was read it may have begun another program, or be about to. An exec that we are told of
// gives the process its image.
std::shared_ptr<Image> Engine::image_of_seized(pid_t pid, std::shared_ptr<Image> image,
                                               std::string& failure) {
  constexpr uint64_t kExecPatience = 1'000'000'000;  // ns; as a rule a few ms, on a busy machine more
  constexpr long kLongestPause = 10'000'000;         // ns
  timespec pause{0, 200'000};
  const uint64_t deadline = monotonic_now() + kExecPatience;
  for (;;) {
    if (image != nullptr && image->is_current()) return image;
    image = read_image(pid, failure);
    if (image != nullptr || monotonic_now() > deadline) return image;
    const auto answer = queue_.next(tasks_, tracee::Block::no);
    if (answer.event)
      handle(*answer.event);
    else
      nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(2 * pause.tv_nsec, kLongestPause);
    const auto process = processes_.find(pid);
    if (process == processes_.end()) return nullptr;
    if (process->second->image != nullptr) return process->second->image;
    // One that nobody traced leaves us with a first thread that has gone.
    (void)seize_all(*process->second);
  }
}

// What its threads do meanwhile is handled as it comes, their end too. An exec begins an image by itself.
void Engine::begin_attached(Process& process) {
  const std::shared_ptr<Image> image = process.image;
  const pid_t pid = process.pid;
  const auto lives = [&] { return processes_.contains(pid) && process.image != nullptr; };
  let_forks_finish(process);
  if (lives() && process.image == image) seize_borrowers(process);
  if (lives() && process.image == image) arm_attached(process);
  if (lives() && process.image == image && !open_handlers(pid, image))
    reporter_.notice(fmt::format(
        "handlers of process {} that block all signals keep SIGTRAP blocked: a probe that one of them meets "
        "would end it if rtrace were killed",
        pid));
  if (!lives()) return;
  if (options_.syscalls) begin_syscalls(process);
  remember(process.image->objects());
  process.attached = true;
  announce(process);
}

std::shared_ptr<Image> Engine::read_image(pid_t pid, std::string& failure) {
  try {
    auto image = std::make_shared<Image>(pid, services_);
    image->read_ahead();
    return image;
  } catch (const Error& error) {
    failure = error.what();
    return nullptr;
  }
}

// A tracer of ours may have died in it: its sites would be in our way, and its handler would be taken for the
// program's. Pages that its calls still come back to are asked for again when we go.
void Engine::repair_before(pid_t pid) {
  try {
    const tracee::ProcessMemory memory(pid);
    const auto maps = tracee::read_maps(pid);
    if (mech::find_remains(memory, maps).empty() && !mech::gadget_stands(memory, maps)) return;
    const mech::Repaired repaired = mech::repair(pid, {}, {true, kRepairWait, mech::Until::inert});
    if (!repaired.left.empty()) left_before_.emplace(pid, repaired.left);
    if (repaired.places == 0 && !repaired.handler) return;  // pages of one that had to leave them
    reporter_.notice(
        fmt::format("process {}: a tracer died in it; {} places in its code put back", pid, repaired.places));
  } catch (const Error& error) {
    RTRACE_LOG(session, 1, "repair of {}: {}", pid, error.what());  // attaching will say why
  }
}

// One thread stopped, for remote calls: at its program's registers, a pending restart resolved.
std::optional<pid_t> Engine::hold_one(Process& process) {
  std::vector<pid_t> candidates;
  for (const auto& [tid, task] : tasks_)
    if (task->process == &process) candidates.push_back(tid);
  std::sort(candidates.begin(), candidates.end(),
            [&](pid_t a, pid_t b) { return (a == process.pid) > (b == process.pid); });
  for (pid_t tid : candidates)
    if (hold(tid)) return tid;
  return std::nullopt;
}

std::optional<tracee::WaitEvent> Engine::stop_of(pid_t tid, unsigned milliseconds, Awake awake) {
  auto event = awake == Awake::first ? tracee::stop_awake(tid) : std::nullopt;
  if (!event) event = tracee::stop_within(tid, milliseconds);
  queue_.forget(tid);
  return event;
}

// Stops one thread. Any other stop of it clears our interrupt (kernel/signal.c, ptrace_stop), so that is
// asked for again.
bool Engine::hold(pid_t tid) {
  const bool elsewhere = tracee::may_run_elsewhere();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    collect_births();  // or it waits for a vfork child, and that for us
    auto found = tasks_.find(tid);
    if (found == tasks_.end() || tracee::forbids_calls(tid) || tracee::interrupt(tid) == tracee::Alive::gone)
      return false;
    Task& task = *found->second;
    task.interrupted = true;
    const auto status = tracee::read_status(tid);
    const bool sleeps = !status || status->state == 'D';
    const auto event =
        stop_of(tid, sleeps ? kHoldWait : kHoldWaitForProcessor, elsewhere ? Awake::first : Awake::no);
    if (!event) return false;
    const auto stop = tracee::classify(event->status);
    const bool group_stop = std::holds_alternative<tracee::GroupStop>(stop);
    if (!group_stop && !std::holds_alternative<tracee::Interrupted>(stop)) {
      // The exit of a system call may be all that shows of our interrupt.
      task.interrupted = std::holds_alternative<tracee::SyscallStop>(stop);
      handle(*event);
      continue;
    }
    clock_stop(task);
    settle_clock(task, Asked::nothing);
    task.interrupted = false;
    task.listening = group_stop;
    open_trap(task);
    SyscallTracer::goes_on(task);
    auto regs = tracee::registers(tid);
    if (regs && regs->never_in_program()) let_held_run(tid);
    if (!regs || regs->never_in_program()) return false;
    task.rewound = tracee::rewind_interrupted_syscall(*regs, tracee::restart_of(tid, *regs));
    return !task.rewound || tracee::set_registers(tid, *regs) == tracee::Alive::yes;
  }
  return false;
}

// Ends a stop that we asked for, or one of a SIGCONT, at which each thread of a process that is traced stops
// whether it was in a group-stop or not (kernel/signal.c, ptrace_trap_notify): only behind that calls end
// without us, too.
void Engine::let_run(Task& task) {
  const pid_t tid = task.id.tid;
  const bool was_ours = std::exchange(task.interrupted, false);
  const bool listened = std::exchange(task.listening, false);
  const bool unseen = was_ours || !listened;
  task.ended_by_group_stop = !unseen;
  if (unseen)
    SyscallTracer::goes_on(task);
  else
    syscalls_.settle(task);
  Image* image = task.process->image.get();
  if (unseen && image != nullptr && image->pid() == task.process->pid && image->unfinished() &&
      !image->is_arming() && !tracee::forbids_calls(tid)) {
    rewind(task);
    (void)tracee::consume(tid, tracee::Block::no);
    queue_.forget(tid);
    image->finish_arming({[tid]() -> std::optional<pid_t> { return tid; }, nullptr, nullptr,
                          [&] { open_traps(*image, Wait::no); }});
    ask_borrowers(*image);
  } else if (unseen && image != nullptr && image->survival().stands() && lacks_bridge(task, *image)) {
    bridge_at_stop(task, *image);
  } else if (unseen) {
    // -ERESTART* is the kernel's to resolve; a plain EINTR is final and would be seen.
    let_kernel_restart(tid);
  }
  go_on(task, 0);
}

// nullptr where the process has ended, or begun another program.
Process* Engine::still_running(pid_t pid, const Image& image) const {
  const auto found = processes_.find(pid);
  return found != processes_.end() && found->second->image.get() == &image ? found->second.get() : nullptr;
}

// Of who blocked it before its calls that do so were seen, and has met nothing yet.
void Engine::open_traps_at_last(pid_t pid, const Image& image) {
  for (const auto& [tid, task] : tasks_)
    if (task->process->pid == pid && task->hits == 0 && task->trap_blocked == TrapBlocked::no)
      task->trap_blocked = read_trap_blocked(tid);
  open_traps(image, Wait::no);
}

// The process may end, or begin another program, whenever one of its threads is to be stopped.
void Engine::arm_attached(const Process& attached) {
  const pid_t pid = attached.pid;
  const std::shared_ptr<Image> image = attached.image;
  const auto runs = [&] { return still_running(pid, *image) != nullptr; };
  with_stopped(pid, Sleepers::stop, [&](const NeedStopped& need_stopped) {
    const event::TraceeId who = tasks_.contains(pid) ? tasks_.at(pid)->id : event::TraceeId{pid, pid, 0};
    // Since it was read the program may have changed it. The first int3 is still to come.
    bool opened = false, looked = false, learned = false, handlers_opened = false, screened = false;
    const auto look_first = [&]() -> std::optional<pid_t> {
      if (!std::exchange(opened, true) && image->space().size() == 0) open_traps_before_sites(pid, *image);
      const auto held = need_stopped();
      if (!runs()) return std::nullopt;
      if (held && !std::exchange(looked, true) && image->space().size() == 0)
        still_running(pid, *image)->trap = read_trap_disposition(pid);
      return held;
    };
    const auto all = [&]() -> std::optional<std::vector<pid_t>> {
      auto stopped = need_stopped.all();
      return runs() && !awaits_replay(*image) ? std::move(stopped) : std::nullopt;
    };
    const auto learn = [&] { learned = learned || learn_before_sites(pid, *image, need_stopped); };
    const auto let_go = [&] {
      if (looked) learn();
      need_stopped.let_go();
    };
    const auto masks_watched = [&] {
      let_go();
      if (runs()) open_traps(*image, Wait::yes);
    };
    const auto at_rest = [&](const NeedStopped::Then& watch) {
      bool watched = false;
      const auto then = [&] {
        watch();
        watched = true;
      };
      let_go();
      if (!runs() || std::exchange(handlers_opened, true)) return false;
      (void)open_handlers(pid, image, then);
      if (!watched) screen_own_handler(pid, image, then);
      return watched;
    };
    const auto handler_raised = [&] { bridge_borrowers(pid, *image); };
    const auto own_handler_met = [&] {
      let_go();
      if (!std::exchange(screened, true)) screen_own_handler(pid, image);
    };
    const NeedStopped stops{look_first, all, let_go, masks_watched, handler_raised, at_rest, own_handler_met};
    image->sync(Image::Moment::attach, who, stops);
    if (runs()) image->sync_behind_hook(who, stops);
    if (runs()) open_traps_at_last(pid, *image);
    // The first that were asked for may have come too late, and one been there for the rest.
    if (runs() && image->unfinished() && need_stopped() && runs()) image->finish_arming(stops);
    learn();
  });
  screen_own_handler(pid, image);
}

void Engine::announce(const Process& process) {
  size_t threads = 0, pending = 0;
  for (const auto& [tid, task] : tasks_) threads += task->process == &process;
  for (const auto& fate : registry_.fates()) pending += fate.armed == 0;
  std::string line = fmt::format(
      "attached to {} ({}), {}, {}; {} armed", process.pid, process.name, counted(threads, "thread"),
      counted(process.image->objects().size(), "object"), counted(process.image->armed(), "probe"));
  if (pending > 0) line += fmt::format(", {} pending", counted(pending, "pattern"));
  if (process.found_stopped) line += "; it is stopped, and makes no call before SIGCONT";
  const std::string& risk = process.image->survival().risk();
  if (!risk.empty() && process.image->space().size() > 0)
    line += fmt::format("; {}: SIGKILL of rtrace would kill it at its next probe", risk);
  reporter_.notice(line);
}

bool Engine::launch() {
  ToEngine request;
  if (recv(wiring_.socket, &request, sizeof request, 0) != sizeof request) return false;
  ToFrontEnd answer{ToFrontEnd::Kind::seized, 0};
  if (const int error_number = tracee::seize(request.launch)) {
    answer = {ToFrontEnd::Kind::seize_failed, error_number};
  } else {
    Process& process = add_process(request.launch, {});  // the command's name comes with its exec
    process.launching = true;
    add_task(request.launch, process);
  }
  (void)!send(wiring_.socket, &answer, sizeof answer, MSG_NOSIGNAL);
  return answer.kind == ToFrontEnd::Kind::seized;
}

void Engine::tell_started(event::TraceeId who) {
  if (!std::exchange(started_, true)) reporter_.take(who, timestamp(), decode::Started{});
}

void Engine::tell_ready() {
  if (!std::exchange(ready_, true) && options_.ready_fd >= 0) reporter_.ready();
}

}  // namespace rtrace::session
