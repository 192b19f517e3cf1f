// Functions that are chosen when their symbol is bound (IFUNC): what their resolvers answer, and the names
// that go with it.
#include <algorithm>

#include "image.h"
#include "rtrace/arch/jump.h"

namespace rtrace::session {

// Whoever binds the symbol first calls the resolver: the dynamic linker at a lazy call or in a dlopen, a
// static program's start-up code, dlsym.
void Image::watch_resolver(VirtAddr resolver, const NeedStopped& need_stopped) {
  if (implementations_.contains(resolver) || !why_not_writable(resolver).empty()) return;
  const elf::LoadedObject* in = object_at(resolver);
  provide_room(in != nullptr ? in->range() : Range{resolver, resolver + 1}, 1, need_stopped);
  auto answer = space_->install(resolver, file_bytes(resolver));
  if (auto* installed = std::get_if<mech::Installed>(&answer)) installed->site->resolver = true;
}

void Image::on_resolver(pid_t tid, const mech::BreakpointSite& site, const arch::Regs& regs,
                        const NeedStopped& need_stopped) {
  if (site.resolved) on_answer(tid, regs, need_stopped);
  if (!site.resolver) return;
  const auto back = space_->memory().read_value<VirtAddr>(regs.sp());
  if (!back || watch_return(*back, need_stopped) != nullptr) return;
  space_->find(*back)->resolved = true;
  std::erase_if(resolving_, [&](const Resolving& one) { return one.tid == tid && one.sp <= regs.sp(); });
  resolving_.push_back({tid, site.address, regs.sp() + sizeof(VirtAddr)});
}

void Image::on_answer(pid_t tid, const arch::Regs& regs, const NeedStopped& need_stopped) {
  auto call = std::ranges::find_if(
      resolving_, [&](const Resolving& one) { return one.tid == tid && one.sp == regs.sp(); });
  if (call == resolving_.end()) return;
  const VirtAddr resolver = call->resolver;
  resolving_.erase(call);
  implementations_[resolver] = VirtAddr{regs.result()};
  if (mech::BreakpointSite* entry = space_->find(resolver)) entry->resolver = false;
  const elf::LoadedObject* in = object_at(resolver);
  if (in == nullptr) return;
  place(plan::make_plan(services_.options.requests, objects_, {*in}, space_->memory(), plan::Relocated::no,
                        implementations_, elsewhere()),
        need_stopped);
  report_armed();
}

// A function that stands wrapped at the address.
std::optional<event::ProbeId> Image::wrapped_at(VirtAddr address) const {
  const auto function = std::ranges::find_if(wrapping_.functions, [&](const WrappedFunction& one) {
    return one.entry == address && !one.through_slot;
  });
  if (function == wrapping_.functions.end()) return std::nullopt;
  const bool stands = std::ranges::any_of(armed_, [&](const auto& point) {
    const Armed& armed = point.second;
    return armed.wrapped && armed.address >= address && armed.address - address < arch::kNearJump;
  });
  return stands ? std::optional(function->probe) : std::nullopt;
}

// What an IFUNC has chosen may stand there under a name of its own. Where nothing has been shown by that name
// yet the IFUNC's takes its place, which is the one that callers know.
bool Image::is_served(const plan::ProbePoint& point) {
  if (point.kind != plan::ProbeKind::entry) return false;
  mech::BreakpointSite* site = space_->find(point.address);
  const auto wrapped = wrapped_at(point.address);
  if (wrapped && services_.registry.is_entry(*wrapped)) {
    services_.registry.serve(*wrapped, point);
    return true;
  }
  if (site == nullptr) return false;
  const auto same = std::ranges::find_if(site->probes, [&](const mech::BreakpointSite::Owner& owner) {
    return owner.caller == point.caller_object && services_.registry.is_entry(owner.probe);
  });
  if (same == site->probes.end()) return false;
  plan::ProbePoint before = point;
  before.name = services_.registry.at(same->probe).label.name;
  const bool is_alias = std::ranges::find(point.aliases, before.name) != point.aliases.end();
  if (!is_alias || services_.registry.stays(same->probe)) {
    services_.registry.serve(same->probe, point);
    return true;
  }
  armed_.erase(armed_key(before));
  site->probes.erase(same);
  return false;
}

}  // namespace rtrace::session
