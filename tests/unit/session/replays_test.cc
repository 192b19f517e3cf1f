#include "rtrace/session/replays.h"

#include <gtest/gtest.h>

#include <optional>

namespace rtrace::session::replays_test {
namespace {

constexpr VirtAddr kSite{0x401000};
constexpr VirtAddr kOther{0x402000};
constexpr VirtAddr kSp{0x7fff0000};

TEST(Replays, ASiteThatNoSignalInterruptedIsANewCall) {
  EXPECT_FALSE(Replays().take(kSite, kSp));
}

TEST(Replays, AfterTheHandlerHasReturnedTheSiteIsMetOnceMore) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::runs);
  EXPECT_TRUE(replays.awaiting());
  replays.handler_returns(kSite, kSp);
  EXPECT_FALSE(replays.awaiting());
  EXPECT_TRUE(replays.take(kSite, kSp));
  EXPECT_FALSE(replays.take(kSite, kSp)) << "the next one is a new call";
}

TEST(Replays, ASignalWithoutAHandlerHasNothingToReturnFrom) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::none);
  EXPECT_FALSE(replays.awaiting());
  EXPECT_TRUE(replays.take(kSite, kSp));
}

TEST(Replays, AHandlerThatLeftBySiglongjmpMakesTheNextArrivalANewCall) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::runs);
  EXPECT_FALSE(replays.take(kSite, kSp));
  EXPECT_FALSE(replays.awaiting());
}

TEST(Replays, AHandlerThatSkipsTheInstructionMakesTheNextArrivalANewCall) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::runs);
  replays.handler_returns(kSite + 3, kSp);
  EXPECT_FALSE(replays.awaiting());
  EXPECT_FALSE(replays.take(kSite, kSp));
}

TEST(Replays, HandlersInHandlersReturnOneByOne) {
  Replays replays;
  const VirtAddr deeper{kSp.value - 4096};
  replays.taken_out(kSite, kSp, Replays::Handler::runs);
  replays.taken_out(kOther, deeper, Replays::Handler::runs);
  replays.handler_returns(kOther, deeper);
  EXPECT_TRUE(replays.take(kOther, deeper));
  EXPECT_TRUE(replays.awaiting());
  replays.handler_returns(kSite, kSp);
  EXPECT_TRUE(replays.take(kSite, kSp));
}

TEST(Replays, ASecondSignalAtTheSiteHasToReturnToo) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::none);
  EXPECT_TRUE(replays.knows(kSite, kSp));
  replays.interrupted(kSite, kSp);
  EXPECT_TRUE(replays.awaiting());
  EXPECT_FALSE(replays.take(kSite, kSp));
}

TEST(Replays, AStackThatHasBeenUnwoundPastThePlaceForgetsIt) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::runs);
  replays.unwound_to(kSp + 64);
  EXPECT_FALSE(replays.awaiting());
}

TEST(Replays, AHandlerOnAStackOfItsOwnSaysNothingAboutTheOneItInterrupted) {
  Replays replays;
  replays.taken_out(kSite, kSp, Replays::Handler::runs);
  replays.unwound_to(VirtAddr{kSp.value + (uint64_t{64} << 20)});
  replays.unwound_to(VirtAddr{kSp.value - (uint64_t{64} << 20)});
  EXPECT_TRUE(replays.awaiting());
}

TEST(Replays, AHandlersReturnIsLedBackToMovedCode) {
  Replays replays;
  replays.moved({0x1003}, {0x7000}, {0x9003}, 5);
  EXPECT_TRUE(replays.awaiting());
  EXPECT_FALSE(replays.take({0x1003}, {0x7000}));
  EXPECT_EQ(replays.back_to_copy({0x1003}, {0x6000}), VirtAddr{});  // of another handler
  EXPECT_EQ(replays.back_to_copy({0x1003}, {0x7000}), VirtAddr{0x9003});
  EXPECT_FALSE(replays.awaiting());
}

TEST(Replays, AHandlerMaySkipMovedCode) {
  Replays replays;
  replays.moved({0x1003}, {0x7000}, {0x9003}, 5);
  EXPECT_EQ(replays.back_to_copy({0x1006}, {0x7000}), VirtAddr{});
  EXPECT_FALSE(replays.awaiting());
}

TEST(Replays, NobodyReturnsToAStackThatIsAnothersByNow) {
  Replays replays;
  replays.moved({0x1003}, {0x7000}, {0x9003}, 5);
  replays.moved({0x1003}, {0x6000}, {0x9003}, 6);
  replays.unwound_to({0x8000});  // a handler's own stack may be anywhere
  replays.forget_overlaid([](VirtAddr) -> std::optional<uint64_t> { return 6; });
  EXPECT_EQ(replays.back_to_copy({0x1003}, {0x7000}), VirtAddr{});
  EXPECT_EQ(replays.back_to_copy({0x1003}, {0x6000}), VirtAddr{0x9003});
}

}  // namespace
}  // namespace rtrace::session::replays_test
