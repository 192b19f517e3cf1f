// What a call of the C library's comes to that would block SIGTRAP, or ask for its action, where an int3 of
// ours may be met and the bridging handler stands: SIGTRAP stays open, for an int3 that meets it blocked
// kills where no tracer lives (kernel/signal.c, force_sig_info_to_task). Freestanding.
#pragma once

#include <cstdint>

namespace rtrace::agent {

enum class SignalCall : uint8_t {
  none,
  sigaction,
  signal,        // and its kin, whose second argument is the handler
  ignore,        // sigignore()
  mask,          // pthread_sigmask(), sigprocmask()
  mask_syscall,  // the instruction with which the C library makes an rt_sigprocmask() for its own ends
};
constexpr bool is_about_mask(SignalCall call) {
  return call == SignalCall::mask || call == SignalCall::mask_syscall;
}
// Of `syscall`; 0 where a function begins, which is to be returned from.
constexpr unsigned length_in_line(SignalCall call) {
  return call == SignalCall::mask_syscall ? 2 : 0;
}

// The C library's struct sigaction in bytes, which begins with the handler (<bits/sigaction.h>; musl's too).
inline constexpr uint64_t kActionSize = 152;

constexpr uint64_t bit_of_signal(unsigned signal) {
  return uint64_t{1} << (signal - 1);
}
inline constexpr uint64_t kTrapBit = bit_of_signal(5);
// glibc keeps these for itself, and leaves them out of what pthread_sigmask() is asked to block.
inline constexpr uint64_t kReservedSignals = bit_of_signal(32) | bit_of_signal(33);

// Whether a mask holds all signals, as masks do that last for a moment. SIGKILL and SIGSTOP can never be
// blocked; C libraries keep 32 and 33, musl 34 too, for themselves and leave them out of what they block.
constexpr bool blocks_all(uint64_t mask) {
  constexpr uint64_t kUnblockable =
      bit_of_signal(9) | bit_of_signal(19) | kReservedSignals | bit_of_signal(34);
  return (mask | kUnblockable) == ~uint64_t{0};
}

// What a tracer leaves open in a thread whose signals it holds back for a moment: what an instruction can
// raise itself, for a blocked fault kills. SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
inline constexpr uint64_t kFaults =
    bit_of_signal(4) | kTrapBit | bit_of_signal(7) | bit_of_signal(8) | bit_of_signal(11) | bit_of_signal(31);

// Whether a thread's mask may be what it is then. SIGKILL and SIGSTOP are never in one.
constexpr bool holds_back(uint64_t mask) {
  return (mask | kFaults | bit_of_signal(9) | bit_of_signal(19)) == ~uint64_t{0};
}

// The mask after the system call rt_sigprocmask(how, &set, ...) in a thread whose mask is `mask`.
constexpr uint64_t mask_after(int how, uint64_t set, uint64_t mask) {
  constexpr int kBlock = 0, kUnblock = 1, kSet = 2;  // SIG_BLOCK...
  if (how == kBlock) return mask | set;
  if (how == kUnblock) return mask & ~set;
  return how == kSet ? set : mask;
}
// What pthread_sigmask() makes of the set.
constexpr uint64_t set_for_kernel(int how, uint64_t set) {
  return how == 1 ? set : set & ~kReservedSignals;
}

}  // namespace rtrace::agent
