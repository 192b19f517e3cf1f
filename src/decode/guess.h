// Arguments of functions that nothing is known of.
#pragma once

#include <optional>
#include <vector>

#include "rtrace/decode/call_decoder.h"

namespace rtrace::decode {

// The text that a word points at, where it points at readable, printable, terminated text of three or more
// characters.
std::optional<Value> guess_text(uint64_t address, const Memory& memory, const Limits& limits);
inline constexpr const char* kGuessedType = "guess(long)";
inline constexpr unsigned kGuessed = 4;  // arguments

std::vector<Argument> guess_arguments(const arch::Regs& regs, const Memory& memory, const Limits& limits);
// Printable text where the value points at some, else a number.
Value guess_value(uint64_t raw, const Memory& memory, const Limits& limits);
Value guess_result(const arch::Regs& exit);

// An `inout` argument: before -> after; the one value where they are equal.
Value changed(const Value& before, Value after);

}  // namespace rtrace::decode
