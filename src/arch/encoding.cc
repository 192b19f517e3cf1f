#include "encoding.h"

namespace rtrace::arch {
namespace {

uint8_t at(std::span<const std::byte> bytes, size_t index) {
  return std::to_integer<uint8_t>(bytes[index]);
}

bool note_legacy_prefix(Encoding& encoding, uint8_t byte) {
  switch (byte) {
    case 0x66:
      encoding.operand16 = true;
      return true;
    case 0x67:
      encoding.address32 = true;
      return true;
    case 0xf0:
      encoding.lock = true;
      return true;
    case 0xf2:
      encoding.repne = true;
      return true;
    case 0xf3:
      encoding.rep = true;
      return true;
    case 0x64:
    case 0x65:
      encoding.segment_based = true;
      return true;
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
      return true;
    default:
      return false;
  }
}

// Moves `index` to the first byte that is no prefix. A REX counts only directly before the opcode (SDM volume
// 2, 2.2.1).
void parse_prefixes(Encoding& encoding, std::span<const std::byte> bytes, size_t& index) {
  for (; index < bytes.size(); ++index) {
    uint8_t byte = at(bytes, index);
    if (note_legacy_prefix(encoding, byte)) {
      encoding.rex = 0;
    } else if ((byte & 0xf0) == 0x40) {
      encoding.rex = byte;
    } else {
      return;
    }
  }
}

// c5 and c4 (VEX), 62 (EVEX), 8f with a map of 8 and up (XOP; below that it is `pop r/m`). In 64-bit mode c4,
// c5 and 62 have no other meaning.
bool parse_vector_prefix(Encoding& encoding, std::span<const std::byte> bytes, size_t& index) {
  uint8_t first = at(bytes, index);
  uint8_t second = index + 1 < bytes.size() ? at(bytes, index + 1) : 0;
  if (first == 0xc5) {
    encoding.map = 1;
    index += 2;
  } else if (first == 0xc4 || (first == 0x8f && (second & 0x1f) >= 8)) {
    encoding.map = second & 0x1f;
    index += 3;
  } else if (first == 0x62) {
    encoding.form = Encoding::Form::evex;
    encoding.map = second & 7;
    index += 4;
    return true;
  } else {
    return false;
  }
  encoding.form = Encoding::Form::vex;
  return true;
}

void parse_legacy_map(Encoding& encoding, std::span<const std::byte> bytes, size_t& index) {
  if (at(bytes, index) != 0x0f) return;
  encoding.map = 1;
  ++index;
  if (index >= bytes.size()) return;
  if (at(bytes, index) == 0x38) encoding.map = 2;
  if (at(bytes, index) == 0x3a) encoding.map = 3;
  if (encoding.map != 1) ++index;
}

bool one_byte_has_modrm(uint8_t code) {
  if (code < 0x40) return (code & 7) < 4;
  if (code >= 0x80 && code <= 0x8f) return true;
  if (code >= 0xd0 && code <= 0xd3) return true;
  if (code >= 0xd8 && code <= 0xdf) return true;
  switch (code) {
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0xc0:
    case 0xc1:
    case 0xc6:
    case 0xc7:
    case 0xf6:
    case 0xf7:
    case 0xfe:
    case 0xff:
      return true;
    default:
      return false;
  }
}

bool two_byte_has_modrm(uint8_t code) {
  if (code >= 0x04 && code <= 0x0c) return false;
  if (code >= 0x30 && code <= 0x37) return false;
  if (code >= 0x80 && code <= 0x8f) return false;
  if (code >= 0xa0 && code <= 0xa2) return false;
  if (code >= 0xa8 && code <= 0xaa) return false;
  if (code >= 0xc8 && code <= 0xcf) return false;
  return code != 0x0e && code != 0x77;
}

bool has_modrm(const Encoding& encoding) {
  if (encoding.form != Encoding::Form::legacy)
    return encoding.map != 1 || encoding.code != 0x77;  // vzeroupper
  if (encoding.map == 0) return one_byte_has_modrm(encoding.code);
  return encoding.map != 1 || two_byte_has_modrm(encoding.code);
}

// nullopt where the map does not tell.
std::optional<size_t> immediate_by_map(const Encoding& encoding) {
  if (encoding.map == 3 || encoding.map == 8) return 1;
  if (encoding.map == 10) return 4;
  if (encoding.map != 1) return encoding.map == 0 ? std::nullopt : std::optional<size_t>(0);
  if (encoding.form == Encoding::Form::legacy) {
    bool growing = encoding.code == 0x01 || encoding.code == 0x0d ||
                   (encoding.code >= 0x18 && encoding.code <= 0x1f) || encoding.code == 0xae ||
                   encoding.code == 0xc7;
    return growing ? std::optional<size_t>(0) : std::nullopt;
  }
  switch (encoding.code) {
    case 0x70:
    case 0x71:
    case 0x72:
    case 0x73:
    case 0xc2:
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return 1;
    default:
      return 0;
  }
}

size_t displacement_size(const Encoding& encoding, uint8_t sib) {
  if (encoding.mod() == 1) return 1;
  if (encoding.mod() == 2) return 4;
  if (encoding.mod() == 3) return 0;
  if (encoding.rm() == 5) return 4;
  return encoding.rm() == 4 && (sib & 7) == 5 ? 4 : 0;
}

}  // namespace

bool Encoding::rip_relative() const {
  if (!modrm_at || mod() != 0 || rm() != 5) return false;
  // mov to and from control and debug registers take mod as 3 whatever it says.
  return !(form == Form::legacy && map == 1 && code >= 0x20 && code <= 0x23);
}

std::optional<Encoding> parse_encoding(std::span<const std::byte> bytes) {
  Encoding encoding;
  size_t index = 0;
  parse_prefixes(encoding, bytes, index);
  if (index >= bytes.size()) return std::nullopt;
  if (!parse_vector_prefix(encoding, bytes, index)) parse_legacy_map(encoding, bytes, index);
  if (index >= bytes.size()) return std::nullopt;
  encoding.opcode_at = index;
  encoding.code = at(bytes, index);
  if (!has_modrm(encoding)) return encoding;
  if (index + 1 >= bytes.size()) return std::nullopt;
  encoding.modrm_at = index + 1;
  encoding.modrm = at(bytes, index + 1);
  return encoding;
}

std::optional<size_t> length_by_map(const Encoding& encoding, std::span<const std::byte> bytes) {
  std::optional<size_t> immediate = immediate_by_map(encoding);
  return immediate ? length_with(encoding, bytes, *immediate) : std::nullopt;
}

std::optional<size_t> length_with(const Encoding& encoding, std::span<const std::byte> bytes,
                                  size_t immediate) {
  size_t length = encoding.opcode_at + 1;
  if (encoding.modrm_at) {
    length = *encoding.modrm_at + 1;
    uint8_t sib = 0;
    if (encoding.mod() != 3 && encoding.rm() == 4) {
      if (length >= bytes.size()) return std::nullopt;
      sib = at(bytes, length++);
    }
    length += displacement_size(encoding, sib);
  }
  length += immediate;
  return length <= bytes.size() ? std::optional(length) : std::nullopt;
}

}  // namespace rtrace::arch
