// What tracers leave in a process when they die: found by looking at its memory alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rtrace/agent/abi.h"
#include "rtrace/base/address.h"
#include "rtrace/base/memory.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {

// Bytes that are not the program's own, and what belongs there.
struct ForeignBytes {
  VirtAddr address;
  std::vector<std::byte> original, written;
  // An int3 at which the handler stands in for what a call would do to SIGTRAP, for the sake of the others:
  // goes after them, while all threads stand.
  bool stands_in = false;
  // A jump in padding, to which a short one at a function's entry leads. A thread may be about to come there.
  bool hop = false;
  // A GOT slot, which leads to a wrapper.
  bool slot = false;
  // The call that foretells returns (wrapper_stub.h): wrappers that run may be about to come there.
  bool foretells = false;
  // Found by comparing with the file: what was mapped there may have given way to other code meanwhile, and
  // is looked at again while all threads stand.
  bool by_file = false;
};

struct Remains {
  struct Page {
    Range range;
    uint64_t session = 0;
    uint32_t kind = 0;
  };
  std::vector<Page> pages;  // mappings that begin with our header
  struct Blob {
    VirtAddr address;
    agent::Blob head{};
    // The program has one of its own, which the blob's may stand in front of.
    bool has_own_handler() const { return head.own_handler.address != 0; }
  };
  std::vector<Blob> blobs;
  std::vector<Range> tables;  // the entries of those that blobs look into
  std::vector<ForeignBytes> bytes;
  // SDT semaphores that are still raised, and where in the table that is said: the word to be cleared.
  struct Raised {
    VirtAddr semaphore, entry;
  };
  std::vector<Raised> semaphores;
  // What wrappers read and write.
  struct Recorder {
    VirtAddr control;
    Range shared;
  };
  std::vector<Recorder> recorders;

  bool empty() const { return pages.empty() && bytes.empty(); }
};

// The mappings, and the sites that their tables know. The process may be running.
Remains find_remains(const Memory& memory, const std::vector<tracee::MapsEntry>& maps);

// The mappings alone.
Remains find_pages(const Memory& memory, const std::vector<tracee::MapsEntry>& maps);

// Leaves out int3s that are the file's own: other code has been mapped where those of ours stood. So does an
// int3 where the file has neither what a table says nor one.
void drop_int3s_of_files(pid_t pid, const Memory& memory, const std::vector<tracee::MapsEntry>& maps,
                         Remains& remains);

// Empties the tables, once none of their int3s stands and nobody is in the handler: other code may be where
// they stood by the time their pages are looked at again.
void forget_sites(const tracee::ProcessMemory& memory, const Remains& remains);

// Int3s and borrowed bytes in private executable mappings of files, by comparing each with its file where
// that is the one that was mapped; and a gadget behind the vdso. For what has no table, or was lost before it
// had.
std::vector<ForeignBytes> compare_with_files(pid_t pid, const Memory& memory,
                                             const std::vector<tracee::MapsEntry>& maps);

// What is at an address in the file that is mapped there; shorter, or empty, where that cannot be told.
std::vector<std::byte> bytes_of_file(pid_t pid, const std::vector<tracee::MapsEntry>& maps, VirtAddr address,
                                     size_t size);

// Memory that is executable, private, and that nothing runs: what lies behind a text segment in its last
// page, by the program headers in memory, or else behind the kernel's own object (vdso(7)). 16 bytes at
// least, or empty.
Range find_slack(const Memory& memory, const std::vector<tracee::MapsEntry>& maps);
// Whether a gadget on loan stands there, whose borrower has died.
bool gadget_stands(const Memory& memory, const std::vector<tracee::MapsEntry>& maps);

}  // namespace rtrace::mech
