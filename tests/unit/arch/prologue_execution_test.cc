// Whole functions, run as they are and with the jump written over their first bytes: from the same registers,
// flags, data and stack both have to leave the same. The callees read their return addresses.
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include "arch/arena.h"
#include "rtrace/arch/prologue.h"

// name: the function; name_size: behind it; name_end: behind its padding and what it calls. rax and r11 point
// to code that ends the run, rbx rsi rdi r13 to data, rcx is 0, 1 or 5, edx is 3.
#define FUNCTION(name, body, rest)                                                                \
  extern "C" const std::byte name[], name##_size[], name##_end[];                                 \
  asm(".pushsection .rodata\n.p2align 4\n" #name ":\n" body "\n" #name "_size:\n" rest "\n" #name \
      "_end:\n.popsection")

FUNCTION(pf_frame, "push %rbp; mov %rsp, %rbp; push %rbx; mov (%rdi), %rax; pop %rbx; pop %rbp; ret", "");
FUNCTION(pf_flags, "pushfq; sbb %rax, %rax; pop %rdx; pushfq; pop %rsi; ret", "");
FUNCTION(pf_operand,
         "endbr64; push %rbx; mov 1f(%rip), %rbx; add 1f(%rip), %rbx; mov %rbx, %rax; pop %rbx; ret",
         "1: .quad 0x1122334455667788");
FUNCTION(pf_compare, "cmpl $7, 1f(%rip); sete %al; ret", "1: .long 7");
FUNCTION(pf_branch, "test %rcx, %rcx; je 1f; mov %rdx, %rax; ret; 1: lea 7(%rdx), %rax; ret", "");
FUNCTION(pf_branch_first, "jc 1f; xor %eax, %eax; inc %eax; ret; 1: mov $5, %eax; ret", "");
FUNCTION(pf_wide_branch, "js 1f; mov $1, %eax; ret; .skip 200, 0xcc; 1: mov $5, %eax; ret", "");
FUNCTION(pf_loop, "1: dec %ecx; jg 1b; mov %ecx, %eax; ret", "");
FUNCTION(pf_loop_with_endbr, "1: endbr64; dec %ecx; jg 1b; mov %ecx, %eax; ret", "");
FUNCTION(pf_loop_inside, "nop; 1: dec %ecx; jg 1b; mov %ecx, %eax; ret", "");
FUNCTION(pf_loopne, "1: dec %edx; loopne 1b; mov %edx, %eax; ret", "");
FUNCTION(pf_jrcxz, "jrcxz 1f; ret; 1: mov %edx, %eax; ret", "");
FUNCTION(pf_two_ways, "je 1f; jmp 2f; 1: inc %edx; 2: lea 1(%rdx), %eax; ret", "");
FUNCTION(pf_dead_byte, "jmp 1f; int3; 1: lea 1(%rdx), %eax; ret", "");
FUNCTION(pf_call, "sub $8, %rsp; call 1f; add $8, %rsp; ret", "1: mov (%rsp), %rax; ret");
FUNCTION(pf_call_at_the_end, "call 1f; mov %rax, %rdx; ret", "1: mov (%rsp), %rax; ret");
FUNCTION(pf_call_through_register, "mov %rsp, %r8; call *%r11", "");
FUNCTION(pf_call_through_stack, "push %rbx; call *8(%rsp)", "");
FUNCTION(pf_recursion, "sub $1, %edx; js 1f; call pf_recursion; 1: add $1, %eax; ret", "");
FUNCTION(pf_recursion_covered, "dec %edx; js 1f; call pf_recursion_covered; 1: add $1, %eax; ret", "");
FUNCTION(pf_jump, "jmp 1f", ".nops 14; 1: lea 1(%rdx), %eax; ret");
FUNCTION(pf_jump_indirect, "inc %eax; dec %eax; jmp *%r11", "");
FUNCTION(pf_ret, "ret", ".nops 15");
FUNCTION(pf_short, "xor %eax, %eax; ret", ".skip 13, 0xcc");
FUNCTION(pf_ret_immediate, "cld; ret $16", ".nops 12");
FUNCTION(pf_falls_into_the_next, "xor %eax, %eax; nopl (%rax)", "lea 3(%rax), %eax; ret");
FUNCTION(pf_patchable, ".nops 5; mov %edx, %eax; ret", "");
#undef FUNCTION

namespace rtrace::arch::prologue_execution_test {
namespace {

struct Function {
  const char* name;
  const std::byte *begin, *size, *end;
  bool rip_operand = false;
};

#define ROW(name, ...) \
  { #name, name, name##_size, name##_end __VA_OPT__(, ) __VA_ARGS__ }
const Function kFunctions[] = {
    ROW(pf_frame),
    ROW(pf_flags),
    ROW(pf_operand, true),
    ROW(pf_compare, true),
    ROW(pf_branch),
    ROW(pf_branch_first),
    ROW(pf_wide_branch),
    ROW(pf_loop),
    ROW(pf_loop_with_endbr),
    ROW(pf_loop_inside),
    ROW(pf_loopne),
    ROW(pf_jrcxz),
    ROW(pf_two_ways),
    ROW(pf_dead_byte),
    ROW(pf_call),
    ROW(pf_call_at_the_end),
    ROW(pf_call_through_register),
    ROW(pf_call_through_stack),
    ROW(pf_recursion),
    ROW(pf_recursion_covered),
    ROW(pf_jump),
    ROW(pf_jump_indirect),
    ROW(pf_ret),
    ROW(pf_short),
    ROW(pf_ret_immediate),
    ROW(pf_falls_into_the_next),
    ROW(pf_patchable),
};
#undef ROW

// An int3 in a copy: one byte, for the next instruction may be on another way through it. Its handler sends
// the run to `stop`.
class Trap {
 public:
  Trap(VirtAddr place, VirtAddr stop) {
    place_ = place.value;
    stop_ = stop.value;
    stack_t stack{alternate_, 0, sizeof alternate_};
    sigaltstack(&stack, &old_stack_);
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGTRAP, &action, &old_);
  }
  ~Trap() {
    sigaction(SIGTRAP, &old_, nullptr);
    sigaltstack(&old_stack_, nullptr);
  }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

 private:
  static void handle(int, siginfo_t*, void* context) {
    greg_t& rip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    if (static_cast<uint64_t>(rip) == place_ + 1) rip = static_cast<greg_t>(stop_);
  }

  static inline uint64_t place_ = 0, stop_ = 0;
  static inline std::byte alternate_[1 << 16];
  struct sigaction old_ {};
  stack_t old_stack_{};
};

class PrologueExecution : public testing::Test {
 protected:
  // The function at arena.from(), as the program has it.
  static std::span<const std::byte> place(Arena& arena, const Function& function) {
    std::span<const std::byte> bytes(function.begin, function.end);
    arena.write(arena.from(), bytes);
    arena.put_exit(arena.callee());
    return bytes;
  }

  static EntryCode entry_of(const Function& function, VirtAddr from) {
    return {{function.begin, function.end}, from, static_cast<uint64_t>(function.size - function.begin)};
  }

  void patch(Arena& arena, const Prologue& prologue) {
    arena.write(arena.copy(), prologue.copy.code);
    auto jump = encode_jmp(prologue.at, arena.copy());
    ASSERT_TRUE(jump);
    arena.write(prologue.at, *jump);
  }

  // What the function leaves from every start.
  static std::vector<Outcome> outcomes(Arena& arena, VirtAddr entry) {
    std::vector<Outcome> all;
    for (const CpuState& start : starts(arena)) all.push_back(run(arena, start, entry));
    return all;
  }

  void compare(const std::vector<Outcome>& wanted, const std::vector<Outcome>& got, const Function& function,
               const Prologue& prologue, VirtAddr to) {
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_TRUE(got[i] == wanted[i])
          << difference(wanted[i], got[i]) << listing({function.begin, function.size}, {}) << "as\n"
          << listing(prologue.copy.code, to);
  }

  // Stops the copy at each of its resume points, goes on from there in the unpatched function, and must end
  // where that ends.
  void check_resume_points(Arena& arena, const Function& function, const Prologue& prologue,
                           const std::vector<Outcome>& wanted) {
    auto all_starts = starts(arena);
    for (const ResumePoint& point : prologue.copy.points) {
      VirtAddr stop = arena.copy() + 0x200;
      arena.put_exit(stop);
      Trap trap(arena.copy() + point.offset, stop);
      bool reached = false;
      for (size_t i = 0; i < wanted.size(); ++i) {
        arena.write(arena.copy(), prologue.copy.code);
        arena.write(arena.copy() + point.offset, std::vector{std::byte{kInt3}});
        CpuState state = run(arena, all_starts[i], arena.copy()).state;
        if (state.exit != stop.value + kStub) continue;  // another way through the copy
        reached = true;
        place(arena, function);
        state.gpr[kRsp] += static_cast<uint64_t>(int64_t{point.sp_adjust});
        state.exit = 0;
        state = run_on_cpu(state, point.address.value);
        EXPECT_TRUE(state == wanted[i].state)
            << "resumed at offset " << unsigned{point.offset} << "\n"
            << difference(wanted[i], {state, {}}) << listing(prologue.copy.code, arena.copy());
      }
      EXPECT_TRUE(reached) << "no run stood at offset " << unsigned{point.offset};
    }
  }

  void check(const Function& function, Arena& arena, Arena* far) {
    SCOPED_TRACE(function.name);
    auto original = place(arena, function);
    auto answer = relocate_prologue(entry_of(function, arena.from()), arena.copy());
    ASSERT_TRUE(std::holds_alternative<Prologue>(answer)) << std::get<Refused>(answer).reason;
    const auto& prologue = std::get<Prologue>(answer);
    auto wanted = outcomes(arena, arena.from());
    patch(arena, prologue);
    compare(wanted, outcomes(arena, arena.from()), function, prologue, arena.copy());
    arena.write(arena.from(), original);
    check_resume_points(arena, function, prologue, wanted);
    if (far == nullptr) return;

    auto far_answer = relocate_prologue(entry_of(function, arena.from()), far->copy());
    ASSERT_EQ(std::holds_alternative<Refused>(far_answer), function.rip_operand);
    if (function.rip_operand) return;
    const auto& far_prologue = std::get<Prologue>(far_answer);
    far->write(far->copy(), far_prologue.copy.code);
    compare(wanted, outcomes(arena, far->copy()), function, far_prologue, far->copy());
  }
};

// In the upper part of the address space, where a return address does not sign-extend from 32 bits, and in
// the lower, where it does.
TEST_F(PrologueExecution, PatchedFunctionsDoWhatTheyDidBefore) {
  Arena high(0x7a0000000000), low(0x20000000);
  ASSERT_TRUE(high.mapped() && low.mapped());
  for (const Function& function : kFunctions) {
    check(function, high, &low);
    check(function, low, nullptr);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace rtrace::arch::prologue_execution_test
