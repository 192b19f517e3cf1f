// The sites that a thread will meet a second time, which is no new call.
//
// A signal takes a thread out of a copy back to the site, so that its handler sees the program's own code.
// When the handler returns, the site is met again. But a handler can also leave by siglongjmp(3), or send its
// thread elsewhere by changing the saved rip; then whoever comes to the site at the same stack pointer has
// made a new call. Which of these happened is known by rt_sigreturn(2), whose frame says where the thread
// goes on.
#pragma once

#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::session {

class Replays {
 public:
  enum class Handler : bool { none, runs };

  // A signal has taken the thread out of the copy of that site.
  void taken_out(VirtAddr site, VirtAddr sp, Handler handler);
  // A signal with a handler finds the thread at this place.
  void interrupted(VirtAddr pc, VirtAddr sp);
  // A handler returns to this place.
  void handler_returns(VirtAddr pc, VirtAddr sp);
  // A signal with a handler has taken the thread out of moved code, from `copy` to `own`, where it may not
  // run on. `word` is what the stack holds at `sp`.
  void moved(VirtAddr own, VirtAddr sp, VirtAddr copy, uint64_t word);
  // That handler returns to this place: where the thread has to go on. 0: none such.
  VirtAddr back_to_copy(VirtAddr pc, VirtAddr sp);
  // Those of `moved` whose stack is another's by now: nobody returns there.
  template <typename WordAt>
  void forget_overlaid(WordAt word_at) {
    std::erase_if(moved_, [&](const Moved& one) { return word_at(one.sp) != one.word; });
  }
  // The thread makes a system call there: handlers below that stack pointer are gone.
  void unwound_to(VirtAddr sp);
  // Whether this arrival at a site is the second one of a call.
  bool take(VirtAddr site, VirtAddr sp);
  bool knows(VirtAddr pc, VirtAddr sp) const;
  // A handler may still return to one of the sites: the thread's system calls have to be seen.
  bool awaiting() const;
  // Whether any site may be met a second time still.
  bool expects() const { return !places_.empty() || !moved_.empty(); }
  void clear() { places_.clear(), moved_.clear(); }

 private:
  // One for each handler that is running, the newest last.
  struct Place {
    VirtAddr site;
    VirtAddr sp;
    bool returned = false;
  };
  std::vector<Place> places_;
  struct Moved {
    VirtAddr own, sp, copy;
    uint64_t word = 0;
  };
  std::vector<Moved> moved_;
};

}  // namespace rtrace::session
