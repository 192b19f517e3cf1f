// The expressions of --where, over one call. Pure.
//
//   arg1 ... argN, ret, dur, errno, name, tid, depth, and the names of the prototype's parameters
//   buf.st_size          a member of a struct, where its name is known
//   O_CREAT              a key of an enumeration or of flags that it is compared or combined with; a
//                        parameter of that name goes first
//   12 0x1f 0755 1.5     numbers; 5ms 1.5s 200us 800ns durations, which are nanoseconds; ENOENT its number
//   "text" 'text'        compared with == and != alone; C's escapes
//   a + b, a - b, a & b, a | b, -a      these bind closer than comparisons, unlike in C
//   == != < <= > >=, a ~ /regex/, a !~ /regex/
//   !a, a && b, a || b, ( )
//
// What a call has not (a parameter of that name, a result before it returned) makes what it stands in neither
// true nor false: nothing follows from it, and `!` of it is no truth either. So does a string of which too
// little was read to tell.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/decode/value.h"

namespace rtrace::sink {

// Three lines: what is wrong, the expression, a caret under the place.
class WhereError : public Error {
 public:
  WhereError(std::string_view expression, size_t position, const std::string& message);
  size_t position() const { return position_; }

 private:
  size_t position_;
};

// What there is to know of a call.
struct CallFacts {
  std::string_view name;
  int tid = 0;
  unsigned depth = 0;
  std::optional<uint64_t> duration;  // ns
  std::span<const decode::Argument> at_entry, at_return;
  const decode::Value* result = nullptr;
  int error = 0;  // errno; 0 where it did not fail, or no prototype says so
};

class Where {
 public:
  static Where parse(std::string_view text);  // throws WhereError

  // `holds` where it is true; `cut` where it is neither true nor false, for a string goes on behind what was
  // read of it.
  struct Answer {
    bool holds = false, cut = false;
  };
  Answer holds(const CallFacts& call) const;
  // Whether strings of a call are looked into.
  bool reads_text() const;
  // Whether `ret`, `errno` or `dur` stands in it, which a call whose return is not seen lacks.
  bool reads_return() const;
  // The names that only a prototype can give a meaning, each once.
  struct Name {
    std::string text;
    bool may_be_key = false;  // it nowhere has members
    bool operator==(const Name&) const = default;
  };
  std::vector<Name> names() const;
  // The numbers of arguments that it names, from 1, each once, in rising order.
  std::vector<size_t> arguments() const;
  // The names that have members behind them ("ret.st_size"), each once.
  struct Member {
    std::string text;
    size_t node = 0;
  };
  std::vector<Member> members() const;
  // Whether what it names has that member in a call: unknown where a pointer is nil or cannot be read. Where
  // it has not, `without` is what lacks it, in the call's own values.
  struct Has {
    enum class Which : uint8_t { unknown, no, yes };
    Which which = Which::unknown;
    const decode::Value* without = nullptr;
  };
  Has has(const Member& member, const CallFacts& call) const;

  struct Tree;

 private:
  std::shared_ptr<const Tree> tree_;
};

}  // namespace rtrace::sink
