// How int3s come to stand in an address space: several at once where that can be, for each write to the
// process is a system call.
#include <algorithm>
#include <set>

#include "int3.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/base/text.h"
#include "rtrace/mech/address_space.h"

namespace rtrace::mech {

InstallAnswer AddressSpace::install(VirtAddr address, std::span<const std::byte> expected) {
  const Wanted wanted{address, expected};
  return install_together({&wanted, 1}).front();
}

std::vector<InstallAnswer> AddressSpace::install_together(std::span<const Wanted> wanted) {
  std::vector<InstallAnswer> answers(wanted.size());
  const auto codes = own_codes(wanted);
  std::vector<Prepared> prepared;
  std::set<VirtAddr> places;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const VirtAddr address = wanted[i].address;
    if (BreakpointSite* there = find(address)) serve(*there, wanted[i]);
    if (find(address) != nullptr || !places.insert(address).second) continue;
    Prepared site{.index = i, .before = prepared.size()};
    if (auto refusal = prepare(site, wanted[i], codes[i])) answers[i] = *std::move(refusal);
    if (site.site == nullptr) continue;
    site.site->signal_call = wanted[i].signal_call;
    site.site->alone = wanted[i].alone;
    site.site->begins = wanted[i].begins;
    prepared.push_back(std::move(site));
  }
  write_copies(prepared);
  write(prepared, answers);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (BreakpointSite* site = find(wanted[i].address)) answers[i] = Installed{site};
  return answers;
}

// A site that stands for something else is to watch such a call too.
void AddressSpace::serve(BreakpointSite& site, const Wanted& wanted) {
  if (std::exchange(site.resting, false)) (void)memory_.write(site.address, one(kInt3));
  if (wanted.signal_call == agent::SignalCall::none) return;
  site.signal_call = wanted.signal_call;
  site.alone = wanted.alone;
  site.begins = wanted.begins;
  const auto entry = Foothold::entry_of(site.address, site.copy, site.saved, site.carried());
  if (site.copy) foothold_.add_sites(memory_, {&entry, 1});
  if (handler_stands_ && site.stands_in()) ledger_.stands_in(site.patch);
}

// Shorter where memory ends.
std::vector<std::vector<std::byte>> AddressSpace::own_codes(std::span<const Wanted> wanted) const {
  std::vector<std::vector<std::byte>> codes(wanted.size(), std::vector<std::byte>(arch::kMaxInsn));
  std::vector<tracee::ProcessMemory::Piece> pieces;
  for (size_t i = 0; i < wanted.size(); ++i)
    pieces.push_back({wanted[i].address, codes[i].data(), codes[i].size()});
  memory_.read_gathered(pieces);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (pieces[i].got == 0) pieces[i].got = memory_.read_forced(wanted[i].address, codes[i]);
    codes[i].resize(pieces[i].got);
    show_own(wanted[i].address, codes[i]);
  }
  return codes;
}

// Whether the byte before the way on is an int3, as in padding. To the handler, and to who repairs, a thread
// there with a SIGTRAP that we did not live to answer has met an int3 of the program's own.
static bool leads_behind_int3(const arch::Emulation& emulation, std::span<const std::byte> code,
                              const tracee::ProcessMemory& memory) {
  if (emulation.kind != arch::Emulation::Kind::jump) return code[emulation.length - 1] == kInt3;
  std::byte before{};
  return memory.read(emulation.target - 1, {&before, 1}) == 1 && before == kInt3;
}

// Nothing is written yet. Without a site there is an answer.
std::optional<InstallAnswer> AddressSpace::prepare(Prepared& prepared, const Wanted& wanted,
                                                   std::span<const std::byte> code) {
  if (abandoned_) return Declined{"the process has begun another program"};
  removed_.erase(wanted.address);
  if (code.empty()) return Declined{"its memory cannot be read"};
  if (code[0] == kInt3) return Declined{"an int3 that is not ours stands there"};
  const auto insn = arch::decode(code, wanted.address);
  if (!insn) return Declined{"no valid instruction: " + arch::disassemble(code, wanted.address)};
  const size_t compare = std::min<size_t>(insn->length, wanted.expected.size());
  if (!std::ranges::equal(wanted.expected.first(compare), code.first(compare)))
    return Declined{"the code in memory is not the file's"};
  auto site = std::make_unique<BreakpointSite>();
  site->address = wanted.address;
  site->saved = code[0];
  site->emulation = arch::emulation_for(code, wanted.address);
  auto refusal = prepare_copy(prepared, *site, code);
  // The handler leads threads to copies: where it stands, what has none for want of room would end them.
  if (refusal && refusal->reason.empty() && (!site->emulation || handler_stands_))
    return Busy{"no room for an out-of-line copy near it yet"};
  if (refusal && !site->emulation) return *refusal;
  if (!refusal && site->emulation && leads_behind_int3(*site->emulation, code, memory_))
    site->emulation.reset();
  prepared.site = std::move(site);
  return std::nullopt;
}

// An empty reason: no room for it, or none for what the handler is told of it.
std::optional<Declined> AddressSpace::prepare_copy(Prepared& prepared, BreakpointSite& site,
                                                   std::span<const std::byte> code) {
  if (!foothold_.table_has_room(prepared.before + 1)) return Declined{};
  prepared.reserved = arch::out_of_line_bound(code);
  auto copy = foothold_.allocate(site.address, prepared.reserved);
  if (!copy) return Declined{};
  auto relocated = arch::relocate(code, site.address, *copy);
  if (const auto* refused = std::get_if<arch::Refused>(&relocated)) return Declined{refused->reason};
  auto& out_of_line = std::get<arch::OutOfLine>(relocated);
  prepared.copy.assign(out_of_line.code.begin(), out_of_line.code.end());
  site.copy = *copy;
  site.copy_size = static_cast<uint8_t>(prepared.copy.size());
  site.points = std::move(out_of_line.points);
  return std::nullopt;
}

// Those whose places follow one another in one piece, and no copy fills its place. Without its copy a site
// has what emulates it, or none.
void AddressSpace::write_copies(std::span<Prepared> prepared) const {
  for (size_t first = 0, next = 0; first < prepared.size(); first = next) {
    std::vector<std::byte> bytes;
    const VirtAddr begin = prepared[first].site->copy;
    uint64_t offset = 0;
    for (next = first; next < prepared.size(); ++next) {
      const auto& [index, before, site, copy, reserved] = prepared[next];
      if (next != first && (!begin || site->copy != begin + offset)) break;
      bytes.resize(offset, kInt3);
      bytes.insert(bytes.end(), copy.begin(), copy.end());
      offset += align_up(reserved, CodeArena::kAlignment);
    }
    if (!begin || memory_.write(begin, bytes) == 0) continue;
    for (Prepared& without : prepared.subspan(first, next - first)) {
      without.site->copy = {};
      without.site->copy_size = 0;
      without.site->points.clear();
    }
  }
}

// The int3s, when all is known that those need who meet them.
void AddressSpace::write(std::span<Prepared> prepared, std::span<InstallAnswer> answers) {
  std::vector<agent::SiteEntry> entries;
  for (Prepared& one_site : prepared) {
    BreakpointSite& site = *one_site.site;
    const bool passes = site.copy || site.emulation;
    if (passes) site.patch = ledger_.publish(pid(), site.address, one(site.saved), one(kInt3));
    if (handler_stands_ && site.stands_in()) ledger_.stands_in(site.patch);
    if (!passes) answers[one_site.index] = Declined{"its out-of-line copy cannot be written"};
    if (passes && site.copy && site.patch != PatchLedger::kNone)
      entries.push_back(Foothold::entry_of(site.address, site.copy, site.saved, site.carried()));
  }
  foothold_.add_sites(memory_, entries);
  for (Prepared& one_site : prepared) {
    BreakpointSite& site = *one_site.site;
    if (!site.copy && !site.emulation) continue;
    const moment::Scope writing(Moment::byte_write);
    if (site.patch == PatchLedger::kNone || memory_.write(site.address, one(kInt3)) != 0) {
      if (site.patch != PatchLedger::kNone) ledger_.withdraw(site.patch);
      answers[one_site.index] = Declined{"its code cannot be written"};
      continue;
    }
    for (uint64_t offset = 0; offset < site.copy_size; offset += CodeArena::kAlignment)
      copies_[site.copy + offset] = &site;
    RTRACE_LOG(mech, 2, "site {} in {}, copy {}", site.address, pid(), site.copy);
    sites_.emplace(site.address, std::move(one_site.site));
  }
}

}  // namespace rtrace::mech
