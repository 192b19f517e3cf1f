#include "cfa_program.h"

namespace rtrace::unwind {
namespace {

using elf::EncodedReader;
using Kind = Rule::Kind;

// DWARF 5, 7.24.
enum CfaOperation : uint8_t {
  kCfaNop = 0x00,
  kSetLoc,
  kAdvanceLoc1,
  kAdvanceLoc2,
  kAdvanceLoc4,
  kOffsetExtended,
  kRestoreExtended,
  kUndefined,
  kSameValue,
  kRegister,
  kRememberState,
  kRestoreState,
  kDefCfa,
  kDefCfaRegister,
  kDefCfaOffset,
  kDefCfaExpression,
  kExpression,
  kOffsetExtendedSf,
  kDefCfaSf,
  kDefCfaOffsetSf,
  kValOffset,
  kValOffsetSf,
  kValExpression,
  kGnuArgsSize = 0x2e,
  kGnuNegativeOffsetExtended = 0x2f,
  // With an operand in the low six bits.
  kAdvanceLoc = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
};

class Program {
 public:
  Program(const FrameEntry& entry, ElfAddr wanted) : common_(entry.common), wanted_(wanted) {
    row_.signal_frame = common_.signal_frame;
    row_.personality = common_.personality;
  }

  // False where it cannot be run. Ends early once it has passed the wanted place.
  bool run(std::span<const std::byte> program, ElfAddr address) {
    EncodedReader reader(program, address);
    while (!passed_ && !reader.at_end())
      if (!step(reader) || reader.failed()) return false;
    return true;
  }

  void begin_function(ElfAddr begin) {
    at_ = begin;
    initial_ = row_;
  }
  const Row& row() const { return row_; }

 private:
  bool step(EncodedReader& reader) {
    constexpr uint8_t kHighBits = 0xc0, kLowBits = 0x3f;
    const auto byte = static_cast<uint8_t>(reader.take<uint8_t>());
    const uint64_t low = byte & kLowBits;
    switch (byte & kHighBits) {
      case kAdvanceLoc:
        return advance(low);
      case kOffset:
        return set(low, {Kind::at_offset, 0, factored(reader.take_leb128()), {}});
      case kRestore:
        return restore(low);
      default:
        return step_extended(byte, reader);
    }
  }

  bool step_extended(uint8_t operation, EncodedReader& reader) {
    switch (operation) {
      case kCfaNop:
        return true;
      case kSetLoc:
        return go_to(reader.take_pointer(common_.pointers, {}));
      case kAdvanceLoc1:
        return advance(reader.take<uint8_t>());
      case kAdvanceLoc2:
        return advance(reader.take<uint16_t>());
      case kAdvanceLoc4:
        return advance(reader.take<uint32_t>());
      case kGnuArgsSize:
        reader.take_leb128();
        return true;
      case kRememberState:
        return remember();
      case kRestoreState:
        return recall();
      case kDefCfa:
      case kDefCfaSf:
      case kDefCfaRegister:
      case kDefCfaOffset:
      case kDefCfaOffsetSf:
      case kDefCfaExpression:
        return define_cfa(operation, reader);
      default:
        return set_rule(operation, reader);
    }
  }

  bool define_cfa(uint8_t operation, EncodedReader& reader) {
    Rule& cfa = row_.cfa;
    if (operation == kDefCfaExpression) {
      cfa = {Kind::expression, 0, 0, reader.take_bytes(reader.take_leb128())};
      return true;
    }
    if (operation == kDefCfa || operation == kDefCfaSf || operation == kDefCfaRegister) {
      const uint64_t number = reader.take_leb128();
      if (number >= Registers::kCount) return false;
      cfa.reg = static_cast<uint8_t>(number);
    } else if (cfa.kind != Kind::in_register) {
      return false;
    }
    if (operation == kDefCfaRegister && cfa.kind != Kind::in_register) return false;
    if (operation == kDefCfa || operation == kDefCfaOffset)
      cfa.offset = static_cast<int64_t>(reader.take_leb128());
    if (operation == kDefCfaSf || operation == kDefCfaOffsetSf)
      cfa.offset = factored(static_cast<uint64_t>(reader.take_signed_leb128()));
    cfa.kind = Kind::in_register;
    return true;
  }

  bool set_rule(uint8_t operation, EncodedReader& reader) {
    const uint64_t number = reader.take_leb128();
    switch (operation) {
      case kOffsetExtended:
        return set(number, {Kind::at_offset, 0, factored(reader.take_leb128()), {}});
      case kOffsetExtendedSf:
        return set(number, {Kind::at_offset, 0, factored_signed(reader), {}});
      case kGnuNegativeOffsetExtended:
        return set(number, {Kind::at_offset, 0, factored(-reader.take_leb128()), {}});
      case kValOffset:
        return set(number, {Kind::offset, 0, factored(reader.take_leb128()), {}});
      case kValOffsetSf:
        return set(number, {Kind::offset, 0, factored_signed(reader), {}});
      case kExpression:
        return set(number, {Kind::at_expression, 0, 0, reader.take_bytes(reader.take_leb128())});
      case kValExpression:
        return set(number, {Kind::expression, 0, 0, reader.take_bytes(reader.take_leb128())});
      case kUndefined:
        return set(number, {Kind::undefined, 0, 0, {}});
      case kSameValue:
        return set(number, {Kind::same, 0, 0, {}});
      case kRestoreExtended:
        return restore(number);
      case kRegister: {
        const uint64_t other = reader.take_leb128();
        if (other >= Registers::kCount) return false;
        return set(number, {Kind::in_register, static_cast<uint8_t>(other), 0, {}});
      }
      default:
        return false;
    }
  }

  // Modulo 2^64, whatever hostile factors say.
  int64_t factored(uint64_t offset) const {
    return static_cast<int64_t>(offset * static_cast<uint64_t>(common_.data_alignment));
  }
  int64_t factored_signed(EncodedReader& reader) const {
    return factored(static_cast<uint64_t>(reader.take_signed_leb128()));
  }

  // Vector registers and the like have rules too, which no caller needs.
  bool set(uint64_t number, Rule rule) {
    if (number < Registers::kCount) row_.rules[number] = rule;
    return true;
  }

  bool restore(uint64_t number) {
    if (number < Registers::kCount) row_.rules[number] = initial_.rules[number];
    return true;
  }

  bool advance(uint64_t delta) { return go_to(at_ + delta * common_.code_alignment); }

  bool go_to(ElfAddr address) {
    passed_ = wanted_ < address;
    at_ = address;
    return true;
  }

  bool remember() {
    constexpr size_t kMostRemembered = 64;
    remembered_.push_back(row_);
    return remembered_.size() <= kMostRemembered;
  }

  bool recall() {
    if (remembered_.empty()) return false;
    row_ = remembered_.back();
    remembered_.pop_back();
    return true;
  }

  const CommonEntry& common_;
  ElfAddr wanted_, at_;
  Row row_, initial_;
  std::vector<Row> remembered_;
  bool passed_ = false;
};

}  // namespace

std::optional<Row> run_program(const FrameEntry& entry, ElfAddr address) {
  if (!entry.code.contains(address) || entry.common.return_column != Registers::kPc) return std::nullopt;
  Program program(entry, address);
  if (!program.run(entry.common.program, {})) return std::nullopt;
  program.begin_function(entry.code.begin);
  if (!program.run(entry.program, entry.program_address)) return std::nullopt;
  return program.row();
}

}  // namespace rtrace::unwind
