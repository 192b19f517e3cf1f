// What a tracer does for the recorder's looks at memory: their faults end them.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <iterator>

#include "../../../src/agent/pages.h"

namespace rtrace::agent {

struct LookPlaces {
  std::atomic<const void*> begin, end, fault;
};
inline LookPlaces look_places[32];

inline void on_fault(int signal, siginfo_t*, void* frame) {
  auto& rip = static_cast<ucontext_t*>(frame)->uc_mcontext.gregs[REG_RIP];
  for (LookPlaces& places : look_places) {
    if (rip < reinterpret_cast<greg_t>(places.begin.load()) ||
        rip >= reinterpret_cast<greg_t>(places.end.load()))
      continue;
    rip = reinterpret_cast<greg_t>(places.fault.load());
    return;
  }
  ::signal(signal, SIG_DFL);  // met again, and deadly
}

// Faults in between go on at `fault`, in all threads, from now on.
inline void take_faults(const void* begin, const void* end, const void* fault) {
  static std::atomic<unsigned> used{0};
  for (LookPlaces& places : look_places)
    if (places.begin == begin) return;
  LookPlaces& own = look_places[used++ % std::size(look_places)];
  own.end = nullptr;
  own.fault = fault;
  own.begin = begin;
  own.end = end;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

inline void take_faults_of_looks() {
  take_faults(reinterpret_cast<const void*>(rtrace_can_read), rtrace_can_read_end, rtrace_can_read_fault);
  take_faults(reinterpret_cast<const void*>(rtrace_load_word), rtrace_load_word_end, rtrace_load_word_fault);
  take_faults(reinterpret_cast<const void*>(rtrace_length_in_page), rtrace_length_in_page_end,
              rtrace_length_in_page_fault);
}

}  // namespace rtrace::agent
