// The entries of .eh_frame and .debug_frame (DWARF 5, 6.4.1; LSB Core 5.0, "The .eh_frame section").
#pragma once

#include <optional>
#include <span>

#include "rtrace/elf/elf_file.h"
#include "rtrace/elf/encoded_reader.h"

namespace rtrace::unwind {

enum class Flavour : bool { eh_frame, debug_frame };

// What many functions have in common.
struct CommonEntry {
  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  uint64_t return_column = 0;
  uint8_t pointers = 0;  // their encoding
  bool augmented = false;
  bool signal_frame = false;
  bool personality = false;
  std::span<const std::byte> program;
};

struct FrameEntry {
  CommonEntry common;
  ElfRange code;
  std::span<const std::byte> program;
  ElfAddr program_address;
};

// The length field at `offset`, and what it covers. nullopt at the section's end.
struct Record {
  uint64_t id_offset = 0;           // of its second field, in the section
  uint64_t next = 0;                // of the record behind it
  std::span<const std::byte> body;  // from the second field on
  bool wide = false;                // 64-bit DWARF
};
std::optional<Record> record_at(const elf::FrameArea& area, uint64_t offset);

// The frame description entry in that record; nullopt where it is a common one, or cannot be read.
std::optional<FrameEntry> frame_entry(Flavour flavour, const elf::FrameArea& area, const Record& record);

}  // namespace rtrace::unwind
