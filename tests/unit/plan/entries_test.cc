#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/process.h"

namespace rtrace::plan::entries_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class Entries : public testing::Test {
 protected:
  void SetUp() override {
    process_.load("program");
    process_.load("libplan.so.1");
  }
  FakeProcess process_;
};

TEST_F(Entries, AreFoundByTheirNameInTheObjectThatContainsThem) {
  Plan plan = process_.plan({{entry("plan_real_query")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  const ProbePoint& point = plan.points[0];
  EXPECT_EQ(point.kind, ProbeKind::entry);
  EXPECT_EQ(point.address, process_.address(1, "plan_real_query"));
  EXPECT_EQ(point.object, process_[1].id);
  EXPECT_EQ(point.library, "libplan.so.1");
  EXPECT_EQ(point.prototype_object, "libplan.so.1");
  EXPECT_EQ(point.caller, "");
  EXPECT_THAT(point.requests, ElementsAre(0));
  EXPECT_THAT(point.reason, HasSubstr("function in ."));
  EXPECT_FALSE(point.clone || point.no_return || point.only_from_caller || point.tail_jump);
}

TEST_F(Entries, OfTheMainProgramAndStaticFunctionsHaveNames) {
  Plan plan = process_.plan({{entry("main_static+plan_static")}});
  ASSERT_THAT(plan.points, SizeIs(2));
  EXPECT_THAT(names_in(plan), ElementsAre("main_static", "plan_static"));
  for (const ProbePoint& point : plan.points)
    EXPECT_EQ(point.library, point.name == "main_static" ? "" : "libplan.so.1");
}

TEST_F(Entries, OfOneAddressAreOnePointUnderTheBestName) {
  Plan plan = process_.plan({{entry("*plan_alias*")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].name, "plan_alias");
  EXPECT_THAT(plan.points[0].aliases, ElementsAre("__plan_alias", "plan_alias_weak"));
}

TEST_F(Entries, GoByTheNameThatWasTyped) {
  EXPECT_THAT(names_in(process_.plan({{entry("plan_alias_weak")}})), ElementsAre("plan_alias_weak"));
  EXPECT_THAT(names_in(process_.plan({{entry("__plan*")}})), ElementsAre("__plan_alias"));
  Plan plan = process_.plan({{entry("*plan_alias*"), entry("plan_alias_weak")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].name, "plan_alias_weak");
  EXPECT_THAT(plan.points[0].aliases, ElementsAre("__plan_alias", "plan_alias"));
  EXPECT_THAT(plan.points[0].requests, ElementsAre(0, 1));
}

TEST_F(Entries, OfEachVersionHaveAnAddressOfTheirOwn) {
  Plan plan = process_.plan({{entry("plan_versioned")}});
  ASSERT_THAT(plan.points, SizeIs(2));
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_old"));
  EXPECT_EQ(plan.points[1].address, process_.address(1, "plan_new"));
  EXPECT_THAT(names_in(plan), ElementsAre("plan_versioned", "plan_versioned"));
}

TEST_F(Entries, IncludeTheClonesOfAPlainName) {
  Plan plan = process_.plan({{entry("gc_start+gc_mark")}});
  EXPECT_THAT(names_in(plan), ElementsAre("gc_mark", "gc_start", "gc_start"));
  for (const ProbePoint& point : plan.points) {
    EXPECT_EQ(point.clone, point.name == "gc_start") << ".lto_priv is a new name only";
    EXPECT_THAT(point.reason, HasSubstr("clone"));
    EXPECT_FALSE(point.no_return);
  }
}

TEST_F(Entries, OfColdPartsAreOnlyThoseNamedExactly) {
  EXPECT_THAT(names_in(process_.plan({{entry("gc_*")}})), ElementsAre("gc_mark", "gc_start", "gc_start"));
  Plan plan = process_.plan({{entry("gc_start.cold")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].name, "gc_start.cold");
  EXPECT_TRUE(plan.points[0].no_return);
  EXPECT_FALSE(plan.points[0].clone);
}

TEST_F(Entries, OutsideExecutableSegmentsGetNoPoint) {
  EXPECT_THAT(process_.plan({{entry("plan_in_data")}}).points, IsEmpty());
  EXPECT_THAT(process_.plan({{entry("*data*")}}).points, IsEmpty());
}

TEST_F(Entries, AreSoughtInAddedObjectsOnly) {
  EXPECT_THAT(process_.plan_added({{entry("main*+plan_init")}}, 1).points, SizeIs(1));
  EXPECT_THAT(names_in(process_.plan_added({{entry("main*+plan_init")}}, 0)),
              ElementsAre("main", "main_static"));
}

TEST_F(Entries, OfAnIfuncAreTheImplementationThatAGotSlotShows) {
  process_.load("caller_noplt.so");
  process_.fill_slot(2, process_.slot(2, "plan_ifunc").slot,
                     process_.address(1, "plan_chosen_implementation"));
  Plan plan = process_.plan({{entry("plan_ifunc")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].name, "plan_ifunc");
  EXPECT_EQ(plan.points[0].library, "libplan.so.1");
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_chosen_implementation"));
  EXPECT_THAT(plan.points[0].reason, HasSubstr("plan_chosen_implementation"));
}

TEST_F(Entries, OfAnIfuncAndItsImplementationAreOnePoint) {
  process_.load("caller_noplt.so");
  process_.fill_slot(2, process_.slot(2, "plan_ifunc").slot,
                     process_.address(1, "plan_chosen_implementation"));
  Plan plan = process_.plan({{entry("plan_ifunc+plan_chosen_*")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].name, "plan_ifunc");
  EXPECT_THAT(plan.points[0].aliases, ElementsAre("plan_chosen_implementation"));
}

TEST_F(Entries, OfALocalIfuncAreWhatItsIrelativeSlotHolds) {
  ElfAddr slot = process_[1].file->irelative_slots().at(0).slot;
  process_.fill_slot(1, slot, process_.address(1, "plan_inner_implementation"));
  Plan plan = process_.plan({{entry("plan_inner_ifunc")}});
  ASSERT_THAT(plan.points, SizeIs(1));
  EXPECT_EQ(plan.points[0].address, process_.address(1, "plan_inner_implementation"));
}

TEST_F(Entries, OfAnIfuncThatNobodyHasBoundArePending) {
  ElfAddr slot = process_[1].file->irelative_slots().at(0).slot;
  process_.fill_slot(1, slot, process_.address(1, "plan_inner_implementation"));
  for (const Plan& plan : {process_.plan({{entry("plan_ifunc")}}),
                           process_.plan({{entry("plan_inner_ifunc")}}, Relocated::no)}) {
    EXPECT_THAT(plan.points, IsEmpty());
    ASSERT_THAT(plan.declined, SizeIs(1));
    EXPECT_TRUE(plan.declined[0].pending);
    EXPECT_THAT(plan.declined[0].reason, HasSubstr("IFUNC"));
  }
}

TEST_F(Entries, OfAStrippedLibraryAreItsExportedOnes) {
  FakeProcess process;
  process.load("libplan_stripped.so.1");
  EXPECT_THAT(names_in(process.plan({{entry("plan_static+plan_init")}})), ElementsAre("plan_init"));
}

}  // namespace
}  // namespace rtrace::plan::entries_test
