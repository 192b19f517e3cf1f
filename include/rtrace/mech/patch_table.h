// Every byte that rtrace has changed in any tracee's code, in memory that the front end and the engine share:
// the survivor heals from it. An entry is published before its bytes are written, and withdrawn after they
// have been put back.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::mech {

// Plain data; written by the engine only.
struct Patch {
  static constexpr size_t kMaxLength = 16;
  std::atomic<uint8_t> live;  // set last when published, cleared first when withdrawn
  uint8_t length;             // 0: no bytes, but an SDT semaphore that is raised
  // An int3 at which the handler, which stands, carries out what would block SIGTRAP, or look behind it:
  // while other int3s stand it must.
  std::atomic<uint8_t> stands_in;
  pid_t pid;  // of a process that has the memory
  uint64_t address;
  uint8_t original[kMaxLength];
  uint8_t written[kMaxLength];
};

struct PatchTable {
  static constexpr size_t kCapacity = size_t{1} << 21;
  std::atomic<uint64_t> session;  // marks what this tracer maps into tracees; never 0 once there is a ledger
  std::atomic<uint64_t> used;     // entries at and behind this one have never been live
  Patch patches[kCapacity];
};

// The engine's side of the table: hands out entries.
class PatchLedger {
 public:
  explicit PatchLedger(PatchTable& table);

  uint64_t session() const { return table_.session.load(std::memory_order_relaxed); }

  using Index = uint32_t;
  static constexpr Index kNone = ~Index{0};
  // kNone where the table is full; then nothing may be written.
  Index publish(pid_t pid, VirtAddr address, std::span<const std::byte> original,
                std::span<const std::byte> written);
  Index publish_semaphore(pid_t pid, VirtAddr address) { return publish(pid, address, {}, {}); }
  void withdraw(Index index);
  // Of one that stands: Patch::stands_in.
  void stands_in(Index index, bool stands = true);

 private:
  PatchTable& table_;
  std::vector<Index> free_;
};

}  // namespace rtrace::mech
