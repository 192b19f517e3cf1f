// What one execve made: an address space, the objects in it, and the probes that stand there. Shared by a
// process and a vfork child of it.
//
// An object that the dynamic linker adds takes one way through here whatever brought it (start-up, attach,
// dlopen): link map, diff, plan, sites.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "need_stopped.h"
#include "rtrace/loader/rendezvous.h"
#include "rtrace/mech/address_space.h"
#include "rtrace/mech/trampolines.h"
#include "rtrace/plan/plan.h"
#include "services.h"
#include "survival.h"
#include "wrapping.h"

namespace rtrace::session {

// What the code in front of a return address tells: by which name it calls, or nothing of that.
enum class CallOf : uint8_t { another, unnamed, its };

class Image {
 public:
  // Throws Error where it is none that can be traced.
  Image(pid_t pid, Services& services);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  // For a followed fork child.
  std::shared_ptr<Image> clone_for(pid_t child) const;

  pid_t pid() const { return pid_; }
  mech::AddressSpace& space() { return *space_; }
  Survival& survival() { return survival_; }
  const Survival& survival() const { return survival_; }
  // Of a stopped thread: whether it is within the C library's sigaction(), or about to set a mask unseen.
  bool may_be_in_sigaction(pid_t tid) const;
  bool is_about_to_set_mask(pid_t tid) const;
  // Whether what a watched call of the C library does can be done in its place: nobody else's function is
  // meant, and nothing of ours is to be met in it.
  bool may_carry_out(const mech::BreakpointSite& site) const;
  // Whether what is called there comes by another site that watches it, where it changes what it is to.
  bool leads_to_watch(const mech::BreakpointSite& site) const;
  // Whether that stopped thread's next instruction is a system call; true where it cannot be seen.
  bool stands_at_syscall(pid_t tid) const;
  bool in_copy(VirtAddr pc) const { return space_->in_copy(pc); }
  const plan::Objects& objects() const { return objects_; }
  size_t armed() const { return armed_.size(); }  // probe points that stand
  // The object that an address lies in, the kernel's own (vdso) included; nullptr where there is none.
  const elf::LoadedObject* code_at(VirtAddr address) const;
  // The link map has been seen whole: what could be armed at start-up is.
  bool settled() const { return relocated_once_; }
  // As far as there is anything to arm yet.
  bool is_armed() const { return armed() > 0 || settled(); }
  // Whether a call that has come to that function, and is to return there, was made of it by that object's
  // code: not of another, which has jumped there (a tail call), or by another name of it.
  CallOf call_of(const decode::ProbeLabel& callee, elf::ObjectId caller, VirtAddr return_address);

  // Reads the link map and the symbols of what is in it, so that the work under a stop is short. The process
  // runs.
  void read_ahead();
  // False where the process has begun another program since, or has ended.
  bool is_current() const;
  // At exec: a site on the dynamic linker's hook, for its link map does not exist yet. A static program is
  // armed at once.
  enum class Room : bool { as_needed, always };  // for what is ours: a static program may need none
  void begin(event::TraceeId who, const NeedStopped& need_stopped, Room room);
  // Compares the link map with the last one; arms what is new, forgets what is gone. At its hook the dynamic
  // linker may be in the middle of a change: then the next hit counts. At attach what is there is taken.
  enum class Moment : uint8_t { attach, hook };
  void sync(Moment moment, event::TraceeId who, const NeedStopped& need_stopped);
  // Behind a sync() of a process that runs: what it has loaded, untold, before the hook's site stood.
  void sync_behind_hook(event::TraceeId who, const NeedStopped& need_stopped);
  // The site of an object's first initializer was met: it has been relocated.
  void on_initializer(VirtAddr address, const NeedStopped& need_stopped);

  // A thread stands at the entry of an IFUNC's resolver, or at the place to which one returned: what it
  // answers is the function that the symbol means.
  void on_resolver(pid_t tid, const mech::BreakpointSite& site, const arch::Regs& regs,
                   const NeedStopped& need_stopped);

  // Somewhere up the stack its probes are being placed, while a thread is awaited.
  bool is_arming() const { return arming_; }
  bool watches_execve() const { return watches_execve_; }  // by a probe where programs are begun
  // Whether a child was forked with all probes: one whose birth is handled before the arming, or just behind
  // it, may have been forked when none or only some of them stood.
  bool are_probes_in(const tracee::ProcessMemory& child) const;
  // Whether a child whose birth is handled now may have been made before that.
  bool was_armed_lately() const;
  // True where something could not be armed because no thread could be stopped; finish_arming() tries again
  // with one that is.
  bool unfinished() const { return unfinished_; }
  void finish_arming(const NeedStopped& need_stopped);

  // image_wrappers.cc, image_turns.cc. Calls begin so often at a site that a trampoline would pay, where one
  // may be made.
  void note_hot(VirtAddr site) { wrapping_.hot.push_back(site); }
  bool has_hot() const { return !wrapping_.hot.empty(); }
  void consider_hot();
  // Something waits for all tasks to stand: breakpoints to become trampolines, return sites to go.
  bool awaits_stop(uint64_t now) const;
  // This is no moment for it.
  void wrap_later();
  // A thread has one: what waited for that need not wait for long.
  void note_thread_pointer() {
    if (std::exchange(wrapping_.lacks_thread_pointer, false)) wrapping_.again_at = 0;
  }
  // What comes before wrap_late(), while threads run.
  void prepare_turn();
  // True where some have become ones: return sites may have no purpose any more.
  bool wrap_late(const NeedStopped& need_stopped);
  void note_idle_returns() { wrapping_.idle_returns = true; }
  bool has_idle_returns() const { return wrapping_.idle_returns; }
  // Takes out those at which no call is awaited. `all` are the tasks, stopped.
  void give_up_returns(const std::unordered_set<VirtAddr>& awaited, const std::vector<pid_t>& all);
  // For a followed fork child, which stands before its first instruction: what is wrapped in its parent is
  // wrapped in it, or stays a breakpoint. `state` is that of the parent's thread when it forked.
  void inherit_wrapping(const Image& parent, uint64_t thread_pointer,
                        const std::optional<mech::ThreadState>& state, const NeedStopped& need_stopped);
  // Calls that found no room to be counted or recorded, since the last time.
  uint64_t take_unplaced();
  // Hands on what wrapped calls have been counted since the last time.
  void hand_on_counts(event::TraceeId who);
  // What is counted from here on is not handed on.
  void close_counts() { wrapping_.counts_closed = true; }
  bool counts_are_closed() const { return wrapping_.counts_closed; }
  // Those that a task, which stands, is in.
  std::vector<OpenCounted> open_counts(pid_t tid) const;
  // By the recorder's number for it; nullptr where there is none such.
  const WrappedFunction* wrapped(uint32_t index) const {
    return index < wrapping_.functions.size() ? &wrapping_.functions[index] : nullptr;
  }
  // A thread stands at the recorder's question. What its ring held has been read.
  void answer_recorder(pid_t tid, const arch::Regs& regs) const;
  // It has looked at a page that was there once, and has gone.
  void forget_page(VirtAddr in_it) const;
  // What is in that thread's ring from here on was recorded by that task.
  void records_are_of(uint64_t thread_pointer, pid_t tid);
  // Where the threads record by themselves: what they have.
  Recordings* recordings();
  // The wrapped calls' recorder, where there is one.
  mech::Trampolines* trampolines() const { return wrapping_.trampolines.get(); }
  // When the wrapped functions have their own first bytes again: why our code, and what it needs, must stay
  // mapped; empty where it need not. `stopped` are its tasks. Where these are all, the padding that jumps led
  // through is put back, too.
  std::string why_pages_stay(const std::vector<pid_t>& stopped, bool all_stopped) const;
  // Whether wrapped calls are recorded, not counted.
  bool records_calls() const;
  // Where pages stay, and all its tasks stand: no room for records stays, and what they go on to record is
  // nobody else's, so that children that they fork meanwhile are not in their way. `stopped` may make system
  // calls. Words: it could not be done.
  std::string part_wrapping(pid_t stopped);
  // That, code of several bytes, or who is in our handler is to be settled while all stand.
  bool needs_all_stopped() const;
  // Puts the functions' own first bytes back in a copy of this memory, where only that stopped task is.
  void unwrap_copy(pid_t tid, const tracee::ProcessMemory& memory) const;
  // Whether that stopped task, in this memory or a copy of it, will come back to a wrapper.
  bool leads_to_wrapper(pid_t tid, const tracee::ProcessMemory& memory) const;

  // Whether the function that begins there jumps back to its first instruction, so that meeting it again need
  // be no call.
  bool branches_to_entry(VirtAddr entry);

  // Sees to it that a return to `address` is noticed. The reason where it cannot be; nullptr otherwise. The
  // pointer is good until the next sync().
  const std::string* watch_return(VirtAddr address, const NeedStopped& need_stopped);

  // Where the errno that a function sets lies, from the thread pointer on. nullopt where that cannot be told;
  // said once with --explain.
  std::optional<int64_t> errno_offset(VirtAddr function);

  // Says where the program has overwritten, unmapped or mapped anew the code that probes stand in, by itself:
  // calls there are not seen any more. Once for each object. What dlclose unmaps is not lost.
  void report_lost_probes();
  // The process stands where its memory is about to go.
  void about_to_end() {
    if (!restored_) report_lost_probes();
  }
  // Takes int3s out, after a last look for lost ones; more than once does no harm. Which may go while threads
  // run: AddressSpace::restore. A site that a thread has met before still knows it.
  void restore_code(mech::AddressSpace::Sites which);

  // Its code is its own again, for good: children are let go of.
  void begin_leaving() { leaving_ = true; }
  bool is_leaving() const { return leaving_; }

  // Whether that process runs the same program at the same place: a fork child of ours that nobody told of.
  bool is_of(pid_t pid) const;

  // Executable, private memory that nothing runs: the tail of a text segment's last page, or of the vdso.
  // Empty where there is none.
  Range find_slack() const { return find_slack(space_->memory()); }
  // The same in a fork child's copy of the memory: the process itself may have ended.
  Range find_slack(const tracee::ProcessMemory& memory) const;

 private:
  struct Tag {};
  class Arming {
   public:
    explicit Arming(Image& image) : image_(image), before_(std::exchange(image.arming_, true)) {}
    ~Arming();
    Arming(const Arming&) = delete;
    Arming& operator=(const Arming&) = delete;

   private:
    Image& image_;
    bool before_;
  };

 public:
  Image(Tag, const Image& parent, pid_t child);  // by clone_for() only

 private:
  void find_main_program();
  void find_linker_alone(const tracee::MapsEntry& begin);
  void adopt_program(const loader::LinkMap& map);
  // Finds the object's file and bias; throws Error where there is neither file nor readable memory.
  void take_object(elf::LoadedObject& object, const ObjectCache::Place& place);
  void find_rendezvous();
  std::optional<VirtAddr> hook() const;
  using WhileChanging = loader::Rendezvous::WhileChanging;
  std::optional<loader::LinkMap> read_link_map(WhileChanging changing);
  // What a dlclose that is under way is about to unmap or has unmapped, which we have not heard of yet.
  struct Closing {
    bool any = false;                    // of objects that are still listed nobody tells which
    std::set<elf::ObjectId> unlisted{};  // unmapped
  };
  Closing objects_being_closed();
  struct LostProbes {
    size_t count = 0;
    bool some_mapped = false;  // there is other code in their places
  };
  std::map<elf::ObjectId, LostProbes> lost_probes(const tracee::ProcessMemory& memory) const;
  bool has_dynamic_linker_begun();
  void without_link_map(Moment moment, bool begun, event::TraceeId who, const NeedStopped& need_stopped);
  bool watch_hook(VirtAddr hook, const NeedStopped& need_stopped);
  std::optional<elf::LoadedObject> load(const loader::LinkMapEntry& entry);
  void unload(const loader::LinkMapEntry& entry, event::TraceeId who);
  void check_stray(VirtAddr stray, const elf::LoadedObject& before);
  void take_out_strays();
  void report_loaded(const plan::Objects& added, event::TraceeId who);
  void report_armed();
  plan::Plan plan_for(const plan::Objects& added, plan::Relocated relocated) const;
  void arm(const plan::Objects& added, plan::Relocated relocated, const NeedStopped& need_stopped);
  void arm(const plan::Plan& plan, const plan::Objects& added, plan::Relocated relocated,
           const NeedStopped& need_stopped);
  // --- image_signals.cc
  struct SignalWatch;
  void watch(std::vector<SignalWatch> watches, const NeedStopped& need_stopped, bool at_rest = false);
  struct Definer {
    VirtAddr function;
    Range object;
    int link_namespace;
  };
  std::vector<Definer> definers(std::string_view name) const;
  std::optional<int> namespace_of(VirtAddr address) const;
  bool calls_watched_sigaction(const mech::BreakpointSite& site) const;
  bool any_insn_of(VirtAddr function, const std::function<bool(const arch::Insn&)>& what) const;
  std::vector<VirtAddr> mask_functions() const;
  void watch_signal_calls(const plan::Objects& added, const NeedStopped& need_stopped);
  void add_actions(const elf::LoadedObject& object, std::vector<SignalWatch>& watches) const;
  void add_masks(const elf::LoadedObject& object, std::vector<SignalWatch>& watches);
  void watch_execve(const plan::Objects& added, const NeedStopped& need_stopped);
  void watch_traced_masks(const NeedStopped& need_stopped);
  enum class Blocking : bool { no, yes };
  void watch_raw_calls(const elf::LoadedObject& object, Blocking which, const NeedStopped& need_stopped);
  void place(const plan::Plan& plan, const NeedStopped& need_stopped);
  void on_answer(pid_t tid, const arch::Regs& regs, const NeedStopped& need_stopped);
  void watch_resolver(VirtAddr resolver, const NeedStopped& need_stopped);
  void watch_initializers(const plan::Objects& added, const NeedStopped& need_stopped);
  void adopt(const loader::LinkMap& map);
  static std::string armed_key(const plan::ProbePoint& point);
  void raise_semaphore(const plan::ProbePoint& point);
  std::optional<event::ProbeId> wrapped_at(VirtAddr address) const;
  bool is_served(const plan::ProbePoint& point);
  void arm_point(const plan::ProbePoint& point, const std::string& no_room);
  void hurry(Moment moment);
  void heed_seccomp();
  void take_turn(size_t most);
  void bring_forward(size_t most);
  void wrap(const NeedStopped& need_stopped);
  void end_turn(const NeedStopped& need_stopped);
  void stay_breakpoints(const std::string& reason);
  void consider_wrapping(const plan::ProbePoint& point, const Probe& probe);
  void note_realised(const plan::ProbePoint& point, const Probe& probe, std::string_view mechanism,
                     const std::string& reason);
  void stays_breakpoint(const plan::ProbePoint& point, const Probe& probe, const std::string& reason);
  void examine_entries();
  void examine_borrowers();
  void borrow(mech::Trampolines::Function& function, const Waiting& for_whom);
  std::optional<mech::BorrowedFrame> lend_frame(const agent::FunctionPlan& plan);
  void find_foretelling_frame();
  std::optional<mech::BorrowedFrame> foretold_frame(const agent::FunctionPlan& plan);
  std::optional<VirtAddr> out_of_copy(pid_t tid, const std::unordered_set<VirtAddr>& awaited);
  struct Code {
    std::shared_ptr<const elf::ElfFile> file;
    ElfAddr address;
  };
  std::optional<Code> code_of(const plan::ProbePoint& point) const;
  std::string prepare_recorder(const NeedStopped& need_stopped);
  std::string hear_recorder(const NeedStopped& need_stopped);
  void unwrap_child(const mech::Trampolines& parent, const std::string& why, const NeedStopped& need_stopped);
  void wrap_waiting(const std::vector<pid_t>& all);
  static CallOf call_by_slot(const elf::LoadedObject& caller, VirtAddr return_address,
                             const std::string& name);
  // image_slots.cc
  void spread_heat(const plan::Plan& plan, std::vector<VirtAddr>& hot);
  void examine_slots();
  bool awaits_slots(const plan::Objects& callers, plan::Relocated relocated);
  void wrap_slots(std::vector<Waiting>& waiting, std::span<const mech::StoppedThread> threads);
  mech::Trampolines::Answer wrap_slot(Waiting& function, std::span<const Waiting* const> jumps,
                                      std::span<const mech::StoppedThread> threads);
  std::variant<mech::Trampolines::Function, mech::Declined> wanted_for(const Waiting& function);
  void note_wrapped(const Waiting& function, const mech::Trampolines::Wrapped& wrapped);
  bool has_gone(const Waiting& function);
  void comes_later(Waiting function, const mech::Busy& busy);
  mech::Trampolines::Answer wrap_one(const Waiting& function, std::span<const mech::StoppedThread> threads);
  std::optional<int64_t> errno_of(const Waiting& function);
  void say_wrapped(const Waiting& function, const mech::Trampolines::Wrapped& wrapped);
  std::string provide_room(Range near, size_t sites, const NeedStopped& need_stopped);
  void watch_limits(const NeedStopped& need_stopped);
  void decline_survival(const std::string& reason);
  void explain_survival();
  std::string why_not_writable(VirtAddr address);
  void read_maps_again();
  void refresh_maps();
  std::span<const std::byte> file_bytes(VirtAddr address) const;
  const elf::LoadedObject* object_at(VirtAddr address) const;
  std::optional<int64_t> find_errno(int link_namespace) const;
  const elf::LoadedObject* vdso() const;
  const elf::LoadedObject* kernels_at(VirtAddr address) const;
  plan::Elsewhere elsewhere() const;
  const elf::LoadedObject* object(elf::ObjectId id) const;
  void explain(const std::string& line);
  // What cannot be read of a process that has ended, or become another program, is no fault of its: both are
  // told as events.
  void say_unless_gone(const std::string& line) const;
  void refuse(const plan::ProbePoint& point, const std::string& reason);

  pid_t pid_;
  Services& services_;
  std::unique_ptr<mech::AddressSpace> space_;
  Wrapping wrapping_;
  Survival survival_;
  std::vector<tracee::MapsEntry> maps_;
  uint64_t maps_read_at_ = 0;     // ns, of the monotonic clock
  bool maps_are_hidden_ = false;  // since the last look
  plan::Objects objects_;
  elf::LoadedObject interpreter_;  // at exec, until the link map names it
  tracee::MapsEntry interpreter_begin_;
  bool restored_ = false;  // of this process or, before the fork, of its parent
  loader::LinkMap link_map_;
  std::optional<loader::Rendezvous> rendezvous_;
  bool unfinished_ = false, leaving_ = false, arming_ = false, watches_execve_ = false;
  std::vector<VirtAddr> mask_functions_, mask_stubs_;  // when their calls were last looked at; of these
  uint64_t armed_at_ = 0;                              // monotonic ns; 0: not yet
  bool relocated_once_ = false;                        // the dynamic linker has finished start-up
  std::string no_wrapping_;   // why no trampoline may be made in it; empty where they may
  std::string no_injection_;  // why nothing may be mapped into the process; empty where it may
  std::unordered_map<std::string, elf::LoadedObject> loaded_;  // by link map entry, to be unloaded by it
  std::set<std::string> left_out_;                             // keys of entries whose objects cannot be used
  struct Armed {
    elf::ObjectId object{};
    VirtAddr address;
    std::byte stands{0xcc};  // there
    bool wrapped = false;
    elf::ObjectId caller{};  // of a call site
  };
  std::unordered_map<std::string, Armed> armed_;  // a second look at an object adds only what is new
  std::vector<decode::ArmedProbe> newly_armed_;   // and not reported yet
  event::TraceeId reported_as_;                   // the last task whose doing was reported
  std::set<elf::ObjectId> lost_in_;               // whose lost probes have been reported
  std::set<std::string> unseen_said_;
  mutable std::optional<elf::LoadedObject> vdso_;   // when asked for; without a file where there is none
  std::unordered_map<int, int64_t> errno_offsets_;  // by link namespace: each has a C library of its own
  std::set<int> errno_missed_;                      // namespaces for which it was said that there is none
  std::unordered_map<VirtAddr, std::string> unseen_returns_;
  std::unordered_map<VirtAddr, bool> branches_to_entry_;
  std::map<std::pair<VirtAddr, event::ProbeId>, CallOf> calls_;  // by return address and callee
  struct Resolving {
    pid_t tid = 0;
    VirtAddr resolver;
    VirtAddr sp;  // when it will have returned
  };
  std::vector<Resolving> resolving_;
  plan::Implementations implementations_;
};

}  // namespace rtrace::session
