// Pairing an entry with its return.
#include <benchmark/benchmark.h>

#include "rtrace/event/call_stack.h"

namespace rtrace::bench {
namespace {

constexpr VirtAddr kSite{0x1000};

event::FrameIdentity at(uint64_t sp) {
  return {{sp}, {0x400}, {}};
}

void pair_at_depth(benchmark::State& state, uint64_t depth) {
  event::CallStack stack;
  std::vector<event::Frame> dead, returned;
  uint64_t now = 0;
  for (uint64_t frame = depth; frame > 0; --frame)
    stack.enter(at(0x10000 + 64 * frame), kSite, event::ProbeId{1}, event::CallId{++now}, {now, now}, dead);
  for (auto _ : state) {
    ++now;
    stack.enter(at(0x10000), kSite, event::ProbeId{1}, event::CallId{now}, {now, now}, dead);
    stack.leave(at(0x10000), {now, now}, returned, dead);
    benchmark::DoNotOptimize(returned.data());
    returned.clear();
  }
}

void pair_call(benchmark::State& state) {
  pair_at_depth(state, 0);
}
BENCHMARK(pair_call);

void pair_deep_call(benchmark::State& state) {
  pair_at_depth(state, 1000);
}
BENCHMARK(pair_deep_call);

}  // namespace
}  // namespace rtrace::bench
