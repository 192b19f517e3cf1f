#include "../../../src/agent/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "agent/faults.h"
#include "agent/recorder_memory.h"

namespace rtrace::agent::pages_test {
namespace {

// Two pages that can be read, between two that cannot.
class Pages : public testing::Test {
 protected:
  Pages() {
    take_faults_of_looks();
    all_ = static_cast<char*>(mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    text = all_ + kPage;
    mprotect(text, 2 * kPage, PROT_READ | PROT_WRITE);
    std::memset(text, 'x', 2 * kPage);
    for (const uint64_t page : {at(0) - 1, at(0), at(kPage), at(2 * kPage)}) know(page / kPage);
  }
  // As the tracer answers.
  void know(uint64_t page) { reinterpret_cast<uint64_t*>(memory.control.pages)[known_page(page)] = page; }
  ~Pages() override { munmap(all_, 4 * kPage); }
  Reader reader(uint64_t sp = 0x10000000) { return {memory.control, sp}; }
  uint64_t at(uint64_t offset) const { return reinterpret_cast<uint64_t>(text) + offset; }

  RecorderMemory memory{Mode::record};
  char* text = nullptr;

 private:
  char* all_ = nullptr;
};

TEST_F(Pages, AreReadUpToTheFirstThatCannotBe) {
  EXPECT_EQ(readable_bytes(reader(), at(0), 2 * kPage), 2 * kPage);
  EXPECT_EQ(readable_bytes(reader(), at(100), 3 * kPage), 2 * kPage - 100);
  EXPECT_EQ(readable_bytes(reader(), at(2 * kPage), 1), 0u);
  EXPECT_EQ(readable_bytes(reader(), at(0) - 1, 10), 0u);
  EXPECT_EQ(readable_bytes(uint64_t{1} << 40, at(kPage), 2 * kPage), kPage);
}

TEST_F(Pages, AreNotReadWhereNoAddressIs) {
  for (const uint64_t wild : {uint64_t{0}, uint64_t{1}, uint64_t{0xfff}, uint64_t{1} << 47, ~uint64_t{0},
                              ~uint64_t{0} - 8, uint64_t{0xdeadbeefdeadbeef}}) {
    EXPECT_EQ(readable_bytes(reader(), wild, 8), 0u) << wild;
    EXPECT_EQ(string_bytes(reader(), wild, 64), 0u) << wild;
  }
}

TEST_F(Pages, StringsEndAtTheirNulOrTheirBoundOrWhereMemoryDoes) {
  for (uint64_t offset = 0; offset < 16; ++offset) {
    for (uint64_t length = 0; length < 40; ++length) {
      text[offset + length] = 0;
      EXPECT_EQ(string_bytes(reader(), at(offset), 100), length + 1) << offset;
      EXPECT_EQ(string_bytes(reader(), at(offset), length), length);
      EXPECT_EQ(string_bytes(reader(), at(offset), length + 1), length + 1);
      text[offset + length] = 'x';
    }
  }
  EXPECT_EQ(string_bytes(reader(), at(2 * kPage - 5), 100), 5u);
  text[kPage] = 0;
  EXPECT_EQ(string_bytes(reader(), at(kPage - 3), 100), 4u);
  text[kPage - 1] = 0;
  EXPECT_EQ(string_bytes(reader(), at(kPage - 3), 100), 3u);
}

TEST_F(Pages, BytesBeforeAStringAreNoneOfIt) {
  text[7] = 0;
  text[8] = 'y';
  text[11] = 0;
  EXPECT_EQ(string_bytes(reader(), at(8), 100), 4u);
  text[2] = 0;
  EXPECT_EQ(string_bytes(reader(), at(3), 100), 5u);
}

TEST_F(Pages, AreLookedAtEachTime) {
  EXPECT_EQ(readable_bytes(reader(), at(0), 8), 8u);
  mprotect(text, kPage, PROT_NONE);
  EXPECT_EQ(readable_bytes(reader(), at(0), 8), 0u);
}

TEST_F(Pages, ThatTheTracerDoesNotKnowAreNotRead) {
  const uint64_t page = at(0) / kPage;
  reinterpret_cast<uint64_t*>(memory.control.pages)[known_page(page)] = page + 1;
  EXPECT_EQ(readable_bytes(reader(), at(0), 8), 0u) << "another page has its place";
  EXPECT_EQ(readable_bytes(reader(), at(kPage), 8), 8u);
}

TEST_F(Pages, OfTheStackPointerNobodyIsAsked) {
  EXPECT_EQ(readable_bytes(reader(at(2 * kPage)), at(2 * kPage), 64), 64u) << "known without looking";
}

TEST_F(Pages, AreNotLookedAtWhereNobodyTakesTheFault) {
  memory.header().owner = kOwnerDied;
  EXPECT_EQ(readable_bytes(reader(), at(0), 8), 0u);
  EXPECT_EQ(string_bytes(reader(), at(0), 8), 0u);
  EXPECT_EQ(readable_bytes(reader(at(0)), at(8), 8), 8u) << "the stack pointer's own page";
}

}  // namespace
}  // namespace rtrace::agent::pages_test
