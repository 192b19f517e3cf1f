// How the recorder in a tracee learns that its tracer has died, of whatever cause: the kernel marks the
// robust futexes that a dying thread holds (get_robust_list(2)).
//
// The list must be one that only we can write, for the kernel follows it; the futex words lie in memory that
// the tracees can write. One distance from node to word holds for a whole list: each node lies so far before
// its word.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtrace::mech {

// Of the calling thread, whose own list (the C library's, for robust mutexes) it replaces while it lives.
class OwnerList {
 public:
  struct Node {
    Node* next = nullptr;
    Node* previous = nullptr;
  };
  // The kernel stops behind that many (kernel/futex/core.c, ROBUST_LIST_LIMIT).
  static constexpr size_t kMost = 2000;

  // `distance` from a node to its futex word.
  explicit OwnerList(long distance);
  ~OwnerList();
  OwnerList(const OwnerList&) = delete;
  OwnerList& operator=(const OwnerList&) = delete;

  // False where there is no room for more. The word, which must be the calling thread's tid by then, is
  // marked from now on.
  bool add(Node& node);
  void remove(Node& node);

 private:
  struct Head {  // linux/futex.h, robust_list_head
    Node* list;
    long futex_offset;
    Node* pending;
  };
  Head head_;
  Head* before_ = nullptr;
  size_t size_ = 0;
};

}  // namespace rtrace::mech
