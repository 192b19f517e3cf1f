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
constexpr size_t kEightbyte = 8;

// One piece's bytes, 8 for each of its eightbytes; fewer where the register is not known.
template <typename IntegerRegister>
size_t copy_piece(const Location::Piece& piece, IntegerRegister integer, const arch::VectorRegs* vectors,
                  std::span<std::byte> out) {
  std::array<std::byte, kWidestRegister> bytes{};
  size_t known = kEightbyte * piece.eightbytes;
  if (piece.sse) {
    if (vectors == nullptr) return 0;
    const auto& low = vectors->xmm[piece.index];
    std::copy(low.begin(), low.end(), bytes.begin());
    const auto& high = vectors->upper[piece.index];
    std::copy(high.begin(), high.end(), bytes.begin() + low.size());
    if (!vectors->has_upper) known = std::min(known, low.size());
  } else if (!piece.is_padding) {
    const uint64_t word = integer(piece.index);
    std::memcpy(bytes.data(), &word, sizeof word);
  }
  known = std::min(known, out.size());
  std::copy_n(bytes.begin(), known, out.begin());
  return known;
}

// A short span where a register is not known: what lies in it is unreadable, never wrong.
template <typename IntegerRegister>
std::span<const std::byte> copy_pieces(const Location& location, IntegerRegister integer,
                                       const arch::VectorRegs* vectors, std::span<std::byte> storage) {
  size_t at = 0;
  for (size_t i = 0; i < location.count; ++i) {
    const size_t got = copy_piece(location.pieces[i], integer, vectors, storage.subspan(at));
    at += got;
    if (got < kEightbyte * location.pieces[i].eightbytes) break;
  }
  return storage.first(std::min<size_t>(location.size, at));
}

}  // namespace

std::span<const std::byte> CallState::from_registers(const Location& location, Storage& storage) const {
  return copy_pieces(
      location, [this](unsigned index) { return entry_.integer_argument(index); }, entry_vectors_, storage);
}

Place CallState::argument_place(const Location& location, Storage& storage) const {
  if (location.where == Location::Where::registers) return {from_registers(location, storage), {}};
  if (location.where != Location::Where::stack) return {};
  if (!entry_stack_) return {{}, entry_.sp() + kReturnAddress + location.stack_offset};
  if (location.stack_offset >= entry_stack_->size()) return {};
  auto bytes = entry_stack_->subspan(location.stack_offset);
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
      std::memcpy(storage.data(), exit_vectors_->st.data(), storage.size());
      return {std::span(storage).first(std::min<size_t>(location.size, storage.size())), {}};
    case Location::Where::registers:
      break;
  }
  return {copy_pieces(
              location, [this](unsigned index) { return index == 0 ? exit_->raw.rax : exit_->raw.rdx; },
              exit_vectors_, storage),
          {}};
}

std::optional<int64_t> CallState::integer_at(const Type& type, Place place) const {
  std::array<std::byte, 16> storage{};
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
