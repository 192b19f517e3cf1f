#include "rtrace/arch/tls_address.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "arch/code_text.h"

namespace rtrace::arch::tls_address_test {
namespace {

constexpr VirtAddr kAt{0x27660};
constexpr VirtAddr kSlot{0x27777};       // what the rows' `disp32(%rip)` lead to
constexpr VirtAddr kEmptySlot{0x27877};  // not filled yet
constexpr int64_t kInSlot = -0x80;

BufferMemory slots() {
  BufferMemory memory;
  memory.add_value(kSlot, kInSlot);
  memory.add_value(kEmptySlot, int64_t{0});
  return memory;
}

struct Row {
  const char* what;
  const char* code;
  std::optional<int64_t> offset;
};

TEST(TlsOffsetReturned, WhatCLibrariesReturnTheAddressOfErrnoBy) {
  const Row rows[] = {
      {"glibc 2.36", "48 8b 05 10 01 00 00\n64 48 03 04 25 00 00 00 00\nc3", kInSlot},
      {"glibc with IBT", "f3 0f 1e fa\n48 8b 05 0c 01 00 00\n64 48 03 04 25 00 00 00 00\nc3", kInSlot},
      {"thread pointer first", "64 48 8b 04 25 00 00 00 00\n48 03 05 07 01 00 00\nc3", kInSlot},
      {"musl", "64 48 8b 04 25 00 00 00 00\n48 83 c0 34\nc3", 0x34},
      {"musl, a far field", "64 48 8b 04 25 00 00 00 00\n48 05 b8 00 00 00\nc3", 0xb8},
      {"static glibc", "48 c7 c0 c0 ff ff ff\n64 48 03 04 25 00 00 00 00\nc3", -0x40},
      {"static, relaxed", "64 48 8b 04 25 00 00 00 00\n48 8d 80 c0 ff ff ff\nc3", -0x40},
      {"static, a near field", "64 48 8b 04 25 00 00 00 00\n48 8d 40 fc\nc3", -4},
      {"static, an addition", "64 48 8b 04 25 00 00 00 00\n48 81 c0 f8 ff ff ff\nc3", -8},
      {"static, a subtraction", "64 48 8b 04 25 00 00 00 00\n48 83 e8 40\nc3", -0x40},
      {"static, a far subtraction", "64 48 8b 04 25 00 00 00 00\n48 2d 00 01 00 00\nc3", -0x100},
  };
  const BufferMemory memory = slots();
  for (const Row& row : rows)
    EXPECT_EQ(tls_offset_returned(assemble(row.code), kAt, memory), row.offset) << row.what;
}

TEST(TlsOffsetReturned, AnythingElseIsNotGuessed) {
  const Row rows[] = {
      {"nothing", "", {}},
      {"cut short", "64 48 8b 04 25 00 00", {}},
      {"no return", "64 48 8b 04 25 00 00 00 00\n48 83 c0 34", {}},
      {"a cut operand", "64 48 8b 04 25 00 00 00 00\n48 05 b8 00", {}},
      {"another segment word", "64 48 8b 04 25 10 00 00 00\nc3", {}},
      {"no thread pointer", "48 c7 c0 10 00 00 00\nc3", {}},
      {"twice the thread pointer", "64 48 8b 04 25 00 00 00 00\n64 48 03 04 25 00 00 00 00\nc3", {}},
      {"an addition to what is not known", "48 83 c0 34\nc3", {}},
      {"nothing but a return", "c3", {}},
      {"a call", "e8 00 00 00 00\nc3", {}},
      {"a slot that is not filled", "48 8b 05 10 02 00 00\n64 48 03 04 25 00 00 00 00\nc3", {}},
      {"a slot that is not mapped", "48 8b 05 10 05 00 00\n64 48 03 04 25 00 00 00 00\nc3", {}},
      {"no end",
       "f3 0f 1e fa f3 0f 1e fa f3 0f 1e fa f3 0f 1e fa f3 0f 1e fa f3 0f 1e fa f3 0f 1e fa f3 0f 1e fa c3",
       {}},
  };
  const BufferMemory memory = slots();
  for (const Row& row : rows)
    EXPECT_EQ(tls_offset_returned(assemble(row.code), kAt, memory), std::nullopt) << row.what;
}

class OwnMemory : public Memory {
 public:
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    std::copy_n(reinterpret_cast<const std::byte*>(address.value), out.size(), out.begin());
    return out.size();
  }
};

uint64_t thread_pointer() {
  uint64_t pointer = 0;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

TEST(TlsOffsetReturned, IsWhereThisProgramsErrnoLiesInEveryThread) {
  auto* function = reinterpret_cast<const std::byte*>(&__errno_location);
  const auto offset =
      tls_offset_returned({function, 32}, VirtAddr{reinterpret_cast<uint64_t>(function)}, OwnMemory());
  ASSERT_TRUE(offset);
  auto expect_here = [&] {
    EXPECT_EQ(thread_pointer() + static_cast<uint64_t>(*offset), reinterpret_cast<uint64_t>(&errno));
  };
  expect_here();
  std::thread(expect_here).join();
}

}  // namespace
}  // namespace rtrace::arch::tls_address_test
