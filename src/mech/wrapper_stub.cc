#include "rtrace/mech/wrapper_stub.h"

#include <cstring>
#include <span>

#include "rtrace/agent/stub.h"
#include "rtrace/base/error.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kStackWord = sizeof(uint64_t);
constexpr uint64_t kMostBorrowed = 4096;  // of a thread's stack, for each call that is open

class Builder {
 public:
  void add(const unsigned char* begin, const unsigned char* end) {
    part_ = {begin, stub_.code.size()};
    const auto* bytes = reinterpret_cast<const std::byte*>(begin);
    stub_.code.insert(stub_.code.end(), bytes, bytes + (end - begin));
  }
  // In the part that was added last.
  template <typename T>
  void fill(const unsigned char* field, T value) {
    std::memcpy(stub_.code.data() + place_of(field), &value, sizeof value);
  }
  // What follows has its frame here.
  void frame(StubFrame::Base base, uint16_t cfa) { stub_.frames.push_back({here(), base, cfa}); }
  uint16_t here() const { return static_cast<uint16_t>(stub_.code.size()); }
  // The part that was added last ends with a rel32. False where it does not reach.
  bool aim(VirtAddr stub, VirtAddr target) {
    const auto distance = static_cast<int64_t>(target.value - (stub.value + stub_.code.size()));
    if (distance != static_cast<int32_t>(distance)) return false;
    const auto field = static_cast<int32_t>(distance);
    std::memcpy(stub_.code.data() + stub_.code.size() - sizeof field, &field, sizeof field);
    return true;
  }
  void returns_here() { stub_.returns_to = here(); }
  // A rel32 that was filled with nothing yet leads to what follows.
  void aim_here(size_t field) {
    const auto distance = static_cast<int32_t>(stub_.code.size() - field - sizeof(int32_t));
    std::memcpy(stub_.code.data() + field, &distance, sizeof distance);
  }
  size_t place_of(const unsigned char* field) const {
    return part_.offset + static_cast<size_t>(field - part_.begin);
  }
  WrapperStub take() { return std::move(stub_); }

 private:
  struct Part {
    const unsigned char* begin = nullptr;
    size_t offset = 0;
  };
  WrapperStub stub_;
  Part part_;
};

bool has(const agent::FunctionPlan& plan, agent::FunctionPlan::Flag flag) {
  return (plan.flags & flag) != 0;
}

// Whether agent/quick.S may be what records the entry. It leaves no arguments in the frame for captures at
// return.
bool enters_quickly(const agent::FunctionPlan& plan) {
  return plan.plain_entry() && plan.passed_bytes == 0 && !has(plan, agent::FunctionPlan::kCapturesAtReturn) &&
         !has(plan, agent::FunctionPlan::kEntryOnly);
}

void add_quick_entry(Builder& builder, uint32_t function, VirtAddr quick_enter) {
  builder.add(rtrace_stub_quick_enter, rtrace_stub_pass);
  builder.fill(rtrace_stub_quick_enter_function, function);
  builder.fill(rtrace_stub_quick_enter_address, quick_enter.value);
}

void add_entry(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
               const WrapperAddresses& at) {
  const uint32_t passed = has(plan, agent::FunctionPlan::kEntryOnly) ? 0 : plan.passed_bytes;
  builder.frame(StubFrame::Base::rsp, 8);
  builder.add(rtrace_stub_frame, rtrace_stub_frame + 1);
  builder.frame(StubFrame::Base::rsp, 16);
  builder.add(rtrace_stub_frame + 1, rtrace_stub_save);
  builder.frame(StubFrame::Base::rbp, 16);
  if (enters_quickly(plan)) return add_quick_entry(builder, function, at.quick_enter);
  builder.add(rtrace_stub_save, rtrace_stub_save_vectors);
  if (has(plan, agent::FunctionPlan::kVectors)) builder.add(rtrace_stub_save_vectors, rtrace_stub_enter);
  builder.add(rtrace_stub_enter, rtrace_stub_quick_enter);
  builder.fill(rtrace_stub_enter_function, function);
  builder.fill(rtrace_stub_enter_passed, passed);
  builder.fill(rtrace_stub_enter_address, at.enter.value);
  if (at.borrowed && at.borrowed->pops) return;
  if (passed != 0) builder.add(rtrace_stub_pass, rtrace_stub_restore);
  builder.add(rtrace_stub_restore, rtrace_stub_borrow);
}

void add_recorded_return(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
                         const WrapperAddresses& at) {
  if (plan.plain_return()) {
    builder.add(rtrace_stub_quick_leave, rtrace_stub_unframe);
    builder.fill(rtrace_stub_quick_leave_function, function | static_cast<uint32_t>(plan.failure)
                                                                  << RTRACE_FUNCTION_BITS);
    return builder.fill(rtrace_stub_quick_leave_address, at.quick_leave.value);
  }
  builder.add(rtrace_stub_returned, rtrace_stub_save_vector_results);
  if (has(plan, agent::FunctionPlan::kVectors))
    builder.add(rtrace_stub_save_vector_results, rtrace_stub_leave);
  builder.add(rtrace_stub_leave, rtrace_stub_quick_leave);
  builder.fill(rtrace_stub_leave_function, function);
  builder.fill(rtrace_stub_leave_address, at.leave.value);
}

void add_return(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
                const WrapperAddresses& at) {
  add_recorded_return(builder, plan, function, at);
  builder.add(rtrace_stub_unframe, rtrace_stub_ret);
  builder.frame(StubFrame::Base::rsp, 8);
  builder.add(rtrace_stub_ret, rtrace_stub_launch);
}

void add_resume(Builder& builder, int32_t above) {
  builder.add(rtrace_stub_resume, rtrace_stub_resume_far);
  builder.fill(rtrace_stub_resume_store, above);
  builder.fill(rtrace_stub_resume_above, above);
}

void add_far_resume(Builder& builder, int32_t above) {
  builder.add(rtrace_stub_resume_far, rtrace_stub_keep_words);
  builder.fill(rtrace_stub_resume_far_rbx, above - 40);
  builder.fill(rtrace_stub_resume_far_r12, above - 24);
  builder.fill(rtrace_stub_resume_far_r13, above - 16);
  builder.fill(rtrace_stub_resume_far_r14, above - 8);
  builder.fill(rtrace_stub_resume_far_r15, above);
  builder.fill(rtrace_stub_resume_far_above, above);
}

void add_launch(Builder& builder, const BorrowedFrame& borrowed) {
  if (borrowed.pops) {
    builder.add(rtrace_stub_launch_far, rtrace_stub_launch_far_end);
    builder.fill(rtrace_stub_launch_far_gadget, borrowed.ret.value);
    builder.add(rtrace_stub_restore, rtrace_stub_borrow);
    return builder.add(rtrace_stub_launch_far_end, rtrace_stub_jump);
  }
  builder.add(rtrace_stub_launch, rtrace_stub_launch_far);
  builder.fill(rtrace_stub_launch_gadget, borrowed.ret.value);
}

// From the frame that the entry has made to the function, and back.
bool add_borrowed(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
                  const WrapperAddresses& at) {
  const auto adds = static_cast<int32_t>(at.borrowed->adds);
  const auto frame = static_cast<int32_t>(2 * kStackWord);  // both addresses
  builder.add(rtrace_stub_borrow, rtrace_stub_resume);
  builder.fill(rtrace_stub_borrow_below, frame - adds);
  const size_t launch = builder.place_of(rtrace_stub_borrow_distance);
  builder.returns_here();
  builder.frame(StubFrame::Base::rsp, static_cast<uint16_t>(adds));
  (at.borrowed->pops ? add_far_resume : add_resume)(builder, adds - frame);
  builder.frame(StubFrame::Base::rbp, 16);
  add_return(builder, plan, function, at);
  builder.aim_here(launch);
  builder.frame(StubFrame::Base::rbp, 16);
  add_launch(builder, *at.borrowed);
  const int popped = at.borrowed->pops ? kMostBorrowedArguments : 0;
  builder.frame(StubFrame::Base::rsp, static_cast<uint16_t>(adds + frame + popped));
  builder.add(rtrace_stub_jump, rtrace_stub_end);
  return builder.aim(at.stub, at.original);
}

}  // namespace

// R is 8 behind a multiple of 16, and so must S be. Below R lies the word for rbp, then what is kept. The
// wrapper writes both addresses before it has read rax for the last time. With pops all of that stays, for
// the registers are saved over what is kept, which moves below.
bool fits_borrowed(uint64_t adds, bool pops, const agent::FunctionPlan& plan) {
  if (adds % 16 != 8 || adds > kMostBorrowed || pops != (plan.passed_bytes != 0)) return false;
  if (pops)
    return plan.passed_bytes <= kMostBorrowedArguments &&
           adds >= 2 * kStackWord + sizeof(agent::WrapperFrame) + sizeof(agent::Kept);
  constexpr uint64_t kRax = RTRACE_FRAME_SIZE - RTRACE_FRAME_RAX;
  const uint64_t kept =
      has(plan, agent::FunctionPlan::kCapturesAtReturn) ? sizeof(agent::WrapperFrame) : sizeof(agent::Kept);
  return adds >= 2 * kStackWord + kept && adds != kRax && adds != kRax + kStackWord;
}

std::optional<WrapperStub> wrapper_stub(const agent::FunctionPlan& plan, uint32_t function,
                                        const WrapperAddresses& at) {
  CHECK(plan.passed_bytes % 16 == 0, "{} bytes of arguments", plan.passed_bytes);
  Builder builder;
  add_entry(builder, plan, function, at);
  if (has(plan, agent::FunctionPlan::kEntryOnly)) {
    builder.add(rtrace_stub_unframe, rtrace_stub_ret);
    builder.frame(StubFrame::Base::rsp, 8);
    builder.add(rtrace_stub_jump, rtrace_stub_end);
    if (!builder.aim(at.stub, at.original)) return std::nullopt;
    return builder.take();
  }
  if (at.borrowed) {
    CHECK(fits_borrowed(at.borrowed->adds, at.borrowed->pops, plan), "a frame of {} bytes",
          at.borrowed->adds);
    if (!add_borrowed(builder, plan, function, at)) return std::nullopt;
    return builder.take();
  }
  if (has(plan, agent::FunctionPlan::kCapturesAtReturn) && plan.passed_bytes == 0)
    builder.add(rtrace_stub_keep_frame, rtrace_stub_call);
  else if (plan.passed_bytes == 0)
    builder.add(rtrace_stub_keep_words, rtrace_stub_keep_frame);
  builder.add(rtrace_stub_call, rtrace_stub_returned);
  if (!builder.aim(at.stub, at.original)) return std::nullopt;
  builder.returns_here();
  add_return(builder, plan, function, at);
  return builder.take();
}

}  // namespace rtrace::mech
