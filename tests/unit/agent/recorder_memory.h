// The recorder's memory as a tracer lays it out, here in the test's own process.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <vector>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

inline FunctionPlan plain_plan() {
  FunctionPlan plan{};
  plan.entry_words = kPlainEntryWords;
  plan.errno_offset = FunctionPlan::kNoErrno;
  return plan;
}

class RecorderMemory {
 public:
  explicit RecorderMemory(Mode mode, std::vector<FunctionPlan> plans = {plain_plan()},
                          uint64_t ring_bytes = kLeastRing, unsigned slot_bits = 4, uint32_t summaries = 0)
      : plans_(std::move(plans)), functions_(static_cast<uint32_t>(plans_.size())) {
    for (uint32_t i = 0; i < functions_; ++i) plans_[i].finish(i);
    layout_ = shared_layout(slot_bits, functions_, summaries, ring_bytes);
    memory_ = mmap(nullptr, layout_.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    const auto begin = reinterpret_cast<uint64_t>(memory_);
    header().owner = 1;  // somebody
    control.mode = mode;
    control.slot_bits = static_cast<uint8_t>(slot_bits);
    control.functions = functions_;
    control.plans = reinterpret_cast<uint64_t>(plans_.data());
    control.shared = begin;
    control.slots = begin + layout_.slots;
    control.pages = begin + layout_.pages;
    control.summary_index = begin + layout_.summary_index;
    control.summaries = begin + layout_.summaries;
    control.rings = begin + layout_.rings;
    control.ring_bytes = ring_bytes;
    control.nanoseconds_per_tick = uint64_t{1} << 32;
    control.summaries_count = summaries;
    control.slot_mask = slot_mask(slot_bits);
  }
  ~RecorderMemory() { munmap(memory_, layout_.size); }
  RecorderMemory(const RecorderMemory&) = delete;
  RecorderMemory& operator=(const RecorderMemory&) = delete;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_), layout_.size}; }
  SharedHeader& header() const { return *static_cast<SharedHeader*>(memory_); }
  Slot& slot(uint64_t index) const { return reinterpret_cast<Slot*>(control.slots)[index]; }
  Summary& summary(uint64_t index) const { return reinterpret_cast<Summary*>(control.summaries)[index]; }
  FunctionPlan& plan(uint32_t function) { return plans_[function]; }

  Control control{};

 private:
  std::vector<FunctionPlan> plans_;
  uint32_t functions_;
  SharedLayout layout_{};
  void* memory_ = nullptr;
};

// A wrapper's stack, from the words that its stub reserves up to the arguments in memory.
struct alignas(16) WrapperStack {
  std::byte vectors[RTRACE_VECTORS_SIZE] = {};
  WrapperFrame frame{};
  uint64_t rbp = 0;
  uint64_t return_address = 0x401000;
  uint64_t arguments[32] = {};
};

}  // namespace rtrace::agent
