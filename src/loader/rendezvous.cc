#include "rtrace/loader/rendezvous.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_set>
#include <utility>

namespace rtrace::loader {
namespace {

// The structures as a 64-bit process has them. rtrace is one too, so <link.h> describes both sides.
static_assert(sizeof(void*) == 8);

// What a debugger may rely on; struct link_map goes on behind it, privately to the dynamic linker.
// r_debug_extended (glibc 2.35) adds r_next.
struct LinkMapHead {
  uint64_t l_addr, l_name, l_ld, l_next, l_prev;
};
static_assert(sizeof(LinkMapHead) == sizeof(link_map) &&
              offsetof(LinkMapHead, l_next) == offsetof(link_map, l_next));

struct DebugHead {
  int32_t r_version, padding;
  uint64_t r_map, r_brk;
  uint32_t r_state, padding2;
  uint64_t r_ldbase;
};
static_assert(sizeof(DebugHead) == sizeof(r_debug) &&
              offsetof(DebugHead, r_brk) == offsetof(r_debug, r_brk) &&
              offsetof(DebugHead, r_state) == offsetof(r_debug, r_state));

constexpr int kMaxNamespaces = 64;          // glibc's DL_NNS is 16
constexpr size_t kMaxDynamicEntries = 512;  // few objects have more than 40
constexpr size_t kDynamicAtOnce = 64;

// Zero before the dynamic linker has filled it in; any positive version keeps the members above.
std::optional<DebugHead> read_head(const Memory& memory, VirtAddr r_debug) {
  auto head = memory.read_value<DebugHead>(r_debug);
  if (!head || head->r_version < 1 || head->r_version > 1000 ||
      head->r_state > static_cast<uint32_t>(LinkState::deleting))
    return std::nullopt;
  return head;
}

class Walk {
 public:
  explicit Walk(const Memory& memory) : memory_(memory) {}

  void add_namespace(const DebugHead& head, int link_namespace) {
    if (result_.state == LinkState::consistent) result_.state = static_cast<LinkState>(head.r_state);
    VirtAddr at{head.r_map};
    while (at && !result_.truncated) at = add_entry(at, link_namespace);
  }
  void mark_truncated() { result_.truncated = true; }
  LinkMap take() { return std::move(result_); }

 private:
  // The next one's address.
  VirtAddr add_entry(VirtAddr at, int link_namespace) {
    auto entry = memory_.read_value<LinkMapHead>(at);
    // One set for all namespaces: no struct is in two lists.
    if (!entry || result_.entries.size() >= kMaxEntries || names_ >= kMaxNames || !seen_.insert(at).second) {
      mark_truncated();
      return {};
    }
    std::string name;
    if (entry->l_name != 0)
      if (auto text = memory_.read_c_string({entry->l_name}, kMaxNameLength)) name = std::move(text->text);
    names_ += name.size();
    result_.entries.push_back({at, {entry->l_addr}, {entry->l_ld}, std::move(name), link_namespace});
    return {entry->l_next};
  }

  const Memory& memory_;
  LinkMap result_;
  std::unordered_set<VirtAddr> seen_;
  size_t names_ = 0;
};

}  // namespace

std::optional<Rendezvous> Rendezvous::find(const Memory& memory, VirtAddr dynamic) {
  std::array<Elf64_Dyn, kDynamicAtOnce> entries{};
  for (size_t first = 0; first < kMaxDynamicEntries; first += entries.size()) {
    const size_t got =
        memory.read(dynamic + first * sizeof(Elf64_Dyn), std::as_writable_bytes(std::span(entries)));
    for (size_t i = 0; i < got / sizeof(Elf64_Dyn); ++i) {
      if (entries[i].d_tag == DT_NULL) return std::nullopt;
      if (entries[i].d_tag != DT_DEBUG) continue;
      if (entries[i].d_un.d_ptr == 0) return std::nullopt;
      return Rendezvous(VirtAddr{entries[i].d_un.d_ptr});
    }
    if (got < sizeof entries) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<VirtAddr> Rendezvous::breakpoint(const Memory& memory) const {
  auto head = read_head(memory, r_debug_);
  if (!head || head->r_brk == 0) return std::nullopt;
  return VirtAddr{head->r_brk};
}

std::optional<LinkState> Rendezvous::state(const Memory& memory) const {
  const auto head = read_head(memory, r_debug_);
  return head ? std::optional(static_cast<LinkState>(head->r_state)) : std::nullopt;
}

std::optional<LinkMap> Rendezvous::read(const Memory& memory) const {
  auto head = read_head(memory, r_debug_);
  if (!head) return std::nullopt;
  Walk walk(memory);
  walk.add_namespace(*head, 0);
  // glibc publishes the members of a new namespace before it links it in, and never unlinks one.
  int32_t version = head->r_version;
  VirtAddr at = r_debug_;
  for (int number = 1; version >= 2; ++number) {
    auto next = memory.read_value<uint64_t>(at + offsetof(r_debug_extended, r_next));
    if (next == uint64_t{0}) break;
    head = next ? read_head(memory, VirtAddr{*next}) : std::nullopt;
    if (!head || number >= kMaxNamespaces) {
      walk.mark_truncated();
      break;
    }
    at = VirtAddr{*next};
    walk.add_namespace(*head, number);
  }
  return walk.take();
}

Changes diff(const LinkMap& before, const LinkMap& after) {
  // Of each side, what the other one lacks. Sorted copies of pointers: link maps of some thousand entries
  // exist.
  auto missing_in = [](const LinkMap& from, const LinkMap& other) {
    std::vector<const LinkMapEntry*> known;
    for (const LinkMapEntry& entry : other.entries) known.push_back(&entry);
    auto less = [](const LinkMapEntry* a, const LinkMapEntry* b) { return *a < *b; };
    std::sort(known.begin(), known.end(), less);
    std::vector<LinkMapEntry> missing;
    for (const LinkMapEntry& entry : from.entries)
      if (!std::binary_search(known.begin(), known.end(), &entry, less)) missing.push_back(entry);
    return missing;
  };
  return {.added = missing_in(after, before), .removed = missing_in(before, after)};
}

}  // namespace rtrace::loader
