#include "rtrace/arch/insn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "capstone_x86.h"
#include "encoding.h"
#include "rtrace/base/error.h"

namespace rtrace::arch {
namespace {

// One Capstone handle and its instruction buffer a thread: opening one costs far more than decoding. Details
// stay off, for what relocation needs of an instruction's shape is in Encoding.
class Disassembler {
 public:
  static Disassembler& instance() {
    thread_local Disassembler disassembler;
    return disassembler;
  }
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  // Valid until the next call; nullptr where Capstone knows no such instruction.
  const cs_insn* first(std::span<const std::byte> bytes, VirtAddr address) {
    const auto* code = reinterpret_cast<const uint8_t*>(bytes.data());
    size_t size = std::min(bytes.size(), kMaxInsn);
    uint64_t at = address.value;
    return cs_disasm_iter(handle_, &code, &size, &at, insn_) ? insn_ : nullptr;
  }

 private:
  Disassembler() : handle_(open_capstone()), insn_(cs_malloc(handle_)) { CHECK(insn_ != nullptr); }
  ~Disassembler() {
    cs_free(insn_, 1);
    cs_close(&handle_);
  }

  csh handle_;
  cs_insn* insn_;
};

template <typename T>
T read_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// A branch with a displacement: its kind and the size of that.
struct Relative {
  Insn::Kind kind;
  size_t size;
};

std::optional<Relative> relative_branch(const Encoding& encoding) {
  if (encoding.form != Encoding::Form::legacy) return std::nullopt;
  uint8_t code = encoding.code;
  if (encoding.map == 1 && code >= 0x80 && code <= 0x8f) return Relative{Insn::Kind::branch, 4};
  if (encoding.map != 0) return std::nullopt;
  if (code >= 0x70 && code <= 0x7f) return Relative{Insn::Kind::branch, 1};
  if (code >= 0xe0 && code <= 0xe3) return Relative{Insn::Kind::loop, 1};
  if (code == 0xe8) return Relative{Insn::Kind::call, 4};
  if (code == 0xe9) return Relative{Insn::Kind::jump, 4};
  if (code == 0xeb) return Relative{Insn::Kind::jump, 1};
  if (code == 0xc7 && encoding.modrm == 0xf8) return Relative{Insn::Kind::branch, 4};  // xbegin
  return std::nullopt;
}

std::optional<Insn> decode_relative(const Relative& relative, const Encoding& encoding,
                                    std::span<const std::byte> bytes, VirtAddr address) {
  size_t displacement_at = encoding.modrm_at.value_or(encoding.opcode_at) + 1;
  size_t length = displacement_at + relative.size;
  if (length > std::min(bytes.size(), kMaxInsn)) return std::nullopt;
  int64_t displacement =
      relative.size == 1 ? read_at<int8_t>(bytes, displacement_at) : read_at<int32_t>(bytes, displacement_at);
  Insn insn;
  insn.kind = relative.kind;
  insn.length = static_cast<uint8_t>(length);
  insn.target = address + length + static_cast<uint64_t>(displacement);
  return insn;
}

Insn::Kind kind_of_group5(const Encoding& encoding) {
  switch (encoding.reg()) {
    case 2:
      return Insn::Kind::call_indirect;
    case 4:
      return Insn::Kind::jump_indirect;
    case 5:
      return Insn::Kind::undefined;  // a far jump: nothing follows
    default:
      return Insn::Kind::other;
  }
}

Insn::Kind kind_of_one_byte(const Encoding& encoding) {
  switch (encoding.code) {
    case 0x90:
      return encoding.rex_b() ? Insn::Kind::other : Insn::Kind::nop;  // with REX.B: xchg r8, rax
    case 0xc2:
    case 0xc3:
      return Insn::Kind::ret;
    case 0xca:
    case 0xcb:
    case 0xcf:
    case 0xf4:
      return Insn::Kind::undefined;  // far ret, iret, hlt
    case 0xcc:
      return Insn::Kind::int3;
    case 0xff:
      return kind_of_group5(encoding);
    default:
      return Insn::Kind::other;
  }
}

Insn::Kind kind_of(const Encoding& encoding) {
  // A lock prefix on any of these raises #UD, so they transfer nothing.
  if (encoding.form != Encoding::Form::legacy || encoding.lock) return Insn::Kind::other;
  if (encoding.map == 0) return kind_of_one_byte(encoding);
  if (encoding.map != 1) return Insn::Kind::other;
  switch (encoding.code) {
    case 0x05:
      return Insn::Kind::syscall;
    case 0x0b:
    case 0xb9:
    case 0xff:
      return Insn::Kind::undefined;  // ud2, ud1, ud0
    case 0x1f:
      return Insn::Kind::nop;
    case 0x1e:  // endbr64, endbr32. The rest of 0f 1e may read the shadow stack pointer.
      return encoding.rep && (encoding.modrm == 0xfa || encoding.modrm == 0xfb) ? Insn::Kind::nop
                                                                                : Insn::Kind::other;
    default:
      return Insn::Kind::other;
  }
}

// An operand-size prefix on a near branch: Intel ignores it, AMD truncates rip to 16 bits and takes a 16-bit
// displacement, so the bytes have no one meaning (SDM volume 2, appendix A, "f64"; AMD APM volume 3, 1.2.3).
// REX.W takes precedence on both.
bool is_16_bit_branch(const Encoding& encoding) {
  if (!encoding.operand16 || encoding.rex_w() || encoding.form != Encoding::Form::legacy) return false;
  if (relative_branch(encoding)) return true;
  Insn::Kind kind = kind_of(encoding);
  return kind == Insn::Kind::ret || kind == Insn::Kind::call_indirect || kind == Insn::Kind::jump_indirect;
}

std::optional<size_t> length_of(const Encoding& encoding, std::span<const std::byte> bytes,
                                VirtAddr address) {
  if (auto length = usual_length(encoding, bytes)) return length;
  if (const cs_insn* insn = Disassembler::instance().first(bytes, address)) return insn->size;
  return length_by_map(encoding, bytes);
}

}  // namespace

std::optional<Insn> decode(std::span<const std::byte> bytes, VirtAddr address) {
  bytes = bytes.first(std::min(bytes.size(), kMaxInsn));
  std::optional<Encoding> encoding = parse_encoding(bytes);
  if (!encoding || is_16_bit_branch(*encoding)) return std::nullopt;
  if (auto relative = relative_branch(*encoding)) {
    if (encoding->lock) return std::nullopt;
    return decode_relative(*relative, *encoding, bytes, address);
  }
  std::optional<size_t> length = length_of(*encoding, bytes, address);
  if (!length || *length > bytes.size()) return std::nullopt;

  Insn insn;
  insn.kind = kind_of(*encoding);
  insn.length = static_cast<uint8_t>(*length);
  if (encoding->rip_relative()) {
    size_t displacement_at = *encoding->modrm_at + 1;
    if (displacement_at + 4 > *length) return std::nullopt;
    insn.rip_displacement_offset = static_cast<uint8_t>(displacement_at);
    uint64_t reference =
        address.value + *length + static_cast<uint64_t>(int64_t{read_at<int32_t>(bytes, displacement_at)});
    insn.rip_reference = VirtAddr{encoding->address32 ? reference & 0xffff'ffff : reference};
  }
  return insn;
}

std::string disassemble(std::span<const std::byte> bytes, VirtAddr address) {
  std::optional<Insn> insn = decode(bytes, address);
  size_t length = insn ? insn->length : std::min(bytes.size(), kMaxInsn);
  std::string text;
  for (std::byte byte : bytes.first(length)) text += fmt::format("{:02x} ", std::to_integer<unsigned>(byte));
  text += ' ';
  const cs_insn* known = insn ? Disassembler::instance().first(bytes.first(length), address) : nullptr;
  if (known == nullptr || known->size != length)
    return text + (!insn ? "(bad)" : insn->kind == Insn::Kind::nop ? "nop" : "(unnamed)");
  text += known->mnemonic;
  if (known->op_str[0] != '\0') text += fmt::format(" {}", known->op_str);
  return text;
}

}  // namespace rtrace::arch
