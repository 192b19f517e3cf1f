// What sinks are given. Everything that can be said in a trace is one of these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/decode/value.h"
#include "rtrace/event/ids.h"

namespace rtrace::decode {

class CallDecoder;

// How a probe is shown. Made once for each probe; records point to it, and it outlives them.
struct ProbeLabel {
  enum class Kind : uint8_t { call_site, entry, syscall, sdt };
  event::ProbeId id{};
  Kind kind = Kind::entry;
  std::string name;    // "mysql_real_query"; of SDT probes "provider:name", or "provider:begin..end"
  std::string object;  // "libmariadb.so.3": printed as name@object for entries; empty for the main program
  std::string caller;  // printed as caller->name for call sites; empty where hidden
  std::string defined_in;  // the object that implements it, where that is known, printed or not
  bool clone = false;      // "~" before the argument list
  bool instant = false;    // no call but a moment (an SDT probe): complete with CallEntered, it has no result
  // As its prototype has them: the parameters' names, empty where it names none, and the result's type.
  std::vector<std::string> parameters;
  std::string result_type;
  const CallDecoder* decoder = nullptr;  // of calls, where they are listed
  std::string text() const;  // "libfoo.so->name", "name@libbar.so.1", "name~", "name@SYS", "sdt:..."
};

// One frame of a backtrace, the caller of a traced function first. One without an address, the last, says
// that there are more, which cannot be found.
struct StackFrame {
  VirtAddr address;     // where it goes on
  std::string object;   // empty where it lies in none
  std::string symbol;   // empty where none is known
  uint64_t offset = 0;  // of the address in the symbol, else in the object
  std::string source;   // "file:line", empty where debug information has none
};

struct Header {
  event::TraceeId who;
  event::Timestamp time;
};

struct CallEntered {
  const ProbeLabel* label = nullptr;
  event::CallId call{};
  unsigned depth = 0;
  VirtAddr return_address;
  std::vector<Argument> arguments;  // those that are printed at entry, hidden ones included
  bool more_at_return = false;      // further arguments come with CallReturned
  // Set where the return cannot be seen; the call is complete with this record. The text is the reason, for
  // JSON and --explain.
  std::optional<std::string> unseen_return;
  std::vector<StackFrame> frames;  // -w
  std::string caller;  // of entries, for JSON: the object that the return address lies in, where it is known
  bool inherited = false;  // it was its process's parent that entered it, before it was forked
};

struct CallReturned {
  const ProbeLabel* label = nullptr;
  event::CallId call{};
  unsigned depth = 0;
  uint64_t duration = 0;            // ns
  std::vector<Argument> arguments;  // those that could be read only now
  Value result;
  uint64_t self = 0;                        // ns: the duration, less that of traced calls inside
  std::optional<int> error = std::nullopt;  // errno, where the prototype says that the result means a failure
  bool failed = false;                      // the prototype says so, whether or not errno is known
  bool recursive = false;                   // another call of the same probe was open when it was entered
  bool inherited = false;                   // entered before the process was forked, by its parent
};

// The frame is gone: exit, exec, longjmp, an exception; or the trace ends.
struct CallAbandoned {
  const ProbeLabel* label = nullptr;
  event::CallId call{};
  unsigned depth = 0;
  uint64_t duration = 0;                 // until it was left or its end was known
  uint64_t self = 0;                     // as in CallReturned
  bool recursive = false;                // as in CallReturned
  bool still_open = false;               // nothing is known of its end: the trace ends first
  std::vector<Argument> arguments = {};  // those of CallReturned, as far as they were known at entry
  bool inherited = false;                // as in CallReturned
};

// Calls that were counted where they were made, since the record before of that label; times in nanoseconds.
// Those that have not returned are in `calls` alone.
struct CallsCounted {
  const ProbeLabel* label = nullptr;
  uint64_t calls = 0, returned = 0, errors = 0;
  uint64_t total = 0, outermost = 0, self = 0;  // of those that returned
  uint64_t greatest = 0;                        // of all that returned so far
  std::vector<uint64_t> durations;              // how many, by agent::bucket_of()
};

struct SignalDelivered {
  int number = 0;
};
struct Executed {
  std::string path;
};
struct ThreadStarted {};  // says nothing in text but that more than one task is traced
struct Exited {
  int status = 0;
};  // of a whole process
struct Killed {
  int signal = 0;
  bool core_dumped = false;
};
// A probe that stands now.
struct ArmedProbe {
  const ProbeLabel* label = nullptr;
  VirtAddr address;
  std::string mechanism;  // "breakpoint", "trampoline"
  std::string reason;     // of the place and of the mechanism
};
struct Loaded {
  std::string object;  // its path
  uint64_t bias = 0;
  bool main_program = false;
  std::vector<ArmedProbe> probes = {};  // that its loading has brought, in it or in others
};
struct ProbesArmed {
  std::vector<ArmedProbe> probes;
};  // without an object having been loaded: an IFUNC was resolved, a thread could be stopped at last
struct Started {};  // what can be armed now is
struct Unloaded {
  std::string object;
};
struct Forked {
  int child = 0;
  bool followed = true;
  bool shares_memory = false;  // else the child, where followed, returns from its parent's open calls
};
struct Lost {
  uint64_t count = 0;
  std::string what;
};  // what could not be shown, and why

struct Record {
  Header header;
  std::variant<CallEntered, CallReturned, CallAbandoned, CallsCounted, SignalDelivered, Executed,
               ThreadStarted, Exited, Killed, Loaded, Unloaded, ProbesArmed, Started, Forked, Lost>
      body;
};

}  // namespace rtrace::decode
