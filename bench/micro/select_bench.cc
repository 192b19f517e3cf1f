// Expressions of --where, and filters.
#include <benchmark/benchmark.h>

#include "calls.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/plan/filter.h"
#include "rtrace/sink/where.h"

namespace rtrace::bench {
namespace {

void where_expression(benchmark::State& state) {
  const decode::CallDecoder decoder(prototype_of(kTwoIntegers), {});
  const auto arguments = decoder.enter(at_entry(), memory()).arguments;
  const auto returned = decoder.leave(at_entry(), at_return(), memory(), {});
  sink::CallFacts call;
  call.name = "work_two";
  call.duration = 7000;
  call.at_entry = arguments;
  call.result = &returned.result;
  const auto where = sink::Where::parse("arg2 > 1 && dur > 5us");
  for (auto _ : state) benchmark::DoNotOptimize(where.holds(call));
}
BENCHMARK(where_expression);

void match_filter(benchmark::State& state) {
  const plan::ObjectNames object{"/usr/lib/libmariadb.so.3", "libmariadb.so.3", false};
  const auto filter = plan::Filter::parse("mysql_*-mysql_real_*@libmariadb").resolved_for({object});
  for (auto _ : state) benchmark::DoNotOptimize(filter.matches("mysql_send_query", object));
}
BENCHMARK(match_filter);

}  // namespace
}  // namespace rtrace::bench
