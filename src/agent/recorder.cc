#include "recorder.h"

#include "captures.h"
#include "pages.h"
#include "summaries.h"
#include "system.h"
#include "threads.h"

namespace rtrace::agent {
namespace {

constexpr uint64_t kVectorsAtEntry = RTRACE_VECTORS_SIZE, kVectorsAtReturn = 32;

uint64_t now(const Control& control) {
  if (control.clock == 0) [[likely]]
    return time_stamp_counter();
  constexpr int kMonotonic = 1;  // CLOCK_MONOTONIC
  uint64_t time[2] = {};
  reinterpret_cast<int (*)(int, uint64_t*)>(control.clock)(kMonotonic, time);
  return time[0] * 1'000'000'000 + time[1];
}

uint64_t address_of(const void* what) {
  return reinterpret_cast<uint64_t>(what);
}

// The address of the return address: behind the frame lies the caller's rbp.
uint64_t stack_pointer(const WrapperFrame& frame) {
  return address_of(&frame) + sizeof frame + 8;
}

const FunctionPlan& plan_of(const Control& control, uint32_t function) {
  return reinterpret_cast<const FunctionPlan*>(control.plans)[function];
}

uint64_t append(const Control& control, Slot& slot, WrapperFrame& frame, uint64_t words,
                const Pieces& pieces) {
  RecordHead& head = frame.entry.head;
  head.words = static_cast<uint16_t>(words + pieces.size / 8);
  if (pieces.cut) head.fixed |= kCut;
  const Job job{&slot, &frame, words, pieces.list, pieces.list + pieces.count, words * 8 + pieces.size};
  return pieces.count == 0 ? append_words(control, slot, &frame, words) : append_pieces(control, job);
}

uint64_t append_entry(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan) {
  Pieces pieces;
  begin(pieces);
  const Reader reader{control, slot, frame.entry.sp, frame.entry.ticks};
  if (plan.shown_bytes != 0) add_stack(pieces, reader, plan.shown_bytes);
  if ((plan.flags & FunctionPlan::kVectors) != 0)
    add_piece(pieces, kVectorPiece, address_of(&frame) - kVectorsAtEntry, kVectorsAtEntry);
  add_captures(pieces, reader, plan.at_entry, frame.entry.arguments, nullptr);
  return append(control, slot, frame, plan.entry_words, pieces);
}

uint64_t append_return(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan) {
  Pieces pieces;
  begin(pieces);
  const Reader reader{control, slot, stack_pointer(frame), frame.returned.ticks};
  const uint64_t result = frame.returned.result;
  if ((plan.flags & FunctionPlan::kSecondResult) != 0)
    add_piece(pieces, kSecondResultPiece, address_of(&frame.r11), sizeof frame.r11);
  if (plan.errno_offset != FunctionPlan::kNoErrno) {
    const uint64_t at = slot.thread + static_cast<uint64_t>(plan.errno_offset);
    add_piece(pieces, at, at, sizeof(int32_t));
  }
  if ((plan.flags & FunctionPlan::kVectors) != 0)
    add_piece(pieces, kVectorPiece, address_of(&frame) - kVectorsAtReturn, kVectorsAtReturn);
  add_captures(pieces, reader, plan.at_return, frame.entry.arguments, &result);
  return append(control, slot, frame, kReturnWords, pieces);
}

// The rest of an entry that has more than its words, or found no room.
__attribute__((noinline)) void record_entry(const Control& control, Slot& slot, WrapperFrame& frame,
                                            const FunctionPlan& plan) {
  frame.kept[0] = append_entry(control, slot, frame, plan);
  if (frame.kept[0] == 0) asm volatile("incl %0" : "+m"(slot.lost_entries) : : "cc");
}

__attribute__((noinline)) void record_return(const Control& control, Slot& slot, WrapperFrame& frame,
                                             const FunctionPlan& plan) {
  if (append_return(control, slot, frame, plan) == 0)
    asm volatile("incl %0" : "+m"(slot.lost_returns) : : "cc");
}

__attribute__((noinline)) bool has_failed(const Slot& slot, const FunctionPlan& plan, uint64_t result) {
  switch (plan.failure) {
    case Failure::none:
      return false;
    case Failure::minus_one_32:
      if (static_cast<uint32_t>(result) != ~uint32_t{0}) return false;
      break;
    case Failure::minus_one_64:
      if (result != ~uint64_t{0}) return false;
      break;
    case Failure::null:
      if (result != 0 && result != ~uint64_t{0}) return false;
      break;
  }
  if (plan.errno_offset == FunctionPlan::kNoErrno) return true;
  return *reinterpret_cast<const int32_t*>(slot.thread + static_cast<uint64_t>(plan.errno_offset)) != 0;
}

// What of the arguments there is to hand on: a caller near the end of its stack has fewer bytes than the
// function might take.
__attribute__((noinline)) uint64_t passed_bytes(const Control& control, Slot* slot, uint64_t sp,
                                                uint64_t bytes) {
  const uint64_t readable = slot == nullptr
                                ? readable_bytes(sp, sp + 8, bytes)
                                : readable_bytes({control, *slot, sp, now(control)}, sp + 8, bytes);
  return readable & ~uint64_t{15};
}

}  // namespace

uint64_t enter(const Control& control, WrapperFrame& frame, uint32_t function, uint64_t passed) {
  frame.kept[0] = 0;
  const Mode mode = __atomic_load_n(&control.mode, __ATOMIC_ACQUIRE);
  Slot* slot = mode == Mode::off ? nullptr : own_slot(control);
  // The entry comes last: what follows its stamp is the call's own time.
  if (passed != 0) passed = passed_bytes(control, slot, stack_pointer(frame), passed);
  if (slot == nullptr) return passed;
  if (mode == Mode::count) {
    count_entry(control, *slot, function, stack_pointer(frame), now(control), frame.kept);
    return passed;
  }
  const FunctionPlan& plan = plan_of(control, function);
  EntryRecord& entry = frame.entry;
  entry.head = plan.entry_head;
  entry.sp = stack_pointer(frame);
  entry.return_address = *reinterpret_cast<const uint64_t*>(entry.sp);
  entry.ticks = now(control);
  if ((plan.flags & FunctionPlan::kPlainEntry) != 0) {
    frame.kept[0] = rtrace_append_words(slot, &frame, plan.entry_words);
    if (frame.kept[0] != 0) [[likely]]
      return passed;
  }
  record_entry(control, *slot, frame, plan);
  return passed;
}

void leave(const Control& control, WrapperFrame& frame, uint32_t function) {
  const Mode mode = __atomic_load_n(&control.mode, __ATOMIC_ACQUIRE);
  if (frame.kept[0] == 0 || mode == Mode::off) return;
  const uint64_t ticks = now(control);
  Slot* slot = own_slot(control);
  if (slot == nullptr) return;
  const FunctionPlan& plan = plan_of(control, function);
  if (mode == Mode::count) {
    const bool failed = plan.failure != Failure::none && has_failed(*slot, plan, frame.returned.result);
    return count_return(control, *slot, function, stack_pointer(frame), ticks, frame.kept, failed);
  }
  ReturnRecord& returned = frame.returned;
  returned.head = plan.return_head;
  returned.ticks = ticks;
  returned.call = frame.kept[0];
  if ((plan.flags & FunctionPlan::kPlainReturn) != 0 && rtrace_append_words(slot, &frame, kReturnWords) != 0)
      [[likely]]
    return;
  record_return(control, *slot, frame, plan);
}

}  // namespace rtrace::agent

#ifdef RTRACE_BLOB

extern "C" __attribute__((visibility("hidden"))) const volatile rtrace::agent::Blob rtrace_blob;

extern "C" __attribute__((visibility("hidden"))) uint64_t rtrace_enter(rtrace::agent::WrapperFrame* frame,
                                                                       uint32_t function, uint64_t passed) {
  const auto* control = reinterpret_cast<const rtrace::agent::Control*>(rtrace_blob.control);
  return rtrace::agent::enter(*control, *frame, function, passed);
}

extern "C" __attribute__((visibility("hidden"))) void rtrace_leave(rtrace::agent::WrapperFrame* frame,
                                                                   uint32_t function) {
  const auto* control = reinterpret_cast<const rtrace::agent::Control*>(rtrace_blob.control);
  rtrace::agent::leave(*control, *frame, function);
}

#endif
