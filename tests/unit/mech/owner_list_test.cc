#include "rtrace/mech/owner_list.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <vector>

namespace rtrace::mech::owner_list_test {
namespace {

// A node before its word, in memory that outlives whoever adds it.
struct Owned {
  OwnerList::Node node;
  uint32_t word;
};

Owned* shared_memory() {
  return static_cast<Owned*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

TEST(OwnerList, WhateverKillsTheOwnerItsWordsSaySoButThoseThatWereTakenOut) {
  Owned* owned = shared_memory();
  const pid_t child = fork();
  if (child == 0) {
    OwnerList list(offsetof(Owned, word));
    for (int i = 0; i < 4; ++i) {
      owned[i].word = static_cast<uint32_t>(gettid());
      list.add(owned[i].node);
    }
    list.remove(owned[0].node);
    list.remove(owned[2].node);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  for (int i : {1, 3}) EXPECT_NE(owned[i].word & FUTEX_OWNER_DIED, 0u) << i;
  for (int i : {0, 2}) EXPECT_EQ(owned[i].word, static_cast<uint32_t>(child)) << i;
  munmap(owned, 4096);
}

TEST(OwnerList, HasRoomForAsManyAsTheKernelFollows) {
  OwnerList list(offsetof(Owned, word));
  std::vector<Owned> owned(OwnerList::kMost + 1);
  for (size_t i = 0; i < OwnerList::kMost; ++i) ASSERT_TRUE(list.add(owned[i].node));
  EXPECT_FALSE(list.add(owned.back().node));
  list.remove(owned[7].node);
  EXPECT_TRUE(list.add(owned.back().node));
}

}  // namespace
}  // namespace rtrace::mech::owner_list_test
