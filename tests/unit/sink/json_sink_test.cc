#include "rtrace/sink/json_sink.h"

#include <gmock/gmock.h>

#include "records.h"
#include "rtrace/base/text.h"

namespace rtrace::sink::json_sink_test {
namespace {

using decode::Value;
using Kind = Value::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Value value_of(Kind kind, uint64_t raw = 0) {
  Value value;
  value.kind = kind;
  value.raw = raw;
  return value;
}

Value string_of(std::string bytes) {
  Value value = value_of(Kind::string);
  value.bytes = std::move(bytes);
  return value;
}

Value named(Value value, std::string name) {
  value.name = std::move(name);
  return value;
}

class JsonSinkTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    for (std::string_view line : split(output.text, '\n'))
      if (!line.empty()) all.emplace_back(line);
    return all;
  }
  // What one argument becomes, without its braces.
  std::string argument(const Value& value) {
    sink.take(thread.enter(label, next, {{"", "T", value}}));
    sink.take(thread.leave(label, next++, testing::nothing()));
    const std::string line = lines().back();
    const size_t begin = line.find("\"args\":[{") + 9;
    return line.substr(begin, line.find("}],\"ret\"") - begin);
  }

  StringOutput output;
  JsonSink sink{output, {}};
  testing::Thread thread{7};
  decode::ProbeLabel label = testing::call_site("f");
  uint64_t next = 1;
};

TEST_F(JsonSinkTest, ACallIsOneLineAtItsReturnWithTheTimeOfItsEntry) {
  sink.take(thread(decode::Started{}));
  const auto entered = thread.enter(label, 1, {testing::number(-1)});
  sink.take(entered);
  ASSERT_EQ(lines().size(), 1u);
  sink.take(thread.leave(label, 1, testing::number(2).value));
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(
      lines()[1],
      fmt::format(R"({{"type":"call","ts":{},"pid":100,"tid":7,"dur":1234567,"name":"f","object":null,)"
                  R"("caller":null,"kind":"plt","depth":0,"args":[{{"type":"long","raw":"-1","text":"-1",)"
                  R"("value":-1}}],"ret":{{"type":"","raw":"2","text":"2","value":2}}}})",
                  entered.header.time.realtime));
}

TEST_F(JsonSinkTest, TheFirstLineWaitsForWhatIsArmedAndStandsBeforeIt) {
  sink.take(thread(decode::Loaded{"/bin/a", 0, true, {{&label, VirtAddr{0x10}, "breakpoint", "why"}}}));
  EXPECT_EQ(output.text, "");
  sink.take(thread(decode::Started{}));
  sink.take(thread(decode::Loaded{"/lib/b", 0x1000, false, {{&label, VirtAddr{0x1010}, "breakpoint", "x"}}}));
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_THAT(lines()[0], StartsWith(R"({"v":1,"type":"start",)"));
  EXPECT_THAT(lines()[0], HasSubstr(R"("probes":[{"name":"f","object":null,"caller":null,"kind":"plt",)"
                                    R"("address":"0x10","mechanism":"breakpoint","reason":"why"}])"));
  EXPECT_THAT(lines()[1], HasSubstr(R"("object":"/bin/a","bias":"0x0","main":true})"));
  EXPECT_THAT(lines()[2], HasSubstr(R"("address":"0x1010")"));
}

TEST_F(JsonSinkTest, TheFirstLineIsFirstWhateverComesFirst) {
  sink.take(thread(decode::Loaded{"/bin/a", 0, true, {}}));
  sink.take(thread(decode::SignalDelivered{10}));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("start"), HasSubstr("load"), HasSubstr("SIGUSR1")));
}

TEST_F(JsonSinkTest, NoLineHasMoreThanAThousandProbes) {
  std::vector<decode::ArmedProbe> many(2500, {&label, VirtAddr{1}, "breakpoint", ""});
  sink.take(thread(decode::Loaded{"/bin/a", 0, true, many}));
  sink.take(thread(decode::Started{}));
  sink.take(thread(decode::ProbesArmed{many}));
  std::vector<size_t> counts;
  for (const std::string& line : lines()) counts.push_back((split(line, '{').size() - 2));
  EXPECT_THAT(counts, ElementsAre(1000, 0, 1000, 500, 1000, 1000, 500));
}

TEST_F(JsonSinkTest, CallsThatNeverReturnSayWhy) {
  sink.take(thread.enter(label, 1, {}));
  sink.take(thread.abandon(label, 1));
  sink.take(thread.enter(label, 2, {}));
  auto unseen = thread.enter(label, 3, {});
  std::get<decode::CallEntered>(unseen.body).unseen_return = "it is JIT code";
  sink.take(unseen);
  sink.end();
  ASSERT_EQ(lines().size(), 4u);
  EXPECT_THAT(lines()[1], HasSubstr(R"("ret":null,"outcome":"no return"})"));
  EXPECT_THAT(lines()[2], HasSubstr(R"("ret":null,"outcome":"unseen","reason":"it is JIT code"})"));
  EXPECT_THAT(lines()[3], HasSubstr(R"("dur":null,)"));
  EXPECT_THAT(lines()[3], HasSubstr(R"("ret":null,"outcome":"open"})"));
}

TEST_F(JsonSinkTest, WhatWasNotPrintedAtEntryIsThereWithoutAReturnToo) {
  sink.take(thread.enter(label, 1, {testing::number(3)}));
  auto left = thread.abandon(label, 1);
  std::get<decode::CallAbandoned>(left.body).arguments = {testing::number(4)};
  sink.take(left);
  EXPECT_THAT(lines().back(), HasSubstr(R"("raw":"3","text":"3","value":3},{)"));
  EXPECT_THAT(lines().back(), HasSubstr(R"("raw":"4","text":"4","value":4}],"ret":null)"));
}

TEST_F(JsonSinkTest, AForkChildReturnsFromItsParentsCallsToo) {
  sink.take(thread.enter(label, 1, {testing::number(5)}));
  sink.take(thread(decode::Forked{200, true, false}));
  auto in_child = thread.leave(label, 1, testing::number(0).value);
  in_child.header.who = {200, 200, 9};
  sink.take(in_child);
  sink.take(thread.leave(label, 1, testing::number(200).value));
  sink.end();
  ASSERT_EQ(lines().size(), 4u);
  EXPECT_THAT(lines()[2], HasSubstr(R"("pid":200,"tid":200,)"));
  EXPECT_THAT(lines()[2], HasSubstr(R"(,"inherited":true})"));
  EXPECT_THAT(lines()[3], HasSubstr(R"("pid":100,"tid":7,)"));
  EXPECT_THAT(lines()[3], Not(HasSubstr("inherited")));
  for (int i : {2, 3}) EXPECT_THAT(lines()[static_cast<size_t>(i)], HasSubstr(R"("raw":"5")"));
}

TEST_F(JsonSinkTest, ValuesByKind) {
  const Value a = named(value_of(Kind::integer, 1), "a"), twin = named(value_of(Kind::integer, 2), "a");
  Value structure = value_of(Kind::structure), key = value_of(Kind::enumeration, 3),
        changed = value_of(Kind::changed);
  structure.members = {a, twin, value_of(Kind::nil), named(string_of("\xff"), "s")};
  key.text = "THREE";
  changed.members = {value_of(Kind::integer, 5), value_of(Kind::integer, 6)};
  Value number = value_of(Kind::floating);
  number.number = 1.5L;
  const std::pair<Value, std::string> rows[] = {
      {value_of(Kind::integer, ~uint64_t{0}),
       R"("raw":"18446744073709551615","text":"18446744073709551615","value":18446744073709551615)"},
      {value_of(Kind::address, 0xdead), R"("raw":"0xdead","text":"0xdead","value":57005)"},
      {value_of(Kind::nil), R"("raw":"0x0","text":"nil","value":null)"},
      {value_of(Kind::unreadable), R"("raw":null,"text":"?","value":null)"},
      {value_of(Kind::unreadable, 0xdead), R"("raw":"0xdead","text":"0xdead","value":null)"},
      {value_of(Kind::hidden), R"("raw":null,"text":"","value":null)"},
      {value_of(Kind::character, 'x'), R"("raw":"120","text":"'x'","value":"x")"},
      {key, R"("raw":"3","text":"THREE","value":{"name":"THREE","bits":3})"},
      {number, R"("raw":"0x0","text":"1.500000","value":1.5)"},
      {structure, R"("raw":null,"text":"{ 1, 2, nil, \"\\377\" }","value":{"a":1,"a1":2,"2":null,)"
                  R"("s":{"string":"�","hex":"ff"}})"},
      {changed, R"("raw":"6","text":"5 -> 6","value":6,"before":5)"}};
  for (const auto& [value, json] : rows) EXPECT_EQ(argument(value), R"("type":"T",)" + json);
}

TEST_F(JsonSinkTest, WhatIsNoNumberInJsonIsNull) {
  Value number = value_of(Kind::floating);
  for (long double value : {__builtin_infl(), __builtin_nanl(""), 1e4000L}) {
    number.number = value;
    EXPECT_THAT(argument(number), HasSubstr(R"("value":null)"));
  }
}

TEST_F(JsonSinkTest, NoControlCharacterComesOutAndNoByteIsLost) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  all += "\xc2\x9b\xe2\x82\xac";  // C1's CSI, and a euro sign
  const std::string json = argument(string_of(all));
  for (char c : json) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << json;
  EXPECT_THAT(json, HasSubstr(R"(\u0000\u0001)"));
  EXPECT_THAT(json, HasSubstr(R"(\b\t\n\u000b\f\r)"));
  EXPECT_THAT(json, HasSubstr("\\u009b€\""));
  EXPECT_THAT(json, Not(HasSubstr("\xc2\x9b")));
  EXPECT_THAT(json, HasSubstr(R"("hex":"000102)"));
  EXPECT_THAT(argument(string_of("€")), Not(HasSubstr("hex")));
}

TEST_F(JsonSinkTest, FailuresHaveTheirErrno) {
  decode::Record returned = thread.leave(label, 1, testing::number(-1).value);
  std::get<decode::CallReturned>(returned.body).error = 2;
  sink.take(thread.enter(label, 1, {}));
  sink.take(returned);
  EXPECT_THAT(lines()[1], HasSubstr(R"("errno":{"number":2,"name":"ENOENT"})"));
}

TEST_F(JsonSinkTest, FramesOfABacktrace) {
  auto entered = thread.enter(label, 1, {});
  std::get<decode::CallEntered>(entered.body).frames = {{VirtAddr{0x401000}, "a.out", "main", 16, "a.c:3"},
                                                        {VirtAddr{0x10}, "", "", 0, ""}};
  sink.take(entered);
  sink.take(thread.leave(label, 1, testing::nothing()));
  EXPECT_THAT(lines()[1],
              HasSubstr(R"("frames":[{"address":"0x401000","object":"a.out","symbol":"main","offset":16,)"
                        R"("source":"a.c:3"},{"address":"0x10","object":null,"symbol":null,"offset":0}])"));
}

}  // namespace
}  // namespace rtrace::sink::json_sink_test
