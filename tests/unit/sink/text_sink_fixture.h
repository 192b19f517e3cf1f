// What the text sink's tests share.
#pragma once

#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "rtrace/sink/text_sink.h"
#include "sink/records.h"

namespace rtrace::sink::testing {

class TextSinkTest : public ::testing::Test {
 protected:
  TextSinkTest() {
    Thread::clock = 0;
    setenv("TZ", "UTC", 1);
    tzset();
  }

  std::string print(const std::vector<decode::Record>& records, TextOptions options = {}) {
    StringOutput output;
    TextSink sink(output, options);
    for (const auto& record : records) sink.take(record);
    sink.finish();
    return output.text;
  }

  Thread a{100}, b{101};
  const decode::ProbeLabel f = call_site("f"), g = call_site("g"), raise_ = call_site("raise"),
                           exit_ = call_site("exit");
};

}  // namespace rtrace::sink::testing
