// Memory in which code runs from chosen states and leaves something that can be compared.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "arch/code_text.h"
#include "arch/cpu_harness.h"
#include "arch/instruction_shapes.h"
#include "rtrace/base/address.h"

namespace rtrace::arch {

inline constexpr size_t kCopyOffset = 0x100000;
inline constexpr uint64_t kStub = 6;  // length of `call *slot(%rip)`

// One arena: a page of code, a page of data, two of stack, and further up a page for copies. The code page
// holds the instruction and, at each place where it can lead, a call to the exit.
class Arena {
 public:
  explicit Arena(uint64_t hint) {
    void* base = mmap(std::bit_cast<void*>(hint), kCopyOffset + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    base_ = base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
    std::vector<std::byte> code(kPage, std::byte{0xcc});
    if (base_ != nullptr) put(0, code);
  }
  ~Arena() {
    if (base_ != nullptr) munmap(base_, kCopyOffset + kPage);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  bool mapped() const { return base_ != nullptr; }
  VirtAddr at(size_t offset) const { return {std::bit_cast<uint64_t>(base_) + offset}; }
  VirtAddr from() const { return at(0x100); }
  VirtAddr callee() const { return at(0x800); }
  VirtAddr data() const { return at(kPage); }
  VirtAddr operand() const { return data() + 0x40; }
  VirtAddr stack() const { return at(3 * kPage); }
  VirtAddr copy() const { return at(kCopyOffset); }

  // Bytes of a shape at `from`, and the ways out of it.
  std::vector<std::byte> place(const Shape& shape) {
    std::vector<std::byte> bytes = encode(shape);
    VirtAddr next = from() + bytes.size();
    write(from(), bytes);
    for (VirtAddr way_out : {next, next + kBranch, callee()}) put_exit(way_out);
    return bytes;
  }

  void put_exit(VirtAddr place) {
    std::vector<std::byte> stub = {std::byte{0xff}, std::byte{0x15}};
    append_distance(stub, slot(), place + kStub);
    write(place, stub);
  }

  // Five bytes, so that they cover no more than one jump of a copy.
  void put_jump(VirtAddr place, VirtAddr target) {
    std::vector<std::byte> jump = {std::byte{0xe9}};
    append_distance(jump, target, place + 5);
    write(place, jump);
  }

  void write(VirtAddr address, std::span<const std::byte> bytes) { put(address - at(0), bytes); }

  // Data and stack as they are before each run.
  void reset() {
    std::array<uint64_t, 3 * kPage / 8> words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = 0x0123456789abcdef * (i + 1);
    size_t sp = (stack() - data()) / 8;
    for (size_t i = sp; i < sp + 4; ++i) words[i] = callee().value;
    words[sp + 15] = words[sp + 16] = words[sp + 20] = callee().value;
    words[(operand() - data()) / 8] = callee().value;
    words[(slot() - data()) / 8] = exit_handler();
    std::memcpy(base_ + kPage, words.data(), sizeof words);
  }
  // From `begin` to the end of the stack.
  std::vector<std::byte> contents(VirtAddr begin) const {
    return {base_ + (begin - at(0)), base_ + 4 * kPage};
  }

  CpuState start(uint64_t rcx, uint64_t flags) const {
    CpuState state;
    uint64_t d = data().value, sp = stack().value;
    const uint64_t gpr[16] = {callee().value,
                              rcx,
                              3,
                              d + 0x80,
                              sp,
                              sp + 0x40,
                              d + 0x100,
                              d + 0x200,
                              d + 0x300,
                              0x123456789abcdef,
                              ~uint64_t{0},
                              callee().value,
                              sp,
                              operand().value,
                              uint64_t{1} << 63,
                              7};
    std::copy(std::begin(gpr), std::end(gpr), state.gpr);
    state.flags = flags | 0x202;  // IF and the bit that is always set
    state.vectors[0][0] = std::bit_cast<uint64_t>(1.5);
    state.vectors[1][0] = std::bit_cast<uint64_t>(-2.5);
    return state;
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr uint64_t kBranch = 0x40;

  VirtAddr slot() const { return data() + 0xf00; }

  static void append_distance(std::vector<std::byte>& bytes, VirtAddr target, VirtAddr next) {
    auto distance = static_cast<int32_t>(target - next);
    auto raw = std::as_bytes(std::span(&distance, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }

  std::vector<std::byte> encode(const Shape& shape) const {
    size_t length = 0;
    for (const std::string& token : tokens(shape)) length += token == "data" || token == "rel32" ? 4 : 1;
    std::vector<std::byte> bytes;
    for (const std::string& token : tokens(shape)) {
      VirtAddr next = from() + length;
      if (token == "rel8")
        bytes.push_back(std::byte{kBranch});
      else if (token == "rel32")
        append_distance(bytes, next + kBranch, next);
      else if (token == "data")
        append_distance(bytes, operand(), next);
      else
        bytes.push_back(assemble(token)[0]);
    }
    return bytes;
  }

  static std::vector<std::string> tokens(const Shape& shape) {
    std::istringstream in(shape.code);
    return {std::istream_iterator<std::string>(in), {}};
  }

  // Code is never writable and executable at once, as where rtrace puts it.
  void put(size_t offset, std::span<const std::byte> bytes) {
    std::byte* page = base_ + offset / kPage * kPage;
    mprotect(page, kPage, PROT_READ | PROT_WRITE);
    std::memcpy(base_ + offset, bytes.data(), bytes.size());
    mprotect(page, kPage, PROT_READ | PROT_EXEC);
  }

  std::byte* base_ = nullptr;
};

struct Outcome {
  CpuState state;
  std::vector<std::byte> memory;
  bool operator==(const Outcome&) const = default;
};

inline Outcome run(Arena& arena, const CpuState& start, VirtAddr entry) {
  arena.reset();
  CpuState end = run_on_cpu(start, entry.value);
  return {end, arena.contents(arena.data())};
}

inline std::vector<CpuState> starts(const Arena& arena) {
  std::vector<CpuState> states;
  for (uint64_t rcx : {0u, 1u, 5u})
    for (uint64_t flags : {0x0u, 0x1u, 0x4u, 0x40u, 0x80u, 0x800u, 0x41u, 0x880u, 0x8d5u})
      states.push_back(arena.start(rcx, flags));
  return states;
}

inline std::string difference(const Outcome& wanted, const Outcome& got) {
  std::string text;
  for (unsigned i = 0; i < 16; ++i)
    if (wanted.state.gpr[i] != got.state.gpr[i])
      text += fmt::format("register {}: {:#x}, wanted {:#x}\n", i, got.state.gpr[i], wanted.state.gpr[i]);
  text += fmt::format("flags {:#x}, wanted {:#x}; exit {:#x}, wanted {:#x}\n", got.state.flags,
                      wanted.state.flags, got.state.exit, wanted.state.exit);
  for (size_t i = 0; i < std::min(wanted.memory.size(), got.memory.size()); ++i)
    if (wanted.memory[i] != got.memory[i])
      return text + fmt::format("memory differs first at data + {:#x}\n", i);
  return text;
}

}  // namespace rtrace::arch
