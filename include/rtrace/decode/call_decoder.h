// Registers + memory + prototype -> arguments and result. One for each probe, made when it is armed, used at every hit.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "rtrace/agent/abi.h"
#include "rtrace/arch/regs.h"
#include "rtrace/base/memory.h"
#include "rtrace/decode/value.h"
#include "rtrace/proto/prototype.h"

namespace rtrace::decode {

struct Limits {
  size_t string = 32;  // -s
  size_t array = 4;    // -A
};

class CallDecoder {
 public:
  // Without a prototype (nullptr) four integer arguments are guessed, and strings where they point at printable text.
  CallDecoder(std::shared_ptr<const proto::Prototype> prototype, Limits limits);

  // What memory the two functions below will ask for, so that it can be read in one go before the thread runs on. Where plan.deep is set they may ask for more:
  // then call them while the thread is stopped.
  const agent::CapturePlan& at_entry() const { return at_entry_; }
  const agent::CapturePlan& at_return() const { return at_return_; }

  struct Entered {
    std::vector<Argument> arguments;
    bool more_at_return = false;
  };
  // `regs` as they stand at the function's first instruction, rsp at the return address.
  Entered enter(const arch::Regs& regs, const Memory& memory) const;

  struct Returned {
    std::vector<Argument> arguments;
    Value result;
  };
  // `entry` as given to enter(), `exit` at the return address. `memory` is the memory now; stack arguments are read where they lay at
  // entry only by enter(), which is why their bytes travel in `entry_stack` (at_entry().stack_bytes of them, or fewer).
  Returned leave(const arch::Regs& entry, const arch::Regs& exit, const Memory& memory, std::span<const std::byte> entry_stack) const;

  // True where leave() gives no arguments: `entry` need not be kept.
  bool all_at_entry() const { return all_at_entry_; }

 private:
  std::shared_ptr<const proto::Prototype> prototype_;
  Limits limits_;
  agent::CapturePlan at_entry_;
  agent::CapturePlan at_return_;
  bool all_at_entry_ = true;
};

}  // namespace rtrace::decode
