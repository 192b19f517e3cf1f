#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace rtrace::session {

// Who of the image's tasks can be had stopped.
class NeedStopped {
 public:
  using One = std::function<std::optional<pid_t>()>;
  using All = std::function<std::optional<std::vector<pid_t>>()>;
  using Then = std::function<void()>;
  using AtRest = std::function<bool(const Then&)>;
  template <typename Callable,
            typename = std::enable_if_t<std::is_invocable_r_v<std::optional<pid_t>, Callable&>>>
  // NOLINTNEXTLINE(google-explicit-constructor): a lambda serves wherever one is asked for
  NeedStopped(Callable one, All all = nullptr, Then let_go = nullptr, Then masks_watched = nullptr,
              Then handler_raised = nullptr, AtRest at_rest = nullptr, Then own_handler_met = nullptr)
      : one_(std::move(one)),
        all_(std::move(all)),
        let_go_(std::move(let_go)),
        masks_watched_(std::move(masks_watched)),
        handler_raised_(std::move(handler_raised)),
        at_rest_(std::move(at_rest)),
        own_handler_met_(std::move(own_handler_met)) {}

  // One, in a consumed ptrace-stop at its own program's registers, fit for remote calls; nullopt where none
  // can be had now.
  std::optional<pid_t> operator()() const { return one_(); }
  // All that its memory has, each in a consumed stop, so that code of several bytes may be written.
  std::optional<std::vector<pid_t>> all() const { return all_ ? all_() : std::nullopt; }
  // One that was stopped for us alone need not stand while what follows is done: it runs on, and is stopped
  // anew where one is asked for again. Nothing where all stand, or it stands for a reason of its own.
  void let_go() const {
    if (let_go_) let_go_();
  }
  // Who blocks all signals from now on is seen; who had begun before is to be looked for.
  void masks_watched() const {
    if (masks_watched_) masks_watched_();
  }
  // Has what is set from now on watched by `watch` while all stand or sleep, none of them where it sets an
  // action or its mask, and SIGTRAP is open in what was set before. False where that need not be, or cannot,
  // and nothing is watched.
  bool at_rest(const Then& watch) const { return at_rest_ && at_rest_(watch); }
  // Whose actions were copied before is to be looked for, while there is no int3 yet.
  void handler_raised() const {
    if (handler_raised_) handler_raised_();
  }

  // The program has a handler of its own for SIGTRAP, what asks for it is watched, and nothing that a thread
  // meets otherwise stands yet: ours is to come in front of it.
  void own_handler_met() const {
    if (own_handler_met_) own_handler_met_();
  }

 private:
  One one_;
  All all_;
  Then let_go_, masks_watched_, handler_raised_;
  AtRest at_rest_;
  Then own_handler_met_;
};

}  // namespace rtrace::session
