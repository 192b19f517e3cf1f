// The input as the shared memory of a tracee that writes what it likes: heads, losses and the rings'
// contents, with changes between two looks, and summaries.
#include <sys/mman.h>

#include <cstring>

#include "fuzzing.h"
#include "rtrace/mech/ring_reader.h"

namespace rtrace::mech {
namespace {

constexpr RecorderSize kSize{1, 3, 4, agent::kLeastRing};

void check(const Record& record) {
  size_t bytes = 0;
  for (const CapturedPiece& piece : record.pieces) {
    fuzz::must_hold(!piece.bytes.empty(), "an empty piece");
    for (std::byte byte : piece.bytes) bytes += static_cast<size_t>(byte != std::byte{0});
  }
  fuzz::must_hold(bytes <= agent::kMaxRecordWords * 8, "{} bytes captured", bytes);
  const bool call = record.kind == Record::Kind::entered || record.kind == Record::Kind::returned;
  fuzz::must_hold(!call || record.function < kSize.functions, "function {}", record.function);
}

// What one look finds is bounded by the ring, whatever it says.
void read(RingReader& reader) {
  if (!reader.look()) return;
  uint64_t records = 0;
  while (const auto record = reader.next()) {
    check(*record);
    ++records;
  }
  fuzz::must_hold(records <= kSize.ring_bytes / 8 + 2, "{} records", records);
  reader.release();
}

}  // namespace
}  // namespace rtrace::mech

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  using namespace rtrace::mech;
  static void* const memory =
      mmap(nullptr, kSize.layout().size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const std::span shared(static_cast<std::byte*>(memory), kSize.layout().size);
  const SharedRecords records(shared, kSize);
  std::memset(memory, 0, sizeof(agent::SharedHeader));
  std::memset(&records.slot(0), 0, 2 * sizeof(agent::Slot));
  fuzz::Input input(data, size);
  RingReader reader(records, 0);
  for (unsigned look = 0; look < 4; ++look) {
    agent::Slot& slot = records.slot(0);
    const uint64_t before = slot.head % kSize.ring_bytes;
    const auto step = input.take<uint16_t>();
    slot.head = (step & 1) != 0 ? input.take<uint64_t>() : slot.head + step;
    slot.lost_entries = input.take<uint8_t>();
    auto* const ring = const_cast<std::byte*>(records.ring(0).data());
    const std::string_view bytes = input.take_bytes(std::min<size_t>(step, kSize.ring_bytes - before));
    std::memcpy(ring + before, bytes.data(), bytes.size());
    read(reader);
  }
  records.header().summaries_claimed = input.take<uint32_t>();
  for (uint64_t index = 0; index < kSize.summaries; ++index) {
    records.summary(index).function = input.take<uint32_t>();
    records.summary(index).entered = input.take<uint64_t>();
  }
  fuzz::must_hold(counted_calls(records).size() == kSize.functions, "a function too many");
  const auto thread = input.take<uint64_t>();
  records.thread_ended(thread, input.take<int32_t>());
  records.thread_begins(input.take<uint64_t>());
  (void)records.used();
  return 0;
}
