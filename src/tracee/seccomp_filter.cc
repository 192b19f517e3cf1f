#include "rtrace/tracee/seccomp_filter.h"

#include <linux/audit.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace rtrace::tracee {
namespace {

struct Machine {
  uint32_t accumulator = 0, index = 0;
  std::array<uint32_t, BPF_MEMWORDS> memory{};
};

// Of the call, as words.
std::optional<uint32_t> word_at(const seccomp_data& call, uint32_t offset) {
  if (offset % sizeof(uint32_t) != 0 || offset >= sizeof call) return std::nullopt;
  uint32_t word = 0;
  std::memcpy(&word, reinterpret_cast<const char*>(&call) + offset, sizeof word);
  return word;
}

std::optional<uint32_t> calculate(uint16_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case BPF_ADD:
      return a + b;
    case BPF_SUB:
      return a - b;
    case BPF_MUL:
      return a * b;
    case BPF_DIV:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case BPF_AND:
      return a & b;
    case BPF_OR:
      return a | b;
    case BPF_XOR:
      return a ^ b;
    case BPF_LSH:
      return a << b % 32;
    case BPF_RSH:
      return a >> b % 32;
    case BPF_NEG:
      return 0 - a;
    default:
      return std::nullopt;
  }
}

std::optional<bool> compare(uint16_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case BPF_JEQ:
      return a == b;
    case BPF_JGT:
      return a > b;
    case BPF_JGE:
      return a >= b;
    case BPF_JSET:
      return (a & b) != 0;
    default:
      return std::nullopt;
  }
}

std::optional<uint32_t> loaded(const sock_filter& insn, const Machine& machine, const seccomp_data& call) {
  switch (BPF_MODE(insn.code)) {
    case BPF_ABS:
      return word_at(call, insn.k);
    case BPF_IMM:
      return insn.k;
    case BPF_LEN:
      return static_cast<uint32_t>(sizeof call);
    case BPF_MEM:
      if (insn.k < machine.memory.size()) return machine.memory[insn.k];
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// One that neither jumps nor returns; false where there is none such.
bool carry_out(const sock_filter& insn, Machine& machine, const seccomp_data& call) {
  const uint32_t operand = BPF_SRC(insn.code) == BPF_X ? machine.index : insn.k;
  bool into_index = BPF_CLASS(insn.code) == BPF_LDX;
  std::optional<uint32_t> value;
  switch (BPF_CLASS(insn.code)) {
    case BPF_LD:
    case BPF_LDX:
      value = loaded(insn, machine, call);
      break;
    case BPF_ALU:
      value = calculate(BPF_OP(insn.code), machine.accumulator, operand);
      break;
    case BPF_MISC:
      into_index = BPF_MISCOP(insn.code) == BPF_TAX;
      value = into_index ? machine.accumulator : machine.index;
      break;
    case BPF_ST:
    case BPF_STX:
      if (insn.k >= machine.memory.size()) return false;
      machine.memory[insn.k] = BPF_CLASS(insn.code) == BPF_ST ? machine.accumulator : machine.index;
      return true;
    default:
      return false;
  }
  if (!value) return false;
  (into_index ? machine.index : machine.accumulator) = *value;
  return true;
}

// A kernel without it says of every task what one with it says of those that have no filter; this file comes
// with it (kernel: kernel/pid_namespace.c).
bool kernel_tells_filters() {
  static const bool tells = access("/proc/sys/kernel/ns_last_pid", F_OK) == 0;
  return tells;
}

}  // namespace

std::optional<uint32_t> run_filter(std::span<const sock_filter> program, const seccomp_data& call) {
  Machine machine;
  for (size_t at = 0; at < program.size(); ++at) {  // jumps lead forward only
    const sock_filter& insn = program[at];
    const uint32_t operand = BPF_SRC(insn.code) == BPF_X ? machine.index : insn.k;
    if (BPF_CLASS(insn.code) == BPF_RET) return BPF_RVAL(insn.code) == BPF_A ? machine.accumulator : insn.k;
    if (BPF_CLASS(insn.code) != BPF_JMP) {
      if (!carry_out(insn, machine, call)) return std::nullopt;
    } else if (BPF_OP(insn.code) == BPF_JA) {
      at += insn.k;
    } else {
      const auto is_true = compare(BPF_OP(insn.code), machine.accumulator, operand);
      if (!is_true) return std::nullopt;
      at += *is_true ? insn.jt : insn.jf;
    }
  }
  return std::nullopt;
}

std::optional<bool> filters_allow(pid_t tid, long number, std::array<uint64_t, 6> arguments) {
  constexpr auto kGetFilter = static_cast<__ptrace_request>(0x420c);  // PTRACE_SECCOMP_GET_FILTER
  constexpr uintptr_t kMostFilters = 4096;
  seccomp_data call{};
  call.nr = static_cast<int>(number);
  call.arch = AUDIT_ARCH_X86_64;
  std::copy(arguments.begin(), arguments.end(), call.args);
  for (uintptr_t which = 0; which < kMostFilters; ++which) {
    const long count = ptrace(kGetFilter, tid, which, nullptr);
    if (count < 0 && errno == EINVAL && which == 0 && kernel_tells_filters()) return true;  // there is none
    if (count < 0 && errno == ENOENT && which > 0) return true;  // there are no more
    if (count <= 0) return std::nullopt;
    std::vector<sock_filter> program(static_cast<size_t>(count));
    if (ptrace(kGetFilter, tid, which, program.data()) != count) return std::nullopt;
    const auto answer = run_filter(program, call);
    if (!answer) return std::nullopt;
    const uint32_t action = *answer & SECCOMP_RET_ACTION_FULL;
    if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG) return false;
  }
  return std::nullopt;
}

}  // namespace rtrace::tracee
