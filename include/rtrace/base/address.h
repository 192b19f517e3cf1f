// The three kinds of address. A VirtAddr is one in a tracee's memory, an ElfAddr one in an object's own
// address space (p_vaddr, st_value), a FileOffset a place in a file's bytes. They never convert silently: the
// step between the first two names the object's LoadBias.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace rtrace {

template <typename Tag>
struct Address {
  uint64_t value = 0;

  constexpr auto operator<=>(const Address&) const = default;
  constexpr Address operator+(uint64_t offset) const { return {value + offset}; }
  constexpr Address operator-(uint64_t offset) const { return {value - offset}; }
  constexpr uint64_t operator-(Address other) const { return value - other.value; }
  constexpr explicit operator bool() const { return value != 0; }
};

using VirtAddr = Address<struct VirtAddrTag>;
using ElfAddr = Address<struct ElfAddrTag>;
using FileOffset = Address<struct FileOffsetTag>;

// What is added to an ElfAddr to get the VirtAddr where it is mapped (l_addr of the link map). Wraps modulo
// 2^64.
struct LoadBias {
  uint64_t value = 0;
  constexpr auto operator<=>(const LoadBias&) const = default;
};

constexpr VirtAddr operator+(ElfAddr address, LoadBias bias) {
  return {address.value + bias.value};
}
constexpr ElfAddr operator-(VirtAddr address, LoadBias bias) {
  return {address.value - bias.value};
}

// Half-open.
template <typename A>
struct RangeOf {
  A begin, end;
  constexpr auto operator<=>(const RangeOf&) const = default;
  constexpr bool contains(A address) const { return begin <= address && address < end; }
  constexpr bool contains(RangeOf other) const { return begin <= other.begin && other.end <= end; }
  // An empty range overlaps nothing.
  constexpr bool overlaps(RangeOf other) const {
    return (begin < other.begin ? other.begin : begin) < (end < other.end ? end : other.end);
  }
  constexpr uint64_t size() const { return end - begin; }
  constexpr bool empty() const { return begin == end; }
};
using Range = RangeOf<VirtAddr>;
using ElfRange = RangeOf<ElfAddr>;

}  // namespace rtrace

template <typename Tag>
struct std::hash<rtrace::Address<Tag>> {
  size_t operator()(rtrace::Address<Tag> address) const noexcept {
    return std::hash<uint64_t>{}(address.value);
  }
};

template <typename Tag>
struct fmt::formatter<rtrace::Address<Tag>> : fmt::formatter<uint64_t> {
  auto format(rtrace::Address<Tag> address, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{:#x}", address.value);
  }
};
