// Registers and memory to a decoded call.
#include <benchmark/benchmark.h>

#include "calls.h"
#include "rtrace/decode/call_decoder.h"

namespace rtrace::bench {
namespace {

void decode_call(benchmark::State& state, std::string_view prototype) {
  const decode::CallDecoder decoder(prototype_of(prototype), {});
  const BufferMemory bytes = memory();
  const arch::Regs entry = at_entry(), exit = at_return();
  for (auto _ : state) {
    benchmark::DoNotOptimize(decoder.enter(entry, bytes));
    benchmark::DoNotOptimize(decoder.leave(entry, exit, bytes, {}));
  }
}

void decode_two_integers(benchmark::State& state) {
  decode_call(state, kTwoIntegers);
}
BENCHMARK(decode_two_integers);

void decode_string(benchmark::State& state) {
  decode_call(state, kWithString);
}
BENCHMARK(decode_string);

}  // namespace
}  // namespace rtrace::bench
