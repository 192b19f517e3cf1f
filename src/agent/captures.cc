#include "captures.h"

namespace rtrace::agent {
namespace {

constexpr uint64_t kLabelBytes = 16;
constexpr uint64_t kLongest = kMaxRecordWords * 8;  // no piece is longer

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

uint64_t times_scale(uint64_t held, const Capture& capture) {
  const uint64_t count = counted_by(capture.length, held);
  if (count > capture.bound) return static_cast<int64_t>(count) < 0 ? 0 : capture.bound;
  const uint64_t bytes = count * capture.scale;
  return bytes < capture.bound ? bytes : capture.bound;
}

uint64_t fixed_length(const Capture& capture, const Values& values) {
  switch (capture.length) {
    case Capture::Length::argument:
    case Capture::Length::argument_int:
    case Capture::Length::argument_unsigned:
      return times_scale(values.arguments[capture.length_index < 6 ? capture.length_index : 0], capture);
    case Capture::Length::result:
    case Capture::Length::result_int:
    case Capture::Length::result_unsigned:
      return values.result == nullptr ? 0 : times_scale(*values.result, capture);
    default:
      return capture.bound;
  }
}

bool holds(const Piece& piece, uint64_t at, uint64_t length) {
  return piece.label <= at && at + length <= piece.label + piece.length;
}

// What can be read of what is wanted of that.
uint64_t length_of(Pieces& pieces, const Reader& reader, const Capture& capture, const Values& values,
                   uint64_t at) {
  if (capture.length == Capture::Length::string) return string_bytes(reader, at, capture.bound);
  const uint64_t length =
      capture.length == Capture::Length::unknown ? kLongest + 1 : fixed_length(capture, values);
  if (length <= kLongest) return readable_bytes(reader, at, length);
  pieces.cut = true;
  return 0;
}

void add_new_piece(Pieces& pieces, uint64_t at, uint64_t length) {
  for (unsigned i = 0; i < pieces.count; ++i)
    if (holds(pieces.list[i], at, length)) return;
  add_piece(pieces, at, at, length);
}

struct Level {
  uint64_t at, end;  // of the things that are left
  const ShapeEntry* shape;
  unsigned next;  // pointer
};
constexpr unsigned kMostLevels = 8;

// Of a thing with pointers, which has a word at least. No byte outside is looked at: there may be no memory.
bool is_zero(const Reader& reader, uint64_t at, uint64_t size) {
  uint64_t word = 0;
  for (uint64_t done = 0; size >= sizeof word;) {
    if (!load_word(reader, at + done, word) || word != 0) return false;
    if (done + sizeof word == size) return true;
    done = done + 2 * sizeof word <= size ? done + sizeof word : size - sizeof word;
  }
  return false;
}

// Rendering shows a struct inside itself as that, and a chain of them up to a length.
bool is_left_out(const Level* levels, unsigned depth, const Shape& shape, uint64_t at) {
  if (shape.kind == 0) return false;
  unsigned nested = 0;
  for (unsigned i = 0; i < depth; ++i) {
    if (levels[i].shape->shape.kind != shape.kind) continue;
    if (levels[i].at == at) return true;
    ++nested;
  }
  return nested > 0 && nested >= shape.most;
}

// The next pointer of the innermost level that has one; nullptr where there is none left.
const Pointer* next_pointer(const Reader& reader, Level* levels, unsigned& depth) {
  while (depth > 0) {
    Level& level = levels[depth - 1];
    const Shape& shape = level.shape->shape;
    if (level.next == shape.count) {
      level.at += shape.stride;
      level.next = 0;
    }
    const bool is_last = level.next == 0 && shape.zero_ends != 0 && level.at + shape.stride <= level.end &&
                         is_zero(reader, level.at, shape.stride);
    if (level.at < level.end && !is_last) return &level.shape[1 + level.next++].pointer;
    --depth;
  }
  return nullptr;
}

// All that the pointers lead to in `length` bytes that can be read. Where there is no room for it, it is cut.
void follow(Pieces& pieces, const Reader& reader, const Values& values, const Capture& from, uint64_t at,
            uint64_t length) {
  const auto* shapes = reinterpret_cast<const ShapeEntry*>(once(reader.control.shapes));
  if (shapes == nullptr) return;
  Level levels[kMostLevels];
  levels[0] = {at, at + length, &shapes[from.shape], 0};
  unsigned depth = 1;
  while (const Pointer* pointer = next_pointer(reader, levels, depth)) {
    const Level& level = levels[depth - 1];
    const uint64_t place = level.at + pointer->offset;
    uint64_t to = 0;
    if (place + sizeof to > level.end || !load_word(reader, place, to)) continue;
    if (to < kPage || to >= kUserEnd) continue;
    const Capture& capture = pointer->capture;
    const ShapeEntry* shape = capture.shape == 0 ? nullptr : &shapes[capture.shape];
    if (shape != nullptr && is_left_out(levels, depth, shape->shape, to)) continue;
    const uint64_t there = length_of(pieces, reader, capture, values, to);
    add_new_piece(pieces, to, there);
    if (pieces.cut) return;
    if (shape == nullptr || there == 0) continue;
    if (depth == kMostLevels) {
      pieces.cut = true;
      return;
    }
    levels[depth++] = {to, to + there, shape, 0};
  }
}

}  // namespace

void add_piece(Pieces& pieces, uint64_t label, uint64_t source, uint64_t length) {
  constexpr uint64_t kRoom = kMaxRecordWords * 8 - sizeof(EntryRecord);
  if (length == 0) return;
  if (pieces.count == pieces.most || pieces.size + kLabelBytes + 8 > kRoom) {
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

void drop_gone(Pieces& pieces, const Reader& reader) {
  const unsigned count = pieces.count;
  pieces.count = 0;
  pieces.size = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Piece piece = pieces.list[i];
    const bool own = piece.label < kPage;
    add_piece(pieces, piece.label, piece.source,
              own ? piece.length : readable_bytes(reader, piece.source, piece.length));
  }
}

void add_captures(Pieces& pieces, const Reader& reader, const CapturePlan& plan, const uint64_t* arguments,
                  const uint64_t* result) {
  const Values values{arguments, result};
  pieces.cut |= plan.deep == CapturePlan::kOpen;
  for (unsigned i = 0; i < plan.count && i < kMaxCaptures; ++i) {
    const Capture& capture = plan.captures[i];
    uint64_t at = 0;
    if (!source_value(capture, reader, values, at) || at < kPage) continue;
    const uint64_t length = length_of(pieces, reader, capture, values, at);
    add_piece(pieces, at, at, length);
    // What is cut needs the tracer, who follows them then.
    if (capture.shape != 0 && length > 0 && !pieces.cut) follow(pieces, reader, values, capture, at, length);
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
