// Breakpoints that become trampolines, and what these have counted.
#include <algorithm>
#include <map>

#include "explanation.h"
#include "image.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/log.h"
#include "rtrace/tracee/memory_room.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"
#include "wrapper_rules.h"

namespace rtrace::session {
namespace {

constexpr uint32_t kFewestFunctions = 2048, kMostFunctions = 16384;
constexpr uint32_t kSummariesForThreads = 4096;
constexpr uint64_t kRingBytes = uint64_t{1} << 18;

// Room for what libraries that are loaded later bring. Pages cost nothing until they are used.
mech::AgentLink::Setting recorder_setting(size_t functions, const Services& services) {
  mech::AgentLink::Setting setting;
  const bool counts = services.recording == agent::Mode::count;
  setting.mode = services.recording;
  uint32_t room = kFewestFunctions;
  while (room < kMostFunctions && room < 2 * functions) room *= 2;
  setting.size.functions = room;
  setting.size.summaries = counts ? room + kSummariesForThreads : 0;
  setting.size.ring_bytes = counts ? agent::kLeastRing : kRingBytes;
  if (services.options.on_full == Options::OnFull::drop) setting.on_full = agent::OnFull::drop;
  setting.nanoseconds_per_tick = services.recorder.nanoseconds_per_tick;
  if (services.options.raw_times) return setting;
  setting.share_inside = services.recorder.inside;
  setting.share_outside = services.recorder.outside;
  return setting;
}

// What the threads that there are would have it charged; they touch their rings themselves.
std::string why_no_memory(pid_t pid, const mech::RecorderSize& size) {
  constexpr uint64_t kTables = uint64_t{2} << 20, kOfThread = uint64_t{1} << 15;
  constexpr unsigned kMegabyte = 20;
  const auto room = tracee::memory_room(pid);
  const uint64_t need = kTables + tracee::read_tasks(pid).size() * (size.ring_bytes + kOfThread);
  if (!room || *room / 2 >= need) return {};
  return fmt::format("it may take {} MiB of memory, and its control group has room for {}", need >> kMegabyte,
                     *room >> kMegabyte);
}

uint64_t in_nanoseconds(uint64_t ticks, const mech::RecorderShare& share) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(ticks) * share.nanoseconds_per_tick >> 32);
}

}  // namespace

// The plan is made once more: what it said of a place is not kept for places that never become hot.
void Image::consider_hot() {
  std::vector<VirtAddr> hot = std::exchange(wrapping_.hot, {});
  const plan::Plan plan = plan_for(objects_, plan::Relocated::yes);
  spread_heat(plan, hot);
  for (const plan::ProbePoint& point : plan.points) {
    if (std::ranges::find(hot, point.address) == hot.end() || !armed_.contains(armed_key(point))) continue;
    consider_wrapping(point, services_.registry.add(point, objects_, services_.objects));
  }
  report_armed();
}

// As a breakpoint stands there already it may stay one.
void Image::consider_wrapping(const plan::ProbePoint& point, const Probe& probe) {
  ++services_.to_wrap;
  std::string reason = why_no_wrappers(services_.options);
  if (reason.empty()) reason = no_injection_.empty() ? no_wrapping_ : no_injection_;
  // A jump through a slot has the wrapper of the calls through it.
  const bool alone = !(point.tail_jump && point.slot);
  const elf::LoadedObject* defined_in = object_at(point.address);
  if (reason.empty() && alone && defined_in != nullptr)
    reason = why_not_wrapped(point, probe, *defined_in, services_.options);
  if (reason.empty()) reason = why_not_told(point);
  if (!reason.empty()) return stays_breakpoint(point, probe, reason);
  wrapping_.queued.push_back({point, probe.id, armed_key(point), std::nullopt,
                              alone && defined_in != nullptr && needs_borrowed_frame(point, *defined_in)});
  wrapping_.again_at = 0;
}

// Said whatever -q says, where trampolines were asked for: a breakpoint is slower by a factor of a thousand.
void Image::stays_breakpoint(const plan::ProbePoint& point, const Probe& probe, const std::string& reason) {
  ++services_.breakpoints;
  const std::string name = probe.label.text();
  const std::string words = fmt::format("{}: a breakpoint, no trampoline: {}", name, reason);
  if (services_.options.mechanism == Options::Mechanism::trampoline) {
    if (services_.stays_said.insert(words).second) services_.reporter.say(words);
  } else {
    services_.reporter.note("breakpoints, though called often: " + reason, name);
    explain(words);
  }
  note_realised(point, probe, "breakpoint", point.reason + "; no trampoline: " + reason);
}

// Where probes are listed: with those that are told next, or once more.
void Image::note_realised(const plan::ProbePoint& point, const Probe& probe, std::string_view mechanism,
                          const std::string& reason) {
  const auto told = std::ranges::find_if(newly_armed_, [&](const decode::ArmedProbe& armed) {
    return armed.label == &probe.label && armed.address == point.address;
  });
  if (told != newly_armed_.end())
    told->mechanism = mechanism, told->reason = reason;
  else if (services_.options.lists_probes())
    newly_armed_.push_back({&probe.label, point.address, std::string(mechanism), reason});
}

// What the files say: the object's text is searched once for all of its functions.
void Image::examine_entries() {
  std::map<elf::ObjectId, std::vector<Waiting*>> by_object;
  for (Waiting& function : wrapping_.queued)
    if (!function.entry) by_object[function.point.object].push_back(&function);
  std::map<const Waiting*, std::string> refused;
  for (const auto& [id, functions] : by_object) {
    const elf::LoadedObject* in = object(id);
    std::vector<elf::Symbol> symbols;
    for (const Waiting* function : functions) {
      elf::Symbol symbol;
      if (in != nullptr) {
        symbol = in->file->function_at(in->in_file(function->point.address)).value_or(elf::Symbol{});
        if (symbol.address != in->in_file(function->point.address)) symbol.size = 0;
        symbol.address = in->in_file(function->point.address);
      }
      symbols.push_back(symbol);
    }
    const auto answers =
        in != nullptr ? plan::examine_entries(*in->file, symbols) : std::vector<plan::EntryAnswer>();
    for (size_t i = 0; i < functions.size(); ++i) {
      if (i >= answers.size())
        refused[functions[i]] = "its object has gone";
      else if (const auto* no = std::get_if<arch::Refused>(&answers[i]))
        refused[functions[i]] = no->reason;
      else
        functions[i]->entry = std::get<plan::EntryPatch>(answers[i]);
    }
  }
  std::vector<Waiting> rest;
  for (Waiting& function : wrapping_.queued) {
    if (const auto no = refused.find(&function); no != refused.end())
      stays_breakpoint(function.point, services_.registry.at(function.probe), no->second);
    else
      rest.push_back(std::move(function));
  }
  wrapping_.queued = std::move(rest);
}

// The recorder, and room for the wrappers. What went wrong, in words.
std::string Image::prepare_recorder(const NeedStopped& need_stopped) {
  if (!services_.no_recorder.empty()) return services_.no_recorder;
  const mech::AgentLink::Setting setting = recorder_setting(wrapping_.unfinished(), services_);
  if (wrapping_.trampolines == nullptr || !wrapping_.trampolines->begun())
    if (std::string failure = why_no_memory(pid_, setting.size); !failure.empty()) return failure;
  const auto stopped = need_stopped();
  if (!stopped) return "no thread of the process could be stopped";
  std::map<elf::ObjectId, uint64_t> bytes;
  for (const auto* functions : {&wrapping_.queued, &wrapping_.waiting})
    for (const Waiting& function : *functions) bytes[function.point.object] += mech::Trampolines::kCodeBytes;
  const mech::Foothold::Means means{space_->memory(), services_.ledger, *stopped, find_slack()};
  for (const auto& [id, size] : bytes) {
    const elf::LoadedObject* in = object(id);
    if (in == nullptr || space_->foothold().has_code_room(in->range(), size)) continue;
    read_maps_again();
    if (auto failure = space_->foothold().make_code_room(means, in->range(), size, maps_); !failure.empty())
      return failure;
  }
  if (wrapping_.trampolines == nullptr)
    wrapping_.trampolines = std::make_unique<mech::Trampolines>(*space_, services_.ledger, *services_.owners);
  std::string failure = wrapping_.trampolines->begin(means, setting);
  if (failure.empty()) failure = hear_recorder(need_stopped);
  if (failure.empty() && services_.recording == agent::Mode::record && !wrapping_.recordings)
    wrapping_.recordings.emplace(wrapping_.trampolines->records());
  return failure;
}

std::string Image::hear_recorder(const NeedStopped& need_stopped) {
  const VirtAddr ask = space_->foothold().ask();
  if (space_->find(ask) != nullptr) return {};
  if (std::string no_room = provide_room({ask, ask + 1}, 1, need_stopped); !no_room.empty()) return no_room;
  auto answer = space_->install(ask, mech::Foothold::ask_code());
  if (const auto* declined = std::get_if<mech::Declined>(&answer)) return declined->reason;
  if (const auto* busy = std::get_if<mech::Busy>(&answer)) return busy->reason;
  std::get<mech::Installed>(answer).site->asks = true;
  watch_limits(need_stopped);
  return {};
}

// The page that it asks for is in rdi (agent/append.S).
void Image::answer_recorder(pid_t tid, const arch::Regs& regs) const {
  if (wrapping_.trampolines == nullptr || !wrapping_.trampolines->begun()) return;
  const uint64_t page = regs.raw.rdi;
  std::byte there{};
  const VirtAddr at{page * arch::kPageSize};
  if (page == 0 || page >= agent::kUserEnd / arch::kPageSize) return;
  const auto got = tracee::ProcessMemory::read_by(tid, at, {&there, 1});
  const auto* mapping = got ? nullptr : tracee::find_mapping(maps_, at);  // where we may not ask
  if (got == 1 || (mapping != nullptr && mapping->readable)) wrapping_.trampolines->records().know_page(page);
}

void Image::forget_page(VirtAddr in_it) const {
  if (wrapping_.trampolines != nullptr && wrapping_.trampolines->begun())
    wrapping_.trampolines->records().forget_page(in_it.value / arch::kPageSize);
}

void Image::records_are_of(uint64_t thread_pointer, pid_t tid) {
  if (!wrapping_.recordings) return;
  if (const auto slot = wrapping_.recordings->records().slot_of_thread(thread_pointer))
    wrapping_.recordings->belongs_to(*slot, tid);
}

Recordings* Image::recordings() {
  return wrapping_.recordings ? &*wrapping_.recordings : nullptr;
}

// Where the stopped thread stands, taken back to its own code where that is about to be whole again.
std::optional<VirtAddr> Image::out_of_copy(pid_t tid, const std::unordered_set<VirtAddr>& awaited) {
  auto regs = tracee::registers(tid);
  if (!regs || !space_->in_copy(regs->pc())) return regs ? std::optional(regs->pc()) : std::nullopt;
  const VirtAddr before = regs->pc();
  const auto translation = space_->to_program(*regs);
  const mech::BreakpointSite* site = translation.replayed;
  const bool goes = site == nullptr || (site->serves_returns_only() && !awaited.contains(site->address));
  if (!translation.changed || !goes) return before;
  if (tracee::set_registers(tid, *regs) == tracee::Alive::gone) return std::nullopt;
  return regs->pc();
}

// Threads go on past them at full speed; who comes by a breakpoint makes them anew.
void Image::give_up_returns(const std::unordered_set<VirtAddr>& awaited, const std::vector<pid_t>& all) {
  std::vector<VirtAddr> standing;
  for (pid_t tid : all)
    if (const auto pc = out_of_copy(tid, awaited)) standing.push_back(*pc);
  if (standing.size() != all.size()) return;
  wrapping_.idle_returns = false;
  wrapping_.pause = 0;
  const uint64_t soon = monotonic_now() + kFirstWrapPause;
  wrapping_.again_at = wrapping_.queued.empty() ? soon : std::max(wrapping_.again_at, soon);
  space_->give_up_returns(awaited, standing);
}

// Where their stacks are now: what a thread is to come back to is looked for there.
void Image::wrap_waiting(const std::vector<pid_t>& all) {
  read_maps_again();
  std::vector<mech::StoppedThread> threads;
  for (pid_t tid : all)
    if (auto thread = mech::look_at(tid, space_->memory(), maps_); thread && thread->stack_known)
      threads.push_back(std::move(*thread));
  if (threads.size() != all.size()) return;
  auto waiting = std::exchange(wrapping_.waiting, {});
  wrap_slots(waiting, threads);
  for (Waiting& function : waiting) {
    if (has_gone(function)) continue;
    const auto answer = wrap_one(function, threads);
    if (const auto* declined = std::get_if<mech::Declined>(&answer))
      stays_breakpoint(function.point, services_.registry.at(function.probe), declined->reason);
    else if (const auto* wrapped = std::get_if<mech::Trampolines::Wrapped>(&answer))
      note_wrapped(function, *wrapped), say_wrapped(function, *wrapped);
    else
      comes_later(std::move(function), std::get<mech::Busy>(answer));
  }
  if (wrapping_.waiting.empty()) wrapping_.pause = 0;
}

// With its object.
bool Image::has_gone(const Waiting& function) {
  const bool gone = space_->find(function.point.address) == nullptr;
  services_.to_wrap -= gone;
  return gone;
}

void Image::comes_later(Waiting function, const mech::Busy& busy) {
  RTRACE_LOG(session, 1, "no trampoline at {} yet: {}", function.point.address, busy.reason);
  function.tried = true;
  wrapping_.waiting.push_back(std::move(function));
}

mech::Trampolines::Answer Image::wrap_one(const Waiting& function,
                                          std::span<const mech::StoppedThread> threads) {
  const VirtAddr address = function.point.address;
  const mech::BreakpointSite& site = *space_->find(address);
  if (site.probes.size() != 1 || site.serves_other_than_probes())
    return mech::Declined{"the breakpoint serves something else too"};
  auto made = wanted_for(function);
  if (auto* declined = std::get_if<mech::Declined>(&made)) return std::move(*declined);
  auto& wanted = std::get<mech::Trampolines::Function>(made);
  wanted.room = function.entry->room;
  wanted.size = function.entry->size;
  if (const elf::LoadedObject* in = object_at(address)) {
    wanted.expected = in->file->bytes_at(in->in_file(address), function.entry->needed());
    if (const auto hop = function.entry->hop) {
      wanted.hop = in->at(*hop);
      wanted.padding = in->file->bytes_at(*hop, arch::kNearJump);
    }
  }
  return wrapping_.trampolines->install(wanted, threads);
}

// What its wrapper is to do.
std::variant<mech::Trampolines::Function, mech::Declined> Image::wanted_for(const Waiting& function) {
  const Probe& probe = services_.registry.at(function.probe);
  const auto errno_at = errno_of(function);
  if (sets_errno(probe) && !errno_at && services_.recording == agent::Mode::record)
    return mech::Declined{"where its errno lies cannot be told"};
  auto wanted = wrapped_function(function.point, probe, services_.options, errno_at);
  if (function.borrows) borrow(wanted, function);
  if (function.borrows && !wanted.borrowed)
    return mech::Declined{"no code that it could return through describes a frame"};
  return wanted;
}

std::optional<int64_t> Image::errno_of(const Waiting& function) {
  const bool sets = sets_errno(services_.registry.at(function.probe));
  return sets ? errno_offset(function.point.address) : std::nullopt;
}

void Image::note_wrapped(const Waiting& function, const mech::Trampolines::Wrapped& wrapped) {
  wrapping_.functions.resize(std::max<size_t>(wrapping_.functions.size(), wrapped.index + 1));
  wrapping_.functions[wrapped.index] = {function.probe, function.point.address, function.point.caller_object,
                                        errno_of(function), static_cast<bool>(function.point.slot)};
}

void Image::say_wrapped(const Waiting& function, const mech::Trampolines::Wrapped& wrapped) {
  ++services_.trampolines;
  const plan::ProbePoint& point = function.point;
  Armed& armed = armed_.at(function.key);
  armed = {point.slot ? point.caller_object : point.object, wrapped.jump, wrapped.stands, true,
           point.caller_object};
  const Probe& probe = services_.registry.at(function.probe);
  if (services_.options.mechanism == Options::Mechanism::automatic)
    services_.reporter.note("trampolines since they were called often", probe.label.text());
  note_realised(point, probe, "trampoline", point.reason);
  if (!services_.options.explain) return;
  const std::string how =
      point.slot
          ? fmt::format("the GOT slot at {} of {} leads to it", point.slot,
                        object(point.caller_object) != nullptr ? object(point.caller_object)->name() : "")
          : fmt::format("{} bytes of its code run elsewhere", wrapped.covered);
  explain(fmt::format("{} at {}: trampoline; {}", probe.label.text(), point.address, how));
}

uint64_t Image::take_unplaced() {
  if (wrapping_.trampolines == nullptr || !wrapping_.trampolines->begun()) return 0;
  const uint64_t now = wrapping_.trampolines->records().unplaced();
  return now - std::exchange(wrapping_.unplaced, now);
}

void Image::hand_on_counts(event::TraceeId who) {
  if (wrapping_.trampolines == nullptr || !wrapping_.trampolines->begun()) return;
  if (services_.recording != agent::Mode::count || wrapping_.counts_closed) return;
  auto counted = wrapping_.trampolines->counted();
  wrapping_.handed_on.resize(counted.size());
  for (size_t i = 0; i < wrapping_.functions.size(); ++i) {
    const mech::CountedCalls &now = counted[i], &before = wrapping_.handed_on[i];
    if (now.entered == before.entered && now.returned == before.returned) continue;
    Probe& probe = services_.registry.at(wrapping_.functions[i].probe);
    decode::CallsCounted calls;
    calls.label = &probe.label;
    calls.calls = now.entered - before.entered;
    calls.returned = now.returned - before.returned;
    calls.errors = now.errors - before.errors;
    const auto time = [&](uint64_t ticks) { return in_nanoseconds(ticks, services_.recorder); };
    calls.total = time(now.total - before.total);
    // Sums of a thread that counts on meanwhile: its parts may be ahead of the whole.
    calls.outermost = calls.total - std::min(calls.total, time(now.recursive - before.recursive));
    calls.self = calls.total - std::min(calls.total, time(now.inner - before.inner));
    calls.greatest = time(now.greatest);
    calls.durations = now.durations;
    for (size_t bucket = 0; bucket < std::min(now.durations.size(), before.durations.size()); ++bucket)
      calls.durations[bucket] -= before.durations[bucket];
    if (calls.calls > 0) services_.registry.hit(probe);
    services_.reporter.take(who, timestamp(), std::move(calls));
  }
  wrapping_.handed_on = std::move(counted);
}

std::vector<OpenCounted> Image::open_counts(pid_t tid) const {
  std::vector<OpenCounted> open;
  if (wrapping_.trampolines == nullptr || services_.recording != agent::Mode::count) return open;
  const auto regs = tracee::registers(tid);
  if (!regs) return open;
  const mech::CountingThread thread{regs->raw.fs_base, regs->sp(), space_->in_copy(regs->pc()),
                                    mech::read_clocks().ticks};
  for (const mech::OpenCount& call : wrapping_.trampolines->open_counts(thread))
    open.push_back({wrapping_.functions.at(call.function).probe,
                    in_nanoseconds(call.total, services_.recorder),
                    in_nanoseconds(call.total - call.inner, services_.recorder)});
  return open;
}

}  // namespace rtrace::session
