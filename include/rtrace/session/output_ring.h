// Finished bytes on their way from the engine to the front end, in memory that both share: what the engine
// has published is printed even if the engine is gone.
#pragma once

#include <atomic>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <string>
#include <string_view>

#include "rtrace/sink/sink.h"

namespace rtrace::session {

// The trace; rtrace's own words, always to stderr; the byte for --ready-fd, behind all that was said before
// it.
enum class Channel : uint8_t { output, notice, ready };

struct OutputRing {
  static constexpr uint64_t kChunk = uint64_t{64} << 10;
  static constexpr uint64_t kChunks = 1025;
  // A chunk is free only when the reader has left it.
  static constexpr uint64_t kCapacity = (kChunks - 1) * kChunk;
  alignas(64) char bytes[kChunks * kChunk];
  std::atomic<uint64_t> head;          // bytes ever written
  std::atomic<uint64_t> tail;          // bytes ever taken
  std::atomic<uint32_t> reader_waits;  // the reader sleeps until it is woken through the event fd
  std::atomic<uint32_t> leaving;       // the user asked to end: nobody waits for room any more
  std::atomic<uint32_t> reader_gone;   // nobody reads any more (EPIPE, ENOSPC): writing is pointless
  std::atomic<uint64_t> lost_calls;    // at the end: those that were dropped without a line that says so
  // Where the chunks of the stream lie, by their number in it: the writer takes the first free place, so that
  // a trace that is read in time stays in a few pages. Good between tail and head. Counted from the end of
  // `bytes`, for the first one shall lie under the page table of what stands here.
  uint16_t places[kChunks];

  size_t place_of(uint64_t position) const {
    return (kChunks - 1 - places[position / kChunk % kChunks]) * kChunk + position % kChunk;
  }
};

// What happens when the reader does not keep up.
enum class OnFull : uint8_t {
  block,          // the tracee waits for ever: nothing is lost
  block_a_while,  // ... as long as the reader makes progress within a second; then bytes are dropped and
                  // counted
  drop,           // the tracee never waits
};

// The engine's end. Each write is one frame: its length, its channel, its bytes.
class RingWriter : public sink::Output {
 public:
  // `reader` is the process's parent, while it lives.
  RingWriter(OutputRing& ring, int event_fd, OnFull on_full, pid_t reader);
  void write(std::string_view bytes) override { put(Channel::output, bytes); }
  void notice(std::string_view line) { put(Channel::notice, line); }
  void ready() { put(Channel::ready, "\n"); }
  bool reader_gone() const { return ring_.reader_gone.load(std::memory_order_relaxed) != 0; }
  // For those who can make the writing wait without anybody's standing still: whether the reader is so far
  // behind that it should be let catch up. False where output is to be dropped rather than waited for, and
  // once the reader has not moved for a second. May sleep for a moment.
  bool should_ease();
  // Once output has been dropped, all that follows is too, until the reader has made room and its place is
  // left by resume(): what is printed stays whole lines.
  bool may_resume() const;
  void resume();
  // When nothing is traced any more: waits until the reader has made room to resume, if anything was dropped,
  // and from then on for room whenever there is none.
  void wait_to_resume();
  // Frames that found no room since the last question.
  uint64_t take_dropped();
  bool losing() const { return losing_; }

 private:
  void put(Channel channel, std::string_view bytes);
  bool has_room(uint64_t size) const;
  // For good: it does not want more, leaves, or has died, which it has no time to say.
  bool nobody_reads() const;
  bool wait_for_room(uint64_t size);
  void take_place(uint64_t number);
  void copy_in(uint64_t position, const void* data, size_t size);
  void wake_reader();
  void call_reader() const;
  uint64_t backlog() const;

  OutputRing& ring_;
  int event_fd_;
  OnFull on_full_;
  pid_t reader_;
  uint64_t dropped_ = 0;
  bool losing_ = false;
  bool in_line_ = false;  // the output ends in the middle of a line
  // Where the tail stood when patience was lost: only a reader that has moved it is waited for again.
  uint64_t stalled_at_ = ~uint64_t{0};
  uint64_t uncalled_ = 0;  // bytes since the reader was called last
  std::bitset<OutputRing::kChunks> taken_;
  uint64_t oldest_ = 0, next_ = 0;  // numbers of chunks: the first that has a place, the first that has none
  uint64_t eased_at_ = ~uint64_t{0};
  int eased_ = 0;  // times in a row, with the tail at `eased_at_`
};

// The front end's end, run by one thread.
class RingReader {
 public:
  // `write` puts bytes of a channel where they go; false when nobody reads them any more.
  using Write = std::function<bool(Channel, std::string_view)>;
  RingReader(OutputRing& ring, int event_fd, Write write);

  // Serves until stop() and the ring is empty.
  void run();
  // From another thread, or before run(): what has been written so far is still served, and behind it `last`,
  // which is the trace's.
  void stop(std::string last = {});
  // Waits, once, until all that was written before stop() has been served; false where that takes longer.
  bool finishes_within(std::chrono::milliseconds time) { return finished_.try_acquire_for(time); }
  // Writes what is there at this moment; false where that is nothing.
  bool drain();

 private:
  void wait();

  OutputRing& ring_;
  int event_fd_;
  Write write_;
  std::atomic<bool> stopping_ = false;
  std::string last_;  // when it stops
  std::binary_semaphore finished_{0};
  std::string batch_;
};

}  // namespace rtrace::session
