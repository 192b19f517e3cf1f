// Mappings of ours in a process, such that whoever comes after our death finds them at any moment: each
// begins with an agent::MappingHeader, and before that can stand it has been announced. Private memory is
// announced in the blob, or, where there is none yet, behind the gadget that is on loan; shared memory by its
// name.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/mech/remains.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {

// tracee::kRemoteCallGadget, and behind it the range in pages: 36 bits of its begin, 20 of its size.
using LentGadget = std::array<std::byte, 16>;
// What cannot be said so, for its size, is not.
LentGadget announcing_gadget(Range announced);
// Empty where nothing is announced, or the bytes are not the gadget's.
Range announced_behind(std::span<const std::byte> gadget);

inline constexpr const char* kUnwritable = "the new page cannot be written (/proc/PID/mem)";

struct Mapped {
  VirtAddr address;
  std::string failure;  // in words; then nothing is mapped
};

// Private anonymous memory exactly there, or where the kernel likes if that begins at 0; it has been
// announced, where it can be.
Mapped map_at(tracee::RemoteCall& remote, Range where, int protection);
// The same, announced in the blob until `mark` has written its header; where `where` begins at 0 it is chosen
// here. `mark` answers whether it could be written.
Mapped map_announced(tracee::RemoteCall& remote, const tracee::ProcessMemory& memory, VirtAddr blob,
                     Range where, int protection, const std::function<bool(VirtAddr)>& mark);
// Says so until what is given goes.
class Announcement {
 public:
  Announcement(const tracee::ProcessMemory& memory, VirtAddr blob, Range range);
  ~Announcement();
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;

 private:
  const tracee::ProcessMemory& memory_;
  VirtAddr at_;
};

// Adds to the remains' pages those that have been announced and whose maker did not live to mark them; and
// marks them, for what announces them may be gone before they are. That one is there is told by its extent,
// by its first page, in which nothing has been written, and by its protection: it cannot be written.
void add_announced(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps,
                   Remains& remains);

// Closes the memory files of ours that a maker did not live to close; `fit` is a stopped task that can make
// remote calls.
void close_memory_files(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps,
                        pid_t fit);
// Adds their mappings, if anything else of ours is there: the engine has them, too.
void add_memory_files(const std::vector<tracee::MapsEntry>& maps, Remains& remains);

}  // namespace rtrace::mech
