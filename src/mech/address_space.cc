#include "rtrace/mech/address_space.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "int3.h"
#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/descriptor_limit.h"

namespace rtrace::mech {

AddressSpace::AddressSpace(pid_t pid, PatchLedger& ledger)
    : memory_(pid), ledger_(ledger), foothold_(ledger.session()) {
  if (!tracee::leaves_descriptors(memory_.descriptor()))
    throw Error::make("too many open files: each process that is traced takes one (RLIMIT_NOFILE)");
}

AddressSpace::~AddressSpace() {
  forget_all();
}

BreakpointSite* AddressSpace::find(VirtAddr address) {
  auto found = sites_.find(address);
  return found == sites_.end() ? nullptr : found->second.get();
}

BreakpointSite* AddressSpace::hit(const arch::Regs& regs) {
  return find(arch::pc_at_breakpoint(regs));
}

bool AddressSpace::has_room(VirtAddr near, size_t sites) const {
  return foothold_.has_room(near, sites);
}

std::string AddressSpace::make_room(Range near, size_t sites, pid_t stopped,
                                    const std::vector<tracee::MapsEntry>& maps, Range slack,
                                    std::function<void(tracee::RemoteCall&)> when_begun) {
  return foothold_.make_room({memory_, ledger_, stopped, slack, std::move(when_begun)}, near, sites, maps);
}

std::string AddressSpace::unmap_copies(pid_t stopped, Range slack) {
  foothold_.will_borrow(memory_, slack);
  std::string failure = unmap_copies_of(memory_, stopped, slack);
  if (failure.empty()) foothold_.forget_mapped();
  return failure;
}

std::string AddressSpace::unmap_copies_of(const tracee::ProcessMemory& child, pid_t stopped,
                                          Range slack) const {
  return foothold_.leave({child, ledger_, stopped, slack});
}

std::string AddressSpace::part_copies_of(const tracee::ProcessMemory& child, pid_t stopped,
                                         Range slack) const {
  return foothold_.part({child, ledger_, stopped, slack}, memory_);
}

bool AddressSpace::complete_child(const tracee::ProcessMemory& child, pid_t stopped) const {
  if (foothold_.is_whole_in(child)) return true;
  if (tracee::forbids_calls(stopped)) return false;
  const std::string failure = foothold_.complete_child({child, ledger_, stopped, {}}, memory_);
  RTRACE_LOG(mech, 1, "pages of {} for its child {}: {}", memory_.pid(), stopped, failure);
  return failure.empty();
}

std::string AddressSpace::part_copies(pid_t stopped, Range slack, const Foothold::Pieces& kept) {
  foothold_.will_borrow(memory_, slack);
  return foothold_.part_for_good({memory_, ledger_, stopped, slack}, kept);
}

std::string AddressSpace::unmap_rings(pid_t stopped, Range slack) {
  foothold_.will_borrow(memory_, slack);
  return foothold_.unmap_rings({memory_, ledger_, stopped, slack});
}

std::vector<std::byte> AddressSpace::own_code(VirtAddr address, size_t size) const {
  std::vector<std::byte> code(size);
  size_t got = memory_.read(address, code);
  if (got == 0) got = memory_.read_forced(address, code);
  code.resize(got);
  show_own(address, code);
  return code;
}

// What sites have displaced in it.
void AddressSpace::show_own(VirtAddr address, std::span<std::byte> code) const {
  for (size_t i = 0; i < code.size(); ++i)
    if (auto site = sites_.find(address + i); site != sites_.end()) code[i] = site->second->saved;
}

bool AddressSpace::has_others_in(Range range, VirtAddr entry) const {
  for (VirtAddr at = range.begin; at < range.end; at = at + 1)
    if (at != entry && sites_.contains(at)) return true;
  return false;
}

bool AddressSpace::pass(const BreakpointSite& site, arch::Regs& regs) const {
  const arch::Regs before = regs;
  if (site.emulation && (site.emulation->registers_only() || !site.copy) &&
      arch::emulate(*site.emulation, site.address, regs, memory_)) {
    // One past another site means "met it, not passed" to whoever finds the thread after our death.
    if (!site.copy || !sites_.contains(regs.pc() - 1)) return true;
    regs = before;
  }
  regs.set_pc(site.copy ? site.copy : site.address);
  return static_cast<bool>(site.copy);
}

AddressSpace::Translation AddressSpace::to_program(arch::Regs& regs) const {
  const VirtAddr pc = regs.pc();
  auto found = copies_.find(VirtAddr{pc.value / CodeArena::kAlignment * CodeArena::kAlignment});
  if (found == copies_.end()) return {};
  const BreakpointSite& site = *found->second;
  const uint64_t offset = pc - site.copy;
  for (const arch::ResumePoint& point : site.points) {
    if (point.offset != offset) continue;
    regs.set_pc(point.address);
    regs.set_sp(VirtAddr{regs.sp().value + static_cast<uint64_t>(int64_t{point.sp_adjust})});
    return {true, point.address == site.address ? &site : nullptr};
  }
  return {};
}

bool AddressSpace::is_behind(const arch::Regs& regs) const {
  arch::Regs program = regs;
  const Translation translation = to_program(program);
  return translation.changed && translation.replayed == nullptr;
}

static bool holds_int3(const tracee::ProcessMemory& memory, VirtAddr address) {
  std::byte now{};
  return memory.read_forced(address, {&now, 1}) == 1 && now == kInt3;
}

void AddressSpace::forget(Range range) {
  semaphores_.forget(range, memory_, foothold_, ledger_);
  std::erase_if(sites_, [&](const auto& entry) {
    BreakpointSite& site = *entry.second;
    if (!range.contains(site.address)) return false;
    if (!holds_int3(memory_, site.address)) return forget_site(site), true;
    BreakpointSite ownerless;
    ownerless.address = site.address;
    ownerless.saved = site.saved;
    ownerless.emulation = site.emulation;
    ownerless.copy = site.copy;
    ownerless.points = std::move(site.points);
    ownerless.copy_size = site.copy_size;
    ownerless.patch = site.patch;
    ownerless.stray = true;
    site = std::move(ownerless);
    return false;
  });
}

std::vector<VirtAddr> AddressSpace::strays() const {
  std::vector<VirtAddr> found;
  for (const auto& [address, site] : sites_)
    if (site->stray) found.push_back(address);
  return found;
}

bool AddressSpace::is_code(VirtAddr address, std::span<const std::byte> code) const {
  const auto insn = arch::decode(code, address);
  const auto there = own_code(address, arch::kMaxInsn);
  return insn && there.size() >= insn->length &&
         std::equal(code.begin(), code.begin() + insn->length, there.begin());
}

void AddressSpace::drop_gone_strays() {
  std::erase_if(sites_, [&](const auto& entry) {
    const BreakpointSite& site = *entry.second;
    const bool goes = site.stray && !holds_int3(memory_, site.address);
    if (goes) forget_site(site);
    return goes;
  });
}

// What is left in the process, and in the tables, of one whose int3 does not stand, or is somebody else's.
void AddressSpace::forget_site(const BreakpointSite& site) {
  for (uint64_t offset = 0; offset < site.copy_size; offset += CodeArena::kAlignment)
    copies_.erase(site.copy + offset);
  if (site.copy) foothold_.release(site.copy, site.copy_size);
  foothold_.remove_site(memory_, site.address);
  ledger_.withdraw(site.patch);
}

void AddressSpace::give_up(VirtAddr address) {
  if (const BreakpointSite* site = find(address)) take_out(address, site->saved);
}

void AddressSpace::take_out(VirtAddr address, std::byte own) {
  auto found = sites_.find(address);
  if (found == sites_.end()) return;
  if (holds_int3(memory_, address) && memory_.write(address, one(own)) == 0) removed_.insert(address);
  forget_site(*found->second);
  sites_.erase(found);
}

void AddressSpace::remove_probe(VirtAddr site, const BreakpointSite::Owner& owner) {
  BreakpointSite* from = find(site);
  if (from == nullptr) return;
  std::erase(from->probes, owner);
  if (from->probes.empty() && !from->serves_other_than_probes()) give_up(site);
}

void AddressSpace::remove_probes_of(elf::ObjectId caller) {
  for (auto& [address, site] : sites_)
    std::erase_if(site->probes, [&](const BreakpointSite::Owner& owner) { return owner.caller == caller; });
}

void AddressSpace::give_up_returns(const std::unordered_set<VirtAddr>& awaited,
                                   std::span<const VirtAddr> standing) {
  // In its copy; or behind the int3, whose SIGTRAP is still to come: were we to die, nobody would know of
  // what.
  const auto is_needed = [&](const BreakpointSite& site) {
    const Range copy{site.copy, site.copy + site.copy_size};
    return std::ranges::any_of(
        standing, [&](VirtAddr pc) { return pc == site.address + 1 || (site.copy && copy.contains(pc)); });
  };
  std::vector<VirtAddr> idle;
  for (const auto& [address, site] : sites_)
    if (site->serves_returns_only() && !awaited.contains(address) && !is_needed(*site))
      idle.push_back(address);
  for (VirtAddr address : idle) give_up(address);
}

bool AddressSpace::met_removed(const arch::Regs& regs) const {
  const VirtAddr address = arch::pc_at_breakpoint(regs);
  return removed_.contains(address) && !holds_int3(memory_, address);
}

void AddressSpace::forget_all() {
  semaphores_.forget_all(ledger_);
  for (auto& [address, site] : sites_) ledger_.withdraw(site->patch);
  sites_.clear();
  copies_.clear();
}

std::vector<const BreakpointSite*> AddressSpace::standing_in(const tracee::ProcessMemory& memory) const {
  std::vector<std::byte> bytes(sites_.size());
  std::vector<const BreakpointSite*> all, standing;
  std::vector<tracee::ProcessMemory::Piece> pieces;
  for (const auto& [address, site] : sites_) {
    pieces.push_back({address, &bytes[pieces.size()], 1});
    all.push_back(site.get());
  }
  memory.read_gathered(pieces);
  for (size_t i = 0; i < all.size(); ++i)
    if (pieces[i].got == 1 ? bytes[i] == kInt3 : holds_int3(memory, all[i]->address))
      standing.push_back(all[i]);
  return standing;
}

// In the order in which they go. What ends a section, and the functions, are met within those of the C
// library; who asks for the action, last, finds none of ours to set back.
static int rank(const BreakpointSite& site) {
  switch (site.signal_call) {
    case agent::SignalCall::none:
      return 0;
    case agent::SignalCall::mask_syscall:
      return site.begins ? 3 : 1;
    case agent::SignalCall::mask:
      return 2;
    case agent::SignalCall::sigaction:
      return 5;
    default:
      return 4;
  }
}

void AddressSpace::restore(const tracee::ProcessMemory& memory, Sites which) const {
  auto standing = standing_in(memory);
  std::ranges::sort(standing, {}, [](const BreakpointSite* site) { return rank(*site); });
  for (const BreakpointSite* site : standing) {
    if (which == Sites::but_signal_calls && site->watches_signals()) break;
    const moment::Scope here(Moment::put_back);
    (void)memory.write(site->address, one(site->saved));
  }
}

void AddressSpace::forget_table() const {
  if (standing_in(memory_).empty()) foothold_.forget_sites(memory_);
}

void AddressSpace::handler_stands(bool stands, bool screens) {
  handler_screens_ = screens;
  const bool either = stands || screens;
  if (std::exchange(handler_stands_, either) == either) return;
  for (const auto& [address, site] : sites_)
    if (site->stands_in()) ledger_.stands_in(site->patch, either);
}

void AddressSpace::rest_mask_syscalls(bool rests) {
  const auto change = [&](bool begins) {
    for (const auto& [address, site] : sites_) {
      const bool watches = site->signal_call == agent::SignalCall::mask_syscall;
      if (!watches || site->begins != begins || !site->probes.empty() || site->return_site) continue;
      site->resting = rests;
      std::byte now{};
      const bool read = memory_.read_forced(address, {&now, 1}) == 1;
      if (read && now == (rests ? kInt3 : site->saved))
        (void)memory_.write(address, one(rests ? site->saved : kInt3));
    }
  };
  // None stands where a section ends while what begins one is not seen.
  change(!rests);
  change(rests);
}

bool AddressSpace::raise_semaphore(VirtAddr semaphore) {
  return !abandoned_ && semaphores_.raise(semaphore, memory_, foothold_, ledger_);
}

void AddressSpace::lower_semaphores() {
  semaphores_.lower(memory_, foothold_, ledger_);
}

void AddressSpace::lower_semaphores_of(const tracee::ProcessMemory& child) const {
  semaphores_.lower_in(child, foothold_);
}

// A fork while sites were being written has copied those that stood by then.
void AddressSpace::complete_from(const AddressSpace& parent) {
  const auto standing = standing_in(memory_);
  if (standing.size() == sites_.size()) return;
  const std::unordered_set<const BreakpointSite*> known(standing.begin(), standing.end());
  for (const auto& [address, site] : sites_) {
    std::byte now{};
    if (known.contains(site.get()) || site->resting || memory_.read_forced(address, {&now, 1}) != 1 ||
        now != site->saved)
      continue;
    std::vector<std::byte> code(site->copy_size);
    const bool copied =
        code.empty() ||
        (parent.memory_.read(site->copy, code) == code.size() && memory_.write(site->copy, code) == 0 &&
         foothold_.add_site(memory_, address, site->copy, site->saved, site->carried()));
    if (copied) (void)memory_.write(address, one(kInt3));
  }
}

std::unique_ptr<AddressSpace> AddressSpace::clone_for(pid_t child) const {
  auto copy = std::make_unique<AddressSpace>(child, ledger_);
  // Remote calls and the handler need the blob.
  if (foothold_.exists() && !foothold_.stands_in(copy->memory_))
    throw Error::make("it was forked while pages of rtrace were being mapped");
  copy->foothold_ = foothold_;
  copy->handler_stands_ = handler_stands_;
  copy->handler_screens_ = handler_screens_;
  foothold_.give_slack_back(copy->memory_);
  copy->semaphores_ = semaphores_.clone_for(child, ledger_);
  for (const auto& [address, site] : sites_) {
    auto twin = std::make_unique<BreakpointSite>(*site);
    twin->patch = ledger_.publish(child, address, one(site->saved), one(kInt3));
    if (handler_stands_ && site->stands_in()) ledger_.stands_in(twin->patch);
    for (uint64_t offset = 0; offset < site->copy_size; offset += CodeArena::kAlignment)
      copy->copies_[site->copy + offset] = twin.get();
    copy->sites_.emplace(address, std::move(twin));
  }
  copy->complete_from(*this);
  return copy;
}

}  // namespace rtrace::mech
