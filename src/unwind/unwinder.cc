#include "rtrace/unwind/unwinder.h"

#include <algorithm>
#include <array>

#include "expression.h"
#include "stack_memory.h"

namespace rtrace::unwind {
namespace {

using Kind = Rule::Kind;

// rbx, rbp, rsp, r12 to r15: a function gives them back as it got them (psABI 3.2.1), so that a row need not
// say so. The others are lost with a call.
constexpr uint32_t kPreserved = 1U << 3 | 1U << Registers::kBp | 1U << 12 | 1U << 13 | 1U << 14 | 1U << 15;

class Walk {
 public:
  Walk(const Registers& registers, const Memory& memory, const FindPlace& find)
      : registers_(registers), memory_(memory), find_(find) {}

  // The registers are those before the instruction at the pc, not behind a call.
  void stand_still() { interrupted_ = true; }

  // To the caller of a function that has not done anything yet.
  bool leave_entry() {
    const auto sp = registers_.sp();
    const auto back = sp ? memory_.read_value<uint64_t>(*sp) : std::nullopt;
    if (!back) return false;
    registers_.set(Registers::kPc, *back);
    registers_.set(Registers::kSp, sp->value + sizeof(uint64_t));
    for (size_t number = 0; number < Registers::kCount; ++number)
      if (number != Registers::kPc && number != Registers::kSp && (kPreserved >> number & 1) == 0)
        registers_.set(number, std::nullopt);
    return true;
  }

  // Where it is now. A signal's restorer is described as if it had been called one byte before it, or, in C
  // libraries without call frame information (musl), known by its code.
  Frame frame() {
    Frame frame{registers_.pc().value_or(VirtAddr{}), interrupted_, false};
    const VirtAddr inside = frame.inside();
    place_ = find_(inside);
    row_ = place_.table != nullptr ? place_.table->find(inside - place_.bias) : nullptr;
    bare_restorer_ = row_ == nullptr && place_.table != nullptr && is_restorer(place_, frame.address);
    frame.restorer = bare_restorer_ || (row_ != nullptr && row_->signal_frame);
    return frame;
  }

  // From what frame() has given to its caller; the reason where there is none.
  std::optional<End> step() {
    if (place_.table == nullptr) return End::no_object;
    if (row_ != nullptr) return apply(*row_);
    return bare_restorer_ ? leave_signal_frame() : End::no_entry;
  }

 private:
  std::optional<uint64_t> value_of(const Rule& rule, uint64_t cfa, size_t number) const {
    switch (rule.kind) {
      case Kind::unspecified:
        return (kPreserved >> number & 1) != 0 ? registers_.get(number) : std::nullopt;
      case Kind::undefined:
        return std::nullopt;
      case Kind::same:
        return registers_.get(number);
      case Kind::at_offset:
        return memory_.read_value<uint64_t>({cfa + static_cast<uint64_t>(rule.offset)});
      case Kind::offset:
        return cfa + static_cast<uint64_t>(rule.offset);
      case Kind::in_register:
        return registers_.get(rule.reg);
      case Kind::at_expression: {
        const auto address = evaluate(rule.expression, registers_, memory_, cfa);
        return address ? memory_.read_value<uint64_t>({*address}) : std::nullopt;
      }
      case Kind::expression:
        return evaluate(rule.expression, registers_, memory_, cfa);
    }
    return std::nullopt;
  }

  std::optional<uint64_t> cfa_of(const Rule& rule) const {
    if (rule.kind == Kind::expression) return evaluate(rule.expression, registers_, memory_);
    const auto base = rule.kind == Kind::in_register ? registers_.get(rule.reg) : std::nullopt;
    return base ? std::optional(*base + static_cast<uint64_t>(rule.offset)) : std::nullopt;
  }

  std::optional<End> apply(const Row& row) {
    const auto cfa = cfa_of(row.cfa);
    if (!cfa) return End::bad_stack;
    const Rule& back = row.rules[Registers::kPc];
    // How the first function of a thread says that it has no caller: _start, clone (glibc).
    if (back.kind == Kind::undefined || back.kind == Kind::unspecified) return End::outermost;
    Registers caller;
    for (size_t number = 0; number < Registers::kCount; ++number)
      caller.set(number, value_of(row.rules[number], *cfa, number));
    // psABI 3.2.2: the CFA is the caller's stack pointer, where nothing else is said.
    if (row.rules[Registers::kSp].kind == Kind::unspecified) caller.set(Registers::kSp, *cfa);
    return enter(caller, row.signal_frame);
  }

  // Stacks grow down, so that a caller's frame is above its callee's; but a signal's handler may run on a
  // stack of its own.
  std::optional<End> enter(const Registers& caller, bool interrupted) {
    if (!caller.pc() || !caller.sp()) return End::bad_stack;
    if (caller.pc()->value == 0) return End::outermost;
    if (!interrupted && *caller.sp() <= registers_.sp().value_or(VirtAddr{})) return End::bad_stack;
    registers_ = caller;
    interrupted_ = interrupted;
    return std::nullopt;
  }

  // `mov $SYS_rt_sigreturn, %rax; syscall`, with an immediate of 32 bits, or of 64, or into %eax.
  static bool is_restorer(const Place& place, VirtAddr address) {
    constexpr std::array<uint8_t, 9> kLong = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    constexpr std::array<uint8_t, 7> kShort = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
    const auto code = place.table->file().bytes_at(address - place.bias, kLong.size());
    auto is = [&](auto wanted) {
      return code.size() >= wanted.size() &&
             std::equal(wanted.begin(), wanted.end(), code.begin(),
                        [](uint8_t a, std::byte b) { return std::byte{a} == b; });
    };
    return is(kLong) || is(kShort);
  }

  // When the handler has returned to its restorer the stack pointer is at the frame's ucontext_t. Its general
  // registers (asm/sigcontext.h), by DWARF's numbers.
  std::optional<End> leave_signal_frame() {
    constexpr uint64_t kRegisters = 40;  // behind uc_flags, uc_link and uc_stack
    constexpr std::array<size_t, Registers::kCount> kOrder = {8, 9, 10, 11, 12, 13, 14, 15, 5,
                                                              4, 6, 3,  1,  0,  2,  7,  16};
    const auto sp = registers_.sp();
    if (!sp) return End::bad_stack;
    Registers interrupted;
    for (size_t i = 0; i < kOrder.size(); ++i)
      interrupted.set(kOrder[i], memory_.read_value<uint64_t>(*sp + kRegisters + i * sizeof(uint64_t)));
    return enter(interrupted, true);
  }

  Registers registers_;
  const Memory& memory_;
  const FindPlace& find_;
  bool interrupted_ = false;
  Place place_;
  const Row* row_ = nullptr;
  bool bare_restorer_ = false;
};

}  // namespace

namespace {

Backtrace follow(Walk& walk, size_t most) {
  Backtrace trace;
  trace.end = End::limit;
  while (trace.frames.size() < std::min(most, kMostFrames)) {
    trace.frames.push_back(walk.frame());
    if (trace.frames.size() == most) break;
    if (const auto end = walk.step()) {
      trace.end = *end;
      break;
    }
  }
  return trace;
}

}  // namespace

Backtrace frames_from(const Registers& here, const Memory& memory, const FindPlace& find, size_t most) {
  const StackMemory stack(memory);
  Walk walk(here, stack, find);
  walk.stand_still();
  return follow(walk, most);
}

Backtrace callers_of_entry(const Registers& at_entry, const Memory& memory, const FindPlace& find,
                           size_t most) {
  const StackMemory stack(memory);
  Walk walk(at_entry, stack, find);
  return walk.leave_entry() ? follow(walk, most) : Backtrace{{}, End::bad_stack};
}

}  // namespace rtrace::unwind
