// What happens when a thread meets a site: calls and returns become records.
#pragma once

#include <unordered_set>
#include <vector>

#include "backtraces.h"
#include "rtrace/mech/captured_memory.h"
#include "rtrace/mech/ring_reader.h"
#include "task.h"

namespace rtrace::session {

// One thread at one site. While it is stopped: observe(). When it runs again: report(). Buffers are kept from
// one hit to the next.
class CallTracer {
 public:
  explicit CallTracer(Services& services) : services_(services), backtraces_(services.objects) {}

  // `regs` with the pc at the site. Reads what is needed of the thread's memory and puts return sites in
  // place.
  void observe(Task& task, const mech::BreakpointSite& site, const arch::Regs& regs,
               const NeedStopped& need_stopped);
  // Of the calls that were awaited there.
  bool nothing_returned() const { return returned_.empty(); }
  // Renders what was observed; the thread may be running or gone.
  void report(Task& task);

  // One record of an entry or a return, by the thread itself.
  struct Recorded {
    event::Timestamp stamp;
    uint64_t of_thread = 0;  // by its own clock
    mech::RingReader::Owner thread = mech::RingReader::Owner::gone;
  };
  void recorded(Task& task, const WrappedFunction& function, const mech::Record& record,
                const Recorded& recorded);

  // The calls that are open in a task whose memory or life has ended.
  void abandon_all(Task& task);
  // The pairs of SDT probes of which only the begin was met, and that after this call, newest first.
  void abandon_pairs(Task& task, event::CallId after = event::CallId{});
  // The number of the next call that is entered: those of a fork child's parent are below.
  uint64_t next_call() const { return next_call_; }
  // Of those that are left, the calls that will not return: as far as that can be told, while all that the
  // task has recorded before is read, or is read before they are told.
  struct Unwound {
    std::unordered_set<event::CallId> calls;
    size_t others = 0;  // that were left as well
  };
  static bool may_have_unwound(const Task& task);
  static Unwound unwound(const Task& task);
  void tell_unwound(Task& task, const Unwound& gone);
  // Those of a task that runs on untraced.
  void leave_open(Task& task);

 private:
  void tell_open_counts(Task& task, bool still_open);
  using Owner = mech::BreakpointSite::Owner;
  struct Entered {
    Probe* probe = nullptr;
    event::CallId call{};
    unsigned depth = 0;
    VirtAddr return_address;
    VirtAddr callers;                     // the same, or, where that is a wrapper's, what it returns to
    const std::string* unseen = nullptr;  // why the return cannot be seen, or nullptr
    std::optional<decode::CallDecoder::Entered> decoded;  // already, because it needed the thread stopped
    std::optional<arch::VectorRegs> vectors;
    Task* task = nullptr;
    const unwind::Backtrace* trace = nullptr;  // one of the tracer's own
  };
  struct Returned {
    event::Frame frame;
    std::optional<decode::CallDecoder::Returned> decoded;
    OpenCall open;
    std::optional<VirtAddr> errno_at;  // of its thread, where the result may mean a failure
  };

  void observe_returns(Task& task, VirtAddr site, const arch::Regs& regs);
  void observe_entries(Task& task, const mech::BreakpointSite& site, std::span<const Owner> owners,
                       const NeedStopped& need_stopped);
  void observe_instants(Task& task, const mech::BreakpointSite& site);
  void observe_instants(Task& task, const mech::BreakpointSite& site, bool ends);
  void leave_pairs_open(Task& task);
  void begin_pair(Task& task, const Entered& entered);
  void end_pair(Task& task, const Probe& end, const arch::VectorRegs* vectors);
  // Of the thread that stands behind a return address, or will: `above` is where the stack pointer is then.
  static event::CallerWords words_above(const Memory& memory, VirtAddr above);
  std::optional<arch::VectorRegs> hold_pieces(const mech::Record& record);
  void recorded_entry(Task& task, const WrappedFunction& function, const mech::Record& record,
                      const std::optional<arch::VectorRegs>& vectors);
  void recorded_return(Task& task, const WrappedFunction& function, const mech::Record& record,
                       const std::optional<arch::VectorRegs>& vectors);
  static void forget_recorded(Task& task, event::CallId call);
  // --- calls_owned.cc
  CallOf call_of(const Task& task, VirtAddr site, const Owner& owner, VirtAddr return_address) const;
  CallOf by_what_was_called(const Task& task, VirtAddr site, const Owner& owner, VirtAddr return_address,
                            CallOf else_it_is) const;
  bool is_owners(const Task& task, VirtAddr site, std::span<const Owner> owners, const Owner& owner,
                 VirtAddr return_address) const;
  VirtAddr callers_return(const Task& task, VirtAddr return_address) const;
  bool may_jump_to(Image& image, VirtAddr jump, const Owner& owner) const;
  // A function that jumps to its own first instruction.
  bool is_turn_of_loop(const Task& task, const Probe& probe, VirtAddr site, VirtAddr return_address) const;
  Entered begin_entered(Task& task, Probe& probe, VirtAddr return_address);
  void enter_frame(Task& task, Entered& entered, VirtAddr site);
  void observe_entry(Task& task, const mech::BreakpointSite& site, std::span<const Owner> owners,
                     const Owner& owner, VirtAddr return_address, const NeedStopped& need_stopped);
  void capture_entry(const Task& task, std::span<const Owner> owners);
  std::span<const std::byte> stack_arguments(size_t size);
  decode::CallDecoder::Entered decode_entry(Entered& entered);
  const unwind::Backtrace* take_trace(Image& image, std::optional<unwind::Backtrace>& taken,
                                      Backtraces::At at);
  // -y: what lies behind each descriptor, asked for while the thread is stopped.
  bool shows_descriptors(const decode::CallDecoder& decoder) const;
  void decode_return(Returned& returned, const arch::VectorRegs* vectors = nullptr);
  static std::optional<VirtAddr> errno_of(const Task& task, const decode::CallDecoder& decoder,
                                          const event::Frame& frame, const arch::Regs& exit);
  static std::string caller_of(const Entered& entered);
  void report_entry(Entered& entered);
  void add_unseen(const Entered& entered, const std::vector<decode::Value>& before,
                  decode::CallEntered& record);
  void report_return(const Task& task, Returned& returned);
  static bool inherited(const Task& task, event::CallId call);
  void bury(Task& task, const Unwound& gone);
  event::Timestamp thread_time(const Task& task) const;
  decode::CallAbandoned abandoned(const Task& task, const event::Frame& frame) const;
  OpenCall take_open(Task& task, event::CallId call);

  Services& services_;
  event::TraceeId who_;
  event::Timestamp now_;
  event::Timestamp thread_time_;  // the stack's: of the thread's own clock
  arch::Regs regs_;
  event::CallerWords above_{};
  mech::CapturedMemory memory_;
  std::vector<event::Frame> dead_, frames_;
  std::vector<Returned> returned_;
  std::vector<Entered> entered_;
  std::vector<Owner> calls_;  // of a site that has other owners too
  std::vector<std::byte> stack_;
  Backtraces backtraces_;
  std::optional<unwind::Backtrace> trace_, instant_trace_;  // of what is entered here
  uint64_t next_call_ = 1;
};

}  // namespace rtrace::session
