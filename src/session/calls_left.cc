// Calls that do not return: what was left by an exception or longjmp, and what is open at the end.
#include <algorithm>
#include <utility>

#include "calls.h"
#include "image.h"

namespace rtrace::session {
namespace {

constexpr size_t kWorthALook = 16;  // left ones, until it is worth to look

}  // namespace

bool CallTracer::may_have_unwound(const Task& task) {
  return task.stack.left() >= task.left_before + std::max(kWorthALook, task.left_before / 4) &&
         !task.stack.resumes();
}

// A left call that is still to return has its return address where it was, on whatever stack, or it lies on a
// stack that others share, of which its part is copied to and fro: then one of the left ones has returned
// before long.
CallTracer::Unwound CallTracer::unwound(const Task& task) {
  Unwound gone;
  if (task.stack.resumes() || task.process->image == nullptr) return {{}, task.stack.left()};
  std::vector<const event::Frame*> frames;
  task.stack.for_each_left([&](const event::Frame& frame, bool overlaid) {
    if (overlaid)
      gone.calls.insert(frame.call);
    else
      frames.push_back(&frame);
  });
  std::vector<uint64_t> words(frames.size());
  std::vector<Memory::Piece> pieces;
  for (size_t i = 0; i < frames.size(); ++i)
    pieces.push_back({frames[i]->identity.sp, reinterpret_cast<std::byte*>(&words[i]), sizeof words[i]});
  task.process->image->space().memory().read_gathered(pieces);
  for (size_t i = 0; i < frames.size(); ++i)
    if (pieces[i].got != sizeof words[i] || words[i] != frames[i]->identity.return_address.value)
      gone.calls.insert(frames[i]->call);
  gone.others = task.stack.left() - gone.calls.size();
  return gone;
}

void CallTracer::bury(Task& task, const Unwound& gone) {
  task.stack.bury_left(gone.calls, dead_);
  task.left_before = gone.others;
}

void CallTracer::tell_unwound(Task& task, const Unwound& gone) {
  who_ = task.id;
  now_ = timestamp();
  dead_.clear();
  returned_.clear();
  entered_.clear();
  bury(task, gone);
  report(task);
}

decode::CallAbandoned CallTracer::abandoned(const Task& task, const event::Frame& frame) const {
  const Probe& probe = services_.registry.at(frame.probe);
  decode::CallAbandoned record{&probe.label, frame.call,      frame.depth, frame.duration,
                               frame.self,   frame.recursive, false};
  if (const auto open = task.open_calls.find(frame.call); open != task.open_calls.end())
    record.arguments = probe.decoder->abandon(open->second.entry, open->second.stack,
                                              carried_by(open->second.vectors, open->second.before));
  record.inherited = inherited(task, frame.call);
  return record;
}

void CallTracer::abandon_all(Task& task) {
  // The newest first: that is the order in which they stand open in the trace.
  task.clock.halted(monotonic_now());
  auto frames = task.stack.clear(thread_time(task));
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    abandon_pairs(task, frame->call);
    services_.reporter.take(task.id, timestamp(), abandoned(task, *frame));
  }
  tell_open_counts(task, false);
  abandon_pairs(task);
  task.open_calls.clear();
  task.recorded.clear();
}

void CallTracer::leave_open(Task& task) {
  task.clock.halted(monotonic_now());
  const Unwound gone = unwound(task);
  auto frames = task.stack.clear(thread_time(task));
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    auto record = abandoned(task, *frame);
    record.still_open = !gone.calls.contains(frame->call);
    services_.reporter.take(task.id, timestamp(), std::move(record));
  }
  tell_open_counts(task, true);
  leave_pairs_open(task);
  task.open_calls.clear();
  task.recorded.clear();
}

void CallTracer::tell_open_counts(Task& task, bool still_open) {
  for (const OpenCounted& call : std::exchange(task.open_counts, {}))
    services_.reporter.take(
        task.id, timestamp(),
        decode::CallAbandoned{
            &services_.registry.at(call.probe).label, {}, 0, call.duration, call.self, false, still_open});
}

}  // namespace rtrace::session
