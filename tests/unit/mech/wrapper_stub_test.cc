#include "rtrace/mech/wrapper_stub.h"

#include <gmock/gmock.h>

#include "rtrace/arch/insn.h"

namespace rtrace::mech::wrapper_stub_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr VirtAddr kStub{0x7f0000010000};
constexpr VirtAddr kOriginal{0x7f0000020000};
constexpr VirtAddr kEnter{0x100000001000}, kLeave{0x100000002000};
constexpr VirtAddr kQuickEnter{0x100000003000}, kQuickLeave{0x100000004000};
constexpr VirtAddr kPlan{0x100000005000};
constexpr WrapperAddresses kAt{kStub, kOriginal, kEnter, kLeave, kQuickEnter, kQuickLeave, kPlan};

agent::FunctionPlan plain_plan() {
  agent::FunctionPlan plan{};
  plan.entry_words = agent::kPlainEntryWords;
  plan.errno_offset = agent::FunctionPlan::kNoErrno;
  return plan;
}

// One instruction a line, without its bytes.
std::string listing(const WrapperStub& stub) {
  std::string text;
  std::span<const std::byte> rest = stub.code;
  VirtAddr at = kStub;
  while (!rest.empty()) {
    const auto insn = arch::decode(rest, at);
    if (!insn) return text + "no instruction\n";
    const std::string line = arch::disassemble(rest.first(insn->length), at);
    text += line.substr(line.find("  ") + 2) + "\n";
    rest = rest.subspan(insn->length);
    at = at + insn->length;
  }
  return text;
}

std::string made_of(const agent::FunctionPlan& plan) {
  const auto stub = wrapper_stub(plan, 7, kAt);
  return stub ? listing(*stub) : "out of reach";
}

// The instruction that begins there.
std::string at(const WrapperStub& stub, size_t offset) {
  const std::span<const std::byte> rest = std::span(stub.code).subspan(offset);
  const std::string line = arch::disassemble(rest, kStub + offset);
  return line.substr(line.find("  ") + 2);
}

// From where the function has returned to.
const std::string kRecordsReturn = R"(lea rsp, [rbp - 0x110]
mov qword ptr [rbp - 0xe8], rax
mov qword ptr [rbp - 0x30], rdx
mov qword ptr [rbp - 0xe0], rcx
mov qword ptr [rbp - 0x38], r10
mov qword ptr [rbp - 0xb8], r11
movabs r11, 0x100000005000
movabs rax, 0x100000004000
call rax
mov rax, qword ptr [rbp - 0xe8]
mov rdx, qword ptr [rbp - 0x30]
mov rcx, qword ptr [rbp - 0xe0]
mov r10, qword ptr [rbp - 0x38]
mov r11, qword ptr [rbp - 0xb8]
leave
ret
)";

TEST(WrapperStub, OfAPlainFunctionIsThis) {
  EXPECT_EQ(made_of(plain_plan()), R"(push rbp
mov rbp, rsp
sub rsp, 0x110
mov qword ptr [rbp - 0xa0], rdx
mov qword ptr [rbp - 0x98], rcx
mov qword ptr [rbp - 0x80], rax
mov qword ptr [rbp - 0x38], r10
mov qword ptr [rbp - 0x30], r11
movabs r11, 0x100000005000
movabs rax, 0x100000003000
call rax
mov rdx, qword ptr [rbp - 0xa0]
mov rcx, qword ptr [rbp - 0x98]
mov rax, qword ptr [rbp - 0x80]
mov r10, qword ptr [rbp - 0x38]
mov r11, qword ptr [rbp - 0x30]
lea rsp, [rbp - 0x20]
call 0x7f0000020000
)" + kRecordsReturn);
}

agent::FunctionPlan plan_with_pieces() {
  agent::FunctionPlan plan = plain_plan();
  plan.flags = agent::FunctionPlan::kCapturesAtEntry | agent::FunctionPlan::kSecondResult;
  return plan;
}

TEST(WrapperStub, OfAFunctionWithPiecesKeepsAllRegistersForTheRecorder) {
  EXPECT_EQ(made_of(plan_with_pieces()), R"(push rbp
mov rbp, rsp
sub rsp, 0x110
mov qword ptr [rbp - 0xb0], rdi
mov qword ptr [rbp - 0xa8], rsi
mov qword ptr [rbp - 0xa0], rdx
mov qword ptr [rbp - 0x98], rcx
mov qword ptr [rbp - 0x90], r8
mov qword ptr [rbp - 0x88], r9
mov qword ptr [rbp - 0x80], rax
mov qword ptr [rbp - 0x38], r10
mov qword ptr [rbp - 0x30], r11
mov rax, qword ptr [rbp]
mov qword ptr [rbp - 0xe0], rbx
mov qword ptr [rbp - 0xd8], rax
mov qword ptr [rbp - 0xd0], r12
mov qword ptr [rbp - 0xc8], r13
mov qword ptr [rbp - 0xc0], r14
mov qword ptr [rbp - 0xb8], r15
lea rdi, [rbp - 0x110]
mov esi, 7
mov edx, 0
movabs rax, 0x100000001000
call rax
mov rdi, qword ptr [rbp - 0xb0]
mov rsi, qword ptr [rbp - 0xa8]
mov rdx, qword ptr [rbp - 0xa0]
mov rcx, qword ptr [rbp - 0x98]
mov r8, qword ptr [rbp - 0x90]
mov r9, qword ptr [rbp - 0x88]
mov rax, qword ptr [rbp - 0x80]
mov r10, qword ptr [rbp - 0x38]
mov r11, qword ptr [rbp - 0x30]
lea rsp, [rbp - 0x20]
call 0x7f0000020000
lea rsp, [rbp - 0x110]
mov qword ptr [rbp - 0xe8], rax
mov qword ptr [rbp - 0x30], rdx
mov qword ptr [rbp - 0xe0], rcx
mov qword ptr [rbp - 0xd8], rsi
mov qword ptr [rbp - 0xd0], rdi
mov qword ptr [rbp - 0xc8], r8
mov qword ptr [rbp - 0xc0], r9
mov qword ptr [rbp - 0x38], r10
mov qword ptr [rbp - 0xb8], r11
lea rdi, [rbp - 0x110]
mov esi, 7
movabs rax, 0x100000002000
call rax
mov rax, qword ptr [rbp - 0xe8]
mov rdx, qword ptr [rbp - 0x30]
mov rcx, qword ptr [rbp - 0xe0]
mov rsi, qword ptr [rbp - 0xd8]
mov rdi, qword ptr [rbp - 0xd0]
mov r8, qword ptr [rbp - 0xc8]
mov r9, qword ptr [rbp - 0xc0]
mov r10, qword ptr [rbp - 0x38]
mov r11, qword ptr [rbp - 0xb8]
leave
ret
)");
}

TEST(WrapperStub, IsForQuickReturnsWhereAFailureTellsThatErrnoIsWanted) {
  agent::FunctionPlan plan = plain_plan();
  plan.failure = agent::Failure::null;
  plan.errno_offset = -64;
  EXPECT_THAT(made_of(plan), HasSubstr("movabs r11, 0x100000005000\nmovabs rax, 0x100000004000"));
  plan.failure = agent::Failure::none;  // then errno is wanted of each return
  EXPECT_THAT(made_of(plan), HasSubstr("movabs rax, 0x100000002000"));
}

TEST(WrapperStub, IsNotForQuickRecordsWhereMoreIsWanted) {
  const std::string quick = "movabs rax, 0x100000003000";
  agent::FunctionPlan plan = plain_plan();
  EXPECT_THAT(made_of(plan), HasSubstr(quick));
  using enum agent::FunctionPlan::Flag;
  for (const auto flag : {kCapturesAtEntry, kCapturesAtReturn, kVectors, kCallerWords, kEntryOnly}) {
    plan.flags = flag;
    EXPECT_THAT(made_of(plan), Not(HasSubstr(quick))) << flag;
  }
  plan = plain_plan();
  plan.passed.bytes = 16;
  EXPECT_THAT(made_of(plan), Not(HasSubstr(quick)));
  plan = plain_plan();
  plan.shown_bytes = 16;
  EXPECT_THAT(made_of(plan), Not(HasSubstr(quick)));
}

constexpr BorrowedFrame kWords{{0x7f0000300010}, 0x38}, kWhole{{0x7f0000300020}, 0x128};

WrapperStub borrowing(const agent::FunctionPlan& plan, const BorrowedFrame& frame) {
  WrapperAddresses addresses = kAt;
  addresses.borrowed = frame;
  return *wrapper_stub(plan, 7, addresses);
}

TEST(WrapperStub, BehindABorrowedFrameJumpsToTheFunction) {
  const std::string text = listing(borrowing(plain_plan(), kWords));
  EXPECT_EQ(text.substr(text.find("mov r11, ")), R"(mov r11, qword ptr [rbp - 0x30]
lea rsp, [rbp - 0x28]
call 0x7f00000100ca
mov qword ptr [rsp + 0x28], rbp
lea rbp, [rsp + 0x28]
)" + kRecordsReturn + R"(call 0x7f00000100d0
int3
movabs rax, 0x7f0000300010
mov qword ptr [rsp], rax
mov rax, qword ptr [rbp - 0x80]
mov rbp, qword ptr [rbp]
jmp 0x7f0000020000
)");
}

TEST(WrapperStub, SaysWhereItGoesOnBehindABorrowedFrame) {
  const auto stub = borrowing(plain_plan(), kWhole);
  EXPECT_EQ(at(stub, stub.returns_to), "mov qword ptr [rsp + 0x118], rbp");
  using enum StubFrame::Base;
  const auto size = static_cast<uint16_t>(stub.code.size());
  const auto launch = static_cast<uint16_t>(size - 33);
  EXPECT_THAT(stub.frames,
              ElementsAre(StubFrame{0, rsp, 8}, StubFrame{1, rsp, 16}, StubFrame{4, rbp, 16},
                          StubFrame{stub.returns_to, rsp, 0x128},
                          StubFrame{static_cast<uint16_t>(stub.returns_to + 16), rbp, 16},
                          StubFrame{static_cast<uint16_t>(launch - 1), rsp, 8}, StubFrame{launch, rbp, 16},
                          StubFrame{static_cast<uint16_t>(size - 5), rsp, 0x138}));
  EXPECT_EQ(at(stub, launch - 1u), "ret");
}

// As the call would: its word on the stack is the function's address, until it is the return address.
constexpr BorrowedFrame kForetold{{0x7f0000300040}, 0x38, 0, 8, {0x7f0000300050}};

TEST(WrapperStub, WhoseReturnIsForetoldGoesByTheCallOrWithout) {
  const WrapperStub stub = borrowing(plain_plan(), kForetold);
  const std::string text = listing(stub);
  EXPECT_THAT(text, HasSubstr("lea rsp, [rbp - 0x28]\ncall 0x7f00000100ca\n"));
  EXPECT_EQ(at(stub, stub.returns_to), "mov qword ptr [rsp + 0x28], rbp");
  const std::string jump = "jmp qword ptr [rip]\n";
  EXPECT_THAT(text, HasSubstr(R"(leave
ret
movabs rax, 0x7f0000020000
mov qword ptr [rsp - 8], rax
movabs rax, 0x7f0000300050
mov qword ptr [rsp + 8], rax
mov rax, qword ptr [rbp - 0x80]
mov rbp, qword ptr [rbp]
)" + jump));
  const auto behind = static_cast<uint16_t>(stub.code.size() - 5 - 8 - 5);
  VirtAddr call;
  std::memcpy(&call.value, stub.code.data() + behind - sizeof call.value, sizeof call.value);
  EXPECT_EQ(call, kForetold.ret - kForetellingCall.size());
  EXPECT_EQ(at(stub, behind), "push 0x300040");
  EXPECT_EQ(at(stub, behind + 5u), "mov dword ptr [rsp + 4], 0x7f00");
  EXPECT_EQ(at(stub, behind + 13u), "jmp 0x7f0000020000");
  using enum StubFrame::Base;
  EXPECT_EQ(stub.frames.end()[-2], (StubFrame{static_cast<uint16_t>(behind - 14), rsp, 0x40}));
  EXPECT_EQ(stub.frames.end()[-1], (StubFrame{static_cast<uint16_t>(behind + 5), rsp, 0x48}));
}

TEST(WrapperStub, IsForetoldWhereBothFramesHaveRoom) {
  agent::FunctionPlan plan = plain_plan();
  EXPECT_TRUE(fits_foretold(8, 0x28, plan));
  EXPECT_FALSE(fits_foretold(0, 0x30, plan));
  EXPECT_FALSE(fits_foretold(8, 0x20, plan)) << "not aligned";
  EXPECT_FALSE(fits_foretold(24, 0x18, plan)) << "what is kept has no room";
  EXPECT_FALSE(fits_foretold(16, 0x80, plan)) << "where rax is kept until last";
  plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  EXPECT_FALSE(fits_foretold(8, 0x108, plan));
  EXPECT_TRUE(fits_foretold(8, 0x118, plan));
  plan.flags = agent::FunctionPlan::kVectors;
  EXPECT_FALSE(fits_foretold(8, 0x28, plan));
}

constexpr BorrowedFrame kCalls{{0x7f0000300030}, 0, 13};

TEST(WrapperStub, WithArgumentsInMemoryIsCalledBack) {
  agent::FunctionPlan plan = plain_plan();
  plan.passed = {.bytes = 16, .unit = 1, .integers = 2, .vectors = 3};
  const WrapperStub stub = borrowing(plan, kCalls);
  const std::string text = listing(stub);
  EXPECT_THAT(text, HasSubstr("mov edx, 0x3210010\n"));
  const auto resume = fmt::format("{:#x}", (kAt.stub + stub.returns_to).value);
  EXPECT_EQ(text.substr(text.find("lea r13, "),
                        text.find("lea rsp, [rbp - 0x110]\nmov qword ptr") - text.find("lea r13, ")),
            fmt::format(R"(lea r13, [rip + 0x19]
mov qword ptr [rbp - 0x30], r13
push 0x300030
mov dword ptr [rsp + 4], 0x7f00
jmp 0x7f0000020000
mov r13, qword ptr [rbp - 0x18]
push qword ptr [rbp - 0x130]
pop qword ptr [rbp - 0x20]
push qword ptr [rbp - 0x128]
pop qword ptr [rbp - 0x18]
push qword ptr [rbp - 0x120]
pop qword ptr [rbp - 0x10]
push qword ptr [rbp - 0x118]
pop qword ptr [rbp - 8]
)"));
  EXPECT_EQ(at(stub, stub.returns_to), "mov r13, qword ptr [rbp - 0x18]") << resume;
}

TEST(WrapperStub, BorrowsWhatItFitsInto) {
  agent::FunctionPlan plan = plain_plan();
  std::vector<uint64_t> words, whole;
  for (uint64_t adds = 0; adds < 0x150; ++adds)
    if (fits_borrowed(adds, plan)) words.push_back(adds);
  plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  for (uint64_t adds = 0; adds < 0x150; ++adds)
    if (fits_borrowed(adds, plan)) whole.push_back(adds);
  // 0x88 would take the place that rax is kept at until last.
  EXPECT_THAT(words, ElementsAre(0x38, 0x48, 0x58, 0x68, 0x78, 0x98, 0xa8, 0xb8, 0xc8, 0xd8, 0xe8, 0xf8,
                                 0x108, 0x118, 0x128, 0x138, 0x148));
  EXPECT_THAT(whole, ElementsAre(0x128, 0x138, 0x148));
  plan.passed.bytes = 48;
  EXPECT_FALSE(fits_borrowed(0x148, plan));
}

TEST(WrapperStub, HasNoSideThatIsOutOfReach) {
  WrapperAddresses far = kAt;
  far.original = {0x7e0000000000};
  EXPECT_EQ(wrapper_stub(plain_plan(), 7, far), std::nullopt);
}

TEST(WrapperStub, SaysWhereItsFrameIs) {
  const auto stub = *wrapper_stub(plain_plan(), 7, kAt);
  using enum StubFrame::Base;
  const auto size = static_cast<uint16_t>(stub.code.size());
  EXPECT_THAT(stub.frames, ElementsAre(StubFrame{0, rsp, 8}, StubFrame{1, rsp, 16}, StubFrame{4, rbp, 16},
                                       StubFrame{static_cast<uint16_t>(size - 1), rsp, 8}));
  EXPECT_EQ(at(stub, size - 2u), "leave");
  EXPECT_EQ(at(stub, size - 1u), "ret");
  EXPECT_THAT(at(stub, stub.returns_to - 5u), HasSubstr("call 0x7f0000020000"));
}

TEST(WrapperStub, SavesWhatAPlanAsksFor) {
  agent::FunctionPlan plan = plain_plan();
  EXPECT_THAT(made_of(plan), Not(HasSubstr("xmm")));
  EXPECT_THAT(made_of(plan), Not(HasSubstr("movsq")));
  plan.flags = agent::FunctionPlan::kVectors;
  EXPECT_THAT(made_of(plan), HasSubstr("movups xmmword ptr [rsp + 0x70], xmm7"));
  plan.passed.bytes = 256;
  EXPECT_THAT(made_of(plan), HasSubstr("mov edx, 0x100"));
  EXPECT_THAT(made_of(plan), HasSubstr("rep movsq"));
}

TEST(WrapperStub, KeepsOnlyFourWordsWhileTheFunctionRuns) {
  agent::FunctionPlan plan = plain_plan();
  EXPECT_THAT(made_of(plan), HasSubstr("lea rsp, [rbp - 0x20]\ncall 0x7f0000020000"));
  plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  EXPECT_THAT(made_of(plan), HasSubstr("lea rsp, [rbp - 0x110]\ncall 0x7f0000020000"));
}

TEST(WrapperStub, OfAFunctionWhoseReturnIsNotWantedJumps) {
  agent::FunctionPlan plan = plain_plan();
  plan.flags = agent::FunctionPlan::kEntryOnly;
  plan.passed.bytes = 64;
  const auto stub = *wrapper_stub(plan, 7, kAt);
  EXPECT_EQ(stub.returns_to, 0u);
  EXPECT_THAT(listing(stub), HasSubstr("leave\njmp 0x7f0000020000\n"));
  EXPECT_THAT(listing(stub), Not(HasSubstr("movsq")));
  EXPECT_EQ(stub.frames.back().offset, stub.code.size() - 5);
}

TEST(WrapperStub, HasABoundedLength) {
  agent::FunctionPlan plan = plain_plan();
  plan.entry_words = agent::kEntryWords;
  plan.flags = agent::FunctionPlan::kVectors | agent::FunctionPlan::kCapturesAtReturn;
  plan.passed.bytes = 256;
  EXPECT_LE(wrapper_stub(plan, 7, kAt)->code.size(), kMaxWrapperStub);
  plan.passed.bytes = 0;
  EXPECT_LE(borrowing(plan, kWhole).code.size(), kMaxWrapperStub);
  plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  EXPECT_LE(borrowing(plan, {{0x7f0000300040}, 0x128, 0, 8, {0x7f0000300050}}).code.size(), kMaxWrapperStub);
  plan.flags |= agent::FunctionPlan::kVectors;
  plan.passed.bytes = 48;
  EXPECT_LE(borrowing(plan, kCalls).code.size(), kMaxCalledStub);
}

}  // namespace
}  // namespace rtrace::mech::wrapper_stub_test
