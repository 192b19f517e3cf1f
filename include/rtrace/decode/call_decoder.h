// Registers + memory + prototype -> arguments and result. One for each probe, made when it is armed, used at
// every hit.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/agent/abi.h"
#include "rtrace/arch/regs.h"
#include "rtrace/arch/vector_regs.h"
#include "rtrace/base/memory.h"
#include "rtrace/decode/value.h"
#include "rtrace/proto/prototype.h"

namespace rtrace::decode {

struct Limits {
  size_t string = 32;  // -s
  size_t array = 4;    // -A
};

// What a call carries from its entry to its return besides the general registers; each part may be missing.
struct Carried {
  const arch::VectorRegs* vectors_at_entry = nullptr;  // of floating-point arguments printed at return
  const arch::VectorRegs* vectors_at_exit = nullptr;   // of a floating-point result
  const std::vector<Value>* before = nullptr;          // Entered::before
  std::optional<int> error_number;  // the thread's errno at the return, where needs_errno()
  // The call has failed, whatever its result's type says: what it would have filled is shown by its address.
  bool failed = false;
};

class CallDecoder {
 public:
  // Without a prototype (nullptr) four integer arguments are guessed, and strings where they point at
  // printable text.
  CallDecoder(std::shared_ptr<const proto::Prototype> prototype, Limits limits);
  ~CallDecoder();
  CallDecoder(CallDecoder&&) noexcept;
  CallDecoder& operator=(CallDecoder&&) noexcept;

  // What memory the two functions below will ask for, so that it can be read in one go before the thread runs
  // on. Where plan.deep is set they may ask for more: then call them while the thread is stopped. Sources of
  // at_return() that are registers or stack slots mean those at entry.
  const agent::CapturePlan& at_entry() const;
  const agent::CapturePlan& at_return() const;
  // The same for a recorder inside the process, who follows pointers in memory by shapes: the first of them
  // is number 1.
  struct Recorded {
    agent::CapturePlan at_entry, at_return;
    std::vector<agent::ShapeEntry> shapes;
  };
  Recorded recorded() const;
  // True where an argument or the result travels in xmm or x87 registers, or may (a format, a float in a
  // list): without them such values are unreadable.
  bool needs_vector_registers() const;
  // True where some of the arguments, or of the result, lie in what no more than xmm0-xmm7 holds: x87's
  // registers, or the upper halves of ymm's.
  bool has_wide_arguments() const;
  bool has_wide_result() const;
  // True where a function may take the address of an argument that lies in memory: of a struct.
  bool has_structs_in_memory() const;
  // How many of rdi rsi rdx rcx r8 r9 hold arguments, a format's further ones not counted.
  unsigned integer_registers() const;
  // The arguments that have names.
  uint32_t bytes_in_memory() const;
  uint64_t alignment_in_memory() const;  // the strictest of those there; 1 where there are none
  // Of a format that types further arguments, if it is in a register: the registers that are taken up to it.
  // nullopt where there is none, or it lies in memory.
  struct Format {
    uint8_t integer_registers = 0;  // of rdi rsi rdx rcx r8 r9; it is in the last of them
    uint8_t vector_registers = 0;
    uint8_t unit = 0;    // bytes of each of its characters
    bool scans = false;  // what is stored through further arguments
  };
  std::optional<Format> format() const;
  // True where a part of the result is in rdx.
  bool result_takes_rdx() const;
  // True where the result has the errno lens; without Carried::error_number a failure shows the bare result.
  bool needs_errno() const;
  // The same at one return: false where the result is a success for sure.
  bool needs_errno(const arch::Regs& exit) const;

  // True where an argument or the result is, holds or points at a file descriptor.
  bool has_descriptors() const;

  struct Entered {
    std::vector<Argument> arguments;
    bool more_at_return = false;
    std::vector<Value> before;  // values as of entry of parameters printed later (`inout`, or `in` behind an
                                // `out`); hand them to leave(), else only the new ones are shown
  };
  // `regs` as they stand at the function's first instruction, rsp at the return address.
  Entered enter(const arch::Regs& regs, const Memory& memory,
                const arch::VectorRegs* vectors = nullptr) const;

  struct Returned {
    std::vector<Argument> arguments;
    Value result;
    bool failed = false;  // by the errno lens, whether or not the number is known
  };
  // `entry` as given to enter(), `exit` at the return address. `memory` is the memory now; stack arguments
  // are read where they lay at entry only by enter(), which is why their bytes travel in `entry_stack`
  // (at_entry().stack_bytes of them, or fewer).
  Returned leave(const arch::Regs& entry, const arch::Regs& exit, const Memory& memory,
                 std::span<const std::byte> entry_stack, const Carried& carried = {}) const;

  // The arguments that leave() would give of a call that does not return, or whose return is not seen: those
  // that were printed at entry as they were then, of the others what their registers and `entry_stack` held,
  // pointers as addresses. No memory is read: it may be gone.
  std::vector<Argument> abandon(const arch::Regs& entry, std::span<const std::byte> entry_stack,
                                const Carried& carried = {}) const;

  // As the prototype names and spells them; guessed ones have no names.
  std::vector<std::string> parameter_names() const;
  std::string result_type() const;
  // Whether a call may have so many arguments; a format's further ones count.
  bool may_have(size_t arguments) const;
  // Whether an argument or the result is, holds or points at an enumeration or flags with that key.
  bool has_key(std::string_view key) const;

  // True where leave() gives no arguments: `entry` need not be kept.
  bool all_at_entry() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::decode
