// Where an image watches what the program does with SIGTRAP.
#include <sys/syscall.h>

#include <algorithm>
#include <map>

#include "image.h"
#include "mask_syscalls.h"
#include "rtrace/tracee/thread.h"
#include "sigtrap.h"

namespace rtrace::session {

// Where the program asks for signal state, or changes it, in an object that lies there.
struct Image::SignalWatch {
  VirtAddr address;
  Range object;
  SignalCall::Kind kind;
  bool alone;           // no other function can be meant
  bool begins = false;  // what others end
};

// `at_rest`: where that can be.
void Image::watch(std::vector<SignalWatch> watches, const NeedStopped& need_stopped, bool at_rest) {
  std::map<VirtAddr, bool> room;  // by the object's beginning
  std::erase_if(watches, [&](const SignalWatch& one) {
    if (!why_not_writable(one.address).empty()) return true;
    const auto [known, fresh] = room.try_emplace(one.object.begin, false);
    if (fresh) known->second = provide_room(one.object, watches.size(), need_stopped).empty();
    return !known->second;
  });
  const auto place = [&] {
    // Some may have been unloaded while a thread was stopped for that.
    std::erase_if(watches, [&](const SignalWatch& one) { return object_at(one.address) == nullptr; });
    std::vector<mech::AddressSpace::Wanted> wanted;
    for (const SignalWatch& one : watches)
      wanted.push_back({one.address, file_bytes(one.address), one.kind, one.alone, one.begins});
    (void)space_->install_together(wanted);
  };
  if (watches.empty()) return;
  if (!at_rest || !need_stopped.at_rest(place)) place();
}

// The only object that exports these, if with versions: callers that need others mean something else.
static const elf::ElfFile* definer_by_version(const plan::Objects& objects,
                                              const std::vector<std::string_view>& names) {
  const elf::ElfFile* found = nullptr;
  for (const auto& object : objects) {
    for (std::string_view name : names) {
      const auto symbol = object.file->find_exported(name);
      if (!symbol) continue;
      if (symbol->version.empty() || (found != nullptr && found != object.file.get())) return nullptr;
      found = object.file.get();
    }
  }
  return found;
}

// Where functions of that name begin, and the objects that they are in.
std::vector<Image::Definer> Image::definers(std::string_view name) const {
  std::vector<Definer> found;
  for (const auto& definer : objects_)
    if (const auto defined = definer.file->find_exported(name); defined && !defined->ifunc)
      found.push_back({definer.at(defined->address), definer.range(), definer.link_namespace});
  return found;
}

std::optional<int> Image::namespace_of(VirtAddr address) const {
  const elf::LoadedObject* object = object_at(address);
  return object != nullptr ? std::optional(object->link_namespace) : std::nullopt;
}

// Whether a call from that namespace can mean but one of them.
static bool is_alone(const auto& definers, int link_namespace) {
  return std::ranges::count(definers, link_namespace,
                            [](const auto& definer) { return definer.link_namespace; }) == 1;
}

// What it is made of stands beside it. In code of ours other than a copy no thread is at setting an action.
bool Image::may_be_in_sigaction(pid_t tid) const {
  constexpr uint64_t kNear = 0x1000;
  auto regs = tracee::registers(tid);
  if (!regs) return true;
  const auto number = static_cast<int64_t>(regs->raw.orig_rax);
  if (number >= 0 && number != SYS_rt_sigaction) return false;
  (void)space_->to_program(*regs);
  const auto near = [&](const auto& definer) {
    return regs->pc().value - (definer.function.value - kNear) < 2 * kNear;
  };
  return std::ranges::any_of(definers("sigaction"), near);
}

// Behind the stub's first instruction, or in the function before its system call.
bool Image::is_about_to_set_mask(pid_t tid) const {
  constexpr uint64_t kInFunction = 0x100, kInStub = 16;
  auto regs = tracee::registers(tid);
  if (!regs || static_cast<int64_t>(regs->raw.orig_rax) >= 0) return !regs;
  (void)space_->to_program(*regs);
  const auto within = [&](uint64_t size) {
    return [pc = regs->pc(), size](VirtAddr begin) { return pc >= begin && pc - begin < size; };
  };
  return std::ranges::any_of(mask_functions_, within(kInFunction)) ||
         std::ranges::any_of(mask_stubs_, within(kInStub));
}

bool Image::may_carry_out(const mech::BreakpointSite& site) const {
  if (!site.alone) return false;
  if (site.signal_call == SignalCall::Kind::mask_syscall) return true;
  if (tracee::has_shadow_stack(pid_)) return false;  // it would have to be returned through
  const auto is_own = [&](VirtAddr function) {
    const auto own = file_bytes(function).first(1);
    std::vector<std::byte> now(own.size());
    return space_->memory().read(function, now) == now.size() && std::ranges::equal(now, own);
  };
  const std::optional<int> own_namespace = namespace_of(site.address);
  for (const SignalCall& call : signal_calls()) {
    if (call.kind != site.signal_call) continue;
    for (const auto& [function, range, link_namespace] : definers(call.name)) {
      if (link_namespace != own_namespace) continue;
      if (function == site.address) return true;  // behind it there are but those that came before
      if (!is_own(function)) return false;
    }
  }
  return true;
}

// As signal() does: there what its own breakpoint has cost is put right, and nothing has been changed yet.
bool Image::calls_watched_sigaction(const mech::BreakpointSite& site) const {
  const std::optional<int> own_namespace = namespace_of(site.address);
  return std::ranges::any_of(definers("sigaction"), [&](const Definer& definer) {
    const mech::BreakpointSite* inner = space_->find(definer.function);
    return definer.link_namespace == own_namespace && inner != nullptr && inner->watches_signals() &&
           any_insn_of(site.address, [&](const arch::Insn& insn) { return insn.target == definer.function; });
  });
}

bool Image::leads_to_watch(const mech::BreakpointSite& site) const {
  using Kind = SignalCall::Kind;
  constexpr auto kMask = Kind::mask;  // of which one is made of the other
  if (site.signal_call == Kind::signal || site.signal_call == Kind::ignore)
    return calls_watched_sigaction(site);
  if (site.signal_call != kMask) return false;
  bool leads = false;
  const std::optional<int> own_namespace = namespace_of(site.address);
  for (const SignalCall& call : signal_calls()) {
    if (call.kind != kMask) continue;
    for (const auto& [function, range, link_namespace] : definers(call.name)) {
      if (link_namespace != own_namespace) continue;
      // Another's function of the name may be made of nothing.
      if (function == site.address) return leads && site.alone;
      const mech::BreakpointSite* inner = space_->find(function);
      leads |= inner != nullptr && inner->watches_signals();
    }
  }
  return leads;
}

// One at which something stands is passed: then not the caller's stub but the function behind it all is where
// the call is carried out, by us or by the handler.
void Image::watch_traced_masks(const NeedStopped& need_stopped) {
  std::vector<SignalWatch> watches;
  bool traced = false;
  for (const SignalCall& call : signal_calls()) {
    const bool masks = call.kind == SignalCall::Kind::mask;
    const auto functions = masks ? definers(call.name) : std::vector<Definer>{};
    for (const auto& [address, range, link_namespace] : functions) {
      const mech::BreakpointSite* site = space_->find(address);
      traced |= site != nullptr;
      if (site == nullptr || !site->watches_signals())
        watches.push_back({address, range, call.kind, is_alone(functions, link_namespace)});
    }
  }
  if (traced && !watches.empty()) watch(std::move(watches), need_stopped);
}

static bool changes_signal_state(const elf::LoadedObject& object) {
  return object.file->find_exported("sigaction") && object.file->find_exported("pthread_sigmask");
}

// While it makes a thread or a process, or a thread ends, all is blocked, past those functions, and what was
// blocked before is blocked again: what is probed in it is met between.
void Image::watch_raw_calls(const elf::LoadedObject& object, Blocking which,
                            const NeedStopped& need_stopped) {
  constexpr uint64_t kNear = 0x1000;  // what is static in a file of source stands beside what is not
  // Where nothing is carried out what ends a section would be met with SIGTRAP blocked.
  if (services_.options.syscalls || survival_.is_without_default() || !changes_signal_state(object)) return;
  std::vector<SignalWatch> watches;
  for (std::string_view name : {"posix_spawn", "pthread_create", "pthread_kill"}) {
    const auto function = object.file->find_exported(name);
    if (!function || function->ifunc || function->address.value < kNear) continue;
    const ElfAddr beside = function->address - kNear;
    for (const auto& [at, blocks] :
         find_mask_syscalls(object.file->bytes_at(beside, 2 * kNear), object.at(beside)))
      if (blocks == (which == Blocking::yes) && space_->find(at) == nullptr && object.maps_executable(at))
        watches.push_back({at, object.range(), SignalCall::Kind::mask_syscall, true, blocks});
  }
  watch(std::move(watches), need_stopped);
}

std::vector<VirtAddr> Image::mask_functions() const {
  std::vector<VirtAddr> found;
  for (const SignalCall& call : signal_calls()) {
    if (call.kind != SignalCall::Kind::mask) continue;
    for (const Definer& definer : definers(call.name)) found.push_back(definer.function);
  }
  return found;
}

// What a call of them means hangs on who defines them. Who attaches while a program's libraries are being
// loaded may meet those that call before the one that is called.
void Image::watch_signal_calls(const plan::Objects& added, const NeedStopped& need_stopped) {
  auto now = mask_functions();
  const bool all = now != mask_functions_;
  mask_functions_ = std::move(now);
  const plan::Objects objects = all ? objects_ : added;
  std::vector<SignalWatch> watches;
  mask_stubs_.clear();
  // Masks first: were we to die in between, who blocks all signals and sets an action would meet the others.
  for (const auto& object : objects) add_masks(object, watches);
  for (const auto& object : objects)
    if (changes_signal_state(object)) add_actions(object, watches);
  watch(std::move(watches), need_stopped, true);
}

// Who begins a program in this memory, and is not followed, must do that untraced.
void Image::watch_execve(const plan::Objects& added, const NeedStopped& need_stopped) {
  for (const auto& object : added) {
    const auto symbol = changes_signal_state(object) ? object.file->find_exported("execve") : std::nullopt;
    if (!symbol || symbol->ifunc) continue;
    const VirtAddr address = object.at(symbol->address);
    if (!why_not_writable(address).empty() || !provide_room(object.range(), 1, need_stopped).empty())
      continue;
    auto answer = space_->install(address, file_bytes(address));
    if (auto* installed = std::get_if<mech::Installed>(&answer))
      installed->site->executes = watches_execve_ = true;
  }
}

// What the recorder takes of the process's addresses counts for a limit that is set from now on.
void Image::watch_limits(const NeedStopped& need_stopped) {
  for (const auto& [name, argument] : {std::pair("setrlimit", 1), {"prlimit", 2}, {"prlimit64", 2}})
    for (const auto& [address, range, link_namespace] : definers(name)) {
      if (!why_not_writable(address).empty() || !provide_room(range, 1, need_stopped).empty()) continue;
      auto answer = space_->install(address, file_bytes(address));
      if (auto* installed = std::get_if<mech::Installed>(&answer))
        installed->site->limits = static_cast<uint8_t>(argument);
    }
}

// Only the C library changes signal state for others.
void Image::add_actions(const elf::LoadedObject& object, std::vector<SignalWatch>& watches) const {
  for (const SignalCall& call : signal_calls()) {
    if (call.kind == SignalCall::Kind::mask) continue;
    const auto symbol = object.file->find_exported(call.name);
    if (symbol && !symbol->ifunc)
      watches.push_back({object.at(symbol->address), object.range(), call.kind, true});
  }
}

// The C library also blocks all signals for a moment for its own ends (posix_spawn): masks are watched where
// others call, and at the function itself only for callers that have no stub.
void Image::add_masks(const elf::LoadedObject& object, std::vector<SignalWatch>& watches) {
  constexpr auto kMask = SignalCall::Kind::mask;
  std::vector<std::string_view> of_masks;
  for (const SignalCall& call : signal_calls())
    if (call.kind == kMask) of_masks.push_back(call.name);
  const elf::ElfFile* by = definer_by_version(objects_, of_masks);
  for (const elf::CallSlot& slot : object.file->find_call_slots(of_masks, by)) {
    const auto functions = definers(slot.name);
    const bool alone = is_alone(functions, object.link_namespace);
    if (slot.stub) watches.push_back({object.at(*slot.stub), object.range(), kMask, alone});
    if (slot.stub) mask_stubs_.push_back(object.at(*slot.stub));
    if (slot.stub && !slot.called_directly) continue;
    for (const auto& [address, range, link_namespace] : functions)
      if (link_namespace == object.link_namespace) watches.push_back({address, range, kMask, alone});
  }
}

}  // namespace rtrace::session
