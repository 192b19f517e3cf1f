#include "../../../src/mech/left_wrappers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "rtrace/agent/recorder.h"

namespace rtrace::mech {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> all;
  for (int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

// A breakpoint, a function's near jump, and a short one at 0x2010 to a near one at 0x2008.
std::vector<ForeignBytes> found() {
  return {{VirtAddr{0x1000}, bytes({0x55}), bytes({0xcc})},
          {VirtAddr{0x2008}, bytes({0x90, 0x90, 0x90, 0x90, 0x90}), bytes({0xe9, 1, 0, 0, 0})},
          {VirtAddr{0x2010}, bytes({0x48, 0x89}), bytes({0xeb, 0xf6})},
          {VirtAddr{0x3000}, bytes({0x55, 0x53, 0x51, 0x52, 0x50}), bytes({0xe9, 2, 0, 0, 0})}};
}

TEST(LeftWrappers, AJumpThatAShortOneLeadsToIsAHopAndGoesLast) {
  auto all = found();
  order_jumps(all);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back().address, VirtAddr{0x2008});
  for (const ForeignBytes& each : all)
    EXPECT_EQ(each.hop, each.address == VirtAddr{0x2008}) << each.address.value;
}

TEST(LeftWrappers, JumpsAreThoseAtEntries) {
  auto all = found();
  order_jumps(all);
  std::vector<bool> jumps;
  for (const ForeignBytes& each : all) jumps.push_back(is_jump(each));
  EXPECT_EQ(jumps, (std::vector<bool>{false, true, true, false}));
  EXPECT_FALSE(is_jump({VirtAddr{0x1000}, bytes({0x55, 0x53}), bytes({0x0f, 0x05})}));
}

TEST(LeftWrappers, AWordOfTheStackOrThePcLeadsToAHop) {
  Remains remains;
  remains.bytes = found();
  order_jumps(remains.bytes);
  const auto leads = [&](uint64_t pc, std::vector<uint64_t> stack) {
    return leads_to_hop({1, VirtAddr{pc}, 0, std::move(stack)}, remains);
  };
  EXPECT_TRUE(leads(0x2008, {}));
  EXPECT_TRUE(leads(0x5000, {7, 0x2008, 9}));
  EXPECT_FALSE(leads(0x2009, {0x3000, 0x2010, 0x2007}));
}

// A recorder's control mapping in this process, with a function whose frame is borrowed, and where its shared
// memory has been.
class ControlOfOne {
 public:
  explicit ControlOfOne(uint32_t functions) {
    memory_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* bytes = static_cast<std::byte*>(memory_);
    agent::ControlHead head{};
    head.notes_count = 1;
    agent::FunctionPlan plan{};
    plan.flags = agent::FunctionPlan::kBorrowedFrame;
    agent::Control control{};
    control.functions = functions;
    std::memcpy(bytes, &head, sizeof head);
    std::memcpy(bytes + agent::kPlansOffset, &plan, sizeof plan);
    std::memcpy(bytes + agent::kControlOffset, &control, sizeof control);
    void* gone = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, kSize);
    const auto shared = reinterpret_cast<uint64_t>(gone);
    remains_.recorders.push_back(
        {VirtAddr{reinterpret_cast<uint64_t>(memory_)}, {VirtAddr{shared}, VirtAddr{shared + kSize}}});
  }
  ~ControlOfOne() { munmap(memory_, kSize); }
  ControlOfOne(const ControlOfOne&) = delete;
  ControlOfOne& operator=(const ControlOfOne&) = delete;

  bool has_open_calls() const { return mech::has_open_calls(tracee::ProcessMemory(getpid()), remains_); }

 private:
  static constexpr size_t kSize = 1 << 16;
  void* memory_ = nullptr;
  Remains remains_;
};

TEST(LeftWrappers, WhereTheSharedMemoryIsGoneNoCallIsOpen) {
  EXPECT_FALSE(ControlOfOne(1).has_open_calls());
  EXPECT_TRUE(ControlOfOne(0).has_open_calls()) << "in a fork child nothing tells";
}

}  // namespace
}  // namespace rtrace::mech
