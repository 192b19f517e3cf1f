// What the engine knows of one traced process and of each of its tasks.
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "image.h"
#include "rtrace/arch/vector_regs.h"
#include "rtrace/event/call_stack.h"
#include "rtrace/event/thread_clock.h"
#include "rtrace/session/replays.h"
#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/run_times.h"
#include "sigtrap.h"

namespace rtrace::session {

struct Process {
  pid_t pid = 0;
  std::shared_ptr<Image>
      image;  // nullptr before the launched command's exec, and where the image cannot be traced
  // A child that shares its parent's memory (vfork, posix_spawn) and is not followed: it meets the parent's
  // sites, passes them unseen, and is let go of at its exec.
  bool silent = false;
  uint64_t borrowed_thread_pointer = 0;  // of the thread whose memory it runs in
  pid_t lender = 0;                      // that thread
  struct Lost {
    uint64_t untold = 0, told = 0;  // calls
  };
  Lost lost_by_borrowing = {};
  TrapDisposition trap;
  bool launching = false;      // the command before its exec
  bool attached = false;       // by -p
  bool found_stopped = false;  // then: by SIGSTOP or its like
  std::string name;            // for messages
};

// What a call needs at its return that only its entry knew.
struct OpenCall {
  arch::Regs entry;
  std::vector<std::byte> stack;
  std::vector<decode::Value> before;
  std::optional<arch::VectorRegs> vectors;
};

// The begin of a pair of SDT probes whose end is still to come.
struct OpenPair {
  event::ProbeId probe{};
  uint32_t pair = 0;
  event::CallId call{};
  unsigned depth = 0;
  event::Timestamp entered;      // of the thread's own clock
  uint64_t own_time_before = 0;  // Task::own_time then
};

// A system call that the thread is in.
struct OpenSyscall {
  const decode::ProbeLabel* label = nullptr;
  const decode::CallDecoder* decoder = nullptr;
  event::CallId call{};
  unsigned depth = 0;
  event::Timestamp entered;
  uint64_t number = 0;
  arch::Regs entry;  // as of a function with the same arguments
  std::vector<decode::Value> before;
  // It came back interrupted: what is said if a signal did it.
  std::optional<decode::CallReturned> interrupted;
  bool goes_on = false;  // we did it, and the kernel begins it again
};

// A call whose thread has recorded its entry by itself, and not its return.
struct RecordedCall {
  uint64_t name = 0;  // mech::Record::call
  event::FrameIdentity identity;
  event::CallId call{};
  uint64_t entered = 0, entered_by_thread = 0;  // monotonic, and by the thread's own clock
};

// The calls that a task is in. A fork child returns from those of its parent.
struct LiveCalls {
  event::ThreadClock clock;
  event::CallStack stack;
  size_t left_before = 0;                                  // of its left ones, when they were last looked at
  uint64_t own_time = 0;                                   // ns: of all calls that have returned
  uint64_t own_time_told = 0;                              // of that, what its recorder knows of
  uint64_t inherited_below = 0;                            // CallIds of those that its parent was in
  std::unordered_map<event::CallId, OpenCall> open_calls;  // those with arguments printed at return
  std::vector<OpenPair> open_pairs;
  std::vector<RecordedCall> recorded;
};

// The scheduler's account of a thread, asked for while its stops are late.
struct RunAccount {
  tracee::RunTimesFile file;
  tracee::RseqProcessor processor;
  std::optional<tracee::RunTimes> at_last_stop;
  unsigned questions = 0;             // stops at which it is still asked for
  bool late = false;                  // the present stop, by more than is usual where we were
  std::optional<uint64_t> unsettled;  // what has passed until the present stop
  uint64_t not_own = 0;               // of that, once it is settled
  uint64_t woken = 0;                 // of the last such, before the thread's own time began
};

struct Task : LiveCalls {
  event::TraceeId id;
  RunAccount account;
  Process* process = nullptr;
  std::optional<OpenSyscall> syscall;

  uint64_t thread_pointer = 0;                 // as last seen
  uint64_t held_before = 0;                    // of its recorder's ticks, when it was resumed
  uint64_t counted_before = 0;                 // of its ticks of calls that have ended, when it was resumed
  std::vector<OpenCounted> open_counts;        // when it was last about to be let go
  std::optional<mech::ThreadState> lent;       // its recorder's, while a followed vfork child records there
  bool muted = false;                          // passes sites unseen: a thread that ltrace would not follow
  unsigned hits = 0;                           // the first few
  TrapBlocked trap_blocked = TrapBlocked::no;  // SIGTRAP is in the program's mask
  unsigned awaits_signal_call = 0;  // stops of system calls within which a watched call makes its own
  uint64_t replaces_handler =
      0;  // by bit: of such a call, the signal whose handler is not opened any more behind it
  std::optional<TrapDisposition> sets_trap;  // by such a call, that has begun
  // A SIGTRAP of the program's that is sent anew behind calls of ours, as the kernel's, and is to be as it
  // was.
  struct SentAnew {
    siginfo_t info;
    VirtAddr pc;
  };
  std::optional<SentAnew> sent_anew;
  bool finds_ignored = false;        // by such a call: SIGTRAP, which is so but for us
  bool opens_trap = false;           // SIGTRAP, at its next stop, if it blocks all signals
  bool ended_by_group_stop = false;  // what it is in, if it has ended: until SIGCONT comes
  bool interrupted = false;          // PTRACE_INTERRUPT is on its way; its stop is ours
  bool listening = false;            // in a group-stop
  bool awaits_exec = false;          // of its program, which nothing else that stands would show
  bool stepped_in_vain = false;      // it was to leave a copy, and has not
  std::optional<tracee::InterruptedSyscall> rewound;
  Replays replays;
  // The thread has just left the object over a tail jump: if it arrives at the entry of what that
  // jump's probe names with the same stack pointer, that object is the caller. It may have gone to a wrapper
  // instead, which was made meanwhile.
  struct TailJump {
    elf::ObjectId caller{};
    VirtAddr sp;
    event::ProbeId probe{};
  };
  std::optional<TailJump> tail_jump;
};

// A fork child's.
struct ForkImage {
  std::shared_ptr<Image> image;
  bool anew = false;
};

}  // namespace rtrace::session
