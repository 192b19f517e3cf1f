#include "rtrace/mech/wrapper_stub.h"

#include <array>
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
  WrapperStub take(size_t most) {
    CHECK(stub_.code.size() <= most, "a stub of {} bytes", stub_.code.size());
    return std::move(stub_);
  }

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
  return plan.plain_entry() && !plan.passed.any() && !has(plan, agent::FunctionPlan::kCapturesAtReturn) &&
         !has(plan, agent::FunctionPlan::kEntryOnly);
}

void add_quick_entry(Builder& builder, const WrapperAddresses& at) {
  builder.add(rtrace_stub_quick_enter, rtrace_stub_pass);
  builder.fill(rtrace_stub_quick_enter_plan, at.plan.value);
  builder.fill(rtrace_stub_quick_enter_address, at.quick_enter.value);
}

void add_entry(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
               const WrapperAddresses& at) {
  const uint32_t passed = has(plan, agent::FunctionPlan::kEntryOnly) ? 0 : plan.passed.bits();
  builder.frame(StubFrame::Base::rsp, 8);
  builder.add(rtrace_stub_frame, rtrace_stub_frame + 1);
  builder.frame(StubFrame::Base::rsp, 16);
  builder.add(rtrace_stub_frame + 1, rtrace_stub_save);
  builder.frame(StubFrame::Base::rbp, 16);
  if (enters_quickly(plan)) return add_quick_entry(builder, at);
  builder.add(rtrace_stub_save, rtrace_stub_save_vectors);
  if (has(plan, agent::FunctionPlan::kVectors)) builder.add(rtrace_stub_save_vectors, rtrace_stub_enter);
  builder.add(rtrace_stub_enter, rtrace_stub_quick_enter);
  builder.fill(rtrace_stub_enter_function, function);
  builder.fill(rtrace_stub_enter_passed, passed);
  builder.fill(rtrace_stub_enter_address, at.enter.value);
  if (at.borrowed && at.borrowed->calls != 0)
    builder.add(rtrace_stub_spread, rtrace_stub_lend);
  else if (passed != 0)
    builder.add(rtrace_stub_pass, rtrace_stub_restore);
  builder.add(rtrace_stub_restore, rtrace_stub_borrow);
}

void add_recorded_return(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
                         const WrapperAddresses& at) {
  if (plan.plain_return()) {
    builder.add(rtrace_stub_quick_leave, rtrace_stub_unframe);
    builder.fill(rtrace_stub_quick_leave_plan, at.plan.value);
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
  builder.add(rtrace_stub_resume, rtrace_stub_spread);
  builder.fill(rtrace_stub_resume_store, above);
  builder.fill(rtrace_stub_resume_above, above);
}

void add_launch(Builder& builder, const BorrowedFrame& borrowed) {
  builder.add(rtrace_stub_launch, rtrace_stub_foretell);
  builder.fill(rtrace_stub_launch_gadget, borrowed.ret.value);
}

// By our call, or without one.
void add_foretold(Builder& builder, const BorrowedFrame& borrowed, VirtAddr original) {
  builder.add(rtrace_stub_foretell, rtrace_stub_foretell_jump);
  builder.fill(rtrace_stub_foretell_function, original.value);
  builder.fill(rtrace_stub_foretell_second, borrowed.second.value);
  builder.fill(rtrace_stub_foretell_first, borrowed.first);
  builder.frame(StubFrame::Base::rsp, static_cast<uint16_t>(borrowed.adds + kStackWord));
  builder.add(rtrace_stub_foretell_jump, rtrace_stub_jump);
  builder.fill(rtrace_stub_foretell_call, borrowed.call().value);
  builder.add(rtrace_stub_seem_called, rtrace_stub_seem_called_whole);
  builder.fill(rtrace_stub_seem_called_low, static_cast<uint32_t>(borrowed.ret.value));
  builder.frame(StubFrame::Base::rsp, static_cast<uint16_t>(borrowed.adds + 2 * kStackWord));
  builder.add(rtrace_stub_seem_called_whole, rtrace_stub_resume_called);
  builder.fill(rtrace_stub_seem_called_high, static_cast<uint32_t>(borrowed.ret.value >> 32));
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
  add_resume(builder, adds - frame);
  builder.frame(StubFrame::Base::rbp, 16);
  add_return(builder, plan, function, at);
  builder.aim_here(launch);
  builder.frame(StubFrame::Base::rbp, 16);
  if (at.borrowed->first != 0) {
    add_foretold(builder, *at.borrowed, at.original);
  } else {
    add_launch(builder, *at.borrowed);
    builder.frame(StubFrame::Base::rsp, static_cast<uint16_t>(adds + frame));
  }
  builder.add(rtrace_stub_jump, rtrace_stub_end);
  return builder.aim(at.stub, at.original);
}

// An instruction's first three bytes: 64 bits wide, of that register and what `form` names.
std::array<uint8_t, 3> with_register(uint8_t code, uint8_t form, uint8_t reg) {
  return {static_cast<uint8_t>(0x48 | reg >> 3 << 2), code, static_cast<uint8_t>(form | (reg & 7) << 3)};
}

// Where the caller's one lies, from rbp: as six pushes leave it, rbp's first, then r15 to r12 and rbx.
int32_t saved_place(uint8_t reg) {
  constexpr int kR15 = 15, kRbxPlace = -5;
  return static_cast<int32_t>(kStackWord) * (reg > 8 ? reg - kR15 - 1 : kRbxPlace);
}

// The same where code calls back that the function returns to.
bool add_called(Builder& builder, const agent::FunctionPlan& plan, uint32_t function,
                const WrapperAddresses& at) {
  constexpr uint8_t kLea = 0x8d, kStore = 0x89, kLoad = 0x8b, kFromRip = 0x05, kFromRbp = 0x85;
  const uint8_t reg = at.borrowed->calls;
  builder.add(rtrace_stub_lend, rtrace_stub_seem_called);
  builder.fill(rtrace_stub_lend_lea, with_register(kLea, kFromRip, reg));
  builder.fill(rtrace_stub_lend_store, with_register(kStore, kFromRbp, reg));
  const size_t resume = builder.place_of(rtrace_stub_lend_distance);
  builder.add(rtrace_stub_seem_called, rtrace_stub_seem_called_whole);
  builder.fill(rtrace_stub_seem_called_low, static_cast<uint32_t>(at.borrowed->ret.value));
  builder.add(rtrace_stub_seem_called_whole, rtrace_stub_resume_called);
  builder.fill(rtrace_stub_seem_called_high, static_cast<uint32_t>(at.borrowed->ret.value >> 32));
  builder.add(rtrace_stub_jump, rtrace_stub_end);
  if (!builder.aim(at.stub, at.original)) return false;
  builder.aim_here(resume);
  builder.returns_here();
  builder.add(rtrace_stub_resume_called, rtrace_stub_keep_words);
  builder.fill(rtrace_stub_resume_called_load, with_register(kLoad, kFromRbp, reg));
  builder.fill(rtrace_stub_resume_called_place, saved_place(reg));
  add_return(builder, plan, function, at);
  return true;
}

constexpr uint64_t kRax = RTRACE_FRAME_SIZE - RTRACE_FRAME_RAX;

uint64_t bytes_kept(const agent::FunctionPlan& plan) {
  return has(plan, agent::FunctionPlan::kCapturesAtReturn) ? sizeof(agent::WrapperFrame)
                                                           : sizeof(agent::Kept);
}

}  // namespace

// R is 8 behind a multiple of 16, and so must S be. Below R lies the word for rbp, then what is kept. The
// wrapper writes both addresses before it has read rax for the last time.
bool fits_borrowed(uint64_t adds, const agent::FunctionPlan& plan) {
  if (adds % 16 != 8 || adds > kMostBorrowed || plan.passed.any()) return false;
  return adds >= 2 * kStackWord + bytes_kept(plan) && adds != kRax && adds != kRax + kStackWord;
}

// Another address is written where the second frame ends.
bool fits_foretold(uint64_t first, uint64_t second_adds, const agent::FunctionPlan& plan) {
  if (has(plan, agent::FunctionPlan::kVectors)) return false;  // its stub is long enough
  return first >= kStackWord && second_adds >= kStackWord + bytes_kept(plan) && second_adds != kRax &&
         fits_borrowed(first + kStackWord + second_adds, plan);
}

std::optional<WrapperStub> wrapper_stub(const agent::FunctionPlan& plan, uint32_t function,
                                        const WrapperAddresses& at) {
  Builder builder;
  add_entry(builder, plan, function, at);
  if (has(plan, agent::FunctionPlan::kEntryOnly)) {
    builder.add(rtrace_stub_unframe, rtrace_stub_ret);
    builder.frame(StubFrame::Base::rsp, 8);
    builder.add(rtrace_stub_jump, rtrace_stub_end);
    if (!builder.aim(at.stub, at.original)) return std::nullopt;
    return builder.take(kMaxWrapperStub);
  }
  if (at.borrowed) {
    const bool calls = at.borrowed->calls != 0;
    CHECK(calls ? plan.passed.any() : fits_borrowed(at.borrowed->adds, plan), "a frame of {} bytes",
          at.borrowed->adds);
    if (!(calls ? add_called : add_borrowed)(builder, plan, function, at)) return std::nullopt;
    return builder.take(calls ? kMaxCalledStub : kMaxWrapperStub);
  }
  if (has(plan, agent::FunctionPlan::kCapturesAtReturn) && !plan.passed.any())
    builder.add(rtrace_stub_keep_frame, rtrace_stub_call);
  else if (!plan.passed.any())
    builder.add(rtrace_stub_keep_words, rtrace_stub_keep_frame);
  builder.add(rtrace_stub_call, rtrace_stub_returned);
  if (!builder.aim(at.stub, at.original)) return std::nullopt;
  builder.returns_here();
  add_return(builder, plan, function, at);
  return builder.take(kMaxWrapperStub);
}

}  // namespace rtrace::mech
