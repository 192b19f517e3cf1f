#include "rtrace/arch/register_jumps.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "capstone_x86.h"
#include "encoding.h"
#include "rtrace/arch/insn.h"
#include "rtrace/arch/stack_operand.h"
#include "rtrace/base/error.h"

namespace rtrace::arch {
namespace {

// A bit for each register, by its number.
using RegisterSet = uint16_t;
constexpr RegisterSet bit(uint8_t number) {
  return static_cast<RegisterSet>(1U << number);
}
// What a call does not leave alone.
constexpr RegisterSet kScratch = [] {
  RegisterSet set = 0;
  for (uint8_t number = 0; number < 16; ++number)
    if (!is_preserved(number) && number != 4) set |= bit(number);
  return set;
}();

// The registers by number, and what names parts of them.
constexpr std::array<std::array<x86_reg, 5>, 16> kNames = {{
    {X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH},
    {X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
    {X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
    {X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH},
    {X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL, X86_REG_INVALID},
    {X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL, X86_REG_INVALID},
    {X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL, X86_REG_INVALID},
    {X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL, X86_REG_INVALID},
    {X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B, X86_REG_INVALID},
    {X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B, X86_REG_INVALID},
    {X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B, X86_REG_INVALID},
    {X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B, X86_REG_INVALID},
    {X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B, X86_REG_INVALID},
    {X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B, X86_REG_INVALID},
    {X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B, X86_REG_INVALID},
    {X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B, X86_REG_INVALID},
}};

RegisterSet register_set(uint16_t name) {
  for (uint8_t number = 0; number < kNames.size(); ++number)
    if (name != X86_REG_INVALID && std::ranges::find(kNames[number], name) != kNames[number].end())
      return bit(number);
  return 0;
}

// What an instruction writes to: a Capstone of its own, for it is told details.
class Writes {
 public:
  static Writes& instance() {
    thread_local Writes writes;
    return writes;
  }
  Writes(const Writes&) = delete;
  Writes& operator=(const Writes&) = delete;

  // Nothing where Capstone does not know the instruction.
  RegisterSet of(std::span<const std::byte> insn) {
    const auto* code = reinterpret_cast<const uint8_t*>(insn.data());
    size_t size = insn.size();
    uint64_t at = 0;
    cs_regs read, written;
    uint8_t reads = 0, writes = 0;
    if (!cs_disasm_iter(handle_, &code, &size, &at, insn_) ||
        cs_regs_access(handle_, insn_, read, &reads, written, &writes) != CS_ERR_OK)
      return 0;
    RegisterSet set = 0;
    for (uint8_t i = 0; i < writes; ++i) set |= register_set(written[i]);
    return set;
  }

 private:
  Writes() : handle_(open_capstone()) {
    cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    insn_ = cs_malloc(handle_);
    CHECK(insn_ != nullptr);
  }
  ~Writes() {
    cs_free(insn_, 1);
    cs_close(&handle_);
  }

  csh handle_;
  cs_insn* insn_ = nullptr;
};

// An instruction by what it does to a value that is followed.
struct FollowedStep {
  VirtAddr address;
  Insn::Kind kind = Insn::Kind::other;
  bool loads = false;                   // the slot, to `to`
  std::optional<StackOperand> keeps;    // there, what `from` has
  std::optional<StackOperand> fetches;  // from there, to `to`
  bool perhaps = false;                 // the move is conditional
  std::optional<VirtAddr> target;       // of a jump or branch
  RegisterSet from = 0;                 // of a move, and of a jump by a register
  RegisterSet to = 0;                   // of a load, a move, a fetch
  bool told = true;                     // by these, or it is a call: else it may write to anything
  RegisterSet spoilt = 0;               // written in any other way
  std::span<const std::byte> bytes;
};

uint8_t reg_of(const Encoding& encoding) {
  return static_cast<uint8_t>(encoding.reg() + ((encoding.rex & 4) != 0 ? 8 : 0));
}
uint8_t rm_of(const Encoding& encoding) {
  return static_cast<uint8_t>(encoding.rm() + (encoding.rex_b() ? 8 : 0));
}

// CET's prefix of jumps that need no endbr64 where they lead to: those of switches.
bool is_notrack(const Encoding& encoding, std::span<const std::byte> insn) {
  return std::ranges::find(insn.first(encoding.opcode_at), std::byte{0x3e}) !=
         insn.first(encoding.opcode_at).end();
}

// mov, or cmov, of 64 bits. False where it is neither.
bool describe_move(const Encoding& encoding, const Insn& insn, std::span<const std::byte> bytes,
                   VirtAddr slot, FollowedStep& step) {
  const bool perhaps =
      encoding.form == Encoding::Form::legacy && encoding.map == 1 && (encoding.code & 0xf0) == 0x40;
  const bool into_reg = encoding.is(0, 0x8b) || perhaps, from_reg = encoding.is(0, 0x89);
  if ((!into_reg && !from_reg) || !encoding.rex_w()) return false;
  const RegisterSet reg = bit(reg_of(encoding)), rm = bit(rm_of(encoding));
  step.perhaps = perhaps;
  if (encoding.mod() == 3) {
    step.from = into_reg ? rm : reg;
    step.to = into_reg ? reg : rm;
  } else if (into_reg) {
    step.to = reg;
    step.loads = insn.rip_reference == slot;
    if (!step.loads) step.fetches = stack_operand(bytes);
  } else {
    step.from = reg;
    step.keeps = stack_operand(bytes);
  }
  return true;
}

std::optional<FollowedStep> step_of(std::span<const std::byte> code, VirtAddr address, VirtAddr slot) {
  const auto insn = decode(code, address);
  if (!insn || insn->length == 0) return std::nullopt;
  const auto bytes = code.first(insn->length);
  const auto encoding = parse_encoding(bytes);
  FollowedStep step;
  step.address = address;
  step.kind = insn->kind;
  step.bytes = bytes;
  if (insn->kind != Insn::Kind::call) step.target = insn->target;
  if (insn->kind == Insn::Kind::call || insn->kind == Insn::Kind::call_indirect) {
    step.spoilt = kScratch;
  } else if (insn->kind == Insn::Kind::jump_indirect) {
    if (encoding && encoding->mod() == 3 && !is_notrack(*encoding, bytes)) step.from = bit(rm_of(*encoding));
  } else {
    step.told = encoding && describe_move(*encoding, *insn, bytes, slot, step);
  }
  return step;
}

bool ends_here(Insn::Kind kind) {
  return kind == Insn::Kind::jump || kind == Insn::Kind::jump_indirect || kind == Insn::Kind::ret ||
         kind == Insn::Kind::undefined;
}

// As a rule two or three are enough; code that was made to need more may take ever so many.
constexpr unsigned kMostPasses = 64;

// Follows what is loaded from a slot through a function, along every way that its code shows.
class Following {
 public:
  Following(std::span<const std::byte> function, VirtAddr begin, VirtAddr slot) {
    for (size_t at = 0; at < function.size();) {
      const auto step = step_of(function.subspan(at), begin + at, slot);
      if (!step) break;
      steps_.push_back(*step);
      at += step->bytes.size();
    }
  }

  std::vector<VirtAddr> jumps() {
    find_ever();
    const auto may_have_it = [this](const FollowedStep& step) {
      return step.kind == Insn::Kind::jump_indirect && (step.from & ever_) != 0;
    };
    if (std::ranges::none_of(steps_, may_have_it)) return {};
    for (FollowedStep& step : steps_)  // which is most of the work
      if (!step.told) step.spoilt = Writes::instance().of(step.bytes);
    flow();
    std::vector<VirtAddr> found;
    for (size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].kind == Insn::Kind::jump_indirect && (held_[i] & steps_[i].from) != 0)
        found.push_back(steps_[i].address);
    return found;
  }

 private:
  bool brings(const FollowedStep& step, RegisterSet now) const {
    if (step.fetches) return std::ranges::find(kept_, *step.fetches) != kept_.end();
    return step.loads || (!step.keeps && (step.from & now) != 0);
  }
  RegisterSet behind(const FollowedStep& step, RegisterSet now) const {
    if (brings(step, now)) return now | step.to;
    const RegisterSet lost = step.spoilt | (step.perhaps ? RegisterSet{0} : step.to);
    return now & static_cast<RegisterSet>(~lost);
  }
  void keep(const StackOperand& place) {
    constexpr size_t kMost = 256;
    if (kept_.size() < kMost && std::ranges::find(kept_, place) == kept_.end()) kept_.push_back(place);
  }
  // The registers and places of the stack that hold it anywhere, in whatever order the code runs.
  void find_ever() {
    for (bool more = true; more;) {
      const auto before = std::pair(ever_, kept_.size());
      for (const FollowedStep& step : steps_) {
        if (step.kind == Insn::Kind::jump_indirect) continue;
        if (brings(step, ever_)) ever_ |= step.to;
        if (step.keeps && (step.from & ever_) != 0) keep(*step.keeps);
      }
      more = before != std::pair(ever_, kept_.size());
    }
  }

  std::optional<size_t> place_of(const FollowedStep& step) const {
    if (!step.target) return std::nullopt;
    const auto place = std::ranges::lower_bound(steps_, *step.target, {}, &FollowedStep::address);
    if (place == steps_.end() || place->address != *step.target) return std::nullopt;
    return static_cast<size_t>(place - steps_.begin());
  }
  // What no code is seen to lead to, as the labels of a switch, is come to with what calls leave alone: what
  // is wanted for longer is kept there.
  void flow() {
    std::vector<bool> led_to(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (const auto place = place_of(steps_[i])) led_to[*place] = true;
      if (i > 0 && !ends_here(steps_[i - 1].kind)) led_to[i] = true;
    }
    held_.assign(steps_.size(), 0);
    for (size_t i = 1; i < steps_.size(); ++i)
      if (!led_to[i]) held_[i] = ever_ & static_cast<RegisterSet>(~kScratch);
    bool more = true;
    for (unsigned passes = 0; more && passes < kMostPasses; ++passes) {
      more = false;
      for (size_t i = 0; i < steps_.size(); ++i) {
        const RegisterSet after = behind(steps_[i], held_[i]);
        if (i + 1 < steps_.size() && !ends_here(steps_[i].kind)) more |= add(i + 1, after);
        if (const auto place = place_of(steps_[i])) more |= add(*place, after) && *place <= i;
      }
    }
    if (more) held_.assign(steps_.size(), ever_);
  }
  bool add(size_t place, RegisterSet held) {
    const RegisterSet before = held_[place];
    held_[place] |= held;
    return held_[place] != before;
  }

  std::vector<FollowedStep> steps_;
  std::vector<RegisterSet> held_;  // in front of each step
  RegisterSet ever_ = 0;
  std::vector<StackOperand> kept_;
};

// ff e0 to ff e7, the opcode of them all: most functions have none.
bool may_have_register_jump(std::span<const std::byte> function) {
  for (size_t i = 0; i + 1 < function.size(); ++i)
    if (function[i] == std::byte{0xff} && (function[i + 1] & std::byte{0xf8}) == std::byte{0xe0}) return true;
  return false;
}

}  // namespace

std::vector<VirtAddr> find_register_jumps(std::span<const std::byte> function, VirtAddr begin,
                                          VirtAddr slot) {
  if (!may_have_register_jump(function)) return {};
  return Following(function, begin, slot).jumps();
}

std::optional<uint8_t> branch_register(std::span<const std::byte> insn) {
  constexpr uint8_t kCall = 2, kJump = 4;  // of group 5
  const auto encoding = parse_encoding(insn);
  if (!encoding || !encoding->is(0, 0xff) || encoding->mod() != 3) return std::nullopt;
  if (encoding->reg() != kCall && encoding->reg() != kJump) return std::nullopt;
  return rm_of(*encoding);
}

uint64_t register_of(const Regs& regs, uint8_t number) {
  const user_regs_struct& raw = regs.raw;
  const uint64_t values[] = {raw.rax, raw.rcx, raw.rdx, raw.rbx, raw.rsp, raw.rbp, raw.rsi, raw.rdi,
                             raw.r8,  raw.r9,  raw.r10, raw.r11, raw.r12, raw.r13, raw.r14, raw.r15};
  CHECK(number < std::size(values));
  return values[number];
}

}  // namespace rtrace::arch
