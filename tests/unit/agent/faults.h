// What a tracer does for the recorder's looks at memory: their faults end them.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <atomic>

namespace rtrace::agent {

struct LookPlaces {
  std::atomic<const void*> load, fault;
};
inline LookPlaces look_places[8];

inline void on_fault(int signal, siginfo_t*, void* frame) {
  auto& rip = static_cast<ucontext_t*>(frame)->uc_mcontext.gregs[REG_RIP];
  for (LookPlaces& places : look_places) {
    if (rip == 0 || rip != reinterpret_cast<greg_t>(places.load.load())) continue;
    rip = reinterpret_cast<greg_t>(places.fault.load());
    return;
  }
  ::signal(signal, SIG_DFL);  // met again, and deadly
}

// Faults of that load go on at `fault`, in all threads, from now on.
inline void take_faults(const void* load, const void* fault) {
  static std::atomic<unsigned> used{0};
  for (LookPlaces& places : look_places)
    if (places.load == load) return;
  LookPlaces& own = look_places[used++ % 8];
  own.fault = fault;
  own.load = load;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace rtrace::agent
