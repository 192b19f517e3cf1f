// A decoded call to its line of text.
#include <benchmark/benchmark.h>

#include "calls.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/sink/text_sink.h"

namespace rtrace::bench {
namespace {

// Takes the bytes and keeps none.
class NoOutput : public sink::Output {
 public:
  void write(std::string_view bytes) override { benchmark::DoNotOptimize(bytes.data()); }
};

void render_call(benchmark::State& state, std::string_view prototype) {
  const decode::CallDecoder decoder(prototype_of(prototype), {});
  const BufferMemory bytes = memory();
  decode::ProbeLabel label;
  label.name = "work";
  label.kind = decode::ProbeLabel::Kind::call_site;
  decode::Record entered{{{100, 100, 0}, {}}, decode::CallEntered{}};
  auto& begin = std::get<decode::CallEntered>(entered.body);
  begin.label = &label;
  begin.arguments = decoder.enter(at_entry(), bytes).arguments;
  decode::Record returned{{{100, 100, 0}, {}}, decode::CallReturned{}};
  auto& end = std::get<decode::CallReturned>(returned.body);
  end.label = &label;
  end.result = decoder.leave(at_entry(), at_return(), bytes, {}).result;
  NoOutput output;
  sink::TextSink sink(output, {});
  for (auto _ : state) {
    sink.take(entered);
    sink.take(returned);
  }
}

void render_two_integers(benchmark::State& state) {
  render_call(state, kTwoIntegers);
}
BENCHMARK(render_two_integers);

void render_string(benchmark::State& state) {
  render_call(state, kWithString);
}
BENCHMARK(render_string);

}  // namespace
}  // namespace rtrace::bench
