#include "call_state.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "scalars.h"

namespace rtrace::decode {
namespace {

using proto::Type;

// The return address lies at rsp when the first instruction runs; the arguments begin behind it
// (psABI 3.2.2).
constexpr uint64_t kReturnAddress = 8;

}  // namespace

// A short span where a register is not known: what lies in it is unreadable, never wrong.
std::span<const std::byte> CallState::from_registers(const Location& location, Storage& storage) const {
  for (size_t i = 0; i < location.count; ++i) {
    const Location::Piece piece = location.pieces[i];
    if (piece.sse && entry_vectors_ == nullptr) return std::span(storage).first(8 * i);
    uint64_t word = piece.sse ? 0 : entry_.integer_argument(piece.index);
    if (piece.sse) std::memcpy(&word, entry_vectors_->xmm[piece.index].data(), sizeof word);
    std::memcpy(storage.data() + 8 * i, &word, sizeof word);
  }
  return std::span(storage).first(std::min<size_t>(location.size, 8 * size_t{location.count}));
}

Place CallState::argument_place(const Location& location, Storage& storage) const {
  if (location.where == Location::Where::registers) return {from_registers(location, storage), {}};
  if (location.where != Location::Where::stack) return {};
  if (exit_ == nullptr) return {{}, entry_.sp() + kReturnAddress + location.stack_offset};
  if (location.stack_offset >= entry_stack_.size()) return {};
  auto bytes = entry_stack_.subspan(location.stack_offset);
  return {bytes.first(std::min<size_t>(bytes.size(), location.size)), {}};
}

Place CallState::result_place(Storage& storage) const {
  const Location& location = layout_.result_location;
  if (exit_ == nullptr) return {};
  switch (location.where) {
    case Location::Where::nowhere:
    case Location::Where::stack:
      return {};
    case Location::Where::indirect:
      return {{}, {exit_->raw.rax}};
    case Location::Where::x87:
      if (exit_vectors_ == nullptr) return {};
      return {exit_vectors_->st[0], {}};
    case Location::Where::registers:
      break;
  }
  for (size_t i = 0; i < location.count; ++i) {
    const Location::Piece piece = location.pieces[i];
    if (piece.sse && exit_vectors_ == nullptr) return {std::span(storage).first(8 * i), {}};
    uint64_t word = piece.index == 0 ? exit_->raw.rax : exit_->raw.rdx;
    if (piece.sse) std::memcpy(&word, exit_vectors_->xmm[piece.index].data(), sizeof word);
    std::memcpy(storage.data() + 8 * i, &word, sizeof word);
  }
  return {std::span(storage).first(std::min<size_t>(location.size, 8 * size_t{location.count})), {}};
}

std::optional<int64_t> CallState::integer_at(const Type& type, Place place) const {
  Storage storage;
  auto load = [&](uint64_t size) -> std::span<const std::byte> {
    if (place.bytes.size() >= size) return place.bytes.first(size);
    auto out = std::span(storage).first(size);
    return place.address ? out.first(memory_.read(place.address, out)) : out.first(0);
  };
  switch (type.kind) {
    case Type::Kind::error:
      return integer_at(*type.inner, place);
    case Type::Kind::pointer: {
      // recvfrom's `socklen_t*`: no pointer is a length, what it points at may be one.
      auto bytes = load(sizeof(uint64_t));
      if (bytes.size() < sizeof(uint64_t) || type.inner->kind == Type::Kind::pointer) return std::nullopt;
      VirtAddr address{extend(bytes, sizeof(uint64_t), false)};
      return address ? integer_at(*type.inner, {{}, address}) : std::nullopt;
    }
    case Type::Kind::integer:
    case Type::Kind::character:
    case Type::Kind::enumeration:
    case Type::Kind::flags:
    case Type::Kind::descriptor: {
      auto bytes = load(type.size);
      if (bytes.size() < type.size) return std::nullopt;
      uint64_t raw = extend(bytes, type.size, type.is_signed);
      // An unsigned count beyond what fits is no failure, only much.
      constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      return static_cast<int64_t>(type.is_signed ? raw : std::min(raw, kMost));
    }
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> CallState::argument(uint64_t number) const {
  if (number == 0) return result();
  const size_t index = number - 1;
  const size_t named = layout_.parameters.size();
  Storage storage;
  if (index < named) {
    const Layout::Parameter& parameter = layout_.parameters[index];
    return integer_at(*parameter.type, argument_place(parameter.location, storage));
  }
  if (index - named >= further_.size()) return std::nullopt;
  static const proto::TypeRef kInt = proto::make_integer(4, true);
  auto precision = integer_at(*kInt, argument_place(further_[index - named], storage));
  // printf(3): a negative precision is taken as if it were omitted.
  if (precision && *precision < 0) return std::numeric_limits<int64_t>::max();
  return precision;
}

std::optional<int64_t> CallState::result() const {
  Storage storage;
  return exit_ == nullptr ? std::nullopt : integer_at(*layout_.result, result_place(storage));
}

}  // namespace rtrace::decode
