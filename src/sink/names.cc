#include "names.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "rtrace/base/text.h"

namespace rtrace::sink {
namespace {

// The length of the UTF-8 sequence at the front (Unicode 15, table 3-7), 0 where there is none or where it is
// a C1 control, which terminals obey like an escape sequence.
size_t utf8_sequence(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  unsigned first = at(0);
  size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                  : (first & 0xf0) == 0xe0         ? 3
                  : first >= 0xf0 && first <= 0xf4 ? 4
                                                   : 0;
  unsigned low = first == 0xe0 || first == 0xc2 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (length == 0 || at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  return length;
}

bool is_realtime(int number) {
  return number >= SIGRTMIN && number <= SIGRTMAX;
}

}  // namespace

void append_printable(std::string& out, std::string_view text, bool utf8) {
  for (size_t i = 0; i < text.size();) {
    auto c = static_cast<unsigned char>(text[i]);
    size_t length = c >= 0x20 && c < 0x7f ? 1 : utf8 ? utf8_sequence(text.substr(i)) : 0;
    if (length == 0)
      fmt::format_to(std::back_inserter(out), "\\{:03o}", c);
    else
      out.append(text, i, length);
    i += length == 0 ? 1 : length;
  }
}

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
