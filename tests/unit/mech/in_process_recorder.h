// The blob, stubs and shared memory as a tracer puts them into a tracee, here put into the test's own
// process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/faults.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/base/error.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/mech/ring_reader.h"
#include "rtrace/mech/shared_records.h"
#include "rtrace/mech/wrapper_stub.h"

// For functions in assembly: rax rdx rcx rsi rdi r8 r9 r10 r11 to the memory that rbx points to.
#define RTRACE_STORE_REGISTERS                   \
  "  mov %rax, (%rbx)\n  mov %rdx, 8(%rbx)\n"    \
  "  mov %rcx, 16(%rbx)\n  mov %rsi, 24(%rbx)\n" \
  "  mov %rdi, 32(%rbx)\n  mov %r8, 40(%rbx)\n"  \
  "  mov %r9, 48(%rbx)\n  mov %r10, 56(%rbx)\n"  \
  "  mov %r11, 64(%rbx)\n"

namespace rtrace::mech {

inline agent::FunctionPlan plain_plan() {
  agent::FunctionPlan plan{};
  plan.entry_words = agent::kPlainEntryWords;
  plan.errno_offset = agent::FunctionPlan::kNoErrno;
  return plan;
}

class InProcessRecorder {
 public:
  static constexpr uint64_t kStubRoom = 768;
  struct Function {
    const void* entry;  // begins with five bytes of nop
    agent::FunctionPlan plan = plain_plan();
    std::optional<BorrowedFrame> borrowed = std::nullopt;
  };
  // What every test begins with.
  struct Setting {
    agent::Mode mode = agent::Mode::record;
    agent::OnFull on_full = agent::OnFull::block;
    uint64_t ring_bytes = uint64_t{1} << 20;
  };

  InProcessRecorder(const Setting& setting, std::vector<Function> functions)
      : functions_(std::move(functions)),
        size_(size_for(setting)),
        memory_(map(nullptr, size_.layout().size, MAP_SHARED)) {
    for (uint32_t i = 0; i < functions_.size(); ++i) {
      functions_[i].plan.finish(i);
      plans_.push_back(functions_[i].plan);
    }
    records().header().owner = static_cast<uint32_t>(gettid());
    control_ = records().control({memory_.begin}, {reinterpret_cast<uint64_t>(plans_.data())});
    control_.mode = setting.mode;
    control_.on_full = setting.on_full;
    control_.nanoseconds_per_tick = uint64_t{1} << 32;
    place_code();
  }
  ~InProcessRecorder() {
    unpatch();
    munmap(reinterpret_cast<void*>(memory_.begin), memory_.size);
    munmap(reinterpret_cast<void*>(code_.begin), code_.size);
  }
  InProcessRecorder(const InProcessRecorder&) = delete;
  InProcessRecorder& operator=(const InProcessRecorder&) = delete;

  SharedRecords records() const {
    return {{reinterpret_cast<std::byte*>(memory_.begin), memory_.size}, size_};
  }
  agent::Control& control() { return control_; }
  VirtAddr shared() const { return {memory_.begin}; }
  Range code() const { return {{code_.begin}, {code_.begin + code_.size}}; }
  const WrapperStub& stub(size_t function) const { return stubs_[function]; }
  VirtAddr stub_address(size_t function) const {
    return {code_.begin + agent::kBlobRoom + function * kStubRoom};
  }
  const agent::Blob& blob() const { return *reinterpret_cast<const agent::Blob*>(code_.begin); }

  static uint64_t thread_pointer() {
    uint64_t value = 0;
    asm volatile("mov %%fs:0, %0" : "=r"(value));
    return value;
  }

  void patch() {
    for (size_t i = 0; i < functions_.size(); ++i) {
      unsigned char jump[5] = {0xe9};
      const auto distance = static_cast<int32_t>(stub_address(i).value - address(i).value - sizeof jump);
      std::memcpy(jump + 1, &distance, sizeof distance);
      write_code(address(i), jump);
    }
  }
  void unpatch() {
    const unsigned char nop[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    for (size_t i = 0; i < functions_.size(); ++i) write_code(address(i), nop);
  }
  // All that is in the rings, and nothing is left there.
  template <typename Take>
  void read_all(Take take) {
    readers_.reserve(size_.slots());
    for (uint64_t slot = readers_.size(); slot < size_.slots(); ++slot) readers_.emplace_back(shared_, slot);
    for (RingReader& reader : readers_) {
      if (!reader.look()) continue;
      while (auto record = reader.next()) take(*record, static_cast<size_t>(&reader - readers_.data()));
      reader.release();
    }
  }

 private:
  struct Memory {
    uint64_t begin = 0, size = 0;
  };
  static Memory map(void* at, uint64_t size, int flags) {
    void* found = mmap(at, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return {found == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(found), size};
  }
  RecorderSize size_for(const Setting& setting) const {
    const auto count = static_cast<uint32_t>(functions_.size());
    return {6, count, setting.mode == agent::Mode::count ? count * 8 : 0, setting.ring_bytes};
  }
  VirtAddr address(size_t function) const { return {reinterpret_cast<uint64_t>(functions_[function].entry)}; }

  // Near the functions, written before it becomes executable.
  void place_code() {
    constexpr uint64_t kStep = uint64_t{16} << 20, kRoom = uint64_t{1} << 16;
    for (uint64_t at = (address(0).value & ~uint64_t{4095}) + kStep; code_.begin == 0; at += kStep)
      code_ = map(reinterpret_cast<void*>(at), kRoom, MAP_PRIVATE | MAP_FIXED_NOREPLACE);
    auto* bytes = reinterpret_cast<std::byte*>(code_.begin);
    std::memcpy(bytes, rtrace_blob_begin, static_cast<size_t>(rtrace_blob_end - rtrace_blob_begin));
    auto& head = *reinterpret_cast<agent::Blob*>(bytes);
    head.control = reinterpret_cast<uint64_t>(&control_);
    const VirtAddr base{code_.begin};
    for (size_t i = 0; i < functions_.size(); ++i) {
      const auto stub = wrapper_stub(functions_[i].plan, static_cast<uint32_t>(i),
                                     {stub_address(i),
                                      address(i) + 5,
                                      base + head.enter,
                                      base + head.leave,
                                      base + head.quick_enter,
                                      base + head.quick_leave,
                                      {reinterpret_cast<uint64_t>(&plans_[i])},
                                      functions_[i].borrowed});
      CHECK(stub.has_value(), "the stub is out of reach");
      std::memcpy(reinterpret_cast<void*>(stub_address(i).value), stub->code.data(), stub->code.size());
      stubs_.push_back(*stub);
    }
    mprotect(bytes, kRoom, PROT_READ | PROT_EXEC);
    for (const auto& look : head.looks)
      agent::take_faults(bytes + look.begin, bytes + look.end, bytes + look.fault);
  }

  // As a tracer does: whatever the page's protection is.
  static void write_code(VirtAddr at, const unsigned char (&bytes)[5]) {
    const UniqueFd memory(open("/proc/self/mem", O_WRONLY | O_CLOEXEC));
    CHECK(pwrite(memory.get(), bytes, sizeof bytes, static_cast<off_t>(at.value)) == sizeof bytes,
          "code at {:#x} cannot be written", at.value);
  }

  std::vector<Function> functions_;
  std::vector<agent::FunctionPlan> plans_;
  RecorderSize size_;
  Memory memory_, code_;
  agent::Control control_{};
  std::vector<WrapperStub> stubs_;
  SharedRecords shared_ = records();
  std::vector<RingReader> readers_;
};

}  // namespace rtrace::mech
