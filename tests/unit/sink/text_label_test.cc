#include "rtrace/sink/text_sink.h"

#include <gmock/gmock.h>

#include "sink/text_sink_fixture.h"

namespace rtrace::sink::text_label_test {
namespace {

using namespace testing;  // the records

class TextLabelTest : public TextSinkTest {};

TEST_F(TextLabelTest, LabelsShowCallerObjectAndClone) {
  decode::ProbeLabel site = call_site("f");
  site.caller = "libfoo.so.1";
  decode::ProbeLabel entry;
  entry.name = "f";
  entry.object = "libbar.so.2";
  decode::ProbeLabel clone;
  clone.name = "gc_start";
  clone.clone = true;
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(site, 1, {}), a.leave(site, 1, number(0).value), a.enter(entry, 2, {}),
                   a.leave(entry, 2, number(0).value), a.enter(clone, 3, {number(1)}),
                   a.leave(clone, 3, number(0).value)},
                  options),
            "libfoo.so.1->f() = 0\n"
            "f@libbar.so.2() = 0\n"
            "gc_start~(1) = 0\n");
}

TEST_F(TextLabelTest, AnInstantIsALineOfItsOwnWithoutAResult) {
  decode::ProbeLabel probe, pair;
  probe.kind = pair.kind = decode::ProbeLabel::Kind::sdt;
  probe.name = "ruby:raise";
  probe.instant = true;
  pair.name = "ruby:begin..end";
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(probe, 1, {number(1), text("x")}), a.enter(pair, 2, {}), a.enter(probe, 3, {}),
                   a.leave(pair, 2, nothing())},
                  options),
            "sdt:ruby:raise(1, \"x\")\n"
            "sdt:ruby:begin..end( <unfinished ...>\n"
            "sdt:ruby:raise()\n"
            "<... sdt:ruby:begin..end resumed> ) = <void>\n");
}

TEST_F(TextLabelTest, NamesAreDemangledWhereAsked) {
  const auto function = call_site("_ZN2ns1fEi");
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(function, 1, {number(1)}), a.leave(function, 1, nothing())}, options),
            "_ZN2ns1fEi(1) = <void>\n");
  options.demangle = true;
  EXPECT_EQ(print({a.enter(function, 1, {number(1)}), a.leave(function, 1, nothing())}, options),
            "ns::f(int)(1) = <void>\n");
}

TEST_F(TextLabelTest, NamesFromFilesCannotDriveTheTerminal) {
  const auto hostile = call_site("a\033[2J\tb\xc2\x9bz\xff");
  const auto umlaut = call_site(
      "gr\xc3\xb6\xc3\x9f"
      "e\xff\xc2\x9b");
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(hostile, 1, {}), a.leave(hostile, 1, nothing())}, options),
            "a\\033[2J\\011b\\302\\233z\\377() = <void>\n");
  options.render.utf8 = true;
  EXPECT_EQ(print({a.enter(umlaut, 1, {}), a.leave(umlaut, 1, nothing())}, options),
            "gr\xc3\xb6\xc3\x9f"
            "e\\377\\302\\233() = <void>\n");
}

TEST_F(TextLabelTest, ColumnsAreCharactersNotBytes) {
  const auto umlaut = call_site("\xc3\xb6");
  TextOptions options;
  options.align = 10;
  options.render.utf8 = true;
  EXPECT_EQ(print({a.enter(umlaut, 1, {}), a.leave(umlaut, 1, number(0).value)}, options),
            "\xc3\xb6()      = 0\n");
}

}  // namespace
}  // namespace rtrace::sink::text_label_test
