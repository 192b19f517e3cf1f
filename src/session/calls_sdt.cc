// SDT probes: moments, and pairs of them that are one call.
#include <algorithm>

#include "calls.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

// Of one thread: begins whose code was left without passing an end.
constexpr size_t kMostOpenPairs = 65536;

// As calls have one. Of its time that of calls inside is not its own.
event::Frame frame_of(const OpenPair& pair, uint64_t now, const Task& task) {
  event::Frame frame;
  frame.duration = now - std::min(now, pair.entered.monotonic);
  frame.inner = task.own_time - pair.own_time_before;
  frame.self = frame.duration - std::min(frame.duration, frame.inner);
  frame.recursive = std::any_of(task.open_pairs.begin(), task.open_pairs.end(), [&](const OpenPair& other) {
    return other.probe == pair.probe && other.call < pair.call;
  });
  frame.probe = pair.probe;
  frame.call = pair.call;
  frame.depth = pair.depth;
  frame.entered = pair.entered;
  return frame;
}

}  // namespace

// What ends there does so before what begins: a pair may have its begin and its end in one place.
void CallTracer::observe_instants(Task& task, const mech::BreakpointSite& site) {
  task.stack.unwind_to(regs_.sp(), thread_time_, dead_);  // an exception may have left some
  observe_instants(task, site, true);
  observe_instants(task, site, false);
}

void CallTracer::observe_instants(Task& task, const mech::BreakpointSite& site, bool ends) {
  const auto& live = task.process->image->space().memory();
  std::optional<arch::VectorRegs> vectors;
  for (const Owner& owner : site.probes) {
    Probe& probe = services_.registry.at(owner.probe);
    if (probe.operands == nullptr || (probe.role == plan::PairRole::end) != ends) continue;
    services_.registry.hit(probe);
    if (probe.operands->needs_vector_registers() && !vectors) vectors = tracee::vector_registers(task.id.tid);
    if (probe.role == plan::PairRole::end) {
      end_pair(task, probe, vectors ? &*vectors : nullptr);
      continue;
    }
    Entered entered{&probe,
                    static_cast<event::CallId>(next_call_++),
                    static_cast<unsigned>(task.stack.depth()),
                    site.address,
                    site.address,
                    nullptr,
                    std::nullopt,
                    std::nullopt,
                    &task};
    entered.decoded.emplace();
    entered.decoded->arguments = probe.operands->read(regs_, live, vectors ? &*vectors : nullptr);
    entered.trace = take_trace(*task.process->image, instant_trace_, Backtraces::At::instant);
    if (probe.role == plan::PairRole::begin) begin_pair(task, entered);
    entered_.push_back(std::move(entered));
  }
}

void CallTracer::begin_pair(Task& task, const Entered& entered) {
  if (task.open_pairs.size() == kMostOpenPairs) {
    dead_.push_back(frame_of(task.open_pairs.front(), thread_time_.monotonic, task));
    task.open_pairs.erase(task.open_pairs.begin());
    task.stack.unnest();
  }
  task.stack.nest();
  task.open_pairs.push_back(
      {entered.probe->id, entered.probe->pair, entered.call, entered.depth, thread_time_, task.own_time});
}

// An end whose begin was before our time, or in another thread, ends nothing. Its arguments follow those of
// the begin, as those of a call do that are known at its return.
void CallTracer::end_pair(Task& task, const Probe& end, const arch::VectorRegs* vectors) {
  auto open = std::find_if(task.open_pairs.rbegin(), task.open_pairs.rend(),
                           [&](const OpenPair& one) { return one.pair == end.pair; });
  if (open == task.open_pairs.rend()) return;
  Returned returned;
  returned.frame = frame_of(*open, thread_time_.monotonic, task);
  task.own_time += returned.frame.self;
  task.stack.count_inside(returned.frame.self);
  returned.decoded.emplace();
  returned.decoded->arguments = end.operands->read(regs_, task.process->image->space().memory(), vectors);
  returned.decoded->result.kind = decode::Value::Kind::nothing;
  returned_.push_back(std::move(returned));
  task.open_pairs.erase(std::next(open).base());
  task.stack.unnest();
}

void CallTracer::leave_pairs_open(Task& task) {
  const uint64_t time = thread_time(task).monotonic;
  for (auto pair = task.open_pairs.rbegin(); pair != task.open_pairs.rend(); ++pair) {
    auto record = abandoned(task, frame_of(*pair, time, task));
    record.still_open = true;
    services_.reporter.take(task.id, timestamp(), std::move(record));
  }
  task.stack.unnest(task.open_pairs.size());
  task.open_pairs.clear();
}

void CallTracer::abandon_pairs(Task& task, event::CallId after) {
  const event::Timestamp now = timestamp();
  const uint64_t time = thread_time(task).monotonic;
  while (!task.open_pairs.empty() && task.open_pairs.back().call > after) {
    services_.reporter.take(task.id, now, abandoned(task, frame_of(task.open_pairs.back(), time, task)));
    task.open_pairs.pop_back();
    task.stack.unnest();
  }
}

}  // namespace rtrace::session
