#include "rtrace/mech/recorder_share.h"

#include <cpuid.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "rtrace/base/log.h"
#include "rtrace/mech/ring_reader.h"
#include "rtrace/mech/shared_records.h"
#include "rtrace/mech/wrapper_stub.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kNanosecond = 1'000'000'000;
constexpr uint64_t kFrequencyTime = 4'000'000;  // ns: a reading's error of 100 ns is 25 millionths of it
constexpr unsigned kRounds = 64, kCalls = 128;

// Counts at one rate, whatever the processor does (CPUID, leaf 80000007H, EDX bit 8).
bool counts_evenly() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & 1U << 8) != 0;
}

// Blob, a stub, and a function that does nothing, in our own memory.
class OwnRecorder {
 public:
  explicit OwnRecorder(agent::Mode mode) : shared_(map(size().layout().size)), code_(map(kCode)) {
    if (shared_ == nullptr || code_ == nullptr) return;
    plan_.entry_words = agent::kEntryWords;
    plan_.finish(0);
    records().header().owner = static_cast<uint32_t>(getpid());  // without one nothing is recorded
    control_ = records().control({reinterpret_cast<uint64_t>(shared_)}, {reinterpret_cast<uint64_t>(&plan_)});
    control_.mode = mode;
    control_.on_full = agent::OnFull::drop;
    control_.nanoseconds_per_tick = uint64_t{1} << 32;
    std::memcpy(code_, rtrace_blob_begin, static_cast<size_t>(rtrace_blob_end - rtrace_blob_begin));
    auto& head = *reinterpret_cast<agent::Blob*>(code_);
    head.control = reinterpret_cast<uint64_t>(&control_);
    const VirtAddr base{reinterpret_cast<uint64_t>(code_)};
    const auto stub = wrapper_stub(plan_, 0,
                                   {base + kStub,
                                    base + kLeaf,
                                    base + head.enter,
                                    base + head.leave,
                                    base + head.quick_enter,
                                    base + head.quick_leave,
                                    {reinterpret_cast<uint64_t>(&plan_)}});
    if (!stub) return;
    std::memcpy(code_ + kStub, stub->code.data(), stub->code.size());
    code_[kLeaf] = std::byte{0xc3};  // ret
    // Where a policy forbids it nothing is subtracted.
    runs_ = mprotect(code_, kCode, PROT_READ | PROT_EXEC) == 0;
  }
  ~OwnRecorder() {
    if (shared_ != nullptr) munmap(shared_, size().layout().size);
    if (code_ != nullptr) munmap(code_, kCode);
  }
  OwnRecorder(const OwnRecorder&) = delete;
  OwnRecorder& operator=(const OwnRecorder&) = delete;

  bool runs() const { return runs_; }
  agent::Mode mode() const { return control_.mode; }
  SharedRecords records() const { return {{shared_, size().layout().size}, size()}; }
  using Function = void (*)();
  Function wrapped() const { return reinterpret_cast<Function>(code_ + kStub); }
  Function bare() const { return reinterpret_cast<Function>(code_ + kLeaf); }

 private:
  static constexpr uint64_t kStub = agent::kBlobRoom, kLeaf = kStub + 512, kCode = kStub + 4096;
  static RecorderSize size() { return {4, 1, 4, agent::kLeastRing}; }
  static std::byte* map(uint64_t size) {
    void* found =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return found == MAP_FAILED ? nullptr : static_cast<std::byte*>(found);
  }

  std::byte* shared_;
  std::byte* code_;
  bool runs_ = false;
  agent::FunctionPlan plan_{};
  agent::Control control_{};
};

// Nobody needs what the rings hold.
void empty_rings(const OwnRecorder& recorder) {
  const SharedRecords records = recorder.records();
  for (uint64_t slot : records.used()) records.slot(slot).tail = records.slot(slot).head;
}

// Ticks of one call, at best.
uint64_t least_ticks(const OwnRecorder& recorder, OwnRecorder::Function function) {
  uint64_t least = ~uint64_t{0};
  for (unsigned round = 0; round < kRounds; ++round) {
    empty_rings(recorder);
    const uint64_t begin = __rdtsc();
    for (unsigned i = 0; i < kCalls; ++i) function();
    least = std::min<uint64_t>(least, (__rdtsc() - begin) / kCalls);
  }
  return least;
}

// What the recorder makes of a call that takes no time, at best.
uint64_t least_recorded(const OwnRecorder& recorder) {
  empty_rings(recorder);
  for (unsigned i = 0; i < kCalls; ++i) recorder.wrapped()();
  const SharedRecords records = recorder.records();
  uint64_t least = ~uint64_t{0}, entered = 0;
  for (uint64_t slot : records.used()) {
    RingReader reader(records, slot, records.slot(slot).tail);
    reader.look();
    while (const auto record = reader.next()) {
      if (record->kind == Record::Kind::entered) entered = record->ticks;
      if (record->kind == Record::Kind::returned) least = std::min(least, record->ticks - entered);
    }
  }
  return least == ~uint64_t{0} ? 0 : least;
}

uint64_t least_counted(const OwnRecorder& recorder) {
  uint64_t least = ~uint64_t{0}, before = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (unsigned i = 0; i < kCalls; ++i) recorder.wrapped()();
    const uint64_t total = counted_calls(recorder.records())[0].total;
    least = std::min(least, (total - before) / kCalls);
    before = total;
  }
  return least;
}

}  // namespace

ClockReading read_clocks() {
  ClockReading best;
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    timespec time{};
    const uint64_t before = __rdtsc();
    clock_gettime(CLOCK_MONOTONIC, &time);
    const uint64_t after = __rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2,
            static_cast<uint64_t>(time.tv_sec) * kNanosecond + static_cast<uint64_t>(time.tv_nsec)};
  }
  return best;
}

std::variant<RecorderShare, std::string> measure_recorder(agent::Mode mode) {
  if (!counts_evenly()) return std::string("the processor's time stamp counter has no constant rate");
  const ClockReading begin = read_clocks();
  RecorderShare share;
  if (const OwnRecorder recorder(mode); recorder.runs()) {
    const uint64_t bare = least_ticks(recorder, recorder.bare());
    const uint64_t all = least_ticks(recorder, recorder.wrapped());
    const uint64_t recorded = mode == agent::Mode::count ? least_counted(recorder) : least_recorded(recorder);
    share.inside = static_cast<uint32_t>(recorded - std::min(recorded, bare));
    share.outside = static_cast<uint32_t>(all - std::min(all, bare + share.inside));
  }
  ClockReading end = read_clocks();
  while (end.nanoseconds - begin.nanoseconds < kFrequencyTime) end = read_clocks();
  const auto passed = static_cast<unsigned __int128>(end.nanoseconds - begin.nanoseconds) << 32;
  share.nanoseconds_per_tick = static_cast<uint64_t>(passed / (end.ticks - begin.ticks));
  RTRACE_LOG(mech, 1, "recorder: {} ticks inside, {} outside, {:.4f} ns each", share.inside, share.outside,
             static_cast<double>(share.nanoseconds_per_tick) / 4294967296.0);
  return share;
}

}  // namespace rtrace::mech
