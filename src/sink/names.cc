#include "names.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "rtrace/base/text.h"

namespace rtrace::sink {
namespace {

bool is_realtime(int number) {
  return number >= SIGRTMIN && number <= SIGRTMAX;
}

}  // namespace

std::string printable_label(const decode::ProbeLabel& label, bool demangled, bool utf8) {
  decode::ProbeLabel shown = label;
  if (demangled) {
    if (auto name = demangle(label.name)) shown.name = *name;
  }
  std::string out;
  append_printable(out, shown.text(), utf8);
  return out;
}

std::string signal_name(int number) {
  if (number == SIGIO)
    return "SIGIO";  // glibc abbreviates it POLL; ltrace, strace and kill(1)'s users know it as IO
  if (const char* name = sigabbrev_np(number)) return fmt::format("SIG{}", name);
  if (!is_realtime(number)) return fmt::format("SIG{}", number);
  return number == SIGRTMIN ? "SIGRTMIN" : fmt::format("SIGRTMIN+{}", number - SIGRTMIN);
}

std::string signal_description(int number) {
  if (const char* text = sigdescr_np(number)) return text;
  return is_realtime(number) ? fmt::format("Real-time signal {}", number - SIGRTMIN)
                             : fmt::format("Unknown signal {}", number);
}

}  // namespace rtrace::sink
