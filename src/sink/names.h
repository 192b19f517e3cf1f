// The names that sinks print: of probes and of signals.
#pragma once

#include <string>
#include <string_view>

#include "rtrace/decode/record.h"

namespace rtrace::sink {

// The label's text, demangled where asked, and fit for a terminal: symbol names come from files that anybody
// may have written.
std::string printable_label(const decode::ProbeLabel& label, bool demangled, bool utf8);

// "SIGUSR1", "SIGRTMIN+3".
std::string signal_name(int number);
// strsignal(3)'s words in the C locale.
std::string signal_description(int number);

}  // namespace rtrace::sink
