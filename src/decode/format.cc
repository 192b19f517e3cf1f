#include "format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace rtrace::decode {
namespace {

using proto::Lens;
using proto::TypeRef;

// More are in no format that a person wrote.
constexpr size_t kMaxArguments = 512;

enum class Size : uint8_t { none, hh, h, l, ll, big };  // big: q L j z Z t, and 8 bytes for integers

const TypeRef& integer(unsigned size, bool is_signed, Lens lens) {
  // Made once: formats are decoded at each call.
  static const auto kTypes = [] {
    std::array<std::array<std::array<TypeRef, 3>, 2>, 4> types;
    for (size_t log = 0; log < 4; ++log)
      for (size_t sign = 0; sign < 2; ++sign) {
        TypeRef plain = proto::make_integer(1U << log, sign == 1);
        types[log][sign] = {plain, proto::with_lens(plain, Lens::hex), proto::with_lens(plain, Lens::octal)};
      }
    return types;
  }();
  size_t log = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
  return kTypes[log][is_signed ? 1 : 0][lens == Lens::hex ? 1 : lens == Lens::octal ? 2 : 0];
}

unsigned bytes_of(Size size) {
  switch (size) {
    case Size::hh:
      return 1;
    case Size::h:
      return 2;
    case Size::none:
      return 4;
    default:
      return 8;
  }
}

// glibc takes `ll` for `L` there.
bool is_long_double(Size size) {
  return size == Size::big || size == Size::ll;
}

TypeRef wide_character() {
  static const TypeRef kType = [] {
    auto type = std::make_shared<proto::Type>(*proto::make_character());
    type->size = type->align = 4;
    return type;
  }();
  return kType;
}

TypeRef narrow_character() {
  static const TypeRef kType = proto::make_character();
  return kType;
}

// What the conversions of printf and scanf have in common.
class ConversionReader {
 protected:
  explicit ConversionReader(std::string_view text) : rest_(text) {}

  char front() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool skip(char c) {
    if (front() != c || c == '\0') return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<size_t> number() {
    size_t value = 0;
    size_t digits = 0;
    for (; front() >= '0' && front() <= '9'; rest_.remove_prefix(1), ++digits)
      value = std::min<size_t>(value * 10 + static_cast<size_t>(front() - '0'), 1 << 20);
    return digits > 0 ? std::optional(value) : std::nullopt;
  }

  // "2$" at the front; else nothing is consumed.
  size_t position() {
    std::string_view before = rest_;
    auto value = number();
    if (value && *value > 0 && skip('$')) return *value;
    rest_ = before;
    return 0;
  }

  Size length_modifier() {
    if (skip('h')) return skip('h') ? Size::hh : Size::h;
    if (skip('l')) return skip('l') ? Size::ll : Size::l;
    for (char c : {'q', 'L', 'j', 'z', 'Z', 't'})
      if (skip(c)) return Size::big;
    return Size::none;
  }

  std::string_view rest_;
};

class FormatReader : ConversionReader {
 public:
  FormatReader(std::string_view text, size_t named) : ConversionReader(text), named_(named) {}

  std::vector<TypeRef> read() {
    for (size_t percent; (percent = rest_.find('%')) != std::string_view::npos;) {
      rest_.remove_prefix(percent + 1);
      if (!conversion()) break;
    }
    // A position that no conversion names is taken as an int; printf itself could not know better.
    for (TypeRef& type : types_)
      if (type == nullptr) type = integer(4, true, Lens::none);
    return std::move(types_);
  }

 private:
  void add(TypeRef type, size_t position) {
    size_t index = position > 0 ? position - 1 : types_.size();
    if (index >= kMaxArguments) return;
    if (index >= types_.size()) types_.resize(index + 1);
    types_[index] = std::move(type);
  }

  // A width or precision; `length` gets what a string's precision says.
  void star_or_number(proto::Length* length) {
    if (skip('*')) {
      size_t at = position();
      add(integer(4, true, Lens::none), at);
      size_t star = named_ + (at > 0 ? at : types_.size());
      if (length != nullptr) *length = {proto::Length::Kind::argument, false, star};
      return;
    }
    auto value = number();
    if (length != nullptr) *length = {proto::Length::Kind::fixed, false, value.value_or(0)};
  }

  bool conversion() {
    size_t at = position();
    while (front() != '\0' && std::string_view("#0- +'I").find(front()) != std::string_view::npos)
      rest_.remove_prefix(1);
    star_or_number(nullptr);
    proto::Length precision;
    if (skip('.')) star_or_number(&precision);
    Size size = length_modifier();
    char letter = front();
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    if (letter == '%' || letter == 'm') return true;
    TypeRef type = type_of(letter, size, precision);
    if (type == nullptr) return false;
    add(type, at);
    return types_.size() < kMaxArguments;
  }

  static TypeRef type_of(char letter, Size size, proto::Length precision) {
    static const TypeRef kAddress = proto::make_address();
    switch (letter) {
      case 'd':
      case 'i':
        return integer(bytes_of(size), true, Lens::none);
      case 'u':
        return integer(bytes_of(size), false, Lens::none);
      case 'o':
        return integer(bytes_of(size), false, Lens::octal);
      case 'x':
      case 'X':
      case 'b':
      case 'B':
        return integer(bytes_of(size), false, Lens::hex);
      case 'a':
      case 'A':
        return floating(size, Lens::hex);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return floating(size, Lens::none);
      case 'c':
        return size == Size::l ? wide_character() : narrow_character();
      case 'C':
        return wide_character();
      case 's':
        return text(size == Size::l, precision);
      case 'S':
        return text(true, precision);
      // What %n points at is not written yet.
      case 'p':
      case 'n':
        return kAddress;
      default:
        return nullptr;
    }
  }

  static TypeRef floating(Size size, Lens lens) {
    TypeRef type = proto::make_float(is_long_double(size) ? 16 : 8);
    return lens == Lens::none ? type : proto::with_lens(type, lens);
  }

  // Of wide characters printf counts the bytes that it makes of them, at least one of each.
  static TypeRef text(bool wide, proto::Length precision) {
    return proto::make_string(wide ? wide_character() : narrow_character(), precision);
  }

  size_t named_;
  std::vector<TypeRef> types_;
};

// scanf(3): where each conversion stores, and which of them the result says were stored.
class ScanReader : ConversionReader {
 public:
  ScanReader(std::string_view text, int64_t stored) : ConversionReader(text), stored_(stored) {}

  ScanArguments read() {
    for (size_t percent; (percent = rest_.find('%')) != std::string_view::npos;) {
      rest_.remove_prefix(percent + 1);
      if (!conversion()) break;
    }
    for (TypeRef& type : result_.types)
      if (type == nullptr) type = proto::make_address();
    result_.filled.resize(result_.types.size());
    return std::move(result_);
  }

 private:
  bool conversion() {
    const size_t at = position();
    bool suppressed = false, allocated = false;
    Size size = Size::none;
    // The man page has them in this order, glibc takes them in any.
    for (bool more = true; more;) {
      more = skip('\'') || skip('I');
      if (skip('*')) more = suppressed = true;
    }
    const auto width = number();
    if (skip('m')) allocated = true;
    size = length_modifier();
    if (skip('m')) allocated = true;
    const char letter = front();
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    if (letter == '%') return true;
    if (letter == '[') skip_set();
    const TypeRef type = type_of(letter, size, width.value_or(1));
    if (type == nullptr) return false;
    if (suppressed) return true;
    add(allocated ? proto::make_pointer(proto::make_string(text_character(letter, size))) : type, at,
        letter == 'n');
    return result_.types.size() < kMaxArguments;
  }

  // What stands between the brackets; a `]` that comes first is one of them.
  void skip_set() {
    (void)skip('^');
    (void)skip(']');
    const size_t end = rest_.find(']');
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  }

  // %n stores too, once all before it have, but does not count.
  void add(TypeRef type, size_t position, bool is_count) {
    const size_t index = position > 0 ? position - 1 : result_.types.size();
    if (index >= kMaxArguments) return;
    if (index >= result_.types.size()) result_.types.resize(index + 1);
    if (index >= result_.filled.size()) result_.filled.resize(index + 1);
    result_.types[index] = std::move(type);
    result_.filled[index] = is_count ? conversions_ <= stored_ : conversions_ < stored_;
    if (!is_count) ++conversions_;
  }

  static TypeRef text_character(char letter, Size size) {
    const bool wide = size == Size::l || letter == 'S' || letter == 'C';
    return wide ? wide_character() : narrow_character();
  }

  static TypeRef type_of(char letter, Size size, size_t width) {
    const auto pointer = [](TypeRef to) { return proto::make_pointer(std::move(to)); };
    switch (letter) {
      case 'd':
      case 'i':
        return pointer(integer(bytes_of(size), true, Lens::none));
      case 'u':
        return pointer(integer(bytes_of(size), false, Lens::none));
      case 'o':
        return pointer(integer(bytes_of(size), false, Lens::octal));
      case 'x':
      case 'X':
        return pointer(integer(bytes_of(size), false, Lens::hex));
      case 'n':
        return pointer(integer(bytes_of(size), true, Lens::none));
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return pointer(proto::make_float(is_long_double(size) ? 16 : size == Size::l ? 8 : 4));
      case 'p':
        return pointer(proto::make_address());
      case 's':
      case 'S':
      case '[':
        return proto::make_string(text_character(letter, size));
      // So many characters, without a NUL behind them.
      case 'c':
      case 'C':
        if (width == 1) return pointer(text_character(letter, size));
        return proto::make_string(text_character(letter, size), {proto::Length::Kind::fixed, false, width});
      default:
        return nullptr;
    }
  }

  int64_t stored_;
  int64_t conversions_ = 0;
  ScanArguments result_;
};

}  // namespace

std::vector<TypeRef> format_arguments(std::string_view format, size_t named) {
  return FormatReader(format, named).read();
}

ScanArguments scan_arguments(std::string_view format, int64_t stored) {
  return ScanReader(format, stored).read();
}

}  // namespace rtrace::decode
