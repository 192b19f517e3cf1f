#include "rtrace/mech/ring_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "load.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

// Fewest words of a record of that kind; 0: there is no such kind.
size_t fewest_words(uint8_t kind) {
  switch (kind) {
    case agent::kPadding:
      return 1;
    case agent::kEntry:
      return offsetof(agent::EntryRecord, arguments) / kWord;
    case agent::kReturn:
      return agent::kReturnWords;
    case agent::kThread:
      return sizeof(agent::ThreadRecord) / kWord;
    default:
      return 0;
  }
}

}  // namespace

// Losses are looked at before the head: where that has not moved they belong behind the last record.
bool RingReader::look() {
  const Losses now{load(slot().lost_entries), load(slot().lost_returns)};
  head_ = load(slot().head);
  return head_ != cursor_ || now != seen_;
}

std::optional<Record> RingReader::losses(Losses now) {
  if (now == seen_) return std::nullopt;
  Record record;
  record.kind = Record::Kind::lost;
  record.entries = now.entries - seen_.entries;
  record.returns = now.returns - seen_.returns;
  seen_ = now;
  return record;
}

Record RingReader::skip_all() {
  cursor_ = head_ / kWord * kWord;
  head_ = cursor_;
  copied_ = false;
  return {};
}

// The record at the cursor, with a head that is known to be good.
bool RingReader::copy_record() {
  const std::span<const std::byte> ring = records_->ring(slot_);
  const uint64_t offset = cursor_ % ring.size();
  const uint64_t first = load(*reinterpret_cast<const uint64_t*>(ring.data() + offset));
  agent::RecordHead head{};
  std::memcpy(&head, &first, sizeof head);
  const size_t fewest = fewest_words(head.kind);
  const size_t fixed = head.fixed & ~agent::kCut;
  const uint64_t bytes = head.words * kWord;
  if (fewest == 0 || head.words == 0 || bytes > head_ - cursor_ || bytes > ring.size() - offset) return false;
  if (head.kind == agent::kPadding) {
    words_.assign(1, first);
    return bytes == ring.size() - offset;
  }
  if (head.words > agent::kMaxRecordWords || fixed < fewest || fixed > head.words) return false;
  if (head.kind == agent::kEntry && fixed > agent::kAllEntryWords) return false;
  if ((head.kind == agent::kEntry || head.kind == agent::kReturn) &&
      head.function >= records_->size().functions)
    return false;
  words_.resize(head.words);
  std::memcpy(words_.data(), ring.data() + offset, bytes);
  words_[0] = first;
  return true;
}

bool RingReader::parse_pieces(size_t first) {
  pieces_.clear();
  size_t at = first;
  while (at < words_.size()) {
    if (words_.size() - at < 2) return false;
    const uint64_t length = words_[at + 1];
    const uint64_t room = (words_.size() - at - 2) * kWord;
    if (length == 0 || length > room) return false;
    pieces_.push_back({words_[at], std::as_bytes(std::span(words_)).subspan((at + 2) * kWord, length)});
    at += 2 + (length + kWord - 1) / kWord;
  }
  return true;
}

std::optional<Record> RingReader::parse() {
  agent::RecordHead head{};
  std::memcpy(&head, words_.data(), sizeof head);
  const size_t fixed = head.fixed & ~agent::kCut;
  if (!parse_pieces(fixed)) return std::nullopt;
  Record record;
  record.cut = (head.fixed & agent::kCut) != 0;
  record.function = head.function;
  record.ticks = words_[1];
  record.held = words_[3];
  record.pieces = pieces_;
  if (head.kind == agent::kThread) {
    record.kind = Record::Kind::thread;
    record.tid = static_cast<int32_t>(words_[4]);
    record.thread_pointer = words_[5];
  } else if (head.kind == agent::kReturn) {
    record.kind = Record::Kind::returned;
    record.call = words_[4];
    record.result = words_[5];
  } else {
    agent::EntryRecord entry{};
    std::memcpy(&entry, words_.data(), fixed * kWord);
    record.kind = Record::Kind::entered;
    record.call = agent::call_of(slot_, cursor_);
    record.sp = entry.sp;
    record.return_address = entry.return_address;
    std::copy(std::begin(entry.arguments), std::end(entry.arguments), record.arguments.begin());
    record.rax = entry.rax;
    std::copy(std::begin(entry.saved), std::end(entry.saved), record.saved.begin());
    std::copy(std::begin(entry.above), std::end(entry.above), record.above.begin());
  }
  return record;
}

bool RingReader::is_cut() const {
  agent::RecordHead head{};
  std::memcpy(&head, words_.data(), sizeof head);
  return (head.fixed & agent::kCut) != 0;
}

std::optional<Record> RingReader::next(Owner owner) {
  while (cursor_ != head_) {
    if (!copied_) {
      if (head_ % kWord != 0 || head_ - cursor_ > records_->size().ring_bytes || !copy_record())
        return skip_all();
      copied_ = true;
    }
    if (words_.size() == 1) {  // padding, to the ring's end
      cursor_ += records_->size().ring_bytes - cursor_ % records_->size().ring_bytes;
      copied_ = false;
      continue;
    }
    const uint64_t lost_so_far = words_[offsetof(agent::EntryRecord, lost_entries) / kWord];
    if (auto lost = losses({static_cast<uint32_t>(lost_so_far), static_cast<uint32_t>(lost_so_far >> 32)}))
      return lost;
    if (owner == Owner::runs && is_cut()) return std::nullopt;
    auto record = parse();
    if (!record) return skip_all();
    cursor_ += words_.size() * kWord;
    copied_ = false;
    return record;
  }
  // What was lost behind the last record; a thread that runs on may have lost more, and said so in a record.
  const Losses now{load(slot().lost_entries), load(slot().lost_returns)};
  if (now == seen_ || load(slot().head) != cursor_) return std::nullopt;
  return losses(now);
}

void RingReader::release() const {
  std::atomic_ref<uint64_t>(slot().tail).store(cursor_, std::memory_order_release);
}

}  // namespace rtrace::mech
