// Where a call's arguments and result are (psABI 3.2.3, "Parameter Passing").
#pragma once

#include <array>
#include <cstdint>

#include "rtrace/proto/type.h"

namespace rtrace::decode {

struct Location {
  enum class Where : uint8_t {
    nowhere,    // void, an empty struct
    registers,  // `count` pieces, one behind the other
    stack,      // `size` bytes at `stack_offset` behind the return address
    x87,        // a long double result: st0; with count 2 a complex one: st0 and st1
    indirect,   // a result of class MEMORY: at the address in rax
  };
  struct Piece {
    bool sse = false;
    uint8_t index = 0;        // of an argument: rdi.. or xmm0..; of a result: rax, rdx or xmm0, xmm1
    uint8_t eightbytes = 1;   // more than one in a vector register
    bool is_padding = false;  // eightbytes that hold nothing take no register
    bool operator==(const Piece&) const = default;
  };
  Where where = Where::nowhere;
  uint8_t count = 0;
  std::array<Piece, 2> pieces{};
  uint32_t stack_offset = 0;
  uint64_t size = 0;
  bool operator==(const Location&) const = default;

  bool in_one_integer_register() const { return where == Where::registers && count == 1 && !pieces[0].sse; }
  bool uses_vectors() const {
    return where == Where::x87 ||
           (where == Where::registers && (pieces[0].sse || (count == 2 && pieces[1].sse)));
  }
  // More than 16 bytes of one register, or x87's.
  bool is_wide() const {
    const auto wide = [](const Piece& piece) { return piece.sse && piece.eightbytes > 2; };
    return where == Where::x87 || (where == Where::registers && (wide(pieces[0]) || wide(pieces[1])));
  }
  bool uses_integer(uint8_t index) const {
    const auto is_it = [&](const Piece& piece) { return !piece.sse && piece.index == index; };
    return where == Where::registers && (is_it(pieces[0]) || (count == 2 && is_it(pieces[1])));
  }
};

// The widest value in registers: a ymm register's.
inline constexpr uint64_t kWidestRegister = 32;

// Hands out registers and stack in the order of the parameters. Copied where a format's arguments go on from.
class ArgumentAllocator {
 public:
  Location next(const proto::Type& type);
  // The hidden first argument of a function whose result is of class MEMORY.
  void take_hidden_pointer() { ++integers_; }
  uint32_t stack_bytes() const { return stack_; }
  unsigned integer_registers() const { return integers_; }
  unsigned vector_registers() const { return vectors_; }

 private:
  Location on_stack(uint64_t size, uint64_t align);

  uint8_t integers_ = 0;
  uint8_t vectors_ = 0;
  uint32_t stack_ = 0;
};

Location location_of_result(const proto::Type& type);

// What a parameter of that type really is: arrays decay to pointers (C17 6.7.6.3p7).
proto::TypeRef decayed(const proto::TypeRef& type);

}  // namespace rtrace::decode
