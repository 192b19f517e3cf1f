// What is known of calls that have not returned yet. A fork child returns from the calls that its parent was
// in, with their ids, so a call is found by its process too.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rtrace/decode/record.h"

namespace rtrace::sink {

struct OpenCall {
  decode::Header header;  // of the entry
  decode::CallEntered entered;
};

class OpenCalls {
 public:
  void enter(const decode::Header& header, decode::CallEntered entered) {
    const std::pair key{header.who.pid, entered.call};
    calls_.insert_or_assign(key, OpenCall{header, std::move(entered)});
  }

  std::optional<OpenCall> leave(event::TraceeId who, event::CallId call) {
    auto node = calls_.extract({who.pid, call});
    if (!node) return std::nullopt;
    return std::move(node.mapped());
  }

  // The calls of the thread that forked are the child's as well.
  void fork(event::TraceeId parent, const decode::Forked& fork) {
    if (!fork.followed || fork.shares_memory) return;
    std::vector<OpenCall> inherited;
    for (auto at = calls_.lower_bound({parent.pid, event::CallId{}});
         at != calls_.end() && at->first.first == parent.pid; ++at)
      if (at->second.header.who.tid == parent.tid) inherited.push_back(at->second);
    for (OpenCall& call : inherited) {
      call.header.who = {fork.child, fork.child, 0};
      call.entered.inherited = true;
      enter(call.header, std::move(call.entered));
    }
  }

  // In the order of their entries.
  std::vector<OpenCall> take_all() {
    std::vector<OpenCall> all;
    for (auto& [key, call] : calls_) all.push_back(std::move(call));
    calls_.clear();
    std::stable_sort(all.begin(), all.end(),
                     [](const OpenCall& a, const OpenCall& b) { return a.entered.call < b.entered.call; });
    return all;
  }

 private:
  std::map<std::pair<pid_t, event::CallId>, OpenCall> calls_;
};

}  // namespace rtrace::sink
