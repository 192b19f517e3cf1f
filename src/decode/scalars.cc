#include "scalars.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace rtrace::decode {
namespace {

using proto::Lens;
using proto::Type;

constexpr int64_t kGuessDecimal = 10000;

uint64_t mask_of(uint64_t size) {
  return size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
}

Value::Radix radix_of(Lens lens, int64_t number) {
  if (lens == Lens::hex) return Value::Radix::hex;
  if (lens == Lens::octal) return Value::Radix::octal;
  bool small = number >= -kGuessDecimal && number <= kGuessDecimal;
  return lens == Lens::guess && !small ? Value::Radix::hex : Value::Radix::decimal;
}

std::string bit_vector_text(uint64_t bits, uint64_t size) {
  const unsigned width = static_cast<unsigned>(8 * size);
  std::string text;
  if (std::popcount(bits) * 2 > static_cast<int>(width)) {
    text = "~";
    bits = ~bits & mask_of(size);
  }
  text += '<';
  const char* separator = "";
  for (unsigned i = 0; i < width; ++i) {
    if ((bits >> i & 1) == 0) continue;
    unsigned last = i;
    while (last + 1 < width && (bits >> (last + 1) & 1) != 0) ++last;
    fmt::format_to(std::back_inserter(text), "{}{}", separator, i);
    if (last > i) fmt::format_to(std::back_inserter(text), "-{}", last);
    separator = ",";
    i = last;
  }
  return text + '>';
}

std::string key_of(const Type& type, uint64_t raw) {
  for (const proto::Enumerator& entry : type.enumerators) {
    if (((static_cast<uint64_t>(entry.value) ^ raw) & mask_of(type.size)) == 0) return entry.name;
  }
  return {};
}

// Each bit once; what no key names follows as a number.
std::string flags_text(const Type& type, uint64_t raw) {
  const uint64_t all = mask_of(type.size);
  uint64_t named = 0;
  std::string text;
  for (const proto::Enumerator& entry : type.enumerators) {
    const auto value = static_cast<uint64_t>(entry.value) & all;
    const uint64_t bits = entry.mask != 0 ? entry.mask & all : value;
    if (bits == 0 || (bits & named) != 0 || (raw & bits) != value) continue;
    if (!text.empty()) text += '|';
    text += entry.name;
    named |= bits;
  }
  const uint64_t rest = raw & all & ~named;
  if (rest != 0) fmt::format_to(std::back_inserter(text), "{}{:#x}", text.empty() ? "" : "|", rest);
  if (text.empty()) text = key_of(type, 0);
  return text.empty() ? "0" : text;
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("{}", number);
}

// In the words of wait(2)'s macros, as strace has them.
std::string wait_status_text(int status) {
  if (WIFEXITED(status)) return fmt::format("WIFEXITED(s) && WEXITSTATUS(s) == {}", WEXITSTATUS(status));
  if (WIFCONTINUED(status)) return "WIFCONTINUED(s)";
  if (WIFSTOPPED(status))
    return fmt::format("WIFSTOPPED(s) && WSTOPSIG(s) == {}", signal_name(WSTOPSIG(status)));
  return fmt::format("WIFSIGNALED(s) && WTERMSIG(s) == {}{}", signal_name(WTERMSIG(status)),
                     WCOREDUMP(status) ? " && WCOREDUMP(s)" : "");
}

}  // namespace

uint64_t extend(std::span<const std::byte> bytes, uint64_t size, bool is_signed) {
  uint64_t raw = 0;
  std::memcpy(&raw, bytes.data(), std::min<size_t>({bytes.size(), size, sizeof raw}));
  if (is_signed && size < 8 && (raw >> (8 * size - 1) & 1) != 0) raw |= ~mask_of(size);
  return raw;
}

Value integral_value(const Type& type, uint64_t raw, Lens lens) {
  Value value;
  value.raw = raw;
  value.size = static_cast<uint8_t>(type.size);
  value.is_signed = type.is_signed;
  value.radix = radix_of(lens, static_cast<int64_t>(raw));
  if (type.kind == Type::Kind::enumeration) {
    value.kind = Value::Kind::enumeration;
    value.text = key_of(type, raw);
    value.keyed_by = &type;
    return value;
  }
  if (type.kind == Type::Kind::flags) {
    value.kind = Value::Kind::flags;
    value.text = flags_text(type, raw);
    value.keyed_by = &type;
    return value;
  }
  if (type.kind == Type::Kind::wait_status) {
    value.kind = Value::Kind::enumeration;
    value.text = wait_status_text(static_cast<int>(raw));
    return value;
  }
  value.kind = Value::Kind::integer;
  value.is_descriptor = type.kind == Type::Kind::descriptor;
  if (lens == Lens::boolean) value.kind = Value::Kind::boolean;
  if (lens == Lens::bit_vector) {
    value.kind = Value::Kind::bit_vector;
    value.text = bit_vector_text(raw & mask_of(type.size), type.size);
  }
  bool plain = lens == Lens::none || lens == Lens::guess;
  // A wide character that is no Latin-1 one stays a number: a character's value shows one byte.
  if (type.kind == Type::Kind::character && plain && (type.size == 1 || raw < 0x100))
    value.kind = Value::Kind::character;
  return value;
}

std::optional<uint64_t> key_bits(const Value& value, std::string_view key) {
  if (value.keyed_by == nullptr) return std::nullopt;
  for (const proto::Enumerator& entry : value.keyed_by->enumerators) {
    if (entry.name != key) continue;
    const auto bits = static_cast<uint64_t>(entry.value);
    return extend(std::as_bytes(std::span(&bits, 1)), value.size, value.is_signed);
  }
  return std::nullopt;
}

Value wide_integer_value(const Type& type, std::span<const std::byte> bytes, Lens lens) {
  Value value;
  value.kind = lens == Lens::boolean ? Value::Kind::boolean : Value::Kind::integer;
  value.size = 16;
  value.is_signed = type.is_signed;
  value.raw = extend(bytes, 8, false);
  value.high = extend(bytes.subspan(8), 8, false);
  const uint64_t sign = type.is_signed && static_cast<int64_t>(value.raw) < 0 ? ~uint64_t{0} : 0;
  // What fits into 64 bits is guessed at as if it were one of those.
  value.radix = value.high == sign    ? radix_of(lens, static_cast<int64_t>(value.raw))
                : lens == Lens::guess ? Value::Radix::hex
                                      : radix_of(lens, 0);
  if (value.kind == Value::Kind::boolean) value.raw |= value.high;
  return value;
}

Value floating_value(std::span<const std::byte> bytes, uint64_t size, Lens lens) {
  Value value;
  if (bytes.size() < (size == 16 ? 10 : size)) return value;
  value.kind = Value::Kind::floating;
  value.size = static_cast<uint8_t>(size);
  value.radix = lens == Lens::hex ? Value::Radix::hex : Value::Radix::decimal;
  float single = 0;
  double twice = 0;
  if (size == 4) {
    std::memcpy(&single, bytes.data(), sizeof single);
    value.number = static_cast<long double>(single);
  } else if (size == 8) {
    std::memcpy(&twice, bytes.data(), sizeof twice);
    value.number = static_cast<long double>(twice);
  } else {
    // 80 bits count; the rest of the 16 bytes is padding (psABI 3.1.2).
    std::memcpy(&value.number, bytes.data(), 10);
  }
  std::memcpy(&value.raw, bytes.data(), std::min<size_t>(size, sizeof value.raw));
  return value;
}

Value address_value(uint64_t address) {
  Value value;
  value.kind = address == 0 ? Value::Kind::nil : Value::Kind::address;
  value.raw = address;
  return value;
}

std::string error_text(int number) {
  const char* name = ::strerrorname_np(number);
  const char* description = ::strerrordesc_np(number);
  if (name == nullptr || description == nullptr) return fmt::format("errno {}", number);
  return fmt::format("{} ({})", name, description);
}

}  // namespace rtrace::decode
