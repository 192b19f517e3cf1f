// Reads what .eh_frame and .debug_frame are made of. Past the end everything is zero and failed() says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "rtrace/base/address.h"

namespace rtrace::elf {

// DW_EH_PE_*: LSB Core 5.0, "DWARF Exception Header Encoding".
inline constexpr uint8_t kEncodingOmit = 0xff;
inline constexpr uint8_t kEncodingAbsolute = 0x00;

class EncodedReader {
 public:
  // `address` is where the bytes lie in the object's own space.
  EncodedReader(std::span<const std::byte> bytes, ElfAddr address) : bytes_(bytes), address_(address) {}

  ElfAddr address() const { return address_ + at_; }
  size_t offset() const { return at_; }
  bool failed() const { return failed_; }
  bool at_end() const { return failed_ || at_ >= bytes_.size(); }
  std::span<const std::byte> rest() const { return failed_ ? bytes_.first(0) : bytes_.subspan(at_); }

  // Sign-extends where T is signed.
  template <typename T>
  uint64_t take() {
    T value{};
    if (failed_ || bytes_.size() - at_ < sizeof value) return fail();
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }

  uint64_t take_leb128() { return take_leb128(Sign::no); }
  int64_t take_signed_leb128() { return static_cast<int64_t>(take_leb128(Sign::yes)); }

  std::string_view take_string() {
    const auto left = rest();
    const std::string_view text(reinterpret_cast<const char*>(left.data()), left.size());
    const size_t length = text.find('\0');
    if (length == std::string_view::npos) {
      fail();
      return {};
    }
    at_ += length + 1;
    return text.substr(0, length);
  }

  std::span<const std::byte> take_bytes(uint64_t size) {
    if (failed_ || size > bytes_.size() - at_) {
      fail();
      return {};
    }
    auto taken = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += static_cast<size_t>(size);
    return taken;
  }

  // A pointer without its base.
  uint64_t take_format(uint8_t encoding) {
    constexpr uint8_t kFormatMask = 0x0f;
    switch (encoding & kFormatMask) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return take<uint64_t>();
      case 0x01:
        return take_leb128();
      case 0x02:
        return take<uint16_t>();
      case 0x03:
        return take<uint32_t>();
      case 0x09:
        return static_cast<uint64_t>(take_signed_leb128());
      case 0x0a:
        return take<int16_t>();
      case 0x0b:
        return take<int32_t>();
      default:
        return fail();
    }
  }

  // Indirect pointers, and bases that only relocatable files have, fail.
  ElfAddr take_pointer(uint8_t encoding, ElfAddr data_base) {
    constexpr uint8_t kBaseMask = 0x70, kIndirect = 0x80, kPcRelative = 0x10, kDataRelative = 0x30;
    const ElfAddr place = address();
    const uint64_t value = take_format(encoding);
    if ((encoding & kIndirect) != 0) return {fail()};
    switch (encoding & kBaseMask) {
      case kEncodingAbsolute:
        return {value};
      case kPcRelative:
        return place + value;
      case kDataRelative:
        return data_base + value;
      default:
        return {fail()};
    }
  }

 private:
  enum class Sign : bool { no, yes };

  uint64_t fail() {
    failed_ = true;
    at_ = bytes_.size();
    return 0;
  }

  uint64_t take_leb128(Sign sign) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = take<uint8_t>();
      value |= (byte & 0x7f) << shift;
      if (failed_) return 0;
      if ((byte & 0x80) != 0) continue;
      const unsigned width = shift + 7;
      if (sign == Sign::yes && (byte & 0x40) != 0 && width < 64) value |= ~uint64_t{0} << width;
      return value;
    }
    return fail();
  }

  std::span<const std::byte> bytes_;
  ElfAddr address_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace rtrace::elf
