// The protocol between a dynamic linker and a debugger: struct r_debug and the chain of link maps, as
// <link.h> and glibc's elf/dl-debug.c define them. Reads through Memory, so a running, a stopped and a
// made-up process look alike.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/base/memory.h"

namespace rtrace::loader {

enum class LinkState : uint8_t {
  consistent = 0,
  adding = 1,
  deleting = 2
};  // r_state: RT_CONSISTENT, RT_ADD, RT_DELETE

// One struct link_map.
struct LinkMapEntry {
  VirtAddr address;        // of the struct itself
  LoadBias bias;           // l_addr
  VirtAddr dynamic;        // l_ld
  std::string name;        // l_name: empty for the main program, a path or a bare name otherwise
  int link_namespace = 0;  // its place in the r_next chain
  auto operator<=>(const LinkMapEntry&) const = default;
};

struct LinkMap {
  std::vector<LinkMapEntry> entries;        // in the dynamic linker's order
  LinkState state = LinkState::consistent;  // that of the namespace which is not consistent, if any
  bool truncated =
      false;  // a cycle, an unreadable entry, or more than the limits below: what follows is not known
};
inline constexpr size_t kMaxEntries = 65536;
inline constexpr size_t kMaxNameLength = 4096;
inline constexpr size_t kMaxNames = size_t{16} << 20;  // bytes of all names together

struct Changes {
  std::vector<LinkMapEntry> added, removed;
  bool empty() const { return added.empty() && removed.empty(); }
};

// Entries are the same load when all fields are. Order: removed as in `before`, added as in `after`.
Changes diff(const LinkMap& before, const LinkMap& after);

class Rendezvous {
 public:
  // Finds r_debug through DT_DEBUG of the main program's dynamic section (`dynamic` is its VirtAddr). nullopt
  // while the dynamic linker has not filled it in, or where there is none.
  static std::optional<Rendezvous> find(const Memory& memory, VirtAddr dynamic);
  // musl and early start-up: the address of the dynamic linker's own r_debug symbol is known.
  explicit Rendezvous(VirtAddr r_debug) : r_debug_(r_debug) {}

  VirtAddr address() const { return r_debug_; }
  // r_brk: the function that the dynamic linker calls around each change.
  std::optional<VirtAddr> breakpoint(const Memory& memory) const;
  // False while r_debug is as the program's file has it, all zeros: the dynamic linker has not filled it in.
  bool begun(const Memory& memory) const;
  // Of a map whose first namespace is not consistent: no entries, where nobody would look at them.
  enum class WhileChanging : uint8_t { entries_too, state_only };
  // All namespaces (r_version 2: r_next). nullopt where r_debug itself cannot be read or makes no sense. Safe
  // on a running process and on hostile memory: bounded in time and size whatever the pointers say.
  std::optional<LinkMap> read(const Memory& memory,
                              WhileChanging changing = WhileChanging::entries_too) const;

 private:
  VirtAddr r_debug_;
};

}  // namespace rtrace::loader
