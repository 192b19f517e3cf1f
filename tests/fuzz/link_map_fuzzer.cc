// The input as the memory of a process, with a hole in it: a dynamic section at its start, wherever that
// leads.
#include "fuzzing.h"
#include "rtrace/loader/rendezvous.h"

namespace rtrace::loader {
namespace {

constexpr VirtAddr kBase{0x10000};

LinkMap read_checked(const Rendezvous& rendezvous, const Memory& memory) {
  LinkMap map = rendezvous.read(memory).value_or(LinkMap{});
  fuzz::must_hold(map.entries.size() <= kMaxEntries, "{} entries", map.entries.size());
  size_t names = 0;
  for (const LinkMapEntry& entry : map.entries) {
    fuzz::must_hold(entry.name.size() <= kMaxNameLength, "a name of {} bytes", entry.name.size());
    names += entry.name.size();
  }
  fuzz::must_hold(names <= kMaxNames + kMaxNameLength, "names of {} bytes", names);
  fuzz::must_hold(diff(map, map).empty(), "a link map differs from itself");
  (void)rendezvous.breakpoint(memory);
  return map;
}

}  // namespace
}  // namespace rtrace::loader

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  using namespace rtrace::loader;
  fuzz::Input input(data, size);
  const size_t hole = input.take<uint16_t>();
  const std::string_view first = input.take_bytes(hole);
  const std::string_view hidden = input.take_bytes(16);
  BufferMemory memory;
  memory.add(kBase, first);
  memory.add(kBase + first.size() + hidden.size(), input.rest());
  const LinkMap fixed = read_checked(Rendezvous(kBase), memory);
  auto found = Rendezvous::find(memory, kBase);
  const LinkMap other = found ? read_checked(*found, memory) : LinkMap{};
  const Changes there = diff(fixed, other), back = diff(other, fixed);
  fuzz::must_hold(there.added.size() == back.removed.size() && there.removed.size() == back.added.size(),
                  "a difference is not that of the other direction");
  return 0;
}
