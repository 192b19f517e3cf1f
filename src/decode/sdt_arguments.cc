#include "rtrace/decode/sdt_arguments.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "guess.h"
#include "rtrace/base/text.h"
#include "rtrace/proto/type.h"
#include "scalars.h"

namespace rtrace::decode {
namespace {

constexpr size_t kMostOperands = 32;  // <sys/sdt.h> knows probes of twelve
constexpr size_t kLongest = 4096;     // of the text
constexpr uint8_t kLongDouble = 16;

using Word = unsigned long long user_regs_struct::*;

struct General {
  std::string_view quad, half, word, low, high;
  Word at;
};

constexpr std::array<General, 16> kGeneral = {{
    {"rax", "eax", "ax", "al", "ah", &user_regs_struct::rax},
    {"rbx", "ebx", "bx", "bl", "bh", &user_regs_struct::rbx},
    {"rcx", "ecx", "cx", "cl", "ch", &user_regs_struct::rcx},
    {"rdx", "edx", "dx", "dl", "dh", &user_regs_struct::rdx},
    {"rsi", "esi", "si", "sil", "", &user_regs_struct::rsi},
    {"rdi", "edi", "di", "dil", "", &user_regs_struct::rdi},
    {"rbp", "ebp", "bp", "bpl", "", &user_regs_struct::rbp},
    {"rsp", "esp", "sp", "spl", "", &user_regs_struct::rsp},
    {"r8", "r8d", "r8w", "r8b", "", &user_regs_struct::r8},
    {"r9", "r9d", "r9w", "r9b", "", &user_regs_struct::r9},
    {"r10", "r10d", "r10w", "r10b", "", &user_regs_struct::r10},
    {"r11", "r11d", "r11w", "r11b", "", &user_regs_struct::r11},
    {"r12", "r12d", "r12w", "r12b", "", &user_regs_struct::r12},
    {"r13", "r13d", "r13w", "r13b", "", &user_regs_struct::r13},
    {"r14", "r14d", "r14w", "r14b", "", &user_regs_struct::r14},
    {"r15", "r15d", "r15w", "r15b", "", &user_regs_struct::r15},
}};

bool is_name_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '$';
}

}  // namespace

// One operand at a time, in AT&T syntax (GNU as manual, "AT&T Syntax versus Intel Syntax").
class SdtArguments::Reader {
 public:
  explicit Reader(const SymbolAddress& symbols) : symbols_(symbols) {}

  std::vector<Operand> read(std::string_view text) const {
    text = text.substr(0, kLongest);
    std::vector<Operand> operands;
    while (operands.size() < kMostOperands) {
      text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
      if (text.empty()) break;
      const size_t end = end_of_operand(text);
      operands.push_back(operand(text.substr(0, end)));
      text.remove_prefix(end);
    }
    return operands;
  }

 private:
  // A blank inside parentheses ends nothing.
  static size_t end_of_operand(std::string_view text) {
    int depth = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '(') ++depth;
      if (text[i] == ')') --depth;
      if (text[i] == ' ' && depth <= 0) return i;
    }
    return text.size();
  }

  // N@, -N@, Nf@. Without it (the first versions of <sys/sdt.h>) a whole word is meant.
  static std::string_view take_size(std::string_view text, Operand& operand, bool& valid) {
    const size_t at = text.find('@');
    std::string_view prefix = text.substr(0, at == std::string_view::npos ? 0 : at);
    if (prefix.find_first_not_of("-0123456789f") != std::string_view::npos || prefix.empty()) return text;
    operand.is_signed = prefix.starts_with('-');
    if (operand.is_signed) prefix.remove_prefix(1);
    operand.is_float = prefix.ends_with('f');
    if (operand.is_float) prefix.remove_suffix(1);
    const auto size = parse_number(prefix);
    const bool integer = size && (*size == 1 || *size == 2 || *size == 4 || *size == 8);
    const bool floating = size && (*size == 4 || *size == 8 || *size == kLongDouble);
    valid = operand.is_float ? floating : integer;
    if (valid) operand.size = static_cast<uint8_t>(*size);
    return text.substr(at + 1);
  }

  Operand operand(std::string_view text) const {
    Operand found;
    bool valid = true;
    text = take_size(text, found, valid);
    if (!valid || text.empty()) return {};
    Operand read = found;
    const bool sound = text[0] == '$' ? constant(text.substr(1), read) : place(text, read);
    if (!sound) read.kind = Operand::Kind::unknown;
    return read;
  }

  bool constant(std::string_view text, Operand& operand) const {
    const auto sum = expression(text);
    operand.kind = Operand::Kind::constant;
    operand.constant = sum.value_or(Sum{}).value;
    return sum.has_value() && !operand.is_float;
  }

  // A register, or memory: [%segment:] [displacement] [(base, index, scale)].
  bool place(std::string_view text, Operand& operand) const {
    if (text.starts_with("%fs:") || text.starts_with("%gs:")) {
      operand.segment = text[1] == 'f' ? Segment::fs : Segment::gs;
      text.remove_prefix(4);
    }
    if (text.starts_with('%') && operand.segment == Segment::none) {
      operand.kind = Operand::Kind::direct;
      operand.base = register_named(text.substr(1));
      const bool vector = operand.base.kind == Register::Kind::vector;
      return operand.base.kind != Register::Kind::none && (!operand.is_float || vector) && operand.size <= 8;
    }
    operand.kind = Operand::Kind::memory;
    const size_t open = text.find('(');
    const std::string_view displacement = text.substr(0, open);
    const auto sum = displacement.empty() ? std::optional(Sum{}) : expression(displacement);
    operand.constant = sum.value_or(Sum{}).value;
    if (!sum || (displacement.empty() && open == std::string_view::npos)) return false;
    if (open == std::string_view::npos) return true;
    if (!text.ends_with(')')) return false;
    const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
    if (inside == "%rip") return sum->symbolic;  // its address is all there is to it
    return address(inside, operand);
  }

  static bool address(std::string_view inside, Operand& operand) {
    const auto parts = split(inside, ',');
    if (parts.empty() || parts.size() > 3) return false;
    const auto general = [](std::string_view part, Register& place) {
      part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
      if (part.empty()) return true;
      if (!part.starts_with('%')) return false;
      place = register_named(part.substr(1));
      return place.kind == Register::Kind::general && place.size >= 4;
    };
    if (!general(parts[0], operand.base) || (parts.size() > 1 && !general(parts[1], operand.index)))
      return false;
    if (parts.size() < 3) return true;
    const std::string_view scale =
        parts[2].substr(std::min(parts[2].find_first_not_of(' '), parts[2].size()));
    if (scale != "1" && scale != "2" && scale != "4" && scale != "8") return false;
    operand.scale = static_cast<uint8_t>(scale[0] - '0');
    return true;
  }

  struct Sum {
    uint64_t value = 0;
    bool symbolic = false;
  };

  // Terms added and subtracted: numbers, and symbols where they are added.
  std::optional<Sum> expression(std::string_view text) const {
    Sum sum;
    bool any = false;
    while (!text.empty()) {
      bool negative = false;
      while (text.starts_with('+') || text.starts_with('-')) {
        negative ^= text[0] == '-';
        text.remove_prefix(1);
      }
      const auto end = std::find_if_not(text.begin(), text.end(), is_name_char);
      const auto term = text.substr(0, static_cast<size_t>(end - text.begin()));
      if (term.empty()) return std::nullopt;
      text.remove_prefix(term.size());
      if (!text.empty() && text[0] != '+' && text[0] != '-') return std::nullopt;
      auto value = parse_number(term);
      if (!value && !negative && symbols_)
        if (const auto address = symbols_(term)) {
          value = address->value;
          sum.symbolic = true;
        }
      if (!value) return std::nullopt;
      sum.value += negative ? -*value : *value;
      any = true;
    }
    return any ? std::optional(sum) : std::nullopt;
  }

  static Register register_named(std::string_view name) {
    for (size_t i = 0; i < kGeneral.size(); ++i) {
      const General& general = kGeneral[i];
      const auto number = static_cast<uint8_t>(i);
      if (name == general.quad) return {Register::Kind::general, number, 8, false};
      if (name == general.half) return {Register::Kind::general, number, 4, false};
      if (name == general.word) return {Register::Kind::general, number, 2, false};
      if (name == general.low) return {Register::Kind::general, number, 1, false};
      if (!name.empty() && name == general.high) return {Register::Kind::general, number, 1, true};
    }
    if (!name.starts_with("xmm")) return {};
    const auto number = parse_number(name.substr(3));
    if (!number || *number >= 16) return {};
    return {Register::Kind::vector, static_cast<uint8_t>(*number), 16, false};
  }

  const SymbolAddress& symbols_;
};

SdtArguments::SdtArguments(std::string_view operands, const Limits& limits, const SymbolAddress& symbols)
    : operands_(Reader(symbols).read(operands)), limits_(limits) {}

bool SdtArguments::needs_vector_registers() const {
  return std::ranges::any_of(operands_, [](const Operand& operand) {
    return operand.kind == Operand::Kind::direct && operand.base.kind == Register::Kind::vector;
  });
}

uint64_t SdtArguments::value_of(const Register& source, const arch::Regs& regs) {
  if (source.kind != Register::Kind::general) return 0;
  const uint64_t whole = regs.raw.*kGeneral[source.number].at >> (source.high_byte ? 8 : 0);
  return source.size >= 8 ? whole : whole & ((uint64_t{1} << (8 * source.size)) - 1);
}

VirtAddr SdtArguments::address_of(const Operand& operand, const arch::Regs& regs) {
  const uint64_t segment = operand.segment == Segment::fs   ? regs.raw.fs_base
                           : operand.segment == Segment::gs ? regs.raw.gs_base
                                                            : 0;
  return {segment + operand.constant + value_of(operand.base, regs) +
          value_of(operand.index, regs) * operand.scale};
}

std::optional<std::vector<std::byte>> SdtArguments::bytes_of(const Operand& operand, const arch::Regs& regs,
                                                             const Memory& memory,
                                                             const arch::VectorRegs* vectors) {
  std::vector<std::byte> bytes(operand.size);
  uint64_t word = operand.constant;
  switch (operand.kind) {
    case Operand::Kind::unknown:
      return std::nullopt;
    case Operand::Kind::memory:
      if (memory.read(address_of(operand, regs), bytes) != bytes.size()) return std::nullopt;
      return bytes;
    case Operand::Kind::direct:
      if (operand.base.kind == Register::Kind::vector) {
        if (vectors == nullptr) return std::nullopt;
        std::memcpy(bytes.data(), vectors->xmm[operand.base.number].data(), bytes.size());
        return bytes;
      }
      word = value_of(operand.base, regs);
      // A register that is narrower than the argument holds all there is of it.
      if (operand.base.size < operand.size && operand.is_signed)
        word = extend(std::as_bytes(std::span(&word, 1)), operand.base.size, true);
      break;
    case Operand::Kind::constant:
      break;
  }
  std::memcpy(bytes.data(), &word, bytes.size());
  return bytes;
}

Argument SdtArguments::argument_of(const Operand& operand, const arch::Regs& regs, const Memory& memory,
                                   const arch::VectorRegs* vectors) const {
  const auto type = operand.is_float ? proto::make_float(operand.size)
                                     : proto::make_integer(operand.size, operand.is_signed);
  Argument argument{"", proto::spell(*type), {}};
  const auto bytes = bytes_of(operand, regs, memory, vectors);
  if (!bytes) return argument;
  if (operand.is_float) {
    argument.value = floating_value(*bytes, operand.size, proto::Lens::none);
    return argument;
  }
  const uint64_t raw = extend(*bytes, operand.size, operand.is_signed);
  if (auto text = operand.size == 8 ? guess_text(raw, memory, limits_) : std::nullopt) {
    argument.type = "string";
    argument.value = std::move(*text);
  } else {
    const bool huge = !operand.is_signed && static_cast<int64_t>(raw) < 0;
    argument.value = integral_value(*type, raw, huge ? proto::Lens::hex : proto::Lens::guess);
  }
  return argument;
}

std::vector<Argument> SdtArguments::read(const arch::Regs& regs, const Memory& memory,
                                         const arch::VectorRegs* vectors) const {
  std::vector<Argument> arguments;
  arguments.reserve(operands_.size());
  for (const Operand& operand : operands_) arguments.push_back(argument_of(operand, regs, memory, vectors));
  return arguments;
}

}  // namespace rtrace::decode
