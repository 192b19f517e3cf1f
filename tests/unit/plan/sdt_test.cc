#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/process.h"

namespace rtrace::plan::sdt_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Request sdt(const std::string& text) {
  Request made;
  made.kind = Request::Kind::sdt;
  made.sdt = SdtFilter::parse(text);
  made.text = text;
  return made;
}

class Sdt : public testing::Test {
 protected:
  Sdt() {
    process_.load("program");
    process_.load("marks.so");
  }
  FakeProcess process_;
};

TEST_F(Sdt, EachNoteOfANameIsAPointAndPatternsHoldForBothParts) {
  const Plan plan = process_.plan({{sdt("sdt:fix*:[be]*")}});
  EXPECT_THAT(names_in(plan), ElementsAre("fixture:begin", "fixture:begin", "fixture:end"));
  const ProbePoint& first = plan.points.at(0);
  EXPECT_EQ(first.kind, ProbeKind::sdt);
  EXPECT_EQ(first.library, "marks.so");
  EXPECT_EQ(first.sdt_arguments, "-4@%edi 8@$5");
  EXPECT_EQ(first.semaphore, process_[1].at(*process_[1].file->find_symbol("seen")));
  EXPECT_THAT(first.reason, HasSubstr("SDT note, semaphore at 0x"));
  EXPECT_THAT(process_.plan({{sdt("sdt:fixture:en")}}).points, IsEmpty());
}

TEST_F(Sdt, APairTakesBothEndsUnderOneNameAndAPlainRequestStandsBesideIt) {
  const Plan plan = process_.plan({{sdt("sdt:fixture:begin..end"), sdt("sdt:fixture:end")}});
  EXPECT_THAT(names_in(plan),
              ElementsAre("fixture:begin..end", "fixture:begin..end", "fixture:begin..end", "fixture:end"));
  EXPECT_EQ(plan.points.at(0).pair, PairRole::begin);
  const Plan other = process_.plan({{sdt("sdt:fixture:begin..fixture:end")}});
  EXPECT_EQ(other.points.at(0).name, "fixture:begin..end");
}

TEST_F(Sdt, APairWaitsUntilBothEndsAreMapped) {
  const Plan plan = process_.plan({{sdt("sdt:fixture:begin..later:end")}});
  EXPECT_THAT(plan.points, IsEmpty());
  ASSERT_EQ(plan.declined.size(), 1U);
  EXPECT_THAT(plan.declined[0].reason, HasSubstr("the other end of the pair, sdt:later:end"));
  process_.load("marks_later.so");
  EXPECT_EQ(process_.plan_added({{sdt("sdt:fixture:begin..later:end")}}, 2).points.size(), 3U);
}

TEST_F(Sdt, WithoutAMatchTheNearestNamesAreSaid) {
  const auto text = [&](const std::string& filter) {
    return explain_no_match(sdt(filter), process_.objects);
  };
  EXPECT_THAT(
      text("sdt:fixture:semaphor_in_code"),
      AllOf(HasSubstr("provider fixture has no SDT probe semaphor_in_code"), HasSubstr("semaphore_in_code")));
  EXPECT_THAT(text("sdt:fixtures:begin"), HasSubstr("providers are fixture (marks.so)"));
  EXPECT_THAT(text("sdt:fixture:begin..en"), HasSubstr("has no SDT probe en"));
  FakeProcess bare;
  bare.load("program");
  EXPECT_THAT(
      explain_no_match(sdt("sdt:a:b..c"), bare.objects),
      HasSubstr("no mapped object has SDT probes (programs have them that were built with <sys/sdt.h>)"));
}

TEST(SdtFilter, RefusesWhatIsNone) {
  struct Row {
    const char* text;
    size_t place;
    const char* message;
  };
  for (const Row& row :
       {Row{"sdt:ruby", 8, "sdt:PROVIDER:NAME is expected"}, Row{"sdt:", 4, "is expected"},
        Row{"sdt::", 4, "a provider"}, Row{"sdt:ruby:", 9, "a probe's name"},
        Row{"sdt:a:b:c", 7, "a second ':'"}, Row{"sdt:a:b..", 9, "a probe's name"},
        Row{"sdt:a:b..c:", 11, "a probe's name"}, Row{"sdt:a:b*..c", 4, "a pair takes names"},
        Row{"sdt:a:x[b", 7, "unbalanced '['"}}) {
    try {
      SdtFilter::parse(row.text);
      ADD_FAILURE() << row.text << " was accepted";
    } catch (const FilterError& error) {
      EXPECT_EQ(error.position(), row.place) << row.text;
      EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.text;
    }
  }
  EXPECT_FALSE(SdtFilter::is_meant("sdt::vector<int>"));
  EXPECT_TRUE(SdtFilter::is_meant("sdt:a:b"));
}

}  // namespace
}  // namespace rtrace::plan::sdt_test
