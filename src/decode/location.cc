#include "location.h"

#include <algorithm>

#include "rtrace/arch/regs.h"
#include "rtrace/base/text.h"

namespace rtrace::decode {
namespace {

using proto::Type;

enum class Class : uint8_t { none, integer, sse, sse_up, x87, x87_up, memory };

constexpr uint64_t kPieceSize = 8;
constexpr uint8_t kVectorArguments = 8;
// A by-value struct larger than this would be a mistake in a prototype; offsets stay small.
constexpr uint64_t kMaxOnStack = 4096;
constexpr size_t kMaxEightbytes = kWidestRegister / kPieceSize;

struct Classified {
  std::array<Class, kMaxEightbytes> eightbytes{};
  size_t count = 0;
  bool memory = false;
};

bool is_x87(Class of) {
  return of == Class::x87 || of == Class::x87_up;
}

// psABI 3.2.3, classification rule 4.
Class merge(Class a, Class b) {
  if (a == b || b == Class::none) return a;
  if (a == Class::none) return b;
  if (a == Class::memory || b == Class::memory) return Class::memory;
  if (a == Class::integer || b == Class::integer) return Class::integer;
  return is_x87(a) || is_x87(b) ? Class::memory : Class::sse;
}

// Walks a type and notes the class of each scalar in it.
class Classifier {
 public:
  explicit Classifier(const Type& type) {
    result_.count = (type.size + kPieceSize - 1) / kPieceSize;
    constexpr unsigned kMaxDepth = 32;
    if (result_.count > kMaxEightbytes) {
      result_.memory = true;
      return;
    }
    walk(type, 0, kMaxDepth);
    settle();
  }

  const Classified& result() const { return result_; }

 private:
  // From byte to byte, both included.
  void note(uint64_t first, uint64_t last, Class of) {
    for (uint64_t i = first / kPieceSize; i <= last / kPieceSize && i < result_.count; ++i)
      result_.eightbytes[i] = merge(result_.eightbytes[i], of);
  }

  // A register's lowest eightbyte has one class, those above it another.
  void note_wide(uint64_t offset, uint64_t size, Class low, Class up) {
    note(offset, offset, low);
    if (size > kPieceSize) note(offset + kPieceSize, offset + size - 1, up);
  }

  void walk(const Type& type, uint64_t offset, unsigned depth) {
    if (depth == 0) {
      result_.memory = true;
      return;
    }
    switch (type.kind) {
      case Type::Kind::nothing:
        return;
      case Type::Kind::structure:
        return walk_members(type, offset, depth);
      case Type::Kind::array:
        return walk_array(type, offset, depth);
      case Type::Kind::named:
        if (auto target = type.target.lock()) walk(*target, offset, depth - 1);
        return;
      case Type::Kind::error:
        return walk(*type.inner, offset, depth - 1);
      default:
        return scalar(type, offset);
    }
  }

  void walk_members(const Type& type, uint64_t offset, unsigned depth) {
    for (const proto::Member& member : type.members) {
      const uint64_t at = offset + member.offset;
      // A bit-field is an integer wherever it lies: it is never unaligned.
      if (member.bit_size != 0)
        note(at + member.bit_offset / 8, at + (member.bit_offset + member.bit_size - 1U) / 8, Class::integer);
      else
        walk(*member.type, at, depth - 1);
    }
  }

  void walk_array(const Type& type, uint64_t offset, unsigned depth) {
    if (type.is_vector) return scalar(type, offset);
    if (type.length.kind != proto::Length::Kind::fixed || type.inner->size == 0) return;
    for (uint64_t i = 0; i < type.length.value && i < kWidestRegister; ++i)
      walk(*type.inner, offset + i * type.inner->size, depth - 1);
  }

  // Unaligned fields make the whole MEMORY; what holds them is as aligned as they are.
  void scalar(const Type& type, uint64_t offset) {
    if (offset % std::max<uint64_t>(type.align, 1) != 0) result_.memory = true;
    const uint64_t size = std::max<uint64_t>(type.size, 1);
    if (type.is_vector)
      note_wide(offset, size, Class::sse, Class::sse_up);
    else if (type.kind == Type::Kind::floating && type.size == 16)
      note_wide(offset, size, Class::x87, Class::x87_up);
    else
      note(offset, offset + size - 1, type.kind == Type::Kind::floating ? Class::sse : Class::integer);
  }

  // psABI 3.2.3, classification rule 5, "post merger cleanup".
  void settle() {
    auto& classes = result_.eightbytes;
    for (size_t i = 0; i < result_.count; ++i) {
      const Class before = i == 0 ? Class::none : classes[i - 1];
      if (classes[i] == Class::memory || (classes[i] == Class::x87_up && before != Class::x87))
        result_.memory = true;
    }
    if (result_.count > 2)
      for (size_t i = 0; i < result_.count; ++i)
        if (classes[i] != (i == 0 ? Class::sse : Class::sse_up)) result_.memory = true;
    for (size_t i = 0; i < result_.count; ++i)
      if (classes[i] == Class::sse_up &&
          (i == 0 || (classes[i - 1] != Class::sse && classes[i - 1] != Class::sse_up)))
        classes[i] = Class::sse;
  }

  Classified result_;
};

// Only a complex long double of all that is class MEMORY as an argument has a result elsewhere.
bool is_complex_long_double(const Type& type) {
  return type.is_complex && type.members.size() == 2 && type.members[0].type->size == 16;
}

// The registers of each kind that a value takes, written into the location.
struct Taken {
  uint8_t integers = 0, vectors = 0;
};
Taken take_registers(const Classified& classes, Location& location, Taken next) {
  Taken taken;
  for (size_t i = 0; i < classes.count; ++i) {
    const Class of = classes.eightbytes[i];
    if (of == Class::sse_up && location.count > 0) {
      ++location.pieces[location.count - 1U].eightbytes;
      continue;
    }
    Location::Piece piece;
    piece.sse = of == Class::sse;
    piece.is_padding = of == Class::none;
    if (piece.sse)
      piece.index = static_cast<uint8_t>(next.vectors + taken.vectors++);
    else if (!piece.is_padding)
      piece.index = static_cast<uint8_t>(next.integers + taken.integers++);
    location.pieces[location.count++] = piece;
  }
  return taken;
}

}  // namespace

Location ArgumentAllocator::on_stack(uint64_t size, uint64_t align) {
  Location location;
  location.where = Location::Where::stack;
  location.size = std::min(size, kMaxOnStack);
  location.stack_offset =
      static_cast<uint32_t>(align_up(stack_, std::clamp<uint64_t>(align, kPieceSize, 64)));
  // What comes behind lies where it does, however much is shown of this.
  constexpr uint64_t kFarthest = uint64_t{1} << 30;
  stack_ = static_cast<uint32_t>(
      std::min(location.stack_offset + align_up(std::min(size, kFarthest), kPieceSize), kFarthest));
  return location;
}

Location ArgumentAllocator::next(const Type& type) {
  const Classified classes = Classifier(type).result();
  if (classes.memory || is_x87(classes.eightbytes[0])) return on_stack(type.size, type.align);
  Location location;
  location.size = type.size;
  const Taken taken = take_registers(classes, location, {integers_, vectors_});
  if (taken.integers + taken.vectors == 0) return {.size = type.size};
  // All of a value goes in registers, or none of it (psABI 3.2.3, "Passing").
  if (integers_ + taken.integers > static_cast<int>(arch::kIntegerArguments) ||
      vectors_ + taken.vectors > kVectorArguments)
    return on_stack(type.size, type.align);
  integers_ = static_cast<uint8_t>(integers_ + taken.integers);
  vectors_ = static_cast<uint8_t>(vectors_ + taken.vectors);
  location.where = Location::Where::registers;
  return location;
}

Location location_of_result(const Type& type) {
  Location location;
  location.size = type.size;
  if (is_complex_long_double(type)) {
    location.where = Location::Where::x87;
    location.count = 2;
    return location;
  }
  const Classified classes = Classifier(type).result();
  if (classes.memory) {
    location.where = Location::Where::indirect;
  } else if (is_x87(classes.eightbytes[0])) {
    location.where = Location::Where::x87;
    location.count = 1;
  } else {
    const Taken taken = take_registers(classes, location, {});
    if (taken.integers + taken.vectors == 0) return {.size = type.size};
    location.where = Location::Where::registers;
  }
  return location;
}

proto::TypeRef decayed(const proto::TypeRef& type) {
  if (type->kind == Type::Kind::array && !type->is_vector) {
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
