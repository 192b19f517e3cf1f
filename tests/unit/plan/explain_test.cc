#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/process.h"

namespace rtrace::plan::explain_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Explain : public testing::Test {
 protected:
  void SetUp() override {
    process_.load("program");
    process_.load("libplan.so.1");
    process_.load("caller_plt.so");
  }
  std::string no_match(const Request& request) const { return explain_no_match(request, process_.objects); }
  std::string never_hit(const std::string& name) const {
    return explain_never_hit(process_.plan({{entry(name)}}).points.at(0), process_.objects);
  }
  FakeProcess process_;
};

TEST_F(Explain, NoMatchNamesTheNearestFunctionsImportedOnesFirst) {
  std::string text = no_match(entry("plan_semd_query"));
  EXPECT_THAT(text, AllOf(HasSubstr("no mapped object defines plan_semd_query"),
                          HasSubstr("nearest names: plan_send_query"), HasSubstr("plan_real_query"),
                          HasSubstr("no mapped object imports it either"), Not(HasSubstr("\n"))));
}

TEST_F(Explain, NoMatchDoesNotBlameTheFilterForWhatCameTooLate) {
  EXPECT_THAT(no_match(entry("plan_init")),
              AllOf(HasSubstr("libplan.so.1 defines plan_init, and there was no time"),
                    Not(HasSubstr("no mapped object"))));
}

TEST_F(Explain, NoMatchTellsWhoImportsTheName) {
  EXPECT_THAT(no_match(entry("plan_nowhere")),
              HasSubstr("caller_plt.so imports it, but nothing mapped defines it yet"));
}

TEST_F(Explain, NoMatchCountsStrippedObjects) {
  EXPECT_THAT(no_match(entry("plan_absent")), HasSubstr("it was inlined"));
  process_.load("libplan_stripped.so.1");
  EXPECT_THAT(no_match(entry("plan_absent")),
              HasSubstr("1 of 4 objects is stripped, so their static functions have no names"));
}

TEST_F(Explain, PartsOfAFilterThatMatchNothing) {
  const auto part = [&](const Request& request) {
    return explain_part_without_match(request, process_.objects);
  };
  EXPECT_THAT(part(entry("plan_init+plan_semd_query")),
              AllOf(HasSubstr("no mapped object defines plan_semd_query"),
                    HasSubstr("nearest names: plan_send_query"), Not(HasSubstr("plan_init,"))));
  EXPECT_EQ(part(entry("plan_init+plan_absent+plan_[xy]*")), "nothing matches plan_absent, plan_[xy]*");
  EXPECT_EQ(part(entry("plan_init+plan_s*-plan_send*")), "");
  EXPECT_EQ(part(entry("plan_init+plan_send_query-plan_s*")), "") << "as it was asked for";
  EXPECT_EQ(part(entry("plan_absent")), "") << "that is the whole of it";
  EXPECT_EQ(part(call("plan_init+plan_send_query@program")), "");
  EXPECT_THAT(part(call("plan_init@program+plan_absent@program")),
              HasSubstr("calls no imported function plan_absent"));
}

TEST_F(Explain, NoMatchShowsTheColdPartThatIsLeft) {
  EXPECT_THAT(no_match(entry("gc_lost")), HasSubstr("libplan.so.1 has only gc_lost.cold"));
}

TEST_F(Explain, NoMatchTellsOfNamesThatARegexMatchesInPart) {
  constexpr const char* kHint = "; patterns match whole names";
  EXPECT_THAT(no_match(entry("/send_q[a-z]+/")),
              HasSubstr("matches a part of plan_send_query" + std::string(kHint)));
  EXPECT_THAT(no_match(call("/send_q[a-z]+/@program")),
              HasSubstr("matches a part of plan_send_query" + std::string(kHint)));
  EXPECT_THAT(no_match(entry("/plan_absent/")), Not(HasSubstr(kHint)));
  EXPECT_THAT(no_match(entry("send_q*")), Not(HasSubstr(kHint)));
}

TEST_F(Explain, NoMatchNamesObjectsNearToTheLibraryPart) {
  EXPECT_THAT(no_match(entry("f@libplam")),
              HasSubstr("no mapped object is called libplam; nearest: libplan"));
  EXPECT_THAT(no_match(entry("f@zzzzzzzz")), HasSubstr("mapped are program, libplan.so.1, caller_plt.so"));
  EXPECT_THAT(no_match(entry("f@/usr/lib/libplan.so.2")),
              AllOf(HasSubstr("no mapped object has the path /usr/lib/libplan.so.2"),
                    HasSubstr("plan_fixtures/libplan.so.1")));
}

TEST_F(Explain, NoMatchTellsWhereElseTheNameIsDefined) {
  EXPECT_THAT(no_match(entry("plan_init@program")),
              AllOf(HasSubstr("program defines no function plan_init"),
                    HasSubstr("libplan.so.1 defines it, which the filter leaves out")));
}

TEST_F(Explain, NoMatchTellsWhatTheFilterItselfTakesAway) {
  EXPECT_THAT(no_match(entry("plan_init-plan_init")),
              AllOf(HasSubstr("libplan.so.1 defines plan_init, which the filter takes away again"),
                    Not(HasSubstr("inlined"))));
  EXPECT_THAT(no_match(entry("@libplan.so.1-@libplan.so.1")),
              HasSubstr("takes away again what it adds of libplan.so.1"));
  EXPECT_THAT(no_match(entry("@MAIN-@MAIN")), HasSubstr("takes away again what it adds of program"));
  EXPECT_THAT(no_match(call("plan_send_query-plan_send_query")),
              HasSubstr("program, caller_plt.so import plan_send_query, which the filter takes away again"));
}

TEST_F(Explain, NoMatchTellsHowCxxNamesAreMatched) {
  EXPECT_THAT(no_match(entry("query")),
              AllOf(HasSubstr("as in plan::Server::query(int)"), Not(HasSubstr("inlined"))));
  EXPECT_THAT(no_match(entry("quer*@MAIN")), HasSubstr("as in plan::Server::query(int)"));
}

TEST_F(Explain, NoMatchOfACallTellsWhatTheCallerImports) {
  EXPECT_THAT(no_match(call("plan_semd_query@MAIN")),
              AllOf(HasSubstr("program calls no imported function plan_semd_query"),
                    HasSubstr("nearest names: plan_send_query")));
  EXPECT_THAT(no_match(call("main_static@MAIN")), HasSubstr("program defines it itself"));
  EXPECT_THAT(no_match(call("plan_ifunc@MAIN")), HasSubstr("caller_plt.so imports it"));
  EXPECT_THAT(no_match(library("caller_plt.so")), HasSubstr("no mapped object calls caller_plt.so"));
}

TEST_F(Explain, NeverHitListsWhatIsImportedInstead) {
  EXPECT_EQ(never_hit("plan_real_query"),
            "program imports plan_send_query, plan_init; caller_plt.so imports plan_send_query, plan_ifunc, "
            "not plan_real_query");
}

TEST_F(Explain, NeverHitTellsWhoCouldHaveCalled) {
  EXPECT_EQ(never_hit("plan_init"), "program imports plan_init, but did not call it while traced");
  EXPECT_EQ(never_hit("plan_send_query"),
            "program, caller_plt.so import plan_send_query, but did not call it while traced");
}

TEST_F(Explain, NeverHitHasNothingToSayOfTheMainProgramsOwn) {
  EXPECT_EQ(never_hit("main_static"), "");
}

}  // namespace
}  // namespace rtrace::plan::explain_test
