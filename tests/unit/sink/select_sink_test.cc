#include "rtrace/sink/select_sink.h"

#include <gmock/gmock.h>

#include "records.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/sink/text_sink.h"

namespace rtrace::sink::select_sink_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SelectSinkTest : public ::testing::Test {
 protected:
  // Of what a text sink prints behind it.
  SelectSink make(uint64_t slower, const std::string& where = "") {
    SelectSink::Options options{slower, std::nullopt, shown_string, false};
    if (!where.empty()) options.where = Where::parse(where);
    TextOptions text;
    text.align = 0;
    text.indent = 2;
    std::vector<std::unique_ptr<Sink>> next;
    next.push_back(std::make_unique<TextSink>(output, text));
    return {std::move(options), std::move(next),
            [this](const std::string& line) { notices.push_back(line); }};
  }
  decode::Record leave(const decode::ProbeLabel& label, uint64_t call, uint64_t duration,
                       unsigned depth = 0) {
    auto record = thread.leave(label, call, testing::number(0).value, depth);
    std::get<decode::CallReturned>(record.body).duration = duration;
    return record;
  }

  std::optional<size_t> shown_string;
  StringOutput output;
  std::vector<std::string> notices;
  testing::Thread thread{1};
  decode::ProbeLabel f = testing::call_site("f"), g = testing::call_site("g");
};

TEST_F(SelectSinkTest, CallsGoOnWholeInnerOnesFirstAtTheirOwnDepth) {
  SelectSink sink = make(100);
  sink.take(thread.enter(f, 1, {testing::number(1)}));
  sink.take(thread.enter(g, 2, {testing::number(2)}, 1));
  sink.take(leave(g, 2, 100, 1));
  sink.take(thread.enter(g, 3, {testing::number(3)}, 1));
  sink.take(leave(g, 3, 99, 1));
  sink.take(leave(f, 1, 500));
  EXPECT_EQ(output.text, "  g(2) = 0\nf(1) = 0\n");
  sink.end();
  EXPECT_THAT(notices, IsEmpty());
}

TEST_F(SelectSinkTest, SignalsAndEndsGoThrough) {
  SelectSink sink = make(100);
  sink.take(thread.enter(f, 1, {}));
  sink.take(thread(decode::SignalDelivered{10}));
  sink.take(leave(f, 1, 100));
  sink.take(thread(decode::Exited{0}));
  EXPECT_EQ(output.text, "--- SIGUSR1 (User defined signal 1) ---\nf() = 0\n+++ exited (status 0) +++\n");
}

TEST_F(SelectSinkTest, AnExpressionSeesArgumentsAndResult) {
  SelectSink sink = make(0, "arg1 == 2 && ret == 0");
  for (uint64_t call : {1u, 2u, 3u}) {
    sink.take(thread.enter(f, call, {testing::number(static_cast<int64_t>(call))}));
    sink.take(leave(f, call, 1));
  }
  EXPECT_EQ(output.text, "f(2) = 0\n");
}

TEST_F(SelectSinkTest, AMemberThatNoCallHadIsSaid) {
  decode::Value entry, name = testing::number(7).value;
  entry.kind = decode::Value::Kind::structure;
  name.name = "name";
  entry.members = {name};
  decode::Value nil, array;
  nil.kind = decode::Value::Kind::nil;
  array.kind = decode::Value::Kind::array;
  array.members = {testing::number(1).value, testing::number(2).value};
  const auto notices_of = [&](const std::string& where, const std::vector<decode::Value>& values) {
    notices.clear();
    SelectSink sink = make(0, where + " || arg2 == 0");
    uint64_t call = 0;
    for (const decode::Value& value : values) {
      decode::Argument argument;
      argument.value = value;
      sink.take(thread.enter(f, ++call, {argument, testing::number(0)}));
      sink.take(leave(f, call, 1));
    }
    sink.end();
    return notices;
  };
  EXPECT_THAT(
      notices_of("arg1.d_name == 7", {nil, entry, entry}),
      ElementsAre("--where: no call had 'arg1.d_name': what it stands in was never true; there are name"));
  EXPECT_THAT(
      notices_of("ret.x.y == 1", {entry}),
      ElementsAre("--where: no call had 'ret.x.y': what it stands in was never true; no prototype tells of "
                  "members there"));
  EXPECT_THAT(
      notices_of("arg1.x == 1", {array}),
      ElementsAre(
          "--where: no call had 'arg1.x': what it stands in was never true; no prototype tells of members "
          "there"));
  EXPECT_THAT(notices_of("arg1.name == 8", {nil, entry}), IsEmpty());
  EXPECT_THAT(notices_of("arg1.other == 8", {nil, nil}), IsEmpty());
}

TEST_F(SelectSinkTest, CallsThatNeverReturnCountWithTheTimeTheyWereOpen) {
  SelectSink sink = make(2'000'000);
  sink.take(thread.enter(f, 1, {}));
  auto gone = thread.abandon(f, 1);
  std::get<decode::CallAbandoned>(gone.body).duration = 2'000'000;
  sink.take(gone);
  sink.take(thread.enter(f, 2, {}));
  sink.take(thread.abandon(f, 2));
  sink.take(thread.enter(f, 3, {testing::number(3)}));
  sink.take(thread(decode::SignalDelivered{10}));
  sink.take(thread(decode::Started{}));  // two milliseconds later
  sink.take(thread.enter(f, 4, {testing::number(4)}));
  sink.end();
  EXPECT_EQ(output.text,
            "f( <no return ...>\n--- SIGUSR1 (User defined signal 1) ---\nf(3 <unfinished ...>\n");
}

TEST_F(SelectSinkTest, AReturnThatCannotBeSeenHasNoDuration) {
  for (const char* where : {"dur >= 0", "1"}) {
    output.text.clear();
    SelectSink sink = make(0, where);
    auto unseen = thread.enter(f, 1, {});
    std::get<decode::CallEntered>(unseen.body).unseen_return = "JIT";
    sink.take(unseen);
    EXPECT_EQ(output.text, std::string_view(where) == "1" ? "f() = ?\n" : "");
  }
}

TEST_F(SelectSinkTest, ThatOneIsLeftOutSinceItsTimeIsUnknownIsSaid) {
  SelectSink sink = make(100);
  auto unseen = thread.enter(f, 1, {});
  std::get<decode::CallEntered>(unseen.body).unseen_return = "JIT";
  sink.take(unseen);
  sink.take(thread.enter(f, 2, {}));
  sink.take(leave(f, 2, 100));
  sink.end();
  EXPECT_EQ(output.text, "f() = 0\n");
  EXPECT_THAT(notices, ElementsAre(HasSubstr("left out 1 call whose return could not be seen")));
}

TEST_F(SelectSinkTest, ThatOneIsLeftOutSinceItsResultIsUnknownIsSaid) {
  for (const auto& [where, is_said] : std::vector<std::pair<const char*, bool>>{
           {"ret == 0", true}, {"errno == 2 || dur > 1s", true}, {"depth > 7", false}, {"1 || ret", false}}) {
    notices.clear();
    SelectSink sink = make(0, where);
    auto unseen = thread.enter(f, 1, {});
    std::get<decode::CallEntered>(unseen.body).unseen_return = "JIT";
    sink.take(unseen);
    sink.end();
    const bool said = std::ranges::any_of(notices, [](const std::string& line) {
      return line.find("--where left out 1 call whose return could not be seen") != line.npos;
    });
    EXPECT_EQ(said, is_said) << where;
  }
}

TEST_F(SelectSinkTest, StringsAreLookedIntoFurtherThanTheyAreShown) {
  shown_string = 4;
  SelectSink sink = make(0, "arg1 ~ /tail/");
  auto text = testing::number(0);
  text.value.kind = decode::Value::Kind::string;
  uint64_t call = 1;
  for (const char* bytes : {"head tail", "head only", "head cut"}) {
    text.value.bytes = bytes;
    text.value.cut = std::string_view(bytes).ends_with("cut");
    sink.take(thread.enter(f, call, {text}));
    sink.take(leave(f, call++, 1));
  }
  sink.end();
  EXPECT_EQ(output.text, "f(\"head\"...) = 0\n");
  EXPECT_THAT(notices, ElementsAre(HasSubstr("left out 1 call with strings that are longer")));
}

TEST_F(SelectSinkTest, ANameThatNoProbeHasIsSaidOnce) {
  SelectSink sink = make(0, "size > 1 && path == 'x'");
  f.parameters = {"path", ""};
  sink.take(thread(decode::Loaded{"/bin/a", 0, true, {{&f, VirtAddr{1}, "breakpoint", ""}}}));
  EXPECT_THAT(notices, IsEmpty());
  sink.take(thread(decode::Started{}));
  sink.take(thread(decode::Started{}));
  EXPECT_THAT(notices, ElementsAre(HasSubstr("'size'")));
}

TEST_F(SelectSinkTest, AnArgumentThatNoProbeHasIsSaidOnce) {
  auto prototype = std::make_shared<proto::Prototype>();
  prototype->returns = proto::make_void();
  prototype->params = {{"", proto::make_integer(4, true)}, {"", proto::make_integer(4, true)}};
  const decode::CallDecoder decoder(prototype, {});
  SelectSink sink = make(0, "arg2 == 1 || arg3 == 1 || arg1 == 2");
  f.decoder = &decoder;
  sink.take(thread(decode::Loaded{"/bin/a", 0, true, {{&f, VirtAddr{1}, "breakpoint", ""}}}));
  sink.take(thread(decode::Started{}));
  sink.take(thread(decode::Started{}));
  EXPECT_THAT(notices, ElementsAre(HasSubstr("has 3 arguments: what arg3")));
}

TEST_F(SelectSinkTest, WhatSystemCallsKnowIsKnownAtTheEnd) {
  SelectSink sink({0, Where::parse("size > 1 && path == 'x'"), std::nullopt, true}, {},
                  [this](const std::string& line) { notices.push_back(line); });
  f.kind = decode::ProbeLabel::Kind::syscall;
  f.parameters = {"path"};
  sink.take(thread(decode::Started{}));
  EXPECT_THAT(notices, IsEmpty());
  sink.take(thread.enter(f, 1, {}));
  sink.take(leave(f, 1, 5));
  sink.end();
  EXPECT_THAT(notices, ElementsAre(HasSubstr("'size'"), HasSubstr("of 1 call none")));
}

TEST_F(SelectSinkTest, AKeyOfAProbesTypesIsKnown) {
  auto prototype = std::make_shared<proto::Prototype>();
  prototype->returns = proto::make_void();
  const auto set = proto::make_flags(proto::make_integer(4, true), {{"O_CREAT", 0x40}});
  prototype->params = {{"at", proto::make_pointer(proto::make_structure({{"mode", set}}))}};
  const decode::CallDecoder decoder(prototype, {});
  f.decoder = &decoder;
  f.parameters = {"at"};
  SelectSink sink = make(0, "at.mode & O_CREAT && at.mode & O_CREATE || O_CREAT.x");
  sink.take(thread(decode::Loaded{"/bin/a", 0, true, {{&f, VirtAddr{1}, "breakpoint", ""}}}));
  sink.take(thread(decode::Started{}));
  EXPECT_THAT(notices, ElementsAre(HasSubstr("'O_CREAT':"), HasSubstr("'O_CREATE', nor")));
}

TEST_F(SelectSinkTest, ThatNothingWasSelectedIsSaidAtTheEnd) {
  SelectSink sink = make(1'000'000);
  sink.take(thread.enter(f, 1, {}));
  sink.take(leave(f, 1, 5));
  sink.end();
  EXPECT_THAT(notices, ElementsAre(HasSubstr("of 1 call none")));
}

TEST_F(SelectSinkTest, AForkChildsReturnIsACallOfItsOwn) {
  SelectSink sink = make(0, "1");
  sink.take(thread.enter(f, 1, {testing::number(5)}));
  sink.take(thread(decode::Forked{200, true, false}));
  auto in_child = leave(f, 1, 10);
  in_child.header.who = {200, 200, 9};
  sink.take(in_child);
  sink.take(leave(f, 1, 20));
  EXPECT_EQ(output.text, "[pid 200] f(5) = 0\n[pid 1] f(5) = 0\n");
}

}  // namespace
}  // namespace rtrace::sink::select_sink_test
