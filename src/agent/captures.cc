#include "captures.h"

namespace rtrace::agent {
namespace {

constexpr uint64_t kLabelBytes = 16;

struct Values {
  const uint64_t* arguments;
  const uint64_t* result;
};

// False where there is no such value.
bool source_value(const Capture& capture, const Reader& reader, const Values& values, uint64_t& value) {
  switch (capture.source) {
    case Capture::Source::integer_register:
      value = values.arguments[capture.index < 6 ? capture.index : 0];
      return capture.index < 6;
    case Capture::Source::result:
      if (values.result == nullptr) return false;
      value = *values.result;
      return true;
    case Capture::Source::stack_slot: {
      const uint64_t at = reader.sp + 8 + uint64_t{8} * capture.index;
      if (readable_bytes(reader, at, 8) != 8) return false;
      value = *reinterpret_cast<const uint64_t*>(at);
      return true;
    }
  }
  return false;
}

uint64_t times_scale(uint64_t count, const Capture& capture) {
  if (count > capture.bound) return static_cast<int64_t>(count) < 0 ? 0 : capture.bound;
  const uint64_t bytes = count * capture.scale;
  return bytes < capture.bound ? bytes : capture.bound;
}

uint64_t fixed_length(const Capture& capture, const Values& values) {
  switch (capture.length) {
    case Capture::Length::argument:
      return times_scale(values.arguments[capture.length_index < 6 ? capture.length_index : 0], capture);
    case Capture::Length::result:
      return values.result == nullptr ? 0 : times_scale(*values.result, capture);
    default:
      return capture.bound;
  }
}

}  // namespace

void add_piece(Pieces& pieces, uint64_t label, uint64_t source, uint64_t length) {
  constexpr uint64_t kRoom = kMaxRecordWords * 8 - sizeof(EntryRecord);
  if (length == 0) return;
  if (pieces.count == kMostPieces || pieces.size + kLabelBytes + 8 > kRoom) {
    pieces.cut = true;
    return;
  }
  const uint64_t room = kRoom - pieces.size - kLabelBytes;
  if (length > room) {
    pieces.cut = true;
    length = room;
  }
  pieces.list[pieces.count++] = {label, source, length};
  pieces.size += kLabelBytes + (length + 7) / 8 * 8;
}

void add_captures(Pieces& pieces, const Reader& reader, const CapturePlan& plan, const uint64_t* arguments,
                  const uint64_t* result) {
  const Values values{arguments, result};
  for (unsigned i = 0; i < plan.count && i < kMaxCaptures; ++i) {
    const Capture& capture = plan.captures[i];
    uint64_t at = 0;
    if (!source_value(capture, reader, values, at) || at < kPage) continue;
    const uint64_t length = capture.length == Capture::Length::string
                                ? string_bytes(reader, at, capture.bound)
                                : readable_bytes(reader, at, fixed_length(capture, values));
    add_piece(pieces, at, at, length);
  }
}

// All parts side by side, in registers: each is a chain of multiplications that wait for one another.
RTRACE_ANY_MEMORY static void hash_all(const uint64_t* words, uint64_t (&parts)[kCallerParts]) {
  uint64_t hashes[kCallerParts] = {};
  for (uint64_t in_part = 0; in_part < kCallerPartWords; ++in_part) {
#pragma GCC unroll 8
    for (uint64_t part = 0; part < kCallerParts; ++part)
      hashes[part] = with_word(hashes[part], words[part * kCallerPartWords + in_part]);
  }
#pragma GCC unroll 8
  for (uint64_t part = 0; part < kCallerParts; ++part) parts[part] = hashes[part];
}

// Near the end of a stack.
RTRACE_ANY_MEMORY static void hash_some(const uint64_t* words, uint64_t count,
                                        uint64_t (&parts)[kCallerParts]) {
  for (uint64_t part = 0; part < kCallerParts; ++part) {
    const uint64_t begin = part * kCallerPartWords;
    parts[part] = 0;
    for (uint64_t i = begin; i < count && i < begin + kCallerPartWords; ++i)
      parts[part] = with_word(parts[part], words[i]);
  }
}

void add_caller_words(Pieces& pieces, const Reader& reader, uint64_t (&parts)[kCallerParts]) {
  const auto* words = reinterpret_cast<const uint64_t*>(reader.sp + 8);
  const uint64_t bytes = readable_bytes(reader, reader.sp + 8, kCallerBytes);
  if (bytes == kCallerBytes)
    hash_all(words, parts);
  else
    hash_some(words, bytes / sizeof *words, parts);
  add_piece(pieces, kCallerPiece, reinterpret_cast<uint64_t>(parts), sizeof parts);
}

void add_stack(Pieces& pieces, const Reader& reader, uint64_t bytes) {
  const uint64_t at = reader.sp + 8;
  add_piece(pieces, at, at, readable_bytes(reader, at, bytes));
}

}  // namespace rtrace::agent
