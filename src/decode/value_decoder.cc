#include "value_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "guess.h"
#include "scalars.h"

namespace rtrace::decode {
namespace {

using proto::Length;
using proto::Lens;
using proto::Type;
using proto::TypeRef;

// Of one read for a struct or an array.
constexpr uint64_t kMaxRead = 65536;

Value unreadable(VirtAddr address = {}) {
  Value value;
  value.raw = address.value;
  return value;
}

// In place of what the limits leave out: prints "...".
Value left_out() {
  Value value;
  value.kind = Value::Kind::structure;
  value.cut = true;
  return value;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Copies of one struct that differ in their lens only count as the same.
bool same_struct(const Type& a, const Type& b) {
  return &a == &b || (a.size == b.size && a.members.size() == b.members.size() && a.name == b.name);
}

Place part_of(Place place, uint64_t offset) {
  Place part;
  if (offset < place.bytes.size()) part.bytes = place.bytes.subspan(offset);
  if (place.address) part.address = place.address + offset;
  return part;
}

bool is_integral(const Type& type) {
  return type.kind == Type::Kind::integer || type.kind == Type::Kind::character ||
         type.kind == Type::Kind::enumeration || type.kind == Type::Kind::flags ||
         type.kind == Type::Kind::descriptor;
}

}  // namespace

Value ValueDecoder::unfilled(const Type& type, Place place) {
  // One by the result knows of failures.
  if (type.kind == Type::Kind::choice && type.length.kind != Length::Kind::result)
    return unfilled(chosen(type), place);
  const bool behind_a_pointer = type.kind == Type::Kind::pointer || type.kind == Type::Kind::buffer ||
                                type.kind == Type::Kind::socket_address ||
                                (type.kind == Type::Kind::string && !type.in_place);
  const auto address = behind_a_pointer && type.lens != Lens::hide ? pointer_at(place) : std::nullopt;
  return address ? address_value(*address) : decode(type, place);
}

std::span<const std::byte> ValueDecoder::load(Place place, uint64_t size,
                                              std::span<std::byte> storage) const {
  if (place.bytes.size() >= size) return place.bytes.first(size);
  if (!place.address) return place.bytes;
  auto out = storage.first(std::min<size_t>(size, storage.size()));
  return out.first(memory_.read(place.address, out));
}

Value ValueDecoder::decode(const Type& type, Place place) {
  budget_ = std::max<uint64_t>(kMostValues, limits_.array + kMostValues / 4);
  return decode_part(type, place, Lens::none);
}

Value ValueDecoder::decode_part(const Type& type, Place place, Lens outer) {
  if (budget_ == 0) return left_out();
  --budget_;
  Lens lens = type.lens != Lens::none ? type.lens : outer;
  if (lens == Lens::hide) {
    Value value;
    value.kind = Value::Kind::hidden;
    return value;
  }
  return decode_kind(type, place, lens);
}

Value ValueDecoder::decode_kind(const Type& type, Place place, Lens lens) {
  Scalar storage;
  switch (type.kind) {
    case Type::Kind::nothing: {
      Value value;
      value.kind = Value::Kind::nothing;
      return value;
    }
    case Type::Kind::floating:
      return floating_value(load(place, type.size, storage), type.size, lens);
    case Type::Kind::pointer:
      return pointer(type, place, lens);
    case Type::Kind::array:
      return array(type, place, lens);
    case Type::Kind::structure:
      return structure(type, place, lens);
    case Type::Kind::string:
    case Type::Kind::format:
      return string(type, place);
    case Type::Kind::buffer:
      return buffer(type, place);
    case Type::Kind::error:
      return decode_part(*type.inner, place, lens);
    case Type::Kind::container:
      return container(type, place, lens);
    case Type::Kind::socket_address:
      return socket_address(type, place);
    case Type::Kind::choice:
      return decode_part(chosen(type), place, lens);
    case Type::Kind::named: {
      TypeRef target = type.target.lock();
      return target ? decode_part(*target, place, lens) : unreadable();
    }
    case Type::Kind::integer:
    case Type::Kind::character:
    case Type::Kind::enumeration:
    case Type::Kind::flags:
    case Type::Kind::descriptor:
    case Type::Kind::wait_status:
      break;
  }
  return integral(type, place, lens);
}

Value ValueDecoder::integral(const Type& type, Place place, Lens lens) const {
  Scalar storage;
  auto bytes = load(place, type.size, storage);
  if (bytes.size() < type.size) return unreadable();
  if (type.size == 16) return wide_integer_value(type, bytes, lens);
  return integral_value(type, extend(bytes, type.size, type.is_signed), lens);
}

std::optional<uint64_t> ValueDecoder::pointer_at(Place place) const {
  Scalar storage;
  auto bytes = load(place, sizeof(uint64_t), storage);
  if (bytes.size() < sizeof(uint64_t)) return std::nullopt;
  return extend(bytes, sizeof(uint64_t), false);
}

Value ValueDecoder::pointer(const Type& type, Place place, Lens lens) {
  auto address = pointer_at(place);
  if (!address) return unreadable();
  TypeRef target = proto::resolve(type.inner);
  bool opaque = target == nullptr || target->kind == Type::Kind::nothing;
  if (opaque && lens == Lens::guess) return guess_value(*address, memory_, limits_);
  if (opaque && (lens == Lens::boolean || lens == Lens::octal || lens == Lens::bit_vector)) {
    Type number;
    number.kind = Type::Kind::integer;
    number.size = sizeof(uint64_t);
    return integral_value(number, *address, lens);
  }
  if (*address == 0 || opaque) return address_value(*address);
  return pointee(*target, {*address}, lens);
}

Value ValueDecoder::pointee(const Type& type, VirtAddr address, Lens lens) {
  if (type.kind == Type::Kind::structure) {
    if (auto limit = expansion_limit(type, address)) return *limit;
  }
  Value value = decode_part(type, {{}, address}, lens);
  // The pointer is known even where what it points at is not.
  if (value.kind == Value::Kind::unreadable && value.raw == 0) value.raw = address.value;
  return value;
}

std::optional<Value> ValueDecoder::expansion_limit(const Type& type, VirtAddr address) const {
  size_t nested = 0;
  for (size_t level = 0; level < structs_.size(); ++level) {
    const Expansion& outer = structs_[structs_.size() - 1 - level];
    if (!same_struct(*outer.type, type)) continue;
    if (outer.place.address == address) {
      Value value;
      value.kind = Value::Kind::recursion;
      value.raw = level;
      return value;
    }
    ++nested;
  }
  if (nested > 0 && nested >= limits_.array) return left_out();
  return std::nullopt;
}

Value ValueDecoder::structure(const Type& type, Place place, Lens lens) {
  std::vector<std::byte> storage;
  if (place.bytes.size() < type.size && place.address) {
    storage.resize(std::min(type.size, kMaxRead));
    place.bytes = load({{}, place.address}, storage.size(), storage);
    if (place.bytes.empty()) return unreadable(place.address);
  }
  Value value;
  value.kind = Value::Kind::structure;
  structs_.push_back({&type, place});
  value.members.reserve(type.members.size());
  for (const proto::Member& member : type.members) {
    if (budget_ == 0) {
      value.cut = true;
      break;
    }
    Place part = part_of(place, member.offset);
    value.members.push_back(member.bit_size != 0 ? bit_field(member, part, lens)
                                                 : decode_part(*member.type, part, lens));
    value.members.back().name = member.name;
  }
  structs_.pop_back();
  return value;
}

Value ValueDecoder::bit_field(const proto::Member& member, Place place, Lens outer) {
  const Type& type = *member.type;
  const unsigned end = unsigned{member.bit_offset} + member.bit_size;
  const uint64_t bytes = (end + 7) / 8;
  Scalar storage;
  auto raw = load(place, bytes, storage);
  unsigned __int128 bits = 0;
  if (bytes > sizeof bits || raw.size() < bytes || budget_ == 0) return unreadable();
  --budget_;
  std::memcpy(&bits, raw.data(), bytes);
  bits >>= member.bit_offset;
  const unsigned unused = 128U - member.bit_size;
  bits <<= unused;
  bits =
      type.is_signed ? static_cast<unsigned __int128>(static_cast<__int128>(bits) >> unused) : bits >> unused;
  const Lens lens = type.lens != Lens::none ? type.lens : outer;
  if (type.size == sizeof bits) return wide_integer_value(type, std::as_bytes(std::span(&bits, 1)), lens);
  return integral_value(type, static_cast<uint64_t>(bits), lens);
}

Value ValueDecoder::array(const Type& type, Place place, Lens lens) {
  TypeRef element = proto::resolve(type.inner);
  auto count = count_of(type.length);
  const uint64_t size = element == nullptr ? 0 : element->size;
  if (!count || size == 0) return unreadable(place.address);
  bool open = type.length.zero || *count == kUnbounded;
  uint64_t shown = std::min<uint64_t>(*count, limits_.array);
  // One more than is shown, to know whether it is the one that ends the array.
  uint64_t wanted = open ? std::min(shown + 1, *count) : shown;
  wanted = std::min(wanted, std::max<uint64_t>(kMaxRead / size, 1));
  // An element that is larger than any read is left to read its own parts.
  const bool at_once = size <= kMaxRead;
  std::vector<std::byte> storage(at_once ? wanted * size : 0);
  if (at_once) place.bytes = load(place, wanted * size, storage);
  if (at_once && wanted > 0 && place.bytes.size() < size) return unreadable(place.address);
  Value value;
  value.kind = Value::Kind::array;
  for (uint64_t i = 0; i < wanted; ++i) {
    if ((at_once && place.bytes.size() < (i + 1) * size) || budget_ == 0) {
      value.cut = true;
      return value;
    }
    if (open && at_once && all_zero(place.bytes.subspan(i * size, size))) return value;
    if (i == shown) break;
    Place at = part_of(place, i * size);
    at.bytes = at.bytes.first(std::min<uint64_t>(size, at.bytes.size()));
    value.members.push_back(decode_part(*element, at, lens));
  }
  value.cut = *count > value.members.size();
  return value;
}

Value ValueDecoder::buffer(const Type& type, Place place) {
  auto address = pointer_at(place);
  if (!address) return unreadable();
  if (*address == 0) return address_value(0);
  auto length = count_of(type.length);
  if (!length) return unreadable({*address});
  uint64_t wanted = std::min<uint64_t>(*length, limits_.string);
  Value value;
  value.kind = Value::Kind::string;
  value.bytes.resize(wanted);
  size_t got = memory_.read({*address}, std::as_writable_bytes(std::span(value.bytes)));
  if (got == 0 && wanted > 0) return unreadable({*address});
  value.bytes.resize(got);
  value.cut = *length > got;
  return value;
}

// Where it is the value of something.
std::optional<int64_t> ValueDecoder::value_of(const Length& length) const {
  switch (length.kind) {
    case Length::Kind::argument:
      return lengths_.argument(length.value);
    case Length::Kind::member:
      return member_value(length.value);
    case Length::Kind::result:
      return lengths_.result();
    case Length::Kind::unbounded:
    case Length::Kind::fixed:
      break;
  }
  return std::nullopt;
}

std::optional<uint64_t> ValueDecoder::count_of(const Length& length) {
  if (length.kind == Length::Kind::unbounded) return kUnbounded;
  auto value = length.kind == Length::Kind::fixed ? static_cast<int64_t>(length.value) : value_of(length);
  if (!value || (*value < 0 && length.kind != Length::Kind::fixed)) return std::nullopt;
  const std::optional<int64_t> factor = length.factor == 0 ? 1 : lengths_.argument(length.factor);
  if (!factor || *factor < 0) return std::nullopt;
  uint64_t product = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(*value), static_cast<uint64_t>(*factor), &product))
    return kUnbounded;
  if (!length.filled) return product;
  if (!left_) left_ = static_cast<uint64_t>(std::max<int64_t>(lengths_.result().value_or(0), 0));
  product = std::min(product, *left_);
  *left_ -= product;
  return product;
}

const Type& ValueDecoder::chosen(const Type& type) const {
  const auto value = value_of(type.length);
  for (size_t i = 0; value && i < type.enumerators.size() && i < type.members.size(); ++i) {
    const auto& [name, wanted, mask] = type.enumerators[i];
    if (((*value ^ wanted) & static_cast<int64_t>(mask == 0 ? ~mask : mask)) == 0)
      return *type.members[i].type;
  }
  return *type.inner;
}

std::optional<int64_t> ValueDecoder::member_value(uint64_t number) const {
  if (structs_.empty() || number == 0 || number > structs_.back().type->members.size()) return std::nullopt;
  const proto::Member& member = structs_.back().type->members[number - 1];
  if (!is_integral(*member.type)) return std::nullopt;
  Scalar storage;
  auto bytes = load(part_of(structs_.back().place, member.offset), member.type->size, storage);
  if (bytes.size() < member.type->size) return std::nullopt;
  return static_cast<int64_t>(extend(bytes, member.type->size, member.type->is_signed));
}

}  // namespace rtrace::decode
