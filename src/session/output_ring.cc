#include "rtrace/session/output_ring.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rtrace::session {
namespace {

// Of a frame: the length, with the channel in the top two bits.
using FrameHeader = uint32_t;
constexpr unsigned kChannelShift = 30;
constexpr FrameHeader kLengthMask = (FrameHeader{1} << kChannelShift) - 1;
constexpr size_t kBatch = 128 << 10;
constexpr size_t kResumeRoom = 1 << 20;
// Half a millisecond of the fastest trace, and what one drain writes while the next is made.
constexpr uint64_t kEaseFrom = 256 << 10;
// After a wake-up the reader waits this long for more, so that a busy trace costs it few system calls and the
// engine no more than a wake-up each time.
constexpr timespec kGather{0, 5'000'000};
constexpr timespec kRetry{0, 1'000'000};
constexpr int kBlockedRetries = 1000;  // retries without progress: a second
constexpr timespec kEase{0, 200'000};
constexpr int kMostEased = 5000;  // without progress: a second

// Each part of so many bytes of the stream that lies in one piece: where, which of them is its first, and how
// many they are.
template <typename Visit>
void for_each_part(const OutputRing& ring, uint64_t position, size_t size, Visit visit) {
  for (size_t done = 0; done < size;) {
    const size_t at = ring.place_of(position + done);
    const size_t part = std::min<size_t>(size - done, OutputRing::kChunk - at % OutputRing::kChunk);
    visit(at, done, part);
    done += part;
  }
}

void copy_out(const OutputRing& ring, uint64_t position, void* out, size_t size) {
  for_each_part(ring, position, size, [&](size_t at, size_t done, size_t part) {
    std::memcpy(static_cast<char*>(out) + done, ring.bytes + at, part);
  });
}

// While more is waited for nobody shall wait for us: stop() writes there, and the engine, for what it has
// found taken already.
void gather(int event_fd) {
  pollfd event{event_fd, POLLIN, 0};
  uint64_t count = 0;
  if (ppoll(&event, 1, &kGather, nullptr) > 0) (void)!::read(event_fd, &count, sizeof count);
}

}  // namespace

RingWriter::RingWriter(OutputRing& ring, int event_fd, OnFull on_full, pid_t reader)
    : ring_(ring), event_fd_(event_fd), on_full_(on_full), reader_(reader) {}

bool RingWriter::nobody_reads() const {
  return reader_gone() || ring_.leaving.load() != 0 || getppid() != reader_;
}

// What the reader has left is free.
void RingWriter::take_place(uint64_t number) {
  const uint64_t tail = ring_.tail.load(std::memory_order_acquire);
  for (; oldest_ < tail / OutputRing::kChunk; ++oldest_)
    taken_.reset(ring_.places[oldest_ % OutputRing::kChunks]);
  size_t place = 0;
  while (taken_.test(place)) ++place;
  taken_.set(place);
  ring_.places[number % OutputRing::kChunks] = static_cast<uint16_t>(place);
}

void RingWriter::copy_in(uint64_t position, const void* data, size_t size) {
  for (; next_ * OutputRing::kChunk < position + size; ++next_) take_place(next_);
  for_each_part(ring_, position, size, [&](size_t at, size_t done, size_t part) {
    std::memcpy(ring_.bytes + at, static_cast<const char*>(data) + done, part);
  });
}

// Bytes that are still to be read.
uint64_t RingWriter::backlog() const {
  return ring_.head.load(std::memory_order_relaxed) - ring_.tail.load(std::memory_order_acquire);
}

bool RingWriter::has_room(uint64_t size) const {
  return backlog() + size <= OutputRing::kCapacity;
}

bool RingWriter::should_ease() {
  if (on_full_ == OnFull::drop || reader_gone() || ring_.leaving.load() != 0 || backlog() < kEaseFrom)
    return false;
  const uint64_t tail = ring_.tail.load(std::memory_order_relaxed);
  eased_ = tail == eased_at_ ? eased_ + 1 : 0;
  eased_at_ = tail;
  if (eased_ > kMostEased) {
    --eased_;
    return false;
  }
  nanosleep(&kEase, nullptr);
  return true;
}

void RingWriter::call_reader() const {
  const uint64_t one = 1;
  (void)!::write(event_fd_, &one, sizeof one);
}

void RingWriter::wake_reader() {
  if (ring_.reader_waits.load() != 0 && ring_.reader_waits.exchange(0) != 0) call_reader();
}

bool RingWriter::wait_for_room(uint64_t size) {
  uint64_t seen_tail = ring_.tail.load();
  for (int idle = 0;;) {
    const uint64_t tail = ring_.tail.load(std::memory_order_acquire);
    if (has_room(size)) return true;
    if (nobody_reads() || tail == stalled_at_ || on_full_ == OnFull::drop) return false;
    idle = tail == seen_tail ? idle + 1 : 0;
    seen_tail = tail;
    if (on_full_ == OnFull::block_a_while && idle > kBlockedRetries) {
      stalled_at_ = tail;
      return false;
    }
    wake_reader();
    nanosleep(&kRetry, nullptr);
  }
}

void RingWriter::put(Channel channel, std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > OutputRing::kCapacity / 2) {
    dropped_ += channel == Channel::output ? 1 : 0;
    return;
  }
  const uint64_t size = sizeof(FrameHeader) + bytes.size();
  const uint64_t head = ring_.head.load(std::memory_order_relaxed);
  const bool output = channel == Channel::output;
  if ((output && losing_) || (!has_room(size) && !wait_for_room(size))) {
    losing_ |= output;
    dropped_ += output ? 1 : 0;
    return;
  }
  const auto header = static_cast<FrameHeader>(bytes.size()) | static_cast<FrameHeader>(channel)
                                                                   << kChannelShift;
  copy_in(head, &header, sizeof header);
  copy_in(head + sizeof header, bytes.data(), bytes.size());
  if (output) in_line_ = bytes.back() != '\n';
  ring_.head.store(head + size);  // seq_cst: ordered before the look at reader_waits
  wake_reader();
  uncalled_ += size;
  if (uncalled_ < kBatch) return;
  uncalled_ = 0;
  call_reader();  // it may be gathering
}

bool RingWriter::may_resume() const {
  return has_room(kResumeRoom);
}

void RingWriter::resume() {
  losing_ = false;
  if (in_line_) put(Channel::output, " <unfinished ...>\n");
}

void RingWriter::wait_to_resume() {
  on_full_ = OnFull::block;
  stalled_at_ = ~uint64_t{0};
  while (losing_ && !may_resume() && !nobody_reads()) {
    wake_reader();
    nanosleep(&kRetry, nullptr);
  }
}

uint64_t RingWriter::take_dropped() {
  return std::exchange(dropped_, 0);
}

RingReader::RingReader(OutputRing& ring, int event_fd, Write write)
    : ring_(ring), event_fd_(event_fd), write_(std::move(write)) {}

// Frames of one channel in a row go out in one write. The tail moves only when they are out.
bool RingReader::drain() {
  uint64_t position = ring_.tail.load(std::memory_order_relaxed);
  const uint64_t head = ring_.head.load(std::memory_order_acquire);
  if (position == head) return false;
  while (position != head) {
    batch_.clear();
    Channel channel = Channel::output;
    while (position != head) {
      FrameHeader header = 0;
      copy_out(ring_, position, &header, sizeof header);
      const auto of_frame = static_cast<Channel>(header >> kChannelShift);
      const size_t size = header & kLengthMask;
      if (!batch_.empty() && (of_frame != channel || batch_.size() + size > kBatch)) break;
      channel = of_frame;
      const size_t old = batch_.size();
      batch_.resize(old + size);
      copy_out(ring_, position + sizeof header, batch_.data() + old, size);
      position += sizeof header + size;
    }
    const bool unheard = channel == Channel::output && ring_.reader_gone.load() != 0;
    if (!unheard && !write_(channel, batch_)) ring_.reader_gone.store(1);
    ring_.tail.store(position, std::memory_order_release);
  }
  return true;
}

void RingReader::wait() {
  ring_.reader_waits.store(1);
  if (ring_.head.load() == ring_.tail.load() && !stopping_) {
    uint64_t count = 0;
    (void)!::read(event_fd_, &count, sizeof count);
  }
  ring_.reader_waits.store(0);
}

void RingReader::run() {
  if (!stopping_) batch_.reserve(kBatch);
  for (;;) {
    const bool stopping = stopping_;
    if (drain()) {
      if (!stopping) gather(event_fd_);
      continue;
    }
    if (stopping) {
      if (!last_.empty() && ring_.reader_gone.load() == 0) (void)write_(Channel::output, last_);
      finished_.release();
      return;
    }
    wait();
  }
}

void RingReader::stop(std::string last) {
  last_ = std::move(last);
  stopping_ = true;
  const uint64_t one = 1;
  (void)!::write(event_fd_, &one, sizeof one);
}

}  // namespace rtrace::session
