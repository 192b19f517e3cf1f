#include "../../../src/agent/threads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>

#include "../../../src/agent/pages.h"
#include "agent/recorder_memory.h"

namespace rtrace::agent::threads_test {
namespace {

// A slot whose first word, by which it is claimed, lies on one page and all else on the next, and rings that
// are not there.
class GivingRecords : public testing::Test {
 protected:
  GivingRecords() {
    pages_ = static_cast<std::byte*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    slot = reinterpret_cast<Slot*>(pages_ + kPage - sizeof slot->thread);
    memory.control.slots = reinterpret_cast<uint64_t>(slot);
    memory.control.slot_bits = 0;
    rest_of_slot = pages_ + kPage;
    rings = memory.bytes().last(memory.control.ring_bytes);
    memory.control.rings = reinterpret_cast<uint64_t>(rings.data());
    mprotect(rest_of_slot, kPage, PROT_READ);
    mprotect(rings.data(), rings.size(), PROT_NONE);
    own = this;
    struct sigaction action {};
    action.sa_handler = [](int) { own->at_fault(); };
    sigaction(SIGSEGV, &action, &old_);
  }
  ~GivingRecords() override {
    sigaction(SIGSEGV, &old_, nullptr);
    munmap(pages_, 2 * kPage);
  }
  // The first is that of the first store behind the claim.
  void at_fault() {
    if (++faults == 1) {
      mprotect(rest_of_slot, kPage, PROT_READ | PROT_WRITE);
      memory.header().owner = owner_from_then;
    } else {
      mprotect(rings.data(), rings.size(), PROT_READ | PROT_WRITE);
    }
  }

  static inline GivingRecords* own = nullptr;
  RecorderMemory memory{Mode::record};
  Slot* slot = nullptr;
  std::byte* rest_of_slot = nullptr;
  std::span<std::byte> rings;
  uint32_t owner_from_then = 1;
  int faults = 0;

 private:
  std::byte* pages_ = nullptr;
  struct sigaction old_ {};
};

TEST_F(GivingRecords, WritesThemFirst) {
  EXPECT_EQ(find_slot(memory.control, 0x7000), slot);
  EXPECT_EQ(faults, 2);
  EXPECT_EQ(slot->thread, 0x7000u);
  EXPECT_EQ(slot->head, sizeof(ThreadRecord));
}

// In a child that a handler has forked by then: it finds other memory there, without an owner.
TEST_F(GivingRecords, ToNobodyWhoHasNoneWritesNothing) {
  owner_from_then = kOwnerDied;
  EXPECT_EQ(find_slot(memory.control, 0x7000), nullptr);
  EXPECT_EQ(faults, 1);
  EXPECT_EQ(slot->capacity, 0u);
  EXPECT_EQ(slot->head, 0u);
}

}  // namespace
}  // namespace rtrace::agent::threads_test
