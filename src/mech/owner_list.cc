#include "rtrace/mech/owner_list.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace rtrace::mech {

// An empty list leads back to its head, whose first word is where a node has its own.
OwnerList::OwnerList(long distance) : head_{nullptr, distance, nullptr} {
  head_.list = reinterpret_cast<Node*>(&head_);
  size_t size = 0;
  if (syscall(SYS_get_robust_list, 0, &before_, &size) != 0) before_ = nullptr;
  syscall(SYS_set_robust_list, &head_, sizeof head_);
}

OwnerList::~OwnerList() {
  syscall(SYS_set_robust_list, before_, sizeof head_);
}

bool OwnerList::add(Node& node) {
  if (size_ == kMost) return false;
  ++size_;
  auto* head = reinterpret_cast<Node*>(&head_);
  node.next = head_.list;
  node.previous = nullptr;
  if (head_.list != head) head_.list->previous = &node;
  // We may die right behind this.
  __atomic_store_n(&head_.list, &node, __ATOMIC_RELEASE);
  return true;
}

void OwnerList::remove(Node& node) {
  auto* head = reinterpret_cast<Node*>(&head_);
  Node*& before = node.previous != nullptr ? node.previous->next : head_.list;
  if (node.next != head) node.next->previous = node.previous;
  __atomic_store_n(&before, node.next, __ATOMIC_RELEASE);
  --size_;
}

}  // namespace rtrace::mech
