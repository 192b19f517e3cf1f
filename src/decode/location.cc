#include "location.h"

#include <algorithm>

#include "rtrace/arch/regs.h"

namespace rtrace::decode {
namespace {

using proto::Type;

enum class Class : uint8_t { none, integer, sse, x87, memory };

struct Classified {
  std::array<Class, 2> eightbytes{Class::none, Class::none};
  bool memory = false;
};

constexpr uint64_t kEightbyte = 8;
constexpr uint8_t kVectorArguments = 8;
// A by-value struct larger than this would be a mistake in a prototype; offsets stay small.
constexpr uint64_t kMaxOnStack = 4096;

// psABI 3.2.3, classification rule 4: INTEGER wins over SSE, and x87 in company goes to memory.
Class merge(Class a, Class b) {
  if (a == b || b == Class::none) return a;
  if (a == Class::none) return b;
  if (a == Class::memory || b == Class::memory || a == Class::x87 || b == Class::x87) return Class::memory;
  return a == Class::integer || b == Class::integer ? Class::integer : Class::sse;
}

void classify_at(const Type& type, uint64_t offset, Classified& classes, unsigned depth) {
  auto note = [&](uint64_t at, Class of) {
    if (at / kEightbyte >= 2) return;
    Class& slot = classes.eightbytes[at / kEightbyte];
    slot = merge(slot, of);
    if (slot == Class::memory) classes.memory = true;
  };
  if (depth == 0 || offset % std::max<uint64_t>(type.align, 1) != 0) {
    classes.memory = true;
    return;
  }
  switch (type.kind) {
    case Type::Kind::nothing:
      return;
    case Type::Kind::structure:
      for (const proto::Member& member : type.members)
        classify_at(*member.type, offset + member.offset, classes, depth - 1);
      return;
    case Type::Kind::array:
      if (type.length.kind != proto::Length::Kind::fixed || type.inner->size == 0) return;
      for (uint64_t i = 0; i < type.length.value && i < 16; ++i)
        classify_at(*type.inner, offset + i * type.inner->size, classes, depth - 1);
      return;
    case Type::Kind::named:
      if (auto target = type.target.lock()) classify_at(*target, offset, classes, depth - 1);
      return;
    case Type::Kind::error:
      return classify_at(*type.inner, offset, classes, depth - 1);
    case Type::Kind::floating:
      note(offset, type.size == 16 ? Class::x87 : Class::sse);
      return;
    default:
      // A string in place is an array of characters; it may cover both eightbytes.
      for (uint64_t at = offset; at < offset + std::max<uint64_t>(type.size, 1) && at < 16;
           at += kEightbyte - at % kEightbyte)
        note(at, Class::integer);
  }
}

Classified classify(const Type& type) {
  Classified classes;
  constexpr unsigned kMaxDepth = 32;
  if (type.size <= 2 * kEightbyte)
    classify_at(type, 0, classes, kMaxDepth);
  else
    classes.memory = true;
  return classes;
}

uint64_t align_up(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

}  // namespace

Location ArgumentAllocator::on_stack(uint64_t size, uint64_t align) {
  Location location;
  location.where = Location::Where::stack;
  location.size = std::min(size, kMaxOnStack);
  location.stack_offset =
      static_cast<uint32_t>(align_up(stack_, std::clamp<uint64_t>(align, kEightbyte, 64)));
  stack_ = location.stack_offset + static_cast<uint32_t>(align_up(location.size, kEightbyte));
  return location;
}

Location ArgumentAllocator::next(const Type& type) {
  Classified classes = classify(type);
  if (classes.memory || classes.eightbytes[0] == Class::x87) return on_stack(type.size, type.align);
  Location location;
  location.size = type.size;
  uint8_t integers = 0;
  uint8_t vectors = 0;
  for (Class of : classes.eightbytes) {
    if (of == Class::none) break;
    bool sse = of == Class::sse;
    uint8_t index = static_cast<uint8_t>(sse ? vectors_ + vectors++ : integers_ + integers++);
    location.pieces[location.count++] = {sse, index};
  }
  if (location.count == 0) return location;
  // All of a value goes in registers, or none of it (psABI 3.2.3, "Passing").
  if (integers_ + integers > static_cast<int>(arch::kIntegerArguments) ||
      vectors_ + vectors > kVectorArguments)
    return on_stack(type.size, type.align);
  integers_ = static_cast<uint8_t>(integers_ + integers);
  vectors_ = static_cast<uint8_t>(vectors_ + vectors);
  location.where = Location::Where::registers;
  return location;
}

Location location_of_result(const Type& type) {
  Location location;
  location.size = type.size;
  Classified classes = classify(type);
  if (classes.memory) {
    location.where = Location::Where::indirect;
    return location;
  }
  if (classes.eightbytes[0] == Class::x87) {
    location.where = Location::Where::x87;
    return location;
  }
  uint8_t integers = 0;
  uint8_t vectors = 0;
  for (Class of : classes.eightbytes) {
    if (of == Class::none) break;
    bool sse = of == Class::sse;
    location.pieces[location.count++] = {sse, sse ? vectors++ : integers++};
    location.where = Location::Where::registers;
  }
  return location;
}

proto::TypeRef decayed(const proto::TypeRef& type) {
  if (type->kind == Type::Kind::array) {
    auto pointer = proto::make_pointer(type);
    return type->lens == proto::Lens::none ? pointer : proto::with_lens(pointer, type->lens);
  }
  if (type->kind == Type::Kind::string && type->in_place) {
    auto string = proto::make_string(type->inner, type->length);
    return type->lens == proto::Lens::none ? string : proto::with_lens(string, type->lens);
  }
  return type;
}

}  // namespace rtrace::decode
