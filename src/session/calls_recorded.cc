// Calls that a thread has recorded by itself: the same records come of them as of those met at a site.
#include <algorithm>
#include <cstring>

#include "calls.h"
#include "rtrace/arch/placement.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

arch::VectorRegs vectors_of(std::span<const std::byte> bytes) {
  arch::VectorRegs vectors;
  std::memcpy(vectors.xmm.data(), bytes.data(), std::min(bytes.size(), sizeof vectors.xmm));
  return vectors;
}

arch::Regs at_entry(const mech::Record& record, VirtAddr entry, uint64_t thread_pointer) {
  arch::Regs regs;
  user_regs_struct& raw = regs.raw;
  const auto& arguments = record.arguments;
  raw.rdi = arguments[0], raw.rsi = arguments[1], raw.rdx = arguments[2];
  raw.rcx = arguments[3], raw.r8 = arguments[4], raw.r9 = arguments[5];
  raw.rax = record.rax;
  raw.rbx = record.saved[0], raw.rbp = record.saved[1], raw.r12 = record.saved[2];
  raw.r13 = record.saved[3], raw.r14 = record.saved[4], raw.r15 = record.saved[5];
  raw.rsp = record.sp;
  raw.rip = entry.value;
  raw.fs_base = thread_pointer;
  return regs;
}

}  // namespace

// What the record leaves out is read from the thread's memory: while it stands, where the record says so.
// Else, where pointers in memory were followed, what is missing has been changed by another thread between
// the look and the copy; or it cannot be read.
void CallTracer::recorded(Task& task, const WrappedFunction& function, const mech::Record& record,
                          const Recorded& recorded) {
  using Thread = mech::RingReader::Owner;
  who_ = task.id;
  now_ = recorded.stamp;
  thread_time_ = {now_.realtime, services_.options.raw_times ? now_.monotonic : recorded.of_thread};
  dead_.clear();
  returned_.clear();
  entered_.clear();
  auto vectors = hold_pieces(record);
  const decode::CallDecoder& decoder = *services_.registry.at(function.probe).decoder;
  const bool stands = record.cut && recorded.thread == Thread::stands;
  if (stands && (decoder.has_wide_arguments() || decoder.has_wide_result()))
    vectors = tracee::vector_registers(task.id.tid);
  const bool follows = decoder.at_entry().deep != 0 || decoder.at_return().deep != 0;
  if (recorded.thread != Thread::gone && (stands || follows))
    memory_.set_live(&task.process->image->space().memory());
  above_.parts = record.above;
  if (record.kind == mech::Record::Kind::entered)
    recorded_entry(task, function, record, vectors);
  else
    recorded_return(task, function, record, vectors);
  report(task);
  memory_.set_live(nullptr);
}

// Memory is served from what the record carries.
std::optional<arch::VectorRegs> CallTracer::hold_pieces(const mech::Record& record) {
  std::optional<arch::VectorRegs> vectors;
  memory_.clear();
  for (const mech::CapturedPiece& piece : record.pieces) {
    if (piece.label == agent::kVectorPiece)
      vectors = vectors_of(piece.bytes);
    else if (piece.label >= arch::kPageSize)
      memory_.hold({piece.label}, piece.bytes);
  }
  return vectors;
}

void CallTracer::recorded_entry(Task& task, const WrappedFunction& function, const mech::Record& record,
                                const std::optional<arch::VectorRegs>& vectors) {
  Probe& probe = services_.registry.at(function.probe);
  regs_ = at_entry(record, function.entry, task.thread_pointer);
  const VirtAddr return_address{record.return_address};
  const Owner owner{function.probe, function.caller};
  const bool seen =
      function.through_slot || (is_owners(task, function.entry, {&owner, 1}, owner, return_address) &&
                                !is_turn_of_loop(task, probe, function.entry, return_address));
  if (!seen) return;
  services_.registry.hit(probe);
  Entered entered = begin_entered(task, probe, return_address);
  entered.vectors = vectors;
  enter_frame(task, entered, function.entry);
  task.recorded.push_back({record.call, event::FrameIdentity::at_entry(regs_, return_address), entered.call,
                           now_.monotonic, thread_time_.monotonic});
  entered_.push_back(std::move(entered));
}

void CallTracer::recorded_return(Task& task, const WrappedFunction& function, const mech::Record& record,
                                 const std::optional<arch::VectorRegs>& vectors) {
  const auto open = std::find_if(task.recorded.rbegin(), task.recorded.rend(),
                                 [&](const RecordedCall& call) { return call.name == record.call; });
  if (open == task.recorded.rend()) return;
  const RecordedCall call = *open;
  task.recorded.erase(std::next(open).base());
  frames_.clear();
  // By its own clock it may seem longer, where it is not known when the thread did not run.
  const uint64_t passed = now_.monotonic - std::min(call.entered, now_.monotonic);
  thread_time_.monotonic = std::min(thread_time_.monotonic, call.entered_by_thread + passed);
  if (!task.stack.leave_call(call.identity, call.call, thread_time_, frames_, dead_)) return;
  event::Frame& frame = frames_.back();
  // It has taken some time, if less than the recorder's share is known to.
  frame.duration = std::max<uint64_t>(frame.duration, 1);
  task.own_time += frame.self;
  Returned returned{frame, std::nullopt, take_open(task, frame.call), std::nullopt};
  regs_ = returned.open.entry;
  regs_.raw.rax = record.result;
  regs_.raw.rsp = call.identity.sp.value + sizeof(uint64_t);
  for (const mech::CapturedPiece& piece : record.pieces)
    if (piece.label == agent::kSecondResultPiece && piece.bytes.size() == sizeof(uint64_t))
      std::memcpy(&regs_.raw.rdx, piece.bytes.data(), sizeof(uint64_t));
  const decode::CallDecoder& decoder = *services_.registry.at(frame.probe).decoder;
  if (function.errno_offset && decoder.needs_errno(regs_))
    returned.errno_at = VirtAddr{task.thread_pointer + static_cast<uint64_t>(*function.errno_offset)};
  returned_.push_back(std::move(returned));
  decode_return(returned_.back(), vectors ? &*vectors : nullptr);
}

void CallTracer::forget_recorded(Task& task, event::CallId call) {
  if (task.recorded.empty()) return;
  std::erase_if(task.recorded, [&](const RecordedCall& open) { return open.call == call; });
}

}  // namespace rtrace::session
