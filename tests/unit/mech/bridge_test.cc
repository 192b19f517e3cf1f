#include "rtrace/mech/bridge.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <csignal>
#include <memory>
#include <optional>

#include "rtrace/base/mapping.h"
#include "rtrace/mech/address_space.h"
#include "rtrace/mech/handler_masks.h"
#include "tracee/child.h"

extern "C" {
extern const unsigned char rtrace_bridge_slack[], rtrace_bridge_slack_end[];
}
// Code of a file that nothing runs.
asm(R"(
  .pushsection .text
  .balign 16
  .globl rtrace_bridge_slack, rtrace_bridge_slack_end
rtrace_bridge_slack:
  .skip 64, 0xcc
rtrace_bridge_slack_end:
  .popsection
)");

namespace rtrace::mech::bridge_test {
namespace {

using testing::HasSubstr;
using tests::Child;
using tests::Pipe;

void own_handler(int) {}

// While these run all signals are blocked, or two.
void set_handlers() {
  struct sigaction full {
  }, some{};
  full.sa_handler = some.sa_handler = own_handler;
  sigfillset(&full.sa_mask);
  sigaddset(&some.sa_mask, SIGTRAP);
  sigaddset(&some.sa_mask, SIGINT);
  sigaction(SIGUSR1, &full, nullptr);
  sigaction(SIGUSR2, &some, nullptr);
}

bool blocks_trap(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && sigismember(&now.sa_mask, SIGTRAP) == 1 &&
         sigismember(&now.sa_mask, SIGINT) == 1;
}

// A child with that action for SIGTRAP, stopped, with our pages in it. It ends well if the action is its own.
class BridgeTest : public testing::Test {
 protected:
  void start(void (*handler)(int), int flags = 0) {
    child_.emplace([this, handler, flags] {
      struct sigaction own {};
      own.sa_handler = handler;
      own.sa_flags = flags;
      sigaddset(&own.sa_mask, SIGUSR1);
      sigaction(SIGTRAP, &own, nullptr);
      set_handlers();
      if (!go_.wait()) return 100;
      struct sigaction now {};
      sigaction(SIGTRAP, nullptr, &now);
      if (!blocks_trap(SIGUSR1) || !blocks_trap(SIGUSR2)) return 2;
      return now.sa_handler == handler && (now.sa_flags & flags) == flags ? 0 : 1;
    });
    tests::wait_until_in_syscall(pid(), SYS_read);
    ASSERT_TRUE(tests::seize_and_stop(pid()));
    space_ = std::make_unique<AddressSpace>(pid(), ledger_);
    const Range slack{VirtAddr{reinterpret_cast<uint64_t>(rtrace_bridge_slack)},
                      VirtAddr{reinterpret_cast<uint64_t>(rtrace_bridge_slack_end)}};
    ASSERT_EQ(space_->make_room(slack, 1, pid(), tracee::read_maps(pid()), slack), "");
  }
  pid_t pid() const { return child_->pid(); }
  BridgeSite site() const {
    const Foothold& foothold = space_->foothold();
    return {pid(),
            space_->memory(),
            foothold.gadget(),
            foothold.frame_area(),
            foothold.bridge(),
            foothold.restorer(),
            foothold.screen(),
            foothold.own_handler()};
  }
  bool has_handler() const { return (tracee::read_status(pid())->caught & tracee::signal_bit(SIGTRAP)) != 0; }
  int end() {
    EXPECT_EQ(tracee::detach(pid()), tracee::Alive::yes);
    go_.signal();
    return child_->end();
  }

  Pipe go_;
  std::optional<Child> child_;
  Mapping shared_ = Mapping::shared(sizeof(PatchTable));
  PatchLedger ledger_{*reinterpret_cast<PatchTable*>(shared_.data())};
  std::unique_ptr<AddressSpace> space_;
};

TEST_F(BridgeTest, StandsWhereTheActionIsTheDefaultAndLeavesNoTrace) {
  start(SIG_DFL);
  EXPECT_FALSE(has_handler());
  EXPECT_EQ(raise_bridge(site()).bridge, Bridge::stands);
  EXPECT_TRUE(has_handler());
  EXPECT_EQ(raise_bridge(site()).bridge, Bridge::stands) << "it stands already";
  EXPECT_EQ(lower_bridge(site()), Lowered::yes);
  EXPECT_FALSE(has_handler());
  EXPECT_EQ(lower_bridge(site()), Lowered::was_not_ours);
  EXPECT_EQ(end(), 0);
}

TEST_F(BridgeTest, StandsInFrontOfTheProgramsOwnHandlerAndLeavesNoTrace) {
  start(own_handler, SA_NODEFER | SA_RESTART);
  EXPECT_EQ(raise_bridge(site()).bridge, Bridge::due);
  EXPECT_EQ(lower_bridge(site()), Lowered::was_not_ours);
  EXPECT_EQ(raise_screen(site()).bridge, Bridge::screens);
  EXPECT_EQ(raise_screen(site()).bridge, Bridge::screens) << "it stands already";
  EXPECT_EQ(raise_bridge(site()).bridge, Bridge::screens);
  EXPECT_TRUE(has_handler());
  EXPECT_EQ(lower_bridge(site()), Lowered::yes);
  EXPECT_EQ(lower_bridge(site()), Lowered::was_not_ours);
  EXPECT_EQ(end(), 0);
}

TEST_F(BridgeTest, TheProgramsOwnHandlerIsNotItsOwnWhileOursStandsThere) {
  start(own_handler);
  EXPECT_EQ(raise_screen(site()).bridge, Bridge::screens);
  EXPECT_EQ(end(), 1) << "what this fixture would see of a handler that is left";
}

TEST_F(BridgeTest, ProgramsOwnHandlerThatServesOnceStays) {
  start(own_handler, static_cast<int>(SA_RESETHAND));
  EXPECT_THAT(raise_screen(site()).reason, HasSubstr("serves once"));
  EXPECT_EQ(lower_bridge(site()), Lowered::was_not_ours);
  EXPECT_EQ(end(), 0);
}

TEST_F(BridgeTest, NoScreenWithoutAHandler) {
  start(SIG_DFL);
  EXPECT_EQ(raise_screen(site()).bridge, Bridge::due);
  EXPECT_FALSE(has_handler());
  EXPECT_EQ(end(), 0);
}

TEST_F(BridgeTest, IgnoredStaysIgnored) {
  start(SIG_IGN);
  EXPECT_THAT(raise_bridge(site()).reason, HasSubstr("ignores"));
  EXPECT_EQ(lower_bridge(site()), Lowered::was_not_ours);
  EXPECT_EQ(end(), 0);
}

TEST_F(BridgeTest, HandlersThatBlockAllAreOpenUntilTheyAreClosed) {
  for (const bool closed : {false, true}) {
    start(SIG_DFL);
    uint64_t opened = 0;
    open_handler_masks(site(), tracee::read_status(pid())->caught, [&](uint64_t noted) { opened = noted; });
    EXPECT_EQ(opened, tracee::signal_bit(SIGUSR1));
    if (closed) close_handler_masks(site(), opened);
    EXPECT_EQ(end(), closed ? 0 : 2);
  }
}

}  // namespace
}  // namespace rtrace::mech::bridge_test
