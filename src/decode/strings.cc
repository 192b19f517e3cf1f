// Text behind pointers and in place, narrow and wide.
#include <algorithm>
#include <limits>

#include "scalars.h"
#include "value_decoder.h"

namespace rtrace::decode {
namespace {

using proto::Length;
using proto::Type;

void append_utf8(std::string& out, uint32_t c) {
  auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  bool surrogate = c >= 0xd800 && c < 0xe000;
  if (c > 0x10ffff || surrogate) c = 0xfffd;
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
}

bool is_high_surrogate(uint64_t unit) {
  return unit >= 0xd800 && unit < 0xdc00;
}
bool is_low_surrogate(uint64_t unit) {
  return unit >= 0xdc00 && unit < 0xe000;
}

uint64_t unit_at(std::span<const std::byte> bytes, uint64_t size, uint64_t index) {
  return (index + 1) * size <= bytes.size() ? extend(bytes.subspan(index * size, size), size, false) : 0;
}

// The bytes of the first `most` units of 2 or 4 bytes that the text was made of.
size_t bytes_of_units(std::string_view utf8, uint8_t size, size_t most) {
  size_t units = 0, i = 0;
  while (i < utf8.size() && units < most) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    units += size == 2 && first >= 0xf0 ? 2 : 1;
    for (++i; i < utf8.size() && (static_cast<unsigned char>(utf8[i]) & 0xc0) == 0x80;) ++i;
  }
  return i;
}

}  // namespace

void shorten(Value& value, size_t most) {
  if (value.kind == Value::Kind::string) {
    const bool is_wide = value.size == 2 || value.size == 4;
    const size_t kept =
        is_wide ? bytes_of_units(value.bytes, value.size, most) : std::min(most, value.bytes.size());
    value.cut |= kept < value.bytes.size();
    value.bytes.resize(kept);
  }
  for (Value& member : value.members) shorten(member, most);
}

WideText wide_text(std::span<const std::byte> bytes, uint64_t size, uint64_t most) {
  WideText text;
  for (uint64_t i = 0; i < most && (i + 1) * size <= bytes.size(); ++i) {
    uint64_t unit = unit_at(bytes, size, i);
    if (unit == 0) {
      text.terminated = true;
      return text;
    }
    ++text.count;
    uint64_t low = size == 2 && is_high_surrogate(unit) ? unit_at(bytes, size, i + 1) : 0;
    if (is_low_surrogate(low)) {
      unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
      ++text.count;
      ++i;
    }
    append_utf8(text.utf8, static_cast<uint32_t>(unit));
  }
  return text;
}

Value ValueDecoder::string(const Type& type, Place place) {
  auto most = count_of(type.length);
  // Many interfaces take a negative length for "up to the NUL" (sqlite3_prepare(3), BIO_new_mem_buf(3ssl)).
  if (!most && type.length.kind == Length::Kind::argument && lengths_.argument(type.length.value))
    most = kUnbounded;
  if (!type.in_place) {
    auto address = pointer_at(place);
    if (!address) return {};
    if (*address == 0) return address_value(0);
    place = {{}, {*address}};
  }
  if (!most) {
    Value unknown_length;
    unknown_length.raw = place.address.value;
    return unknown_length;
  }
  const uint64_t size = type.inner->size;
  if (size == 1 && !type.in_place) return narrow_string(place.address, *most);
  std::vector<std::byte> storage(std::min<uint64_t>(*most, limits_.string + 1) * size);
  Value value = text_of(type, load(place, storage.size(), storage), *most);
  if (value.kind == Value::Kind::unreadable && !type.in_place) value.raw = place.address.value;
  return value;
}

Value ValueDecoder::narrow_string(VirtAddr address, uint64_t most) const {
  Value value;
  const uint64_t wanted = std::min<uint64_t>(most, limits_.string + 1);
  auto text = memory_.read_c_string(address, wanted);
  if (!text) {
    value.raw = address.value;
    return value;
  }
  value.kind = Value::Kind::string;
  value.bytes = std::move(text->text);
  value.cut = !text->terminated && (value.bytes.size() > limits_.string || value.bytes.size() < wanted);
  if (value.bytes.size() > limits_.string) value.bytes.resize(limits_.string);
  return value;
}

Value ValueDecoder::text_of(const Type& type, std::span<const std::byte> bytes, uint64_t most) const {
  Value value;
  const uint64_t size = type.inner->size;
  const uint64_t wanted = std::min<uint64_t>(most, limits_.string + 1);
  if (bytes.size() < size && wanted > 0) return value;
  value.kind = Value::Kind::string;
  if (size == 1) {
    auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    auto length = static_cast<uint64_t>(end - bytes.begin());
    value.bytes.assign(reinterpret_cast<const char*>(bytes.data()),
                       std::min<uint64_t>(length, limits_.string));
    value.cut = end == bytes.end() && (length > limits_.string || length < wanted);
    return value;
  }
  value.size = static_cast<uint8_t>(size);
  WideText text = wide_text(bytes, size, limits_.string);
  bool ends_there =
      text.count < wanted && (text.count + 1) * size <= bytes.size() && unit_at(bytes, size, text.count) == 0;
  value.bytes = std::move(text.utf8);
  value.cut = !text.terminated && !ends_there && text.count < most;
  return value;
}

}  // namespace rtrace::decode
