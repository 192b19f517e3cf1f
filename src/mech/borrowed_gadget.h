// The remote call's gadget, on loan in memory that nothing runs; what was there comes back when this goes.
// Behind it stands which mapping is about to be made there (announced.h).
#pragma once

#include <array>
#include <vector>

#include "announced.h"
#include "rtrace/mech/patch_table.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {

class BorrowedGadget {
 public:
  // The patch is published for the survivor of our death, unless `ledger` is nullptr.
  BorrowedGadget(const tracee::ProcessMemory& memory, PatchLedger* ledger, Range slack, Range announced = {})
      : memory_(memory), ledger_(ledger), at_(slack.begin) {
    const LentGadget gadget = announcing_gadget(announced);
    if (slack.size() < gadget.size()) {
      failure_ = "none of its pages of code has 16 bytes to spare from which calls could be made";
      return;
    }
    failure_ = "its code cannot be written (/proc/PID/mem)";
    if (memory.read_forced(at_, original_) != original_.size()) return;
    if (ledger_ != nullptr) {
      index_ = ledger_->publish(memory.pid(), at_, original_, gadget);
      if (index_ == PatchLedger::kNone) return;
    }
    if (memory.write(at_, gadget) == 0) failure_.clear();
  }
  ~BorrowedGadget() {
    if (failure_.empty()) (void)memory_.write(at_, original_);
    if (ledger_ != nullptr) ledger_->withdraw(index_);
  }
  BorrowedGadget(const BorrowedGadget&) = delete;
  BorrowedGadget& operator=(const BorrowedGadget&) = delete;

  // Empty where it stands.
  const std::string& failure() const { return failure_; }
  VirtAddr address() const { return at_; }
  // What the program has there.
  std::vector<std::byte> original() const { return {original_.begin(), original_.end()}; }

 private:
  const tracee::ProcessMemory& memory_;
  PatchLedger* ledger_;
  VirtAddr at_;
  LentGadget original_{};
  PatchLedger::Index index_ = PatchLedger::kNone;
  std::string failure_;
};

}  // namespace rtrace::mech
