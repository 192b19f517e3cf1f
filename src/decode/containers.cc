// Classes of the C++ library as what they hold, by libstdc++'s layouts: std::string { pointer, size, buffer
// or capacity }, std::string_view { size, pointer }, std::vector { begin, end, end of storage }.
#include <algorithm>

#include "scalars.h"
#include "value_decoder.h"

namespace rtrace::decode {
namespace {

using proto::Container;
using proto::Length;
using proto::Lens;
using proto::Type;

constexpr size_t kWord = sizeof(uint64_t);

}  // namespace

// NULs included, as the class has them: its size ends it.
Value ValueDecoder::text_at(const Type& character, VirtAddr address, uint64_t count) const {
  Value value;
  value.raw = address.value;
  const uint64_t size = character.size;
  const uint64_t wanted = std::min<uint64_t>(count, limits_.string);
  std::vector<std::byte> bytes(wanted * size);
  const size_t got = memory_.read(address, bytes) / size;
  if (got == 0 && wanted > 0) return value;
  value.raw = 0;
  value.kind = Value::Kind::string;
  if (size != 1) value.size = static_cast<uint8_t>(size);
  if (size == 1)
    value.bytes.assign(reinterpret_cast<const char*>(bytes.data()), got);
  else
    value.bytes = wide_text(std::span(bytes).first(got * size), size, got).utf8;
  value.cut = count > got;
  return value;
}

Value ValueDecoder::container(const Type& type, Place place, Lens lens) {
  std::array<std::byte, 2 * kWord> storage{};
  auto bytes = load(place, storage.size(), storage);
  Value unreadable;
  unreadable.raw = place.address.value;
  if (bytes.size() < storage.size()) return unreadable;
  const uint64_t first = extend(bytes, kWord, false);
  const uint64_t second = extend(bytes.subspan(kWord), kWord, false);
  if (type.container == Container::string) return text_at(*type.inner, {first}, second);
  if (type.container == Container::string_view) return text_at(*type.inner, {second}, first);
  const proto::TypeRef element = proto::resolve(type.inner);
  const uint64_t size = element == nullptr ? 0 : element->size;
  if (size == 0 || second < first || (second - first) % size != 0) return unreadable;
  const auto elements = proto::make_array(element, {Length::Kind::fixed, false, (second - first) / size});
  return array(*elements, {{}, {first}}, lens);
}

}  // namespace rtrace::decode
