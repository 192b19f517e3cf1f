// Instructions moved, one behind the other, into code that runs elsewhere. Private to this module: relocate()
// moves one of them, relocate_prologue() those at the front of a function.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "encoding.h"
#include "rtrace/arch/insn.h"
#include "rtrace/arch/relocate.h"

namespace rtrace::arch {

using Reason = std::optional<std::string_view>;

class Copy {
 public:
  // The copy runs at `to`. What leads into `moved` stays in the copy; all else leads into the program. Where
  // `moved` is empty the copy is left behind each instruction.
  Copy(VirtAddr to, Range moved) : to_(to), moved_(moved) {}

  // Appends the instruction that stands at `from`; `bytes` and `encoding` are its own. Where it goes on
  // inside `moved` the next one added must be the one it goes on to. A reason where it cannot be moved; the
  // copy is then of no use.
  Reason add(std::span<const std::byte> bytes, VirtAddr from, const Insn& insn, const Encoding& encoding);
  // When all are in: each branch inside `moved` must lead to one of them, or to `moved.begin`.
  OutOfLine take();

 private:
  struct Original {
    std::span<const std::byte> bytes;
    VirtAddr from, next;
    const Insn& insn;
    const Encoding& encoding;
  };
  struct Entry {
    VirtAddr from;
    size_t offset = 0;
  };
  struct Fixup {
    size_t displacement_at = 0;
    VirtAddr target;  // inside `moved_`
  };

  Reason append_refitted(const Original& original);
  Reason append_branch(const Original& original);
  void append_loop(const Original& original);
  void append_call(const Original& original);
  Reason append_call_indirect(const Original& original);
  Reason append_call_operand(const Original& original);
  void branch_over(std::span<const std::byte> short_branch, const Original& original);
  void push_return_address(const Original& original);
  void jump(VirtAddr target);
  void leave_for(VirtAddr next);
  void append_displacement(VirtAddr target);

  VirtAddr here() const { return to_ + out_.code.size(); }
  // An instruction begins here; a thread that stands at it stands at `address` in the program.
  void boundary(VirtAddr address, int8_t sp_adjust = 0) {
    out_.points.push_back({static_cast<uint8_t>(out_.code.size()), address, sp_adjust});
  }
  void append(std::span<const std::byte> bytes) {
    out_.code.insert(out_.code.end(), bytes.begin(), bytes.end());
  }
  void append(std::initializer_list<uint8_t> bytes) {
    for (uint8_t byte : bytes) out_.code.push_back(std::byte{byte});
  }
  template <typename T>
  void append_value(T value) {
    append(std::as_bytes(std::span(&value, 1)));
  }

  VirtAddr to_;
  Range moved_;
  OutOfLine out_;
  std::vector<Entry> entries_;
  std::vector<Fixup> fixups_;
};

}  // namespace rtrace::arch
