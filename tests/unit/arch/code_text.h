// Machine code as text, for rows of tests: "48 8d 05 10 00 00 00" in, bytes out, and back with the mnemonics.
#pragma once

#include <cctype>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/arch/insn.h"

namespace rtrace::arch {

// Everything from a ';' to the end of the line is comment.
inline std::vector<std::byte> assemble(std::string_view text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ';') i = std::min(text.find('\n', i), text.size());
    if (i + 1 >= text.size() || std::isxdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    unsigned value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
    ++i;
  }
  return bytes;
}

// One instruction a line; what does not decode ends the listing with "(bad)".
inline std::string listing(std::span<const std::byte> bytes, VirtAddr address) {
  std::string text;
  while (!bytes.empty()) {
    text += disassemble(bytes, address) + "\n";
    auto insn = decode(bytes, address);
    if (!insn) break;
    bytes = bytes.subspan(insn->length);
    address = address + insn->length;
  }
  return text;
}

}  // namespace rtrace::arch
