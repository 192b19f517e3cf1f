#include <string_view>

#include "encoding.h"

namespace rtrace::arch {
namespace {

// What follows an opcode (SDM volume 2, appendix A, tables, 64-bit mode):
//   n nothing   m ModRM   b ModRM, imm8   d ModRM, imm32   1 imm8   4 imm32   q imm32, with REX.W imm64
//   g ModRM, whose `reg` or `mod` says more   . not usual, not valid, or a branch
constexpr std::string_view kOneByte =
    "mmmm14..mmmm14.."   // 00
    "mmmm14..mmmm14.."   // 10
    "mmmm14..mmmm14.."   // 20
    "mmmm14..mmmm14.."   // 30
    "................"   // 40, REX
    "nnnnnnnnnnnnnnnn"   // 50
    "...m....4d1b...."   // 60
    "................"   // 70
    "bd.bmmmmmmmm.g.g"   // 80
    "nnnnnnnnnn......"   // 90
    "........14......"   // a0
    "11111111qqqqqqqq"   // b0
    "gg.n..gg.n..n..."   // c0
    "gggg............"   // d0
    "................"   // e0
    "......gg......gg";  // f0
constexpr std::string_view kTwoByte =
    ".....n.........."   // 00
    "mm.............m"   // 10
    "........mm......"   // 20
    ".n.............."   // 30
    "mmmmmmmmmmmmmmmm"   // 40
    ".......m........"   // 50
    "................"   // 60
    "................"   // 70
    "................"   // 80
    "mmmmmmmmmmmmmmmm"   // 90
    "..nm.......m...m"   // a0
    "mm.m..mm...mmmmm"   // b0
    "mm......nnnnnnnn"   // c0
    "................"   // d0
    "................"   // e0
    "................";  // f0
static_assert(kOneByte.size() == 256 && kTwoByte.size() == 256);

char of_group(const Encoding& encoding) {
  const uint8_t reg = encoding.reg();
  switch (encoding.code) {
    case 0x8d:  // lea
      return encoding.mod() == 3 ? '.' : 'm';
    case 0x8f:
      return reg == 0 ? 'm' : '.';
    case 0xc0:
    case 0xc1:
      return reg == 6 ? '.' : 'b';
    case 0xc6:
      return reg == 0 ? 'b' : '.';
    case 0xc7:
      return reg == 0 ? 'd' : '.';
    case 0xf6:
      return reg > 1 ? 'm' : reg == 0 ? 'b' : '.';
    case 0xf7:
      return reg > 1 ? 'm' : reg == 0 ? 'd' : '.';
    case 0xfe:
      return reg < 2 ? 'm' : '.';
    case 0xff:
      return reg == 3 || reg == 5 || reg == 7 ? '.' : 'm';
    default:  // d0 to d3, shifts
      return reg == 6 ? '.' : 'm';
  }
}

// Whether the prefixes that may change what the opcode means do not: 66 makes immediates and some opcodes
// others.
bool means_the_usual(const Encoding& encoding, char shape) {
  const uint8_t code = encoding.code;
  const bool push_or_pop = code >= 0x50 && code <= 0x5f;
  if (encoding.map == 0 && (push_or_pop || code == 0x90 || code == 0xc3 || code == 0xcc)) return true;
  if (encoding.rep || encoding.repne || encoding.address32) return false;
  return !encoding.operand16 || (encoding.map == 0 && (shape == 'm' || shape == 'b') && code != 0xff);
}

}  // namespace

std::optional<size_t> usual_length(const Encoding& encoding, std::span<const std::byte> bytes) {
  if (encoding.form != Encoding::Form::legacy || encoding.map > 1 || encoding.lock) return std::nullopt;
  const bool endbr = encoding.is(1, 0x1e) && encoding.rep && encoding.modrm == 0xfa && !encoding.operand16;
  if (endbr) return length_with(encoding, bytes, 0);
  char shape = (encoding.map == 0 ? kOneByte : kTwoByte)[encoding.code];
  if (shape == 'g') shape = of_group(encoding);
  if (shape == '.' || !means_the_usual(encoding, shape)) return std::nullopt;
  switch (shape) {
    case 'b':
    case '1':
      return length_with(encoding, bytes, 1);
    case 'd':
    case '4':
      return length_with(encoding, bytes, 4);
    case 'q':
      return length_with(encoding, bytes, encoding.rex_w() ? 8 : 4);
    default:
      return length_with(encoding, bytes, 0);
  }
}

}  // namespace rtrace::arch
