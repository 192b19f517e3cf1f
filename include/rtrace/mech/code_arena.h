// Pages inside a tracee that hold out-of-line copies, near the code they belong to.
#pragma once

#include <optional>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::mech {

class CodeArena {
 public:
  static constexpr uint64_t kAlignment = 16;

  // Takes over a mapping; its first bytes may already be in use.
  void add(Range range, uint64_t used = 0);
  // Room for `size` bytes that rel32 reaches from `near`; nullopt where a new chunk must be mapped first.
  std::optional<VirtAddr> allocate(VirtAddr near, uint64_t size);
  // Gives a place back; nothing may run there any more.
  void release(VirtAddr address, uint64_t size);
  uint64_t room_near(VirtAddr near) const;
  bool contains(VirtAddr address) const;
  std::vector<Range> ranges() const;

 private:
  struct Chunk {
    Range range;
    uint64_t used = 0;
  };
  std::vector<Chunk> chunks_;
  std::vector<Range> free_;  // released places
};

// Memory that a new mapping must keep clear of: what is mapped, and the room into which the heap and the
// stack may grow (brk(2), a stack's guard gap).
std::vector<Range> taken_ranges(const std::vector<tracee::MapsEntry>& maps);
// Where so many bytes, whole pages, may be mapped within rel32's reach of `near`, a page away from all else:
// the kernel would show a mapping joined with what touches it, and who reads over the end of the program's
// memory would find ours. nullopt where there is no such place, or the maps tell nothing.
std::optional<Range> find_place(const std::vector<tracee::MapsEntry>& maps, Range near, uint64_t size);

}  // namespace rtrace::mech
