// What a CapturePlan names, as pieces of a record.
#pragma once

#include <cstdint>

#include "append.h"
#include "pages.h"
#include "rtrace/agent/caller_words.h"
#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// Room for what one record may hold: the captures, the stack, vector registers, errno, rdx. And where
// pointers in memory are followed; it lies on the program's stack.
inline constexpr unsigned kMostPieces = kMaxCaptures + 4, kMostFarPieces = 28;

struct Pieces {
  Piece* list = nullptr;  // an array in here would be zeroed, by memset()
  unsigned most = 0;
  unsigned count = 0;
  bool cut = false;   // there is more
  uint64_t size = 0;  // bytes in the record
};

// As much of [source, source + length) as the record has room for, labelled.
void add_piece(Pieces& pieces, uint64_t label, uint64_t source, uint64_t length);

// Arguments as of the entry; `result` where there is one.
void add_captures(Pieces& pieces, const Reader& reader, const CapturePlan& plan, const uint64_t* arguments,
                  const uint64_t* result);
// Leaves out what cannot be read any more.
void drop_gone(Pieces& pieces, const Reader& reader);
// The hashes of what lies above the return address.
void hash_caller_words(const Reader& reader, uint64_t (&parts)[kCallerParts]);
// What lies behind the return address, as a piece.
void add_stack(Pieces& pieces, const Reader& reader, uint64_t bytes);

}  // namespace rtrace::agent
