// What stands in an image: probe points, and the sites at return addresses.
#include <algorithm>
#include <map>

#include "explanation.h"
#include "image.h"
#include "privileges.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "rtrace/mech/remains.h"

namespace rtrace::session {

std::span<const std::byte> Image::file_bytes(VirtAddr address) const {
  const elf::LoadedObject* object = object_at(address);
  if (object == nullptr) return {};
  return object->file->bytes_at(object->in_file(address), arch::kMaxInsn);
}

Range Image::find_slack(const tracee::ProcessMemory& memory) const {
  plan::Objects candidates = objects_;
  if (interpreter_.file != nullptr) candidates.push_back(interpreter_);
  for (const auto& object : candidates) {
    for (const auto& segment : object.file->segments()) {
      if (!segment.executable || segment.writable) continue;
      const VirtAddr end = object.at(segment.memory.end);
      const VirtAddr page_end{align_up(end.value, arch::kPageSize)};
      const VirtAddr begin{(end.value + 15) / 16 * 16};
      const auto* mapping = tracee::find_mapping(maps_, end - 1);
      if (mapping == nullptr || mapping->shared || !mapping->executable || mapping->range.end < page_end)
        continue;
      if (begin + 16 <= page_end) return {begin, page_end};
    }
  }
  return mech::find_slack(memory, tracee::read_maps(memory.pid()));
}

// A process that has made itself not dumpable does not show them any more to an ordinary user.
void Image::read_maps_again() {
  maps_read_at_ = monotonic_now();
  auto now = tracee::read_maps(pid_);
  const bool hidden = now.empty() && !maps_.empty() && is_current();
  if (!now.empty()) maps_ = std::move(now);
  if (!std::exchange(maps_are_hidden_, hidden) && hidden)
    services_.reporter.say(fmt::format(
        "process {} is not dumpable any more, which hides its mappings: libraries that it loads from "
        "now on are not traced; run rtrace as root",
        pid_));
}

// What has changed since the last look, if that was just now, is found out where it matters.
void Image::refresh_maps() {
  constexpr uint64_t kLately = 1'000'000;  // ns
  if (monotonic_now() - maps_read_at_ > kLately) read_maps_again();
}

// Why no int3 may be written there; empty where it may.
static std::string why_not_writable(const tracee::MapsEntry* mapping) {
  if (mapping == nullptr) return "it is not mapped";
  if (!mapping->file_backed() && !mapping->is_vdso()) return "it lies in memory without a file (JIT code)";
  if (mapping->shared) return "it lies in a shared mapping, which other processes may run";
  if (!mapping->executable) return "it is not executable";
  return {};
}

// What was there when the mappings were last read may have given way to something else. Not code that is made
// at run time: there may be any number of addresses in it.
std::string Image::why_not_writable(VirtAddr address) {
  const auto* mapping = tracee::find_mapping(maps_, address);
  const bool made = mapping != nullptr && mapping->executable && (!mapping->file_backed() || mapping->shared);
  std::string reason = session::why_not_writable(mapping);
  if (reason.empty() || made) return reason;
  read_maps_again();
  return session::why_not_writable(tracee::find_mapping(maps_, address));
}

std::string Image::provide_room(Range near, size_t sites, const NeedStopped& need_stopped) {
  if (!no_injection_.empty()) {
    decline_survival(no_injection_);
    return no_injection_;
  }
  if (space_->has_room(near.begin, sites) && space_->has_room(near.end, sites)) return {};
  refresh_maps();
  const auto stopped = need_stopped();
  refresh_maps();
  if (!stopped && tracee::forbids_calls(pid_)) {
    decline_survival("a seccomp filter is in force by now");
    return "a seccomp filter is in force by now";
  }
  if (!stopped) {
    unfinished_ = true;
    return "no thread of the process could be stopped";
  }
  bool raised = false;
  const auto raise = [&](tracee::RemoteCall& remote) {
    survival_.raise(*stopped, *space_, remote);
    explain_survival();
    raised = survival_.stands();
  };
  std::string failure = space_->make_room(near, sites, *stopped, maps_, find_slack(), raise);
  if (!failure.empty()) {  // something may have taken the place since
    read_maps_again();
    failure = space_->make_room(near, sites, *stopped, maps_, find_slack(), raise);
  }
  if (!failure.empty()) decline_survival(failure);
  need_stopped.let_go();  // what follows may take longer than all this
  if (raised) need_stopped.handler_raised();
  return failure;
}

void Image::decline_survival(const std::string& reason) {
  const bool news = survival_.risk().empty();
  survival_.decline(reason);
  if (news) explain_survival();
}

void Image::explain_survival() {
  if (survival_.stands() || survival_.is_due())
    explain(fmt::format("process {}: if rtrace is killed by SIGKILL, a SIGTRAP handler bridges its probes{}",
                        pid_,
                        survival_.is_due() ? ", in front of its own where that does not serve once" : ""));
  else if (!survival_.risk().empty())
    explain(fmt::format("process {}: {}: SIGKILL of rtrace would kill it at its next probe", pid_,
                        survival_.risk()));
}

const std::string* Image::watch_return(VirtAddr address, const NeedStopped& need_stopped) {
  if (mech::BreakpointSite* site = space_->find(address)) {
    site->return_site = true;
    return nullptr;
  }
  if (auto known = unseen_returns_.find(address); known != unseen_returns_.end()) return &known->second;
  std::string reason = in_copy(address) ? "it lies in the trampoline of a function that has jumped there"
                                        : why_not_writable(address);
  if (reason.empty()) {
    const elf::LoadedObject* object = object_at(address);
    const Range near = object != nullptr ? object->range() : Range{address, address + 1};
    const std::string no_room = provide_room(near, 1, need_stopped);
    auto answer = space_->install(address, file_bytes(address));
    if (auto* installed = std::get_if<mech::Installed>(&answer)) {
      installed->site->return_site = true;
      return nullptr;
    }
    if (const auto* declined = std::get_if<mech::Declined>(&answer)) reason = declined->reason;
    if (const auto* busy = std::get_if<mech::Busy>(&answer))
      reason = no_room.empty() ? busy->reason : no_room;
  }
  RTRACE_LOG(session, 1, "return to {} cannot be seen: {}", address, reason);
  // Once for each reason: code made at run time may return to any number of addresses.
  if (unseen_said_.insert(reason).second)
    explain(fmt::format("return address {}: {}: the calls from there are shown with = ?", address, reason));
  return &unseen_returns_.emplace(address, "return address " + fmt::format("{}: {}", address, reason))
              .first->second;
}

bool Image::any_insn_of(VirtAddr function, const std::function<bool(const arch::Insn&)>& what) const {
  const elf::LoadedObject* in = object_at(function);
  const auto symbol = in != nullptr ? in->file->function_at(in->in_file(function)) : std::nullopt;
  if (!symbol) return false;
  auto code = in->file->bytes_at(in->in_file(function), symbol->size);
  for (VirtAddr at = function; !code.empty();) {
    const auto insn = arch::decode(code, at);
    if (!insn) return false;
    if (what(*insn)) return true;
    at = at + insn->length;
    code = code.subspan(insn->length);
  }
  return false;
}

bool Image::branches_to_entry(VirtAddr entry) {
  auto [known, fresh] = branches_to_entry_.try_emplace(entry, false);
  if (fresh)
    known->second = any_insn_of(entry, [entry](const arch::Insn& insn) {
      return insn.target == entry && insn.kind != arch::Insn::Kind::call;
    });
  return known->second;
}

// A page that is given back, mapped over or written to takes our int3 with it, and nothing tells.
std::map<elf::ObjectId, Image::LostProbes> Image::lost_probes(const tracee::ProcessMemory& memory) const {
  std::vector<std::byte> bytes(armed_.size());
  std::vector<tracee::ProcessMemory::Piece> pieces;
  std::vector<const Armed*> points;
  for (const auto& [key, point] : armed_) {
    pieces.push_back({point.address, &bytes[pieces.size()], 1});
    points.push_back(&point);
  }
  memory.read_gathered(pieces);
  std::map<elf::ObjectId, LostProbes> lost;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool mapped = pieces[i].got == 1;
    if (mapped && bytes[i] == points[i]->stands) continue;
    LostProbes& of_object = lost[points[i]->object];
    ++of_object.count;
    of_object.some_mapped |= mapped;
  }
  // Where nothing can be read the process has gone.
  const bool none_mapped = std::ranges::all_of(pieces, [](const auto& piece) { return piece.got == 0; });
  if (none_mapped && !memory.read_value<std::byte>(objects_[0].range().begin)) lost.clear();
  return lost;
}

// What is unmapped may be one of a dlclose's objects. Where other code stands the program has put it there.
void Image::report_lost_probes() {
  const auto lost = lost_probes(space_->memory());
  if (lost.empty()) return;
  const Closing closing = objects_being_closed();
  for (const auto& [id, probes] : lost) {
    const elf::LoadedObject* in = object(id);
    if (in == nullptr || ((closing.any || closing.unlisted.contains(id)) && !probes.some_mapped)) continue;
    if (!lost_in_.insert(id).second) continue;
    const bool one = probes.count == 1;
    services_.reporter.say(fmt::format(
        "{} probe{} in {} {} lost: the program has unmapped, written to or mapped anew the code there; calls "
        "after that were not seen",
        probes.count, one ? "" : "s", in->main_program ? std::string("the main program") : in->name(),
        one ? "was" : "were"));
  }
}

Image::Arming::~Arming() {
  image_.arming_ = before_;
  image_.armed_at_ = monotonic_now();
}

bool Image::was_armed_lately() const {
  constexpr uint64_t kLately = 2'000'000'000;  // ns: far longer than a birth waits to be handled
  return monotonic_now() - armed_at_ <= kLately;
}

bool Image::are_probes_in(const tracee::ProcessMemory& child) const {
  return armed_at_ != 0 && (!was_armed_lately() || lost_probes(child).empty());
}

void Image::restore_code(mech::AddressSpace::Sites which) {
  if (!std::exchange(restored_, true)) report_lost_probes();
  space_->restore(space_->memory(), which);
}

std::string Image::armed_key(const plan::ProbePoint& point) {
  return fmt::format("{}|{}{}|{}|{}|{}", point.address, static_cast<int>(point.kind),
                     static_cast<int>(point.pair), static_cast<uint32_t>(point.caller_object), point.name,
                     point.tail_jump);
}

void Image::explain(const std::string& line) {
  if (services_.options.explain) services_.reporter.say(line);
}

void Image::refuse(const plan::ProbePoint& point, const std::string& reason) {
  for (plan::RequestIndex request : point.requests) {
    services_.registry.declined(
        {.name = point.name, .object = point.library, .reason = reason, .request = request});
    explain(fmt::format("{}: {} in {} at {}: declined: {}", services_.options.requests.all[request].text,
                        shown_name(point.name, services_.options),
                        point.library.empty() ? "the main program" : point.library, point.address, reason));
  }
}

void Image::arm_point(const plan::ProbePoint& point, const std::string& no_room) {
  const std::string key = armed_key(point);
  if (armed_.contains(key)) return;
  if (is_served(point)) return;
  if (const std::string reason = why_not_writable(point.address); !reason.empty())
    return refuse(point, reason);
  auto answer = space_->install(point.address, file_bytes(point.address));
  if (const auto* declined = std::get_if<mech::Declined>(&answer)) return refuse(point, declined->reason);
  if (std::holds_alternative<mech::Busy>(answer) && unfinished_) return;  // its turn comes
  if (const auto* busy = std::get_if<mech::Busy>(&answer))
    return refuse(point, no_room.empty() ? busy->reason : no_room);
  const Probe& probe = services_.registry.add(point, objects_, services_.objects);
  mech::BreakpointSite& site = *std::get<mech::Installed>(answer).site;
  site.probes.push_back({probe.id, point.caller_object});
  site.instants |= point.kind == plan::ProbeKind::sdt;
  if (point.semaphore) raise_semaphore(point);
  armed_.emplace(key, Armed{.object = point.object, .address = point.address, .caller = point.caller_object});
  if (services_.options.lists_probes())
    newly_armed_.push_back({&probe.label, point.address, "breakpoint", point.reason});
  if (services_.options.mechanism == Options::Mechanism::trampoline) consider_wrapping(point, probe);
  if (!services_.options.explain) return;
  const std::string how = explain_armed(probe, point, site, file_bytes(point.address), services_.options);
  for (plan::RequestIndex request : point.requests)
    explain(fmt::format("{}: {}", services_.options.requests.all[request].text, how));
}

// Without it the program passes its probe by.
void Image::raise_semaphore(const plan::ProbePoint& point) {
  const auto* mapping = tracee::find_mapping(maps_, point.semaphore);
  const bool writable = mapping != nullptr && mapping->writable && mapping->file_backed() && !mapping->shared;
  if (writable && space_->raise_semaphore(point.semaphore)) return;
  services_.reporter.say(fmt::format(
      "the semaphore of sdt:{} at {} cannot be raised ({}): the program may pass the probe by", point.name,
      point.semaphore, writable ? "it cannot be written" : "it lies in no private data of a file"));
}

void Image::finish_arming(const NeedStopped& need_stopped) {
  const Arming arming(*this);
  unfinished_ = false;
  const size_t before = armed();
  if (auto hook = this->hook(); hook && space_->find(*hook) == nullptr) {
    watch_hook(*hook, need_stopped);
    sync_behind_hook(reported_as_, need_stopped);
  }
  arm(plan::Objects(objects_), plan::Relocated::yes, need_stopped);
  report_armed();
  const size_t more = armed() - before;
  if (!unfinished_)
    services_.reporter.notice(fmt::format("process {} could be stopped at last; {} more probe{} armed", pid_,
                                          more, more == 1 ? "" : "s"));
}

plan::Plan Image::plan_for(const plan::Objects& added, plan::Relocated relocated) const {
  const std::unique_ptr<Memory> own =
      wrapping_.trampolines != nullptr ? wrapping_.trampolines->with_own_slots() : nullptr;
  return plan::make_plan(services_.options.requests, objects_, added,
                         own != nullptr ? *own : static_cast<const Memory&>(space_->memory()), relocated,
                         implementations_, elsewhere());
}

// `added` must not change when a thread is to be stopped, as what is loaded may.
void Image::arm(const plan::Objects& added, plan::Relocated relocated, const NeedStopped& need_stopped) {
  arm(plan_for(added, relocated), added, relocated, need_stopped);
}

void Image::arm(const plan::Plan& plan, const plan::Objects& added, plan::Relocated relocated,
                const NeedStopped& need_stopped) {
  // First, so that who blocks all signals meanwhile is seen.
  watch_signal_calls(added, need_stopped);
  if (!tracing_leaves_privileges()) watch_execve(added, need_stopped);
  place(plan, need_stopped);
  wrap(need_stopped);
  bool pending = awaits_slots(added, relocated);
  for (const plan::Decline& decline : plan.declined) {
    pending |= decline.pending;
    if (decline.resolver) watch_resolver(decline.resolver, need_stopped);
    services_.registry.declined(decline);
    explain(fmt::format("{}: {} in {}: {}: {}", services_.options.requests.all[decline.request].text,
                        shown_name(decline.name, services_.options), decline.object,
                        decline.pending ? "waits" : "declined", decline.reason));
  }
  // What needs a GOT slot's value waits until the object has been relocated: its first initializer runs right
  // after.
  if (pending && relocated == plan::Relocated::no) watch_initializers(added, need_stopped);
}

void Image::place(const plan::Plan& plan, const NeedStopped& need_stopped) {
  std::map<elf::ObjectId, std::vector<const plan::ProbePoint*>> by_object;
  for (const auto& point : plan.points) by_object[point.object].push_back(&point);
  const auto watch_raw = [&](Blocking which) {
    for (const auto& [id, points] : by_object)
      if (const elf::LoadedObject* target = object(id)) watch_raw_calls(*target, which, need_stopped);
  };
  // Where such a section ends, or within, nothing may stand before those that are in one are known.
  watch_raw(Blocking::yes);
  need_stopped.masks_watched();
  watch_raw(Blocking::no);
  // Room for one when the other has taken its own: they may share it.
  for (const auto& [id, points] : by_object) {
    const elf::LoadedObject* target = object(id);
    if (target == nullptr) continue;
    const std::string no_room = provide_room(target->range(), points.size(), need_stopped);
    if (survival_.is_due()) need_stopped.own_handler_met();
    // One that is placed without room is unknown to the handler: its turn comes.
    if (object(id) == nullptr || (!no_room.empty() && unfinished_)) continue;
    for (const plan::ProbePoint* point : points) arm_point(*point, no_room);
  }
  if (!by_object.empty()) watch_traced_masks(need_stopped);
}

void Image::watch_initializers(const plan::Objects& added, const NeedStopped& need_stopped) {
  for (const auto& object : added) {
    const auto first = object.file->first_initializer();
    if (!first) continue;
    const VirtAddr address = object.at(*first);
    if (!why_not_writable(address).empty()) continue;
    provide_room(object.range(), 1, need_stopped);
    auto answer = space_->install(address, file_bytes(address));
    if (auto* installed = std::get_if<mech::Installed>(&answer)) installed->site->initializer = true;
  }
}

void Image::on_initializer(VirtAddr address, const NeedStopped& need_stopped) {
  if (mech::BreakpointSite* site = space_->find(address)) site->initializer = false;
  const elf::LoadedObject* initialized = object_at(address);
  if (initialized == nullptr) return;
  const plan::Objects again = {*initialized};
  arm(again, plan::Relocated::yes, need_stopped);
  report_armed();
}

}  // namespace rtrace::session
