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
  pieces.cut |= plan.deep != 0;
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

RTRACE_ANY_MEMORY void hash_caller_words(const Reader& reader, uint64_t (&parts)[kCallerParts]) {
  const auto* words = reinterpret_cast<const uint64_t*>(reader.sp + 8);
  // Fewer near the end of a stack.
  const uint64_t count = readable_bytes(reader, reader.sp + 8, kCallerBytes) / sizeof *words;
  for (uint64_t part = 0; part < kCallerParts; ++part) {
    const uint64_t begin = part * kCallerPartWords;
    WordSums sums;
    if (begin + kCallerPartWords <= count) {
#pragma GCC unroll 16
      for (uint64_t i = 0; i < kCallerPartWords; ++i) sums.add(words[begin + i]);
    } else {
      for (uint64_t i = begin; i < count; ++i) sums.add(words[i]);
    }
    parts[part] = sums.hash();
  }
}

void add_stack(Pieces& pieces, const Reader& reader, uint64_t bytes) {
  const uint64_t at = reader.sp + 8;
  add_piece(pieces, at, at, readable_bytes(reader, at, bytes));
}

}  // namespace rtrace::agent
