// Records for the sinks' tests, made from few words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rtrace/decode/record.h"

namespace rtrace::sink::testing {

inline decode::Argument number(int64_t value) {
  decode::Value integer;
  integer.kind = decode::Value::Kind::integer;
  integer.is_signed = true;
  integer.raw = static_cast<uint64_t>(value);
  return {"", "long", integer};
}

inline decode::Argument text(std::string bytes) {
  decode::Value string;
  string.kind = decode::Value::Kind::string;
  string.bytes = std::move(bytes);
  return {"", "string", string};
}

inline decode::Argument hidden() {
  decode::Value value;
  value.kind = decode::Value::Kind::hidden;
  return {"", "hide(int)", value};
}

inline decode::Value nothing() {
  decode::Value value;
  value.kind = decode::Value::Kind::nothing;
  return value;
}

inline decode::ProbeLabel call_site(std::string name) {
  decode::ProbeLabel label;
  label.name = std::move(name);
  label.kind = decode::ProbeLabel::Kind::call_site;
  return label;
}

// A thread whose clock advances a millisecond with each record.
class Thread {
 public:
  explicit Thread(pid_t tid) : who_{100, tid, 0} {}

  template <typename Body>
  decode::Record operator()(Body body) {
    return {header(), std::move(body)};
  }
  decode::Record enter(const decode::ProbeLabel& label, uint64_t call,
                       std::vector<decode::Argument> arguments, unsigned depth = 0) {
    decode::CallEntered entered;
    entered.label = &label;
    entered.call = event::CallId{call};
    entered.depth = depth;
    entered.return_address = VirtAddr{0x401000 + call};
    entered.arguments = std::move(arguments);
    return (*this)(std::move(entered));
  }
  decode::Record leave(const decode::ProbeLabel& label, uint64_t call, decode::Value result,
                       unsigned depth = 0, std::vector<decode::Argument> late = {}) {
    return (*this)(decode::CallReturned{&label, event::CallId{call}, depth, 1'234'567, std::move(late),
                                        std::move(result), 1'234'567, std::nullopt});
  }
  decode::Record abandon(const decode::ProbeLabel& label, uint64_t call, unsigned depth = 0) {
    return (*this)(decode::CallAbandoned{&label, event::CallId{call}, depth, 0});
  }

  // Shared by all threads of a test.
  static inline uint64_t clock = 0;
  static constexpr uint64_t kEpoch = 1'700'000'000'123'456'789;  // 2023-11-14 22:13:20 UTC

 private:
  decode::Header header() const {
    uint64_t now = clock;
    clock += 1'000'000;
    return {who_, {kEpoch + now, 5'000'000'000 + now}};
  }
  event::TraceeId who_;
};

}  // namespace rtrace::sink::testing
