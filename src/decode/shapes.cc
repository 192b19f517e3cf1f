#include "shapes.h"

#include <algorithm>
#include <limits>

#include "layout.h"

namespace rtrace::decode {
namespace {

using agent::Capture;
using proto::Length;
using proto::Lens;
using proto::Type;
using proto::TypeRef;

constexpr size_t kMostDrafts = 64, kMostPointers = 128;  // of one function, of one shape
constexpr uint16_t kOpen = std::numeric_limits<uint16_t>::max();

Capture fixed(uint64_t bytes) {
  Capture capture;
  if (bytes > kMaxFixed)
    capture.length = Capture::Length::unknown;
  else
    capture.bound = static_cast<uint32_t>(bytes);
  return capture;
}

// What it says of a length is known where the pointer is followed, or bounded without.
bool is_bounded(const Length& length) {
  return length.kind != Length::Kind::argument && length.factor == 0;
}

Lens nearer(const Type& type, Lens outer) {
  return type.lens != Lens::none ? type.lens : outer;
}

}  // namespace

bool reaches_further(const Type& type, unsigned depth) {
  if (depth == 0) return true;
  switch (type.kind) {
    case Type::Kind::pointer:
      return type.inner->kind != Type::Kind::nothing || type.lens == Lens::guess;
    case Type::Kind::string:
      // One in place whose length is another member's lies behind what the struct's size covers.
      return !type.in_place || type.length.kind != Length::Kind::fixed;
    case Type::Kind::format:
    case Type::Kind::buffer:
    case Type::Kind::container:
    case Type::Kind::socket_address:
      return true;
    case Type::Kind::choice:
      return reaches_further(*type.inner, depth - 1) ||
             std::any_of(type.members.begin(), type.members.end(),
                         [depth](const proto::Member& m) { return reaches_further(*m.type, depth - 1); });
    case Type::Kind::named: {
      // One that is not defined yet may be by the time of a call.
      auto target = type.target.lock();
      return target == nullptr || reaches_further(*target, depth - 1);
    }
    case Type::Kind::array:
      return type.length.kind != Length::Kind::fixed || reaches_further(*type.inner, depth - 1);
    case Type::Kind::error:
      return reaches_further(*type.inner, depth - 1);
    case Type::Kind::structure:
      return std::any_of(type.members.begin(), type.members.end(),
                         [depth](const proto::Member& m) { return reaches_further(*m.type, depth - 1); });
    default:
      return false;
  }
}

void Shapes::add(Pointers& found, uint64_t offset, const Capture& capture) const {
  if (found.list.size() == kMostPointers || offset > kMaxFixed) found.open = true;
  if (found.open || (capture.bound == 0 && capture.length != Capture::Length::unknown)) return;
  found.list.push_back({static_cast<uint32_t>(offset), capture});
}

Capture Shapes::text(const Type& type) const {
  const uint64_t most = limits_.string + 1;
  if (type.inner->size != 1) return fixed(most * type.inner->size);
  Capture capture = fixed(std::min(most, kMaxFixed));
  capture.length = most > kMaxFixed ? Capture::Length::unknown : Capture::Length::string;
  return capture;
}

Capture Shapes::elements(const TypeRef& type, uint64_t most, bool zero_ends, Lens lens) {
  const TypeRef element = proto::resolve(type);
  if (element == nullptr || element->size == 0) return fixed(0);
  if (most > kMaxFixed / element->size) return fixed(kMaxFixed + 1);
  Capture capture = fixed(most * element->size);
  capture.shape = number_of(element, zero_ends, lens);
  return capture;
}

Capture Shapes::pointee(const TypeRef& type, Lens lens) {
  if (type->kind != Type::Kind::array) return elements(type, 1, false, lens);
  const Length& length = type->length;
  if (!is_bounded(length)) return fixed(kMaxFixed + 1);
  const bool open = length.zero || length.kind == Length::Kind::unbounded;
  uint64_t most = limits_.array + 1;
  if (length.kind == Length::Kind::fixed) most = std::min<uint64_t>(most, length.value);
  return elements(type->inner, most, open, nearer(*type, lens));
}

void Shapes::collect_container(const Type& type, uint64_t offset, Lens lens, Pointers& found) {
  switch (type.container) {
    case proto::Container::string:
      return add(found, offset, fixed(limits_.string * type.inner->size));
    case proto::Container::string_view:
      return add(found, offset + sizeof(uint64_t), fixed(limits_.string * type.inner->size));
    case proto::Container::vector:
      return add(found, offset, elements(type.inner, limits_.array, false, lens));
  }
}

void Shapes::collect_array(const Type& type, uint64_t offset, Lens lens, Pointers& found) {
  const TypeRef element = proto::resolve(type.inner);
  if (type.length.kind != Length::Kind::fixed || element == nullptr) {
    found.open = true;
    return;
  }
  const uint64_t shown = std::min<uint64_t>(type.length.value, limits_.array);
  for (uint64_t i = 0; i < shown && !found.open; ++i) {
    const size_t before = found.list.size();
    collect(*element, offset + i * element->size, lens, found);
    if (found.list.size() == before) return;
  }
}

void Shapes::collect_pointer(const Type& type, uint64_t offset, Lens lens, Pointers& found) {
  const TypeRef target = proto::resolve(type.inner);
  if (target != nullptr && target->kind != Type::Kind::nothing)
    return add(found, offset, pointee(target, lens));
  if (lens != Lens::guess) return;
  constexpr uint64_t kFewest = 4;  // by which text is told
  Capture guessed = fixed(std::max<uint64_t>(limits_.string + 1, kFewest));
  if (guessed.length == Capture::Length::fixed) guessed.length = Capture::Length::string;
  add(found, offset, guessed);
}

void Shapes::collect_bytes(const Type& type, uint64_t offset, const Capture& bytes, Pointers& found) const {
  found.open |= !is_bounded(type.length);
  add(found, offset, bytes);
}

void Shapes::collect(const Type& type, uint64_t offset, Lens outer, Pointers& found) {
  const Lens lens = nearer(type, outer);
  if (found.open || lens == Lens::hide) return;
  switch (type.kind) {
    case Type::Kind::pointer:
      return collect_pointer(type, offset, lens, found);
    case Type::Kind::string:
    case Type::Kind::format:
      if (!type.in_place) return collect_bytes(type, offset, text(type), found);
      found.open |= type.length.kind != Length::Kind::fixed;
      return;
    case Type::Kind::buffer:
      return collect_bytes(type, offset, fixed(limits_.string + 1), found);
    case Type::Kind::socket_address:
      return collect_bytes(type, offset, fixed(kLongestAddress), found);
    case Type::Kind::container:
      return collect_container(type, offset, lens, found);
    case Type::Kind::array:
      return collect_array(type, offset, lens, found);
    case Type::Kind::choice:
      found.open |= !is_bounded(type.length);
      return collect_choice(type, offset, lens, found);
    case Type::Kind::named:
    case Type::Kind::error: {
      const TypeRef target = type.kind == Type::Kind::error ? type.inner : type.target.lock();
      found.open |= target == nullptr;
      return target == nullptr ? void() : collect(*target, offset, lens, found);
    }
    case Type::Kind::structure:
      for (const proto::Member& member : type.members)
        if (member.bit_size == 0) collect(*member.type, offset + member.offset, lens, found);
      return;
    default:
      return;
  }
}

// Which of a choice it is need not be known: they are all followed.
void Shapes::collect_choice(const Type& type, uint64_t offset, Lens lens, Pointers& found) {
  for (const proto::Member& member : type.members) collect(*member.type, offset, lens, found);
  collect(*type.inner, offset, lens, found);
}

Shapes::Pointers Shapes::pointers_in(const Type& type, Lens outer) {
  Pointers found;
  if (type.kind == Type::Kind::choice)
    collect_choice(type, 0, nearer(type, outer), found);
  else
    collect(type, 0, outer, found);
  return found;
}

uint16_t Shapes::number_of(const TypeRef& type, bool zero_ends, Lens outer) {
  const TypeRef complete = proto::resolve(type);
  if (complete == nullptr) return kOpen;
  if (!reaches_further(*complete) && outer != Lens::guess && complete->lens != Lens::guess) return 0;
  const Key key{complete.get(), zero_ends, outer};
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (drafts_.size() == kMostDrafts) return kOpen;
  drafts_.push_back({complete, zero_ends, outer, {}, 0});
  return numbers_[key] = static_cast<uint16_t>(drafts_.size());
}

// What one points at may add to the list.
void Shapes::complete() {
  for (; completed_ < drafts_.size(); ++completed_) {
    const Draft draft = drafts_[completed_];
    Pointers found;
    collect(*draft.type, 0, draft.lens, found);
    drafts_[completed_].pointers = std::move(found);
  }
  uint16_t place = 1;
  for (Draft& draft : drafts_) {
    if (draft.pointers.open || draft.pointers.list.empty()) continue;
    draft.place = place;
    place = static_cast<uint16_t>(place + 1 + draft.pointers.list.size());
  }
}

void Shapes::settle(Capture& capture) const {
  if (capture.shape == 0) return;
  const Draft* draft = capture.shape == kOpen ? nullptr : &drafts_[capture.shape - 1];
  if (draft == nullptr || draft->pointers.open) capture.length = Capture::Length::unknown;
  capture.shape = draft == nullptr ? 0 : draft->place;
}

void Shapes::settle(agent::CapturePlan& plan) {
  complete();
  for (unsigned i = 0; i < plan.count; ++i) settle(plan.captures[i]);
}

agent::Shape Shapes::shape_of(const Draft& draft) const {
  const Type& type = *draft.type;
  agent::Shape shape;
  shape.stride = static_cast<uint32_t>(type.size);
  shape.count = static_cast<uint16_t>(draft.pointers.list.size());
  shape.most = static_cast<uint16_t>(std::min<size_t>(limits_.array, kOpen));
  shape.zero_ends = draft.zero_ends ? 1 : 0;
  if (type.kind != Type::Kind::structure) return shape;
  const auto next = static_cast<uint32_t>(kinds_.size() + 1);
  shape.kind = kinds_.try_emplace({type.size, type.members.size(), type.name}, next).first->second;
  return shape;
}

std::vector<agent::ShapeEntry> Shapes::table() const {
  std::vector<agent::ShapeEntry> entries;
  for (const Draft& draft : drafts_) {
    if (draft.place == 0) continue;
    entries.push_back({.shape = shape_of(draft)});
    for (agent::Pointer pointer : draft.pointers.list) {
      settle(pointer.capture);
      entries.push_back({.pointer = pointer});
    }
  }
  return entries;
}

}  // namespace rtrace::decode
