#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/process.h"

namespace rtrace::plan::call_sites_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CallSites : public testing::Test {
 protected:
  void load(const std::string& caller) {
    process_.load("program");
    process_.load("libplan.so.1");
    process_.load(caller);
  }
  FakeProcess process_;
};

TEST_F(CallSites, OfTheMainProgramAreItsStubs) {
  load("caller_plt.so");
  Plan plan = process_.plan({{call("plan_*@MAIN")}});
  EXPECT_THAT(names_in(plan), ElementsAre("plan_init", "plan_send_query"));
  for (const ProbePoint& point : plan.points) {
    EXPECT_EQ(point.kind, ProbeKind::plt);
    EXPECT_EQ(point.address, process_[0].at(*process_.slot(0, point.name).stub));
    EXPECT_EQ(point.caller, "program");
    EXPECT_EQ(point.caller_object, process_[0].id);
    EXPECT_EQ(point.object, process_[0].id);
    EXPECT_EQ(point.prototype_object, "libplan.so.1");
    EXPECT_THAT(point.reason, HasSubstr("stub"));
  }
}

TEST_F(CallSites, HideTheCallerWhereTheDefaultRuleAsks) {
  load("caller_plt.so");
  Request rule = call("plan_init@MAIN");
  rule.hide_caller = true;
  Plan plan = process_.plan({{rule}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].caller, "");
}

TEST_F(CallSites, AreStubsWithLazyAndWithIbtPlt) {
  for (const char* caller : {"caller_plt.so", "caller_ibt.so"}) {
    FakeProcess process;
    process.load("program");
    process.load("libplan.so.1");
    process.load(caller);
    Plan plan = process.plan({{call("plan_send_query@caller_*")}});
    ASSERT_THAT(plan.points, SizeIs(1)) << caller;
    EXPECT_EQ(plan.points[0].address, process[2].at(*process.slot(2, "plan_send_query").stub));
    EXPECT_EQ(plan.points[0].caller, caller);
    EXPECT_FALSE(plan.points[0].only_from_caller);
  }
}

TEST_F(CallSites, WithoutAStubAreTheCalleesEntryAndTheTailJumps) {
  load("caller_noplt.so");
  Plan plan = process_.plan({{call("plan_send_query@caller_noplt.so")}});
  ASSERT_THAT(plan.points, SizeIs(2)) << "the jump inside an immediate is none";
  const ProbePoint& callee = plan.points[0];
  EXPECT_EQ(callee.address, process_.address(1, "plan_send_query"));
  EXPECT_EQ(callee.object, process_[1].id);
  EXPECT_TRUE(callee.only_from_caller);
  EXPECT_EQ(callee.caller_object, process_[2].id);
  EXPECT_THAT(callee.reason, HasSubstr("found by name"));
  EXPECT_EQ(callee.slot, process_[2].at(process_.slot(2, "plan_send_query").slot));
  const ProbePoint& jump = plan.points[1];
  EXPECT_TRUE(jump.tail_jump);
  EXPECT_EQ(jump.object, process_[2].id);
  EXPECT_EQ(jump.name, "plan_send_query");
  EXPECT_EQ(jump.slot, callee.slot);
  auto tail_caller = process_.function(2, "caller_tail_calls");
  EXPECT_EQ(jump.address, process_[2].at(tail_caller.address + 10)) << "behind the 10 bytes of movabs";
}

TEST_F(CallSites, GoWhereTheGotSlotSaysOnceItIsFilled) {
  load("caller_noplt.so");
  process_.fill_slot(2, process_.slot(2, "plan_send_query").slot, process_.address(1, "plan_init"));
  Plan plan = process_.plan({{call("plan_send_query@caller_noplt.so")}});
  ASSERT_THAT(plan.points, SizeIs(2));
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_init"));
  EXPECT_THAT(plan.points[0].reason, HasSubstr("GOT slot"));
  plan = process_.plan({{call("plan_send_query@caller_noplt.so")}}, Relocated::no);
  ASSERT_THAT(plan.points, SizeIs(2));
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_send_query"));
}

TEST_F(CallSites, DoNotBelieveASlotThatPointsNowhere) {
  load("caller_noplt.so");
  process_.fill_slot(2, process_.slot(2, "plan_send_query").slot, VirtAddr{0x1234});
  Plan plan = process_.plan({{call("plan_send_query@caller_noplt.so")}});
  ASSERT_THAT(plan.points, SizeIs(2));
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_send_query"));
}

TEST_F(CallSites, OfAnUndefinedFunctionWaitForItsDefinition) {
  load("caller_noplt.so");
  Plan plan = process_.plan({{call("plan_nowhere@caller_*")}});
  EXPECT_THAT(plan.points, IsEmpty());
  ASSERT_THAT(plan.declined, SizeIs(1));
  EXPECT_TRUE(plan.declined[0].pending);
  EXPECT_THAT(plan.declined[0].reason, HasSubstr("nothing mapped defines it"));
}

TEST_F(CallSites, WithAStubNeedNoDefinition) {
  load("caller_plt.so");
  Plan plan = process_.plan({{call("plan_nowhere@caller_*")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].prototype_object, "");
}

TEST_F(CallSites, OfAnIfuncWithoutAStubAreTheImplementation) {
  load("caller_noplt.so");
  Plan pending = process_.plan({{call("plan_ifunc@caller_*")}});
  EXPECT_THAT(pending.points, IsEmpty());
  ASSERT_THAT(pending.declined, SizeIs(1));
  EXPECT_TRUE(pending.declined[0].pending);
  process_.fill_slot(2, process_.slot(2, "plan_ifunc").slot,
                     process_.address(1, "plan_chosen_implementation"));
  Plan plan = process_.plan({{call("plan_ifunc@caller_*")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_chosen_implementation"));
  EXPECT_EQ(plan.points[0].name, "plan_ifunc");
  EXPECT_TRUE(plan.points[0].only_from_caller);
}

TEST_F(CallSites, OfALazySlotAreNotTheCallersOwnPlt) {
  load("caller_plt.so");
  const elf::CallSlot& slot = process_.slot(2, "plan_ifunc");
  process_.fill_slot(2, slot.slot, process_[2].at(*slot.stub + 6));
  Plan plan = process_.plan({{entry("plan_ifunc")}});
  EXPECT_THAT(plan.points, IsEmpty());
}

TEST_F(CallSites, OfALibraryComeFromEveryCallerOfWhatItImplements) {
  load("caller_plt.so");
  Plan plan = process_.plan({{library("libplan")}});
  EXPECT_THAT(names_in(plan), ElementsAre("plan_ifunc", "plan_init", "plan_send_query", "plan_send_query"));
}

TEST_F(CallSites, InOlderObjectsAreFoundWhenTheirLibraryIsAdded) {
  load("caller_plt.so");
  EXPECT_THAT(names_in(process_.plan_added({{library("libplan")}}, 1)),
              ElementsAre("plan_ifunc", "plan_init", "plan_send_query", "plan_send_query"));
  EXPECT_THAT(names_in(process_.plan_added({{library("libplan")}}, 0)),
              ElementsAre("plan_init", "plan_send_query"));
}

TEST_F(CallSites, OfTwoRequestsAreOnePointAndStandBesideEntries) {
  load("caller_noplt.so");
  Plan plan = process_.plan({{call("plan_init@MAIN"), library("libplan.so.1"), entry("plan_send_query")}});
  for (const ProbePoint& point : plan.points) {
    if (point.name != "plan_init") continue;
    EXPECT_THAT(point.requests, ElementsAre(0, 1));
  }
  std::vector<ProbeKind> kinds;
  for (const ProbePoint& point : plan.points)
    if (point.address == process_.address(1, "plan_send_query")) kinds.push_back(point.kind);
  EXPECT_THAT(kinds, ElementsAre(ProbeKind::plt, ProbeKind::entry));
}

TEST_F(CallSites, StayInTheirLinkNamespace) {
  process_.load("program");
  process_.load("caller_noplt.so");
  process_.load("libplan.so.1", 1);
  Plan plan = process_.plan({{call("plan_send_query@caller_*")}});
  EXPECT_THAT(plan.points, IsEmpty());
  EXPECT_FALSE(resolve(process_.objects, process_[1], "plan_send_query", "").has_value());
}

TEST(Resolve, TakesTheFirstInLinkMapOrderAndRespectsVersions) {
  FakeProcess process;
  process.load("program");
  process.load("libplan_stripped.so.1");
  process.load("libplan.so.1");
  auto definition = resolve(process.objects, process[0], "plan_versioned", "V1");
  ASSERT_TRUE(definition);
  EXPECT_EQ(definition->object->id, process[1].id);
  EXPECT_EQ(definition->symbol.address, process.function(2, "plan_old").address);
  definition = resolve(process.objects, process[0], "plan_versioned", "");
  ASSERT_TRUE(definition);
  EXPECT_EQ(definition->symbol.address, process.function(2, "plan_new").address);
  EXPECT_FALSE(resolve(process.objects, process[0], "plan_versioned", "V9"));
  EXPECT_FALSE(resolve(process.objects, process[0], "plan_static", ""));
}

}  // namespace
}  // namespace rtrace::plan::call_sites_test
