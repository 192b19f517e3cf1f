// How to step from a frame to its caller at each place of one object's code: .eh_frame, else .debug_frame.
//
// Read by hand, not by libdw: its reader of call frame information opens a machine back end, which links the
// rest of elfutils, and leaves the operations of expressions to its caller anyhow.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "rtrace/elf/elf_file.h"
#include "rtrace/unwind/registers.h"

namespace rtrace::unwind {

// Where the caller's value of one register is (DWARF 5, 6.4.1).
struct Rule {
  enum class Kind : uint8_t {
    unspecified,
    undefined,
    same,
    at_offset,      // in memory, `offset` from the CFA
    offset,         // the CFA and `offset`
    in_register,    // in `reg`, and `offset` (0 but for the CFA's own rule)
    at_expression,  // in memory, where the expression says
    expression,     // what the expression says
  };
  Kind kind = Kind::unspecified;
  uint8_t reg = 0;
  int64_t offset = 0;
  std::span<const std::byte> expression;
};

struct Row {
  Rule cfa;
  std::array<Rule, Registers::kCount> rules;
  bool signal_frame = false;  // the frame below was not called from here, but interrupts it
  bool personality = false;   // something has a say in what passes through here
};

class FrameTable {
 public:
  explicit FrameTable(std::shared_ptr<const elf::ElfFile> file);

  const elf::ElfFile& file() const { return *file_; }
  // The row for an instruction at that address, good until the next call; nullptr where none describes it.
  const Row* find(ElfAddr address);

 private:
  struct Entry {
    ElfRange code;
    uint64_t offset = 0;  // in its section
  };
  enum class Kind : bool { eh_frame, debug_frame };

  std::optional<Row> look_up(ElfAddr address);
  std::optional<uint64_t> search_index(ElfAddr address) const;
  std::optional<Row> row_in(Kind kind, uint64_t offset, ElfAddr address) const;
  static std::vector<Entry> entries_of(Kind kind, const elf::FrameArea& area);
  std::optional<Row> search(Kind kind, std::optional<std::vector<Entry>>& entries, ElfAddr address);
  const elf::FrameArea& area(Kind kind) const { return kind == Kind::eh_frame ? eh_frame_ : debug_frame_; }

  std::shared_ptr<const elf::ElfFile> file_;
  elf::FrameArea eh_frame_, index_, debug_frame_;
  std::optional<std::vector<Entry>> eh_entries_, debug_entries_;  // once they were needed
  std::unordered_map<ElfAddr, std::optional<Row>> known_;
};

}  // namespace rtrace::unwind
