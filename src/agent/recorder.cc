#include "recorder.h"

#include <bit>

#include "captures.h"
#include "pages.h"
#include "passed.h"
#include "summaries.h"
#include "system.h"
#include "threads.h"

namespace rtrace::agent {
namespace {

constexpr uint64_t kVectorsAtEntry = RTRACE_VECTORS_SIZE, kVectorsAtReturn = 32;

uint64_t address_of(const void* what) {
  return reinterpret_cast<uint64_t>(what);
}

// The address of the return address: behind the frame lies the caller's rbp.
uint64_t stack_pointer(const WrapperFrame& frame) {
  return address_of(&frame) + sizeof frame + 8;
}

// nullptr where Control is empty.
const FunctionPlan* plan_of(const Control& control, uint32_t function) {
  const uint64_t plans = once(control.plans);
  return plans == 0 ? nullptr : reinterpret_cast<const FunctionPlan*>(plans) + function;
}

// The longest record of which it is known beforehand what copying it takes.
constexpr uint64_t kSoonCopied = 512;

// As quick.S does: for this record and its call's other one, some ten or twenty calls ahead.
void ask_for_lines(const Slot& slot, uint64_t bytes) {
  constexpr uint64_t kLine = 64, kAhead = 3072, kMost = 512;
  const uint64_t ahead = slot.head + kAhead;
  for (uint64_t at = 0; at < bytes + kLine && at < kMost; at += kLine)
    asm volatile("prefetchw (%0)" : : "r"(slot.ring + ((ahead + at) & (slot.capacity - 1))));
}

// Stored as one word: it is loaded as one right away, which would wait for parts of it.
RecordHead whole(RecordHead head) {
  auto word = std::bit_cast<uint64_t>(head);
  asm("" : "+r"(word));
  return std::bit_cast<RecordHead>(word);
}

struct Appended {
  uint64_t call;  // 0: it is lost
  bool quick;     // there was no need to wait, and little to copy: what it took is known beforehand
};

// Another thread may take away what is copied: then it is looked for anew, and left to the tracer in the end.
uint64_t append_all(const Control& control, Slot& slot, WrapperFrame& frame, uint64_t words, Pieces& pieces) {
  constexpr unsigned kPatience = 16;
  for (unsigned round = 0; pieces.count > 0; ++round) {
    const Job job{&slot, &frame, words, pieces.list, pieces.list + pieces.count, words * 8 + pieces.size};
    const uint64_t call = append_pieces(control, job);
    if (call != RTRACE_PIECE_GONE) return call;
    drop_gone(pieces, {control, stack_pointer(frame)});
    if (round == kPatience) {
      pieces.count = 0;
      pieces.size = 0;
      pieces.cut = true;
      frame.entry.head.fixed |= kCut;
    }
    frame.entry.head.words = static_cast<uint16_t>(words + pieces.size / 8);
  }
  return append_words(control, slot, &frame, words);
}

// What the record leaves out is read by the tracer while the thread stands behind it, in a question.
Appended append(const Control& control, Slot& slot, WrapperFrame& frame, uint64_t words, Pieces& pieces) {
  RecordHead head = frame.entry.head;
  head.words = static_cast<uint16_t>(words + pieces.size / 8);
  if (pieces.cut) head.fixed |= kCut;
  frame.entry.head = whole(head);
  const uint64_t size = words * 8 + pieces.size;
  ask_for_lines(slot, size);
  const bool quick = !pieces.cut && size <= kSoonCopied && slot.head + size <= slot.room_end;
  const uint64_t call = append_all(control, slot, frame, words, pieces);
  if (pieces.cut && call != 0) ask_within(control, slot);
  return {call, quick};
}

// With Slot::questions as they are then, which nothing else needs yet.
void stamp_entry(const Slot& slot, WrapperFrame& frame) {
  frame.kept.second = slot.questions;
  frame.entry.held = slot.held;
  frame.entry.ticks = time_stamp_counter();
}

Appended append_entry(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan,
                      Pieces& pieces) {
  const Reader reader{control, frame.entry.sp};
  if ((plan.flags & FunctionPlan::kCallerWords) != 0) hash_caller_words(reader, frame.entry.above);
  if (plan.shown_bytes != 0) add_stack(pieces, reader, plan.shown_bytes);
  if ((plan.flags & FunctionPlan::kVectors) != 0)
    add_piece(pieces, kVectorPiece, address_of(&frame) - kVectorsAtEntry, kVectorsAtEntry);
  add_captures(pieces, reader, plan.at_entry, frame.entry.arguments, nullptr);
  if (frame.entry.ticks == 0) stamp_entry(slot, frame);
  return append(control, slot, frame, plan.entry_words, pieces);
}

bool shows_failure(Failure failure, uint64_t result) {
  switch (failure) {
    case Failure::minus_one_32:
      return static_cast<uint32_t>(result) == ~uint32_t{0};
    case Failure::minus_one_64:
      return result == ~uint64_t{0};
    case Failure::null:
      return result == 0 || result == ~uint64_t{0};
    case Failure::none:
      break;
  }
  return true;
}

bool has_errno(const FunctionPlan& plan, uint64_t result) {
  return plan.errno_offset != FunctionPlan::kNoErrno && shows_failure(plan.failure, result);
}

Appended append_return(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan,
                       Pieces& pieces) {
  const Reader reader{control, stack_pointer(frame)};
  const uint64_t result = frame.returned.result;
  if ((plan.flags & FunctionPlan::kSecondResult) != 0)
    add_piece(pieces, kSecondResultPiece, address_of(&frame.r11), sizeof frame.r11);
  if (has_errno(plan, result)) {
    const uint64_t at = thread_pointer() + static_cast<uint64_t>(plan.errno_offset);
    add_piece(pieces, at, at, sizeof(int32_t));
  }
  if ((plan.flags & FunctionPlan::kVectors) != 0)
    add_piece(pieces, kVectorPiece, address_of(&frame) - kVectorsAtReturn, kVectorsAtReturn);
  add_captures(pieces, reader, plan.at_return, frame.entry.arguments, &result);
  return append(control, slot, frame, kReturnWords, pieces);
}

using Append = Appended (*)(const Control&, Slot&, WrapperFrame&, const FunctionPlan&, Pieces&);

// On the program's stack no more than is needed.
template <Append kAppend, unsigned kMost>
__attribute__((noinline)) Appended with_room(const Control& control, Slot& slot, WrapperFrame& frame,
                                             const FunctionPlan& plan) {
  Piece room[kMost];
  Pieces pieces{room, kMost};
  return kAppend(control, slot, frame, plan, pieces);
}

template <Append kAppend>
Appended append_record(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan,
                       const CapturePlan& captures) {
  if (captures.deep == CapturePlan::kShapes)
    return with_room<kAppend, kMostFarPieces>(control, slot, frame, plan);
  return with_room<kAppend, kMostPieces>(control, slot, frame, plan);
}

bool has_failed(const FunctionPlan& plan, uint64_t result) {
  if (plan.failure == Failure::none || !shows_failure(plan.failure, result)) return false;
  if (plan.errno_offset == FunctionPlan::kNoErrno) return true;
  return *reinterpret_cast<const int32_t*>(thread_pointer() + static_cast<uint64_t>(plan.errno_offset)) != 0;
}

// What has passed since then was not the program's: copying, and waiting for room. A share of it is known
// beforehand, and is all that there is where quick.S records, and mostly here. `questions` as they were then.
void hold_since(Slot& slot, uint64_t then, uint64_t questions, uint64_t share) {
  const uint64_t passed = time_stamp_counter() - then, stood = slot.questions - questions;
  const uint64_t held = passed > stood ? passed - stood : 0;
  add_alone(slot.held, held > share ? held : share);
}

// A call that was recorded, or met at a breakpoint: one more look at the clock is for these alone.
bool is_inside_another(const Slot& slot) {
  return slot.open != 0 || __atomic_load_n(&slot.inside_breakpoints, __ATOMIC_RELAXED) != 0;
}

// In a child whose Control is empty it is none of its parent's.
void count_open(const Control& control, Slot& slot, uint64_t more) {
  if (!is_empty(control)) add_alone(slot.open, more);
}

void keep_call(const Control& control, WrapperFrame& frame, Slot& slot, uint64_t call) {
  frame.kept = {call, 0, address_of(&slot), 0};
  if (call != 0) count_open(control, slot, 1);
  look_for_room(slot);
}

// The stamp comes last: what follows it is the call's own time. Inside another call it comes first, for what
// copying takes is no more that call's than this one's.
void record_entry(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan) {
  const bool inside = is_inside_another(slot);
  frame.entry.ticks = 0;
  if (inside) stamp_entry(slot, frame);
  const Appended appended = append_record<append_entry>(control, slot, frame, plan, plan.at_entry);
  const uint64_t questions = frame.kept.second;
  if (appended.call == 0) asm volatile("incl %0" : "+m"(slot.lost_entries) : : "cc");
  keep_call(control, frame, slot, appended.call);
  if (inside || !appended.quick) return hold_since(slot, frame.entry.ticks, questions, control.share_inside);
  add_alone(slot.held, control.share_inside);
}

void record_return(const Control& control, Slot& slot, WrapperFrame& frame, const FunctionPlan& plan) {
  const uint64_t then = frame.returned.ticks, questions = slot.questions;
  const Appended appended = append_record<append_return>(control, slot, frame, plan, plan.at_return);
  if (appended.call == 0) asm volatile("incl %0" : "+m"(slot.lost_returns) : : "cc");
  look_for_room(slot);
  if (is_inside_another(slot) || !appended.quick)
    return hold_since(slot, then, questions, control.share_outside);
  add_alone(slot.held, control.share_outside);
}

// The entry without its stamp.
void prepare_entry(WrapperFrame& frame, const FunctionPlan& plan) {
  EntryRecord& entry = frame.entry;
  entry.head = plan.entry_head;
  entry.sp = stack_pointer(frame);
  entry.return_address = *reinterpret_cast<const uint64_t*>(entry.sp);
}

void prepare_return(const Control& control, WrapperFrame& frame, const FunctionPlan& plan, Slot& slot,
                    uint64_t ticks) {
  ReturnRecord& returned = frame.returned;
  returned.head = plan.return_head;
  returned.ticks = ticks;
  returned.held = slot.held;
  returned.call = frame.kept.first;
  count_open(control, slot, ~uint64_t{0});
}

__attribute__((noinline)) uint64_t count_one_entry(const Control& found, WrapperFrame& frame,
                                                   uint32_t function, Passed passed) {
  alignas(Control) ControlRoom room;
  const bool whole = copy_whole(found, room);
  const Control& control = *reinterpret_cast<const Control*>(room);
  const uint64_t bytes = passed.any() ? passed_bytes(whole ? control : found, frame, passed) : 0;
  Slot* const slot = whole ? own_slot(control) : nullptr;
  if (slot != nullptr)
    count_entry(control, *slot, {function, stack_pointer(frame), time_stamp_counter()}, frame.kept);
  return bytes;
}

// A clock that the program may not read is the tracer's to answer: silent, none is looked at.
__attribute__((noinline)) void count_one_return(const Control& found, WrapperFrame& frame,
                                                uint32_t function) {
  alignas(Control) ControlRoom room;
  if (!copy_whole(found, room)) return;
  const Control& control = *reinterpret_cast<const Control*>(room);
  const uint64_t ticks = control.mode == Mode::off ? 0 : time_stamp_counter();
  Slot* const slot = own_slot(control);
  if (slot == nullptr) return;
  const bool failed = has_failed(*plan_of(control, function), frame.returned.result);
  count_return(control, *slot, {function, stack_pointer(frame), ticks}, frame.kept,
               failed ? Outcome::failed : Outcome::fine);
}

// The recorder has fallen silent meanwhile. Pages of ours stay until no call is open: one that has begun
// ends.
void close_call(const Control& control, WrapperFrame& frame, uint32_t function) {
  if (is_empty(control)) return;
  if (control.summaries_count != 0) return count_one_return(control, frame, function);
  if (Slot* const slot = own_slot(control)) add_alone(slot->open, ~uint64_t{0});
}

// Its return leads through pages of ours, which stay for as long as a call is open; on whatever stack it is.
// In a child whose Control is empty nothing tells, and they stay.
bool count_unrecorded(const Control& control, uint64_t more) {
  const uint64_t shared = once(control.shared);
  if (shared == 0) return false;
  add_among_threads(reinterpret_cast<SharedHeader*>(shared)->unrecorded, more);
  return true;
}

uint64_t record_or_count(const Control& control, WrapperFrame& frame, uint32_t function, Passed passed) {
  const Mode mode = mode_now(control);
  if (mode == Mode::count) return count_one_entry(control, frame, function, passed);
  const uint64_t bytes = passed.any() ? passed_bytes(control, frame, passed) : 0;
  Slot* const slot = mode == Mode::off ? nullptr : own_slot(control);
  const FunctionPlan* const plan = plan_of(control, function);
  if (slot == nullptr || plan == nullptr) return bytes;
  prepare_entry(frame, *plan);
  record_entry(control, *slot, frame, *plan);
  return bytes;
}

}  // namespace

uint64_t enter(const Control& control, WrapperFrame& frame, uint32_t function, Passed passed) {
  frame.kept.first = 0;
  const uint64_t bytes = record_or_count(control, frame, function, passed);
  if (frame.kept.first == 0 && count_unrecorded(control, 1)) frame.kept.first = kUnrecorded;
  return bytes;
}

void leave(const Control& control, WrapperFrame& frame, uint32_t function) {
  if (frame.kept.first == 0) return;
  if (frame.kept.first == kUnrecorded) return static_cast<void>(count_unrecorded(control, ~uint64_t{0}));
  const Mode mode = mode_now(control);
  if (mode == Mode::off) return close_call(control, frame, function);
  if (mode == Mode::count) return count_one_return(control, frame, function);
  const uint64_t ticks = time_stamp_counter();
  Slot* const slot = own_slot(control);
  const FunctionPlan* const plan = plan_of(control, function);
  if (slot == nullptr || plan == nullptr) return;
  prepare_return(control, frame, *plan, *slot, ticks);
  record_return(control, *slot, frame, *plan);
}

}  // namespace rtrace::agent

#ifdef RTRACE_BLOB

extern "C" __attribute__((visibility("hidden"))) const volatile rtrace::agent::Blob rtrace_blob;

extern "C" __attribute__((visibility("hidden"))) uint64_t rtrace_enter(rtrace::agent::WrapperFrame* frame,
                                                                       uint32_t function, uint32_t passed) {
  const auto* control = reinterpret_cast<const rtrace::agent::Control*>(rtrace_blob.control);
  return rtrace::agent::enter(*control, *frame, function, rtrace::agent::Passed::from(passed));
}

extern "C" __attribute__((visibility("hidden"))) void rtrace_leave(rtrace::agent::WrapperFrame* frame,
                                                                   uint32_t function) {
  const auto* control = reinterpret_cast<const rtrace::agent::Control*>(rtrace_blob.control);
  rtrace::agent::leave(*control, *frame, function);
}

#endif
