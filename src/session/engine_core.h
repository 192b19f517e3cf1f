// The engine: owns the processes, takes their events one at a time, and wires the rest.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "calls.h"
#include "engine.h"
#include "rtrace/mech/owner_list.h"
#include "rtrace/mech/tick_clock.h"
#include "rtrace/session/cpu_follower.h"
#include "rtrace/session/permission.h"
#include "rtrace/tracee/seizing.h"
#include "rtrace/tracee/stop.h"
#include "rtrace/tracee/wait_queue.h"
#include "syscalls.h"

namespace rtrace::session {

class Engine {
 public:
  Engine(const Options& options, Shared& shared, const EngineWiring& wiring);
  void run();

 private:
  struct Birth;
  // --- engine.cc: the loop, and what each stop asks for
  bool should_end() const;
  void keep_time();
  bool is_alone() const;
  static void say_alone(std::string_view words);
  void handle(const tracee::WaitEvent& event);
  void on(Task& task, tracee::Trap);
  void on(Task& task, tracee::SignalDelivery stop);
  void on(Task& task, tracee::GroupStop);
  void on(Task& task, tracee::Interrupted);
  void on(Task& task, tracee::NewTask stop);
  void on(Task& task, tracee::Exec);
  void on(Task& task, tracee::SyscallStop);
  void on(Task& task, tracee::OtherEvent);
  void on(Task& task, tracee::Exited stop);
  void on(Task& task, tracee::Killed stop);
  template <typename End>
  void ended(Task& task, End end);
  void at_rendezvous(const Task& task, Image& image, const NeedStopped& need_stopped);
  void at_site(Task& task, mech::BreakpointSite& site, arch::Regs regs);
  void commit(Task& task, Image& image, const arch::Regs& before, const arch::Regs& regs);
  void step_out(Task& task, Image& image, int signal);
  static bool waits_for_steps(Task& task, Image& image, int signal);
  static void answer_recorder(const Task& task, const Image& image, const arch::Regs& regs);
  void deliver(Task& task, int signal);
  bool take_fault(Task& task, int signal);
  void answer_clock(const Task& task, arch::Regs& regs);
  bool leave_copy(Task& task, Image& image, arch::Regs& regs, int signal);
  void go_on(Task& task, int signal);
  bool shows_syscalls(const Task& task) const;
  static void let_kernel_restart(pid_t tid);
  bool answer_interruption(Task& task, int signal, arch::Regs& regs);
  void watch_handlers(Task& task, const arch::Regs& regs);
  void gives_up_handler(const Task& task, int signal);
  void runs_on(Task& task);
  NeedStopped stop_here(Task& task, const arch::Regs& at);

  // --- engine_tasks.cc: tasks and processes come and go
  Task& add_task(pid_t tid, Process& process);
  void remove_task(Task& task);
  Process& add_process(pid_t pid);
  Process& add_process(pid_t pid, std::string name);
  void on_unknown(const tracee::WaitEvent& event);
  void begin_child(pid_t tid);
  void begin_orphans(Process& parent);
  void begin_stale_births();
  std::shared_ptr<Image> image_of(pid_t child) const;
  bool follows(const Process& parent) const;
  bool shares_memory_with_any(pid_t child) const;
  void begin_orphan(pid_t child, const std::shared_ptr<Image>& image,
                    std::optional<TrapBlocked> trap_blocked);
  void begin_thread(pid_t tid, Process& process, TrapBlocked trap_blocked);
  void begin_new_process(pid_t child, Task& parent, Birth birth);
  void abandon_image(const Process& process) const;
  void begin_image(Task& task);
  void end_process(Process& process);
  std::optional<bool> shares_memory(Task& parent, tracee::NewTask::Kind kind);
  bool is_thread_of(pid_t child, const Process& process) const;

  // --- engine_survival.cc
  void note_reset_at_first_hit(Task& task) const;
  void tell_of_blocking(const Process& process);
  void keep_bridge(Task& task, Image& image, const NeedStopped& need_stopped);
  void raise_where_due(const Task& task, Image& image, const NeedStopped& need_stopped);
  bool is_being_set(const Process& process) const;
  static void judge_found(Task& task);
  static bool is_bridged(const Task& task);
  bool has_others(const Task& task) const;
  void answer_awaited(Task& task);
  void learn_from_bridge(Task& task) const;
  void restore_trap(Task& task, Look look, const NeedStopped& need_stopped) const;
  static bool is_caught(const Task& task, Image& image);
  static void open_trap(Task& task);
  enum class Wait : bool { no, yes };
  void open_traps(const Image& image, Wait wait);
  void open_traps_before_sites(pid_t pid, const Image& image);
  void open_traps_and_look(pid_t pid, const Image& image);

  // --- engine_trap.cc
  std::optional<CarriedOut> at_signal_call(Task& task, Image& image, const mech::BreakpointSite& site,
                                           const arch::Regs& regs, const NeedStopped& need_stopped);
  std::optional<CarriedOut> carry_out(Task& task, const Image& image, const mech::BreakpointSite& site,
                                      const arch::Regs& regs);
  // `awaited`: by a call of the C library that we watch, whose structures are its own.
  void at_signal_system_call(Task& task, const arch::Regs& regs, bool awaited);
  static void trap_action_is_set(Task& task, const arch::Regs& regs);
  static bool is_dropped(const Task& task, int signal);
  static void open_mask(pid_t tid, const std::optional<CarriedOut>& done);
  void settle_signals(const Task& task, bool taken, const std::optional<CarriedOut>& done);
  static bool keep_pending(Task& task);
  bool step_aside(Task& task, const arch::Regs& regs);
  void let_go_of_fork(pid_t child, Image& parent_image);
  ForkImage read_fork(pid_t child, Image& image, std::string& failure);
  ForkImage image_of_fork(pid_t child, Image& image);
  static void arm_child(Task& child);
  static TrapDisposition trap_of_orphan(pid_t child, Image* image);

  // --- engine_seize.cc
  int seize_all(Process& process);
  int seize_all(Process& process, tracee::Seizing& seizing);
  void handle_some();
  void forget_lost(const Process& process);
  void begin_syscalls(const Process& process);
  void let_forks_finish(Process& process);
  bool lends_memory(pid_t tid) const;
  void seize_borrowers(const Process& process);

  // --- engine_attach.cc
  void attach_all();
  bool attach(pid_t pid);
  struct NotAttached {
    std::string words;
    uint64_t may_pass = 0;    // ns from the first attempt, after which nothing else is to be expected
    pid_t tracer_leaves = 0;  // what is waited for then
  };
  void attend();
  static NotAttached not_attached(pid_t pid, const Standing& standing, const std::string& reason);
  std::optional<NotAttached> try_attach(pid_t pid);
  void begin_attached(Process& process);
  std::shared_ptr<Image> image_of_seized(pid_t pid, std::shared_ptr<Image> image, std::string& failure);
  void repair_before(pid_t pid);
  Process* still_running(pid_t pid, const Image& image) const;
  void look_at_masks(const Process& process) const;
  void open_traps_at_last(pid_t pid, const Image& image);
  void arm_attached(const Process& attached);
  // nullptr, and why, where it cannot be read.
  std::shared_ptr<Image> read_image(pid_t pid, std::string& failure);
  std::optional<pid_t> hold_one(Process& process);
  bool hold(pid_t tid);
  // The next stop of one task, as tracee::stop_within; `first` stays awake for it a moment before. What the
  // queue has peeked of the task is void: handled once more it would be a signal that nobody sent.
  enum class Awake : uint8_t { no, first };
  std::optional<tracee::WaitEvent> stop_of(pid_t tid, unsigned milliseconds, Awake awake = Awake::no);
  void let_run(Task& task);
  bool launch();
  void tell_ready();
  void tell_started(event::TraceeId who);
  void announce(const Process& process);

  // --- engine_heat.cc, and engine_wrapping.cc: trampolines
  void note_heat(const Task& task, Image& image, mech::BreakpointSite& site);
  void note_idle(const Task& task, Image& image, mech::BreakpointSite& site);
  void promote_hot();
  void prepare_wrapping();
  bool awaits_replay(const Image& image) const;
  std::unordered_set<VirtAddr> awaited_returns(const Image& image) const;
  void tend_trampolines();
  struct Halted {
    pid_t tid = 0;
    enum class How : uint8_t { ready, interrupted, group_stopped, due } how = How::ready;
  };
  bool may_run_in(const Birth& birth, const Image* image) const;
  bool alone(const Task& task) const;
  NeedStopped stop_here_alone(Task& task, const arch::Regs& at);
  enum class Sleepers : bool { stop, stay };  // those in a system call with SIGTRAP open
  void with_stopped(pid_t pid, Sleepers sleepers, const std::function<void(const NeedStopped&)>& work);
  std::optional<std::vector<Halted>> halt_others(pid_t pid, pid_t held, Sleepers sleepers);
  std::optional<Halted> halted_by(const tracee::WaitEvent& event);
  void let_halted_run(const std::vector<Halted>& halted);
  bool hand_over_alone(Task& task);
  bool hands_over_ = false;  // others are being halted for that
  bool left_its_stop(pid_t tid);
  void let_held_run(pid_t held);
  static std::optional<mech::ThreadState> recorder_of(const Task& parent);
  void begin_wrappers(Task& child, Image& parent, const std::optional<mech::ThreadState>& state) const;
  void begin_record_of(Task& thread);
  void end_record_of(const Task& thread) const;
  static const mech::Trampolines* trampolines_of(const Task& task);
  void account_for_hold(Task& task, uint64_t nanoseconds) const;
  void count_inside(Task& task) const;
  void hand_on_counts(const Process& process, const Task* by);
  void tell_lost_by_borrowing(Process& process, event::TraceeId who);
  void tell_lost(event::TraceeId who, uint64_t count, const std::string& why);

  // --- engine_lending.cc: thread pointers that several tasks have
  void lend_thread_pointer(Task& parent, Task& child, tracee::NewTask::Kind kind) const;
  void vfork_ended(Task& parent) const;
  void take_thread_pointer_back(Process& child);
  bool is_lent(const Image& image, uint64_t thread_pointer) const;
  bool has_lent_pointer(const Task& task) const;
  void mute_lent(Image& image) const;

  // --- engine_borrowers.cc
  static bool lacks_bridge(const Task& task, const Image& image);
  void let_begin(Task& borrower);
  void bridge_borrowers(pid_t pid, Image& image);
  void bridge_at_stop(Task& borrower, Image& image);
  void ask_borrowers(const Image& image);
  static void bridge_born(Task& borrower, Image& image);
  static void keep_bridge_of_borrower(Task& borrower, Image& image, const NeedStopped& need_stopped);

  // --- engine_records.cc: what threads have recorded by themselves
  bool take_records_in_turn(bool met_event);
  bool takes_long(pid_t tid) const;
  void serve(const tracee::WaitEvent& event);
  bool take_records();
  std::map<pid_t, CallTracer::Unwound> look_for_unwound() const;
  bool recorded_lately() const;
  void take_records_of(Task& task);
  void take_records_before(const Task& thread);
  void take_all_records(const Process& process);
  // `standing`: a thread of which that is known; the ring's own, nobody, or none is left.
  size_t take_ring(Image& image, uint64_t slot, size_t most, pid_t standing);
  void take_record(Image& image, pid_t tid, const mech::Record& record, mech::RingReader::Owner owner);
  void begin_ring(Task& task, const mech::Record& record) const;
  uint64_t recorders_time(const Task& task) const;

  // Processes on their way out.
  struct Leaving {
    std::set<pid_t> pids, stopped;          // and those of their tasks that stand
    std::set<pid_t> settled;                // are in their own code, and run on in it
    std::map<pid_t, pid_t> callers;         // for calls in a process: chosen before anybody stood
    std::set<pid_t> called;                 // stand behind calls that they made for us
    std::set<pid_t> gone;                   // stood, and are not traced any more
    std::set<pid_t> over;                   // first threads that wait for the others' ends: they stop no more
    std::map<pid_t, std::string> failures;  // why pages of ours stay in a process

    bool calls(pid_t process, pid_t tid) const {
      const auto caller = callers.find(process);
      return caller != callers.end() && caller->second == tid;
    }
  };
  enum class How : uint8_t {
    together,
    settle_each,  // those whose code is their own again, but for who is to make calls
    let_go_each,  // the same
  };

  // --- engine_handlers.cc
  static void note_withheld(const Process& process);
  void ignore_trap_again(Process& process);
  void tell_of_default(const Process& process);
  static bool is_about_open_handler(const Task& task, Image& image, SignalCall::Kind kind,
                                    const arch::Regs& regs);
  static void at_handler_call(Task& task, const arch::Regs& regs, tracee::SyscallInfo::Moment moment);
  static bool is_in_open_handler(const Task& task);
  bool with_actions_at_rest(pid_t pid, const std::shared_ptr<Image>& image, Sleepers sleepers,
                            const std::function<void(pid_t, const std::vector<pid_t>&)>& work);
  bool learn_before_sites(pid_t pid, Image& image, const NeedStopped& need_stopped);
  void screen_own_handler(pid_t pid, const std::shared_ptr<Image>& image,
                          const NeedStopped::Then& watch = {});
  bool open_handlers(pid_t pid, const std::shared_ptr<Image>& image, const NeedStopped::Then& watch = {});
  void close_handlers(pid_t pid);
  void close_handlers_of(Image& image, pid_t stopped, const std::vector<pid_t>& all);
  void close_all_handlers(std::set<pid_t>& pids);
  std::string close_handlers_at_last(const Leaving& leaving, Image& image, pid_t caller);

  // --- engine_stop_all.cc
  bool collect_ends(Leaving& leaving);
  bool leaves_all(const std::set<pid_t>& pids) const;
  bool stop_all(Leaving& leaving, How how);
  std::vector<pid_t> to_be_stopped(const Leaving& leaving, How how, bool in_order) const;
  void stop_each(Leaving& leaving, How how, const std::vector<pid_t>& waiting);
  bool trapped_for_detach(Task& task);
  bool stopped_for_detach(const tracee::WaitEvent& event);
  void collect_births();
  bool sleeps_outside_copies(pid_t tid) const;
  bool is_ours_pending(const Task& task) const;
  enum class Met : uint8_t { nothing, site, gone };
  static Met back_to_site(const Task& task, arch::Regs& regs);

  // --- engine_detach.cc
  void detach_all();
  void detach(std::set<pid_t> pids);
  void prepare_leaving(Leaving& leaving);
  enum class Visited : uint8_t { all_stand, some_run };
  Visited leave_each(Leaving& leaving);
  Visited visit(Leaving& leaving, How how);
  std::set<std::shared_ptr<Image>> images_to_leave(const Leaving& leaving) const;
  void settle(Task& task);
  bool settle_and_run(Leaving& leaving, pid_t tid);
  void settle_registers(Task& task, Image& image);
  void clean_code(Image& image, bool all_stopped);
  // What takes calls in a process.
  struct Farewell {
    std::shared_ptr<Image> image;
    std::optional<pid_t> caller = {};
    std::string failure = {};  // why none can be made
    std::string needed = {};   // why the pages must stay, though the handler goes
  };
  Farewell clean_image(const std::shared_ptr<Image>& image, const Leaving& leaving, bool all_stopped);
  std::optional<pid_t> choose_caller(const Leaving& leaving, const Image& image, std::string& failure);
  void take_pages_out(Leaving& leaving, const Farewell& farewell);
  void note_open_counts(Task& task) const;
  void about_to_end(pid_t tid) const;
  void close_counts(const std::set<std::shared_ptr<Image>>& images, bool all_stopped);
  std::string failure_of_calls(Leaving& leaving, const Farewell& farewell);
  static bool is_to_be_lowered(const Leaving& leaving, const Task& task, const Image& image);
  std::string lower_in_borrowers(Leaving& leaving, Image& image);
  void run_on(Leaving& leaving, pid_t tid);
  bool let_others_run(Leaving& leaving, const std::set<pid_t>& callers);
  void let_callers_run(Leaving& leaving, const std::set<pid_t>& callers);
  void let_sleepers_go(const std::set<pid_t>& pids, const std::set<pid_t>& stopped);
  static void rewind(Task& task);
  void leave_restart_to_kernel(pid_t tid);
  void release(pid_t tid, bool called);
  void let_go(Leaving& leaving, pid_t tid);
  void clean_later(const std::map<pid_t, std::string>& failures);

  // --- engine_clock.cc
  void calibrate();
  // What the stopped thread was asked for already: to answer it had to leave its processor.
  enum class Asked : uint8_t { nothing, registers };
  void clock_stop(Task& task);
  void settle_clock(Task& task, Asked asked);
  std::optional<event::StopCosts::Account> ask_account(Task& task, uint64_t passed);
  event::StopCosts::Tracer where_we_were(Task& task) const;

  // --- closing.cc
  void closing_words();
  void about_trampolines();
  void about_children();
  void about_request(size_t index);
  void about_histogram(const std::string& name);
  void remember(const plan::Objects& objects);

  const Options& options_;
  Shared& shared_;
  EngineWiring wiring_;
  Reporter reporter_;
  ObjectCache cache_;
  mech::PatchLedger ledger_;
  ProbeRegistry registry_;
  Services services_;
  CallTracer calls_;
  SyscallTracer syscalls_;
  CpuFollower cpu_;
  tracee::WaitQueue queue_;
  std::map<pid_t, std::unique_ptr<Process>> processes_;
  std::unordered_map<pid_t, std::unique_ptr<Task>> tasks_;
  // New tasks that one of the two sides has told of: their own first stop, or their parent's event.
  struct Birth {
    pid_t parent = 0;  // 0 while only the child's stop was seen
    bool stopped = false;
    tracee::NewTask::Kind kind = tracee::NewTask::Kind::clone;
    bool shares_memory = false;
    uint64_t seen = 0;                        // monotonic, of the child's stop
    pid_t parent_process = 0;                 // by /proc, when the child's stop was seen
    std::optional<TrapBlocked> trap_blocked;  // the parent's at its event, or what we have made of it
    // The parent's at its event, for a child with a copy of its memory.
    LiveCalls open;
    Replays replays;
    std::optional<mech::ThreadState> recorder;
  };
  std::map<pid_t, Birth> births_;
  size_t unfollowed_ = 0;         // children of traced processes that were let go
  std::set<pid_t> clockless_;     // may not read the time stamp counter
  std::set<pid_t> untold_;        // have begun without their parent's event, which may be late
  uint64_t nothing_was_due_ = 0;  // monotonic: the last time that no event was waiting
  // Images of processes that ended while a fork child of theirs had not told of itself yet: the newest last.
  std::vector<std::shared_ptr<Image>> last_images_;
  std::map<pid_t, std::string> left_before_;  // why pages of an earlier tracer stay in a process
  uint32_t next_serial_ = 1;
  event::StopCosts stop_costs_, syscall_costs_;  // a stop at a system call costs less than one at an int3
  bool times_calls_ = false;
  long tick_us_ = 0;                       // the interval timer's
  uint64_t hand_on_at_ = 0;                // monotonic: counts, not before
  std::optional<mech::OwnerList> owners_;  // where trampolines are asked for
  std::optional<mech::TickClock> ticks_;
  uint64_t recorded_at_ = 0;  // monotonic: when there was something to read
  bool recording_ = false;    // then
  // Monotonic: not before; records, where events wait.
  uint64_t records_at_ = 0, promote_at_ = 0;
  size_t next_ring_ = 0;  // in turn
  bool ready_ = false, started_ = false;
  plan::Objects seen_objects_;  // all that were ever mapped: at its end a process unloads some
};

}  // namespace rtrace::session
