// Backtraces in text (-w).
#include "sink/text_sink_fixture.h"

namespace rtrace::sink::text_frames_test {
namespace {

class TextFrames : public testing::TextSinkTest {
 protected:
  decode::Record enter(const decode::ProbeLabel& label, uint64_t call, std::vector<decode::StackFrame> frames,
                       unsigned depth = 0) {
    decode::Record record = a.enter(label, call, {}, depth);
    std::get<decode::CallEntered>(record.body).frames = std::move(frames);
    return record;
  }

  const decode::StackFrame main_{{0x401020}, "prog", "main", 0x20, ""};
  TextOptions narrow() const {
    TextOptions options;
    options.align = 0;
    return options;
  }
};

TEST_F(TextFrames, StandBelowTheLineAndEndWithAnEmptyOne) {
  EXPECT_EQ(print({enter(f, 1, {{{0x7f01}, "liba.so", "g", 0x1, "a.c:12"}, main_}),
                   a.leave(f, 1, testing::nothing())},
                  narrow()),
            "f() = <void>\n"
            " > liba.so(g+0x1) [0x7f01]\n"
            "\ta.c:12\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n");
}

TEST_F(TextFrames, ComeWhenTheCallsLastLineHasBeenPrinted) {
  EXPECT_EQ(print({enter(f, 1, {main_}), enter(g, 2, {main_}, 1), a.leave(g, 2, testing::nothing(), 1),
                   a.leave(f, 1, testing::nothing())},
                  narrow()),
            "f( <unfinished ...>\n"
            "g() = <void>\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n"
            "<... f resumed> ) = <void>\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n");
}

TEST_F(TextFrames, OfCallsThatNeverReturnAndOfThoseWhoseReturnIsNotSeen) {
  decode::Record unseen = enter(f, 3, {main_});
  std::get<decode::CallEntered>(unseen.body).unseen_return = "JIT";
  EXPECT_EQ(print({enter(exit_, 1, {main_}), a.abandon(exit_, 1), unseen}, narrow()),
            "exit( <no return ...>\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n"
            "f() = ?\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n");
}

TEST_F(TextFrames, OfCallsThatAreOpenAtTheEnd) {
  StringOutput output;
  TextSink sink(output, narrow());
  for (const auto& record : {enter(f, 1, {main_}), enter(g, 2, {main_}, 1), enter(raise_, 3, {main_}, 2),
                             a.leave(raise_, 3, testing::nothing(), 2), enter(exit_, 4, {main_}, 2)})
    sink.take(record);
  sink.end();
  EXPECT_EQ(output.text.substr(output.text.find("exit")),
            "exit( <unfinished ...>\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n"
            "<... f resumed> <unfinished ...>\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n"
            "<... g resumed> <unfinished ...>\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n");
}

TEST_F(TextFrames, OfInstants) {
  decode::ProbeLabel moment = f;
  moment.instant = true;
  EXPECT_EQ(print({enter(moment, 1, {main_})}, narrow()),
            "f()\n"
            " > prog(main+0x20) [0x401020]\n"
            "\n");
}

TEST_F(TextFrames, SayWhatIsNotKnown) {
  EXPECT_EQ(
      print({enter(f, 1, {{{0x401020}, "prog", "", 0x1020, ""}, {{0x1234}, "", "", 0, ""}}),
             a.leave(f, 1, testing::nothing()), enter(f, 2, {main_, {}}), a.leave(f, 2, testing::nothing())},
            narrow()),
      "f() = <void>\n"
      " > prog(+0x1020) [0x401020]\n"
      " > ? [0x1234]\n"
      "\n"
      "f() = <void>\n"
      " > prog(main+0x20) [0x401020]\n"
      " > ?\n"
      "\n");
}

TEST_F(TextFrames, NamesAreDemangledOnRequestAndNeverRaw) {
  TextOptions options = narrow();
  options.demangle = true;
  EXPECT_EQ(print({enter(f, 1, {{{0x10}, "a\nb", "_ZN4shop4Till3addEi", 0x2, "\033[2J:1"}}),
                   a.leave(f, 1, testing::nothing())},
                  options),
            "f() = <void>\n"
            " > a\\012b(shop::Till::add(int)+0x2) [0x10]\n"
            "\t\\033[2J:1\n"
            "\n");
}

TEST_F(TextFrames, NoneMeansNoEmptyLineEither) {
  EXPECT_EQ(print({enter(f, 1, {}), a.leave(f, 1, testing::nothing())}, narrow()), "f() = <void>\n");
}

}  // namespace
}  // namespace rtrace::sink::text_frames_test
