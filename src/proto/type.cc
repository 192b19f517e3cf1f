#include "rtrace/proto/type.h"

#include <algorithm>
#include <utility>

#include "rtrace/base/text.h"

namespace rtrace::proto {
namespace {

constexpr uint64_t kPointerSize = 8;
constexpr uint64_t kMaxSize = uint64_t{1} << 47;  // what user space has; sums of two never wrap

std::shared_ptr<Type> make(Type::Kind kind, uint64_t size) {
  auto type = std::make_shared<Type>();
  type->kind = kind;
  type->size = size;
  type->align = std::max<uint64_t>(size, 1);
  return type;
}

void contain(Type& outer, const Type& inner) {
  outer.parts = std::min(outer.parts + inner.parts, kMaxParts + 1);
  outer.depth = std::max(outer.depth, inner.depth + 1);
}

std::shared_ptr<Type> make_with_inner(Type::Kind kind, uint64_t size, TypeRef inner) {
  auto type = make(kind, size);
  contain(*type, *inner);
  type->inner = std::move(inner);
  return type;
}

}  // namespace

TypeRef make_void() {
  return make(Type::Kind::nothing, 0);
}

TypeRef make_integer(unsigned size, bool is_signed) {
  auto type = make(Type::Kind::integer, size);
  type->is_signed = is_signed;
  return type;
}

TypeRef make_character() {
  auto type = make(Type::Kind::character, 1);
  type->is_signed = true;
  return type;
}

TypeRef make_character(unsigned size) {
  auto type = make(Type::Kind::character, size);
  type->is_signed = size == 1;
  return type;
}

TypeRef make_float(unsigned size) {
  return make(Type::Kind::floating, size);
}

TypeRef make_pointer(TypeRef pointee) {
  return make_with_inner(Type::Kind::pointer, kPointerSize, std::move(pointee));
}

TypeRef make_address() {
  return make_pointer(make_void());
}

TypeRef make_array(TypeRef element, Length length) {
  auto type = make_with_inner(Type::Kind::array, 0, std::move(element));
  type->align = type->inner->align;
  type->length = length;
  // A product that wraps would give a small size to a huge array; such an array has no size anyone can use.
  if (length.kind == Length::Kind::fixed &&
      !__builtin_mul_overflow(length.value, type->inner->size, &type->size) && type->size <= kMaxSize)
    return type;
  type->size = 0;
  return type;
}

TypeRef make_structure(std::vector<Member> members) {
  uint64_t end = 0;
  uint64_t align = 1;
  for (Member& member : members) {
    member.offset = align_up(end, member.type->align);
    end = std::min(member.offset + member.type->size, kMaxSize);
    align = std::max(align, member.type->align);
  }
  return make_structure(std::move(members), align_up(end, align), align);
}

TypeRef make_structure(std::vector<Member> members, uint64_t size, uint64_t align) {
  auto type = make(Type::Kind::structure, size);
  type->align = std::max<uint64_t>(align, 1);
  type->members = std::move(members);
  for (const Member& member : type->members) contain(*type, *member.type);
  return type;
}

TypeRef make_union(std::vector<Member> members) {
  uint64_t size = 0;
  uint64_t align = 1;
  for (Member& member : members) {
    member.offset = 0;
    size = std::max(size, member.type->size);
    align = std::max(align, member.type->align);
  }
  return make_structure(std::move(members), align_up(size, align), align);
}

TypeRef make_vector(TypeRef element, uint64_t count) {
  auto type = std::make_shared<Type>(*make_array(std::move(element), {Length::Kind::fixed, false, count}));
  type->is_vector = true;
  type->align = std::max<uint64_t>(type->size, 1);
  return type;
}

TypeRef make_complex(TypeRef part) {
  auto type = std::make_shared<Type>(*make_structure({{"real", part}, {"imaginary", part}}));
  type->is_complex = true;
  return type;
}

TypeRef make_container(Container container, TypeRef element) {
  const uint64_t size = container == Container::string ? 32 : container == Container::vector ? 24 : 16;
  auto type = make_with_inner(Type::Kind::container, size, std::move(element));
  type->align = kPointerSize;
  type->container = container;
  return type;
}

TypeRef make_string(TypeRef character, Length length) {
  auto type = make_with_inner(Type::Kind::string, kPointerSize, std::move(character));
  type->length = length;
  return type;
}

TypeRef make_string_in_place(TypeRef character, Length length) {
  TypeRef array = make_array(character, length);
  auto type = make_with_inner(Type::Kind::string, array->size, std::move(character));
  type->align = array->align;
  type->length = length;
  type->in_place = true;
  return type;
}

TypeRef make_format(TypeRef character, Length length) {
  auto type = make_with_inner(Type::Kind::format, kPointerSize, std::move(character));
  type->length = length;
  return type;
}

TypeRef make_scan_format(TypeRef character, Length length) {
  auto type = std::make_shared<Type>(*make_format(std::move(character), length));
  type->scans = true;
  return type;
}

TypeRef make_buffer(Length length) {
  auto type = make(Type::Kind::buffer, kPointerSize);
  type->length = length;
  return type;
}

TypeRef make_enumeration(TypeRef integer, std::vector<Enumerator> enumerators) {
  auto type = make_with_inner(Type::Kind::enumeration, integer->size, integer);
  type->is_signed = integer->is_signed;
  type->enumerators = std::move(enumerators);
  return type;
}

TypeRef make_flags(TypeRef integer, std::vector<Enumerator> enumerators) {
  auto type = make_with_inner(Type::Kind::flags, integer->size, integer);
  type->enumerators = std::move(enumerators);
  return type;
}

TypeRef make_error(TypeRef result) {
  auto type = make_with_inner(Type::Kind::error, result->size, result);
  type->align = result->align;
  return type;
}

TypeRef make_descriptor() {
  auto type = make(Type::Kind::descriptor, 4);
  type->is_signed = true;
  return type;
}

TypeRef make_wait_status() {
  auto type = make(Type::Kind::wait_status, 4);
  type->is_signed = true;
  return type;
}

TypeRef make_socket_address(Length length) {
  auto type = make(Type::Kind::socket_address, kPointerSize);
  type->length = length;
  return type;
}

// As large as the largest of them: which one it is shows at the call only.
TypeRef make_choice(Length by, const std::vector<Alternative>& alternatives, TypeRef otherwise) {
  auto type = make_with_inner(Type::Kind::choice, otherwise->size, otherwise);
  type->align = otherwise->align;
  type->length = by;
  for (const Alternative& one : alternatives) {
    type->enumerators.push_back({{}, one.value, one.mask});
    type->members.push_back({{}, one.type});
    type->size = std::max(type->size, one.type->size);
    type->align = std::max(type->align, one.type->align);
    contain(*type, *one.type);
  }
  return type;
}

std::shared_ptr<Type> make_named(std::string name) {
  auto type = make(Type::Kind::named, 0);
  type->name = std::move(name);
  return type;
}

TypeRef with_lens(const TypeRef& type, Lens lens) {
  if (type->lens != Lens::none) return type;
  auto copy = std::make_shared<Type>(*type);
  copy->lens = lens;
  // The typedef's name would hide the lens from spell().
  if (copy->kind != Type::Kind::named) copy->name.clear();
  return copy;
}

TypeRef with_name(const TypeRef& type, std::string name) {
  auto copy = std::make_shared<Type>(*type);
  copy->name = std::move(name);
  return copy;
}

TypeRef resolve(const TypeRef& type) {
  return type->kind == Type::Kind::named ? type->target.lock() : type;
}

}  // namespace rtrace::proto
