// What a CapturePlan names, read in one go while the thread is stopped, and served to the decoder afterwards.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rtrace/agent/abi.h"
#include "rtrace/arch/regs.h"
#include "rtrace/base/memory.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {

class CapturedMemory : public Memory {
 public:
  // Starts anew; keeps its buffers, so that a call costs no allocation.
  void clear();
  void want(VirtAddr address, size_t size);
  // Resolves the plan's registers, stack slots behind the return address at `entry.sp()`, and lengths.
  // `result` is the return value where there is one. Stack slots are read from `stack` (bytes behind the
  // return address), which must have been fetched before.
  void want(const agent::CapturePlan& plan, const arch::Regs& entry, const uint64_t* result,
            std::span<const std::byte> stack);
  // Reads all that was wanted so far, again where that happened before.
  void fetch(const tracee::ProcessMemory& memory);

  // What was read elsewhere already, and outlives this until it is cleared.
  void hold(VirtAddr address, std::span<const std::byte> bytes);

  // Bytes that were wanted and could be read. With `live`, others are read from there.
  size_t read(VirtAddr address, std::span<std::byte> out) const override;
  void set_live(const Memory* live) { live_ = live; }

 private:
  std::vector<tracee::ProcessMemory::Piece> pieces_;
  std::vector<std::byte> bytes_;
  struct Held {
    VirtAddr address;
    std::span<const std::byte> bytes;
  };
  std::vector<Held> held_;
  std::span<const std::byte> known_from(VirtAddr at) const;
  const Memory* live_ = nullptr;
};

}  // namespace rtrace::mech
