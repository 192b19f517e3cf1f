#include "rtrace/loader/rendezvous.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
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
  uint64_t r_next;  // r_debug_extended's: r_version 2
};
static_assert(offsetof(DebugHead, r_next) == offsetof(r_debug_extended, r_next) &&
              offsetof(DebugHead, r_brk) == offsetof(r_debug, r_brk) &&
              offsetof(DebugHead, r_state) == offsetof(r_debug, r_state));

constexpr int kMaxNamespaces = 64;          // glibc's DL_NNS is 16
constexpr size_t kMaxDynamicEntries = 512;  // few objects have more than 40
constexpr size_t kDynamicAtOnce = 64;
constexpr size_t kShortName = 256;
constexpr size_t kPage = 4096;
constexpr uint64_t kUnreadable = ~uint64_t{0};  // as a pointer

// Zero before the dynamic linker has filled it in; any positive version keeps the members above. r_next lies
// behind them from version 2 of the first one on.
std::optional<DebugHead> read_head(const Memory& memory, VirtAddr r_debug) {
  DebugHead head{};
  const size_t got = memory.read(r_debug, std::as_writable_bytes(std::span(&head, 1)));
  if (got < offsetof(DebugHead, r_next) || head.r_version < 1 || head.r_version > 1000 ||
      head.r_state > static_cast<uint32_t>(LinkState::deleting))
    return std::nullopt;
  if (got < sizeof head) head.r_next = kUnreadable;
  return head;
}

class Walk {
 public:
  explicit Walk(const Memory& memory) : memory_(memory) {}

  void add_namespace(const DebugHead& head, int link_namespace) {
    if (result_.state == LinkState::consistent) result_.state = static_cast<LinkState>(head.r_state);
    VirtAddr at{head.r_map};
    auto entry = at ? memory_.read_value<LinkMapHead>(at) : std::nullopt;
    while (at) {
      // One set for all namespaces: no struct is in two lists.
      if (!entry || result_.entries.size() >= kMaxEntries || names_ >= kMaxNames || !seen_.insert(at).second)
        return mark_truncated();
      Following following = follow(*entry);
      names_ += following.name.size();
      result_.entries.push_back(
          {at, {entry->l_addr}, {entry->l_ld}, std::move(following.name), link_namespace});
      at = VirtAddr{entry->l_next};
      entry = following.next;
    }
  }
  void mark_truncated() { result_.truncated = true; }
  LinkMap take() { return std::move(result_); }

 private:
  struct Following {
    std::string name;
    std::optional<LinkMapHead> next;
  };
  // What an entry leads to, in one read: nearly all names are short.
  Following follow(const LinkMapHead& entry) const {
    Following following;
    LinkMapHead next{};
    std::array<std::byte, kShortName> name{};
    const VirtAddr name_at{entry.l_name};
    std::array<Memory::Piece, 2> pieces{};
    if (entry.l_next != 0) pieces[0] = {{entry.l_next}, reinterpret_cast<std::byte*>(&next), sizeof next};
    if (entry.l_name != 0)
      pieces[1] = {name_at, name.data(), std::min(name.size(), kPage - name_at.value % kPage)};
    memory_.read_gathered(pieces);
    if (entry.l_next != 0 && pieces[0].got == sizeof next) following.next = next;
    const auto* text = reinterpret_cast<const char*>(name.data());
    const size_t length = strnlen(text, pieces[1].got);
    if (length < pieces[1].got) {
      following.name.assign(text, length);
    } else if (entry.l_name != 0) {
      if (auto longer = memory_.read_c_string(name_at, kMaxNameLength))
        following.name = std::move(longer->text);
    }
    return following;
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

bool Rendezvous::begun(const Memory& memory) const {
  return memory.read_value<int32_t>(r_debug_ + offsetof(DebugHead, r_version)) != 0;
}

std::optional<LinkMap> Rendezvous::read(const Memory& memory, WhileChanging changing) const {
  auto head = read_head(memory, r_debug_);
  if (!head) return std::nullopt;
  if (changing == WhileChanging::state_only && head->r_state != static_cast<uint32_t>(LinkState::consistent))
    return LinkMap{.entries = {}, .state = static_cast<LinkState>(head->r_state), .truncated = false};
  Walk walk(memory);
  walk.add_namespace(*head, 0);
  // glibc publishes the members of a new namespace before it links it in, and never unlinks one.
  const bool linked = head->r_version >= 2;
  for (int number = 1; linked && head->r_next != 0; ++number) {
    head = read_head(memory, VirtAddr{head->r_next});
    if (!head || number >= kMaxNamespaces) {
      walk.mark_truncated();
      break;
    }
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
