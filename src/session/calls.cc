#include "calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "descriptor_names.h"
#include "rtrace/base/log.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

bool has_stack_sources(const agent::CapturePlan& plan) {
  for (size_t i = 0; i < plan.count; ++i)
    if (plan.captures[i].source == agent::Capture::Source::stack_slot) return true;
  return false;
}

}  // namespace

event::CallerWords CallTracer::words_above(const Memory& memory, VirtAddr above) {
  std::array<std::byte, event::CallerWords::kBytes> bytes{};
  return event::CallerWords::of(std::span{bytes}.first(memory.read(above, bytes)));
}

void CallTracer::observe(Task& task, const mech::BreakpointSite& site, const arch::Regs& regs,
                         const NeedStopped& need_stopped) {
  who_ = task.id;
  // Of the moment at which the stop was seen: all that we do from then on is not the call's.
  now_ = timestamp();
  now_.monotonic = task.clock.stopped_at();
  thread_time_ = thread_time(task);
  regs_ = regs;
  dead_.clear();
  returned_.clear();
  entered_.clear();
  trace_.reset();
  instant_trace_.reset();
  if (site.return_site) observe_returns(task, site.address, regs);
  std::span<const Owner> calls = site.probes;
  if (site.instants) {
    observe_instants(task, site);
    calls_.clear();
    for (const Owner& owner : site.probes)
      if (services_.registry.at(owner.probe).operands == nullptr) calls_.push_back(owner);
    calls = calls_;
  }
  if (!calls.empty()) observe_entries(task, site, calls, need_stopped);
  if (may_have_unwound(task)) bury(task, unwound(task));
}

event::Timestamp CallTracer::thread_time(const Task& task) const {
  return {now_.realtime, services_.options.raw_times ? task.clock.stopped_at() : task.clock.time()};
}

// Refers to both.
static decode::Carried carried_by(const std::optional<arch::VectorRegs>& vectors,
                                  const std::vector<decode::Value>& before) {
  decode::Carried carried;
  carried.vectors_at_entry = vectors ? &*vectors : nullptr;
  carried.before = &before;
  return carried;
}

OpenCall CallTracer::take_open(Task& task, event::CallId call) {
  auto found = task.open_calls.find(call);
  if (found == task.open_calls.end()) return {};
  OpenCall open = std::move(found->second);
  task.open_calls.erase(found);
  return open;
}

void CallTracer::observe_returns(Task& task, VirtAddr site, const arch::Regs& regs) {
  frames_.clear();
  const auto identity = task.stack.as_entered(event::FrameIdentity::at_return(regs, site));
  event::CallerWords above;
  if (task.stack.alike(identity)) above = words_above(task.process->image->space().memory(), regs.sp());
  task.stack.leave(identity, thread_time_, frames_, dead_, above);
  if (frames_.empty()) return;
  for (const event::Frame& frame : frames_) task.own_time += frame.self;
  memory_.clear();
  const uint64_t result = regs.result();
  bool deep = false, wanted = false;
  for (const event::Frame& frame : frames_) {
    const decode::CallDecoder& decoder = *services_.registry.at(frame.probe).decoder;
    const auto errno_at = errno_of(task, decoder, frame, regs);
    returned_.push_back({frame, std::nullopt, take_open(task, frame.call), errno_at});
    deep |= decoder.at_return().deep != 0 || decoder.needs_vector_registers() || shows_descriptors(decoder);
    wanted |= decoder.at_return().count > 0 || errno_at;
    memory_.want(decoder.at_return(), returned_.back().open.entry, &result, returned_.back().open.stack);
    if (errno_at) memory_.want(*errno_at, sizeof(int));
  }
  const auto& live = task.process->image->space().memory();
  if (wanted) memory_.fetch(live);
  if (!deep) return;
  memory_.set_live(&live);
  const auto vectors = tracee::vector_registers(task.id.tid);
  for (Returned& returned : returned_) decode_return(returned, vectors ? &*vectors : nullptr);
}

std::optional<VirtAddr> CallTracer::errno_of(const Task& task, const decode::CallDecoder& decoder,
                                             const event::Frame& frame, const arch::Regs& exit) {
  if (!decoder.needs_errno(exit) || exit.raw.fs_base == 0) return std::nullopt;
  const auto offset = task.process->image->errno_offset(frame.site);
  if (!offset) return std::nullopt;
  return VirtAddr{exit.raw.fs_base + static_cast<uint64_t>(*offset)};
}

void CallTracer::decode_return(Returned& returned, const arch::VectorRegs* vectors) {
  decode::Carried carried = carried_by(returned.open.vectors, returned.open.before);
  carried.vectors_at_exit = vectors;
  if (returned.errno_at) carried.error_number = memory_.read_value<int>(*returned.errno_at);
  const decode::CallDecoder& decoder = *services_.registry.at(returned.frame.probe).decoder;
  returned.decoded = decoder.leave(returned.open.entry, regs_, memory_, returned.open.stack, carried);
  if (!shows_descriptors(decoder)) return;
  name_descriptors(who_, returned.decoded->arguments);
  name_descriptors(who_, returned.decoded->result);
}

// One gathered read: the return address, arguments on the stack, and what the prototypes of the site's probes
// point at.
void CallTracer::capture_entry(const Task& task, std::span<const Owner> owners) {
  const auto& live = task.process->image->space().memory();
  size_t stack_bytes = 0;
  bool indirect = false;
  memory_.clear();
  for (const auto& owner : owners) {
    const agent::CapturePlan& plan = services_.registry.at(owner.probe).decoder->at_entry();
    stack_bytes = std::max<size_t>(stack_bytes, plan.stack_bytes);
    indirect |= has_stack_sources(plan);
  }
  memory_.want(regs_.sp(), kWord + std::max(stack_bytes, event::CallerWords::kBytes));
  for (const auto& owner : owners)
    memory_.want(services_.registry.at(owner.probe).decoder->at_entry(), regs_, nullptr, {});
  memory_.fetch(live);
  if (!indirect) return;
  const auto stack = stack_arguments(stack_bytes);
  for (const auto& owner : owners) {
    const agent::CapturePlan& plan = services_.registry.at(owner.probe).decoder->at_entry();
    if (has_stack_sources(plan)) memory_.want(plan, regs_, nullptr, stack);
  }
  memory_.fetch(live);
}

std::span<const std::byte> CallTracer::stack_arguments(size_t size) {
  stack_.resize(size);
  stack_.resize(memory_.read(regs_.sp() + kWord, stack_));
  return stack_;
}

void CallTracer::observe_entries(Task& task, const mech::BreakpointSite& site, std::span<const Owner> owners,
                                 const NeedStopped& need_stopped) {
  // What returns at the very same stop has its own captures: decode it before they are replaced.
  for (Returned& returned : returned_)
    if (!returned.decoded) decode_return(returned);
  capture_entry(task, owners);
  above_ = words_above(memory_, regs_.sp() + kWord);
  const auto return_address = memory_.read_value<uint64_t>(regs_.sp());
  if (!return_address) return;  // no stack: the call itself is about to fault
  for (const Owner& owner : owners)
    observe_entry(task, site, owners, owner, VirtAddr{*return_address}, need_stopped);
  // Where it leads comes next, or nothing with that stack does.
  const bool jumps = std::ranges::any_of(
      owners, [&](const Owner& owner) { return services_.registry.at(owner.probe).tail_jump; });
  if (!jumps && task.tail_jump && task.tail_jump->sp == regs_.sp()) task.tail_jump.reset();
}

void CallTracer::observe_entry(Task& task, const mech::BreakpointSite& site, std::span<const Owner> owners,
                               const Owner& owner, VirtAddr return_address, const NeedStopped& need_stopped) {
  Probe& probe = services_.registry.at(owner.probe);
  if (probe.tail_jump) {
    if (may_jump_to(*task.process->image, site.address, owner))
      task.tail_jump = Task::TailJump{owner.caller, regs_.sp(), owner.probe};
    return;
  }
  if (!is_owners(task, site.address, owners, owner, return_address) ||
      is_turn_of_loop(task, probe, site.address, return_address))
    return;
  services_.registry.hit(probe);
  static const std::string kPart = "a .cold part is jumped to and has no return of its own";
  Entered entered = begin_entered(task, probe, return_address);
  entered.unseen = probe.no_return ? &kPart : task.process->image->watch_return(return_address, need_stopped);
  entered.trace = take_trace(*task.process->image, trace_,
                             probe.no_return ? Backtraces::At::middle : Backtraces::At::entry);
  const decode::CallDecoder& decoder = *probe.decoder;
  if (decoder.needs_vector_registers()) entered.vectors = tracee::vector_registers(task.id.tid);
  if (entered.unseen == nullptr) enter_frame(task, entered, site.address);
  if (decoder.at_entry().deep != 0 || shows_descriptors(decoder)) {
    memory_.set_live(&task.process->image->space().memory());
    entered.decoded = decode_entry(entered);
    memory_.set_live(nullptr);
  }
  entered_.push_back(std::move(entered));
}

CallTracer::Entered CallTracer::begin_entered(Task& task, Probe& probe, VirtAddr return_address) {
  Entered entered;
  entered.probe = &probe;
  entered.call = static_cast<event::CallId>(next_call_++);
  entered.depth = static_cast<unsigned>(task.stack.depth());
  entered.return_address = return_address;
  entered.callers = callers_return(task, return_address);
  entered.task = &task;
  return entered;
}

// A call that is to be paired with its return.
void CallTracer::enter_frame(Task& task, Entered& entered, VirtAddr site) {
  const decode::CallDecoder& decoder = *entered.probe->decoder;
  auto identity = event::FrameIdentity::at_entry(regs_, entered.return_address);
  if (entered.probe->own_convention) identity = identity.without_registers();
  entered.depth =
      task.stack.enter(identity, site, entered.probe->id, entered.call, thread_time_, dead_, above_).depth;
  if (decoder.all_at_entry()) return;
  const auto stack = stack_arguments(decoder.at_entry().stack_bytes);
  task.open_calls[entered.call] = OpenCall{regs_, {stack.begin(), stack.end()}, {}, entered.vectors};
}

decode::CallDecoder::Entered CallTracer::decode_entry(Entered& entered) {
  const decode::CallDecoder& decoder = *entered.probe->decoder;
  auto decoded = decoder.enter(regs_, memory_, entered.vectors ? &*entered.vectors : nullptr);
  if (!shows_descriptors(decoder)) return decoded;
  name_descriptors(who_, decoded.arguments);
  for (decode::Value& value : decoded.before) name_descriptors(who_, value);
  return decoded;
}

// Once for all that is entered at one stop.
const unwind::Backtrace* CallTracer::take_trace(Image& image, std::optional<unwind::Backtrace>& taken,
                                                Backtraces::At at) {
  if (services_.options.frames == 0 || !services_.options.call_lines) return nullptr;
  if (!taken) taken = backtraces_.take(image, regs_, at, services_.options.frames);
  return &*taken;
}

bool CallTracer::shows_descriptors(const decode::CallDecoder& decoder) const {
  return services_.options.descriptors && decoder.has_descriptors();
}

void CallTracer::report(Task& task) {
  for (const event::Frame& frame : dead_) {
    services_.reporter.take(who_, now_, abandoned(task, frame));
    task.open_calls.erase(frame.call);
    forget_recorded(task, frame.call);
  }
  for (Returned& returned : returned_) report_return(task, returned);
  for (Entered& entered : entered_) report_entry(entered);
}

// What would have been printed at the return comes now, as it is.
void CallTracer::add_unseen(const Entered& entered, const std::vector<decode::Value>& before,
                            decode::CallEntered& record) {
  const decode::CallDecoder& decoder = *entered.probe->decoder;
  for (decode::Argument& argument : decoder.abandon(regs_, stack_arguments(decoder.at_entry().stack_bytes),
                                                    carried_by(entered.vectors, before)))
    record.arguments.push_back(std::move(argument));
  record.more_at_return = false;
}

// Of a tail call: the object of the function before it.
std::string CallTracer::caller_of(const Entered& entered) {
  if (entered.probe->label.kind != decode::ProbeLabel::Kind::entry) return {};
  const auto& image = entered.task->process->image;
  const auto* object = image != nullptr ? image->code_at(entered.callers) : nullptr;
  return object != nullptr ? object->name() : std::string();
}

void CallTracer::report_entry(Entered& entered) {
  auto decoded = entered.decoded ? std::move(*entered.decoded) : decode_entry(entered);
  if (decoded.more_at_return && !decoded.before.empty())
    if (auto open = entered.task->open_calls.find(entered.call); open != entered.task->open_calls.end())
      open->second.before = std::move(decoded.before);
  decode::CallEntered record;
  record.label = &entered.probe->label;
  record.call = entered.call;
  record.depth = entered.depth;
  record.return_address = entered.callers;
  record.arguments = std::move(decoded.arguments);
  record.more_at_return = decoded.more_at_return;
  if (entered.unseen != nullptr) {
    record.unseen_return = *entered.unseen;
    add_unseen(entered, decoded.before, record);
  }
  if (services_.options.json) record.caller = caller_of(entered);
  if (entered.trace != nullptr)
    record.frames = backtraces_.describe(*entered.task->process->image, *entered.trace);
  services_.reporter.take(who_, now_, std::move(record));
}

void CallTracer::report_return(const Task& task, Returned& returned) {
  const Probe& probe = services_.registry.at(returned.frame.probe);
  if (!returned.decoded) decode_return(returned);
  decode::CallReturned record;
  record.label = &probe.label;
  record.call = returned.frame.call;
  record.depth = returned.frame.depth;
  record.duration = returned.frame.duration;
  record.self = returned.frame.self;
  record.recursive = returned.frame.recursive;
  record.inherited = inherited(task, returned.frame.call);
  record.failed = returned.decoded->failed;
  record.arguments = std::move(returned.decoded->arguments);
  record.result = std::move(returned.decoded->result);
  if (record.result.kind == decode::Value::Kind::error_result)
    record.error = static_cast<int>(record.result.raw);
  services_.reporter.take(who_, now_, std::move(record));
}

bool CallTracer::inherited(const Task& task, event::CallId call) {
  return static_cast<uint64_t>(call) < task.inherited_below;
}

}  // namespace rtrace::session
