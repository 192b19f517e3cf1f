#include "../../../src/agent/captures.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <span>

#include "agent/faults.h"
#include "agent/recorder_memory.h"
#include "rtrace/event/call_stack.h"

namespace rtrace::agent::captures_test {
namespace {

// A stack of two pages, of which the tracer knows, with its end where memory ends.
class Stack : public testing::Test {
 protected:
  Stack() {
    take_faults_of_looks();
    all_ = static_cast<std::byte*>(
        mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (uint64_t i = 0; i < 2 * kPage; ++i) all_[i] = static_cast<std::byte>(i * 7 + i / 256);
    mprotect(all_ + 2 * kPage, kPage, PROT_NONE);
    for (uint64_t page = address(0) / kPage; page <= address(2 * kPage) / kPage; ++page)
      reinterpret_cast<uint64_t*>(memory_.control.pages)[known_page(page)] = page;
  }
  ~Stack() override { munmap(all_, 3 * kPage); }

  // Of a call whose return address lies there, by the recorder.
  event::CallerWords recorded(uint64_t offset) {
    uint64_t parts[kCallerParts];
    hash_caller_words({memory_.control, address(offset)}, parts);
    event::CallerWords words;
    std::ranges::copy(parts, words.parts.begin());
    return words;
  }
  // And of the thread that stands there.
  event::CallerWords read(uint64_t offset) const {
    const uint64_t size = 2 * kPage - (offset + 8);
    return event::CallerWords::of(std::span(all_ + offset + 8, std::min(size, kCallerBytes)));
  }

 private:
  uint64_t address(uint64_t offset) const { return reinterpret_cast<uint64_t>(all_) + offset; }
  RecorderMemory memory_{Mode::record};
  std::byte* all_ = nullptr;
};

TEST_F(Stack, AboveACallIsHashedAlikeByTheRecorderAndByTheTracer) {
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{8}, kPage - 512, kPage + 8, 2 * kPage - 8 - kCallerBytes})
    EXPECT_EQ(recorded(offset), read(offset)) << offset;
}

TEST_F(Stack, IsHashedAsFarAsItGoes) {
  for (const uint64_t left : {kCallerBytes - 8, uint64_t{640}, uint64_t{136}, uint64_t{8}})
    EXPECT_EQ(recorded(2 * kPage - 8 - left), read(2 * kPage - 8 - left)) << left;
  EXPECT_EQ(recorded(2 * kPage - 8), event::CallerWords{});
}

}  // namespace
}  // namespace rtrace::agent::captures_test
