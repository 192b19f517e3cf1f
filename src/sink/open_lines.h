// What later lines of calls in text need to know of their earlier ones. A fork child returns from the calls
// that its parent was in, with their ids, so a call is found by its process too.
#pragma once

#include <sys/types.h>

#include <compare>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rtrace/decode/record.h"

namespace rtrace::sink {

class OpenLines {
 public:
  struct Key {
    event::CallId call{};
    pid_t pid = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Begun {
    Key call;
    pid_t tid = 0;
    VirtAddr return_address;
    size_t rendered = 0;  // bytes of arguments
    bool more_at_return = false;
  };
  // Of a call that is not complete.
  struct Backtrace {
    const decode::ProbeLabel* label = nullptr;
    unsigned depth = 0;
    decode::Header header;
    std::vector<decode::StackFrame> frames;
  };
  using Backtraces = std::map<Key, Backtrace>;  // in the order of their entries

  // Its line was ended by another's.
  void suspend(const Begun& call) { suspended_.insert_or_assign(call.call, call); }
  std::optional<Begun> take(Key call) {
    auto node = suspended_.extract(call);
    return node ? std::optional(node.mapped()) : std::nullopt;
  }

  void keep(Key call, Backtrace backtrace) { backtraces_.insert_or_assign(call, std::move(backtrace)); }
  std::optional<Backtrace> take_backtrace(Key call) {
    auto node = backtraces_.extract(call);
    return node ? std::optional(std::move(node.mapped())) : std::nullopt;
  }
  Backtraces take_backtraces() { return std::exchange(backtraces_, {}); }

  // The calls of the thread that forked are the child's as well; so is `open`, if it is that thread's and not
  // suspended yet.
  void fork(event::TraceeId parent, pid_t child, const Begun* open) {
    std::vector<Begun> begun;
    for (const auto& [key, call] : suspended_)
      if (key.pid == parent.pid && call.tid == parent.tid) begun.push_back(call);
    if (open != nullptr && open->call.pid == parent.pid && open->tid == parent.tid) begun.push_back(*open);
    for (Begun& call : begun) {
      call.call.pid = call.tid = child;
      suspend(call);
    }
    std::vector<std::pair<Key, Backtrace>> taken;
    for (const auto& [key, backtrace] : backtraces_)
      if (backtrace.header.who.pid == parent.pid && backtrace.header.who.tid == parent.tid)
        taken.emplace_back(Key{key.call, child}, backtrace);
    for (auto& [key, backtrace] : taken) {
      backtrace.header.who = {child, child, 0};
      keep(key, std::move(backtrace));
    }
  }

 private:
  std::map<Key, Begun> suspended_;
  Backtraces backtraces_;
};

}  // namespace rtrace::sink
