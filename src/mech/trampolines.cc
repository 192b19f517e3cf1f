#include "rtrace/mech/trampolines.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "foretelling.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/mech/recorder_share.h"
#include "rtrace/tracee/thread.h"
#include "way_on.h"

namespace rtrace::mech {
namespace {

// What is returned through, and what unwinders look at.
struct LentCode {
  VirtAddr at;
  std::vector<std::byte> bytes;
};

// `call *%reg`, or `add $imm, %rsp; ret`, or our call in front of a `ret`.
LentCode lent_code(const BorrowedFrame& frame) {
  constexpr uint8_t kAdd8 = 0x83, kAdd32 = 0x81, kRet = 0xc3, kExtended = 0x41, kCall = 0xff, kThrough = 0xd0;
  std::vector<uint8_t> code;
  VirtAddr at = frame.ret;
  if (frame.first != 0) {
    at = frame.call();
    for (const std::byte byte : kForetellingCall) code.push_back(std::to_integer<uint8_t>(byte));
    code.push_back(kRet);
  } else if (frame.calls != 0) {
    if (frame.calls >= 8) code.push_back(kExtended);
    code.insert(code.end(), {kCall, static_cast<uint8_t>(kThrough | (frame.calls & 7))});
  } else {
    const bool wide = frame.adds > INT8_MAX;
    code = {0x48, wide ? kAdd32 : kAdd8, 0xc4};
    for (unsigned i = 0; i < (wide ? sizeof frame.adds : 1); ++i)
      code.push_back(static_cast<uint8_t>(frame.adds >> 8 * i));
    at = frame.ret - code.size();
    code.push_back(kRet);
  }
  const auto bytes = std::as_bytes(std::span(code));
  return {at, {bytes.begin(), bytes.end()}};
}

bool same_page(VirtAddr address, size_t size) {
  return address.value / arch::kPageSize == (address.value + size - 1) / arch::kPageSize;
}

using NoteBytes = uint8_t[agent::EntryNote::kLength];

std::span<const std::byte> bytes_of(const NoteBytes& bytes, size_t length = arch::kNearJump) {
  return std::as_bytes(std::span(bytes, length));
}

void copy_to(NoteBytes& bytes, std::span<const std::byte> from) {
  std::memcpy(bytes, from.data(), from.size());
}

std::optional<VirtAddr> hop_of(const agent::EntryNote& note) {
  if (note.length != arch::kShortJump) return std::nullopt;
  return arch::short_jump_target(bytes_of(note.written, note.length), VirtAddr{note.address});
}

bool stands(const tracee::ProcessMemory& memory, VirtAddr at, std::span<const std::byte> bytes) {
  std::byte now[sizeof(NoteBytes)];
  return memory.read_forced(at, {now, bytes.size()}) == bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), now);
}

// Where it stands still, for somebody else may have written there.
void put_back(const tracee::ProcessMemory& memory, VirtAddr at, std::span<const std::byte> ours,
              std::span<const std::byte> original) {
  const moment::Scope writing(Moment::byte_write);
  if (stands(memory, at, ours)) (void)memory.write(at, original);
}

}  // namespace

std::string Trampolines::begin(const Foothold::Means& means, const AgentLink::Setting& setting) {
  if (begun_) return {};
  std::string failure = link_.begin(means, space_.foothold(), setting);
  begun_ = failure.empty();
  begun_at_ = read_clocks().ticks;
  return failure;
}

std::string Trampolines::inherit(const Foothold::Means& means, const Trampolines& parent,
                                 uint64_t thread_pointer, const std::optional<ThreadState>& state) {
  next_ = parent.next_;
  shapes_ = parent.shapes_;
  lent_ = parent.lent_;
  entries_ = parent.entries_;
  copies_ = parent.copies_;
  foretelling_ = parent.foretelling_;
  bool published = publish_foretelling();
  for (auto& [at, entry] : entries_) published &= publish(entry);
  if (!published) return "there is no room for what repairs it";
  if (std::string failure = link_.inherit(means, space_.foothold(), parent.link_); !failure.empty())
    return failure;
  begun_ = true;
  begun_at_ = read_clocks().ticks;
  if (state) records().begin_from(thread_pointer, *state);
  return link_.record(space_.memory()) ? std::string() : "its pages cannot be written (/proc/PID/mem)";
}

std::optional<ThreadState> Trampolines::state_of(uint64_t thread_pointer) const {
  return begun_ ? records().state_of(thread_pointer, next_) : std::nullopt;
}

std::vector<OpenCount> Trampolines::open_counts(const CountingThread& thread) const {
  if (!begun_) return {};
  return mech::open_counts(records(), {space_.memory(), link_.shared(), begun_at_}, thread, next_);
}

Trampolines::Answer Trampolines::install(const Function& function, std::span<const StoppedThread> threads) {
  if (next_ == link_.capacity()) return Declined{"the recorder has no room for more functions"};
  const auto stranger = std::find_if(threads.begin(), threads.end(),
                                     [](const auto& thread) { return thread.thread_pointer == 0; });
  if (stranger != threads.end()) return Busy{fmt::format("thread {} has no thread pointer", stranger->tid)};
  if (function.slot) return install_slot(function, threads);
  const auto own = space_.own_code(function.entry, function.room);
  const auto expected = function.expected.first(std::min(function.expected.size(), own.size()));
  if (own.size() < function.room || !std::equal(expected.begin(), expected.end(), own.begin()))
    return Declined{"the code in memory is not the file's"};
  if (function.hop && space_.own_code(function.hop, arch::kNearJump) !=
                          std::vector(function.padding.begin(), function.padding.end()))
    return Declined{"the padding for its jump in memory is not the file's, or is another's"};
  auto made = make_code(function, own, next_);
  if (auto* declined = std::get_if<Declined>(&made)) return std::move(*declined);
  if (auto* busy = std::get_if<Busy>(&made)) return std::move(*busy);
  const Made& code = std::get<Made>(made);
  auto moves = make_way(function, code, threads);
  if (auto* busy = std::get_if<Busy>(&moves)) {
    release(function, code);
    return std::move(*busy);
  }
  // Before the jump: were we to die in between, the copy leads behind code that is still whole.
  // A copy that somebody has been sent into stays, whatever comes of the jump.
  const auto& moved = std::get<Moves>(moves);
  for (const auto& [tid, pc] : moved) (void)tracee::set_pc(tid, pc);
  Answer answer = write_jump(function, code, next_);
  if (!std::holds_alternative<Wrapped>(answer) && moved.empty()) release(function, code);
  return answer;
}

// In one that was interrupted, perhaps: the kernel, or who has rewound it, knows it by its place.
bool Trampolines::at_system_call(VirtAddr pc) const {
  constexpr std::array kSyscall = {std::byte{0x0f}, std::byte{0x05}};
  std::array<std::byte, 2 * kSyscall.size()> around{};
  if (space_.memory().read_forced(pc - kSyscall.size(), around) != around.size()) return true;
  return std::search(around.begin(), around.end(), kSyscall.begin(), kSyscall.end()) != around.end();
}

// Who goes on elsewhere before the jump is written.
std::variant<Trampolines::Moves, Busy> Trampolines::make_way(const Function& function, const Made& made,
                                                             std::span<const StoppedThread> threads) const {
  // At its second byte stands a thread whose SIGTRAP of the breakpoint is still to come; behind an endbr64
  // one that has passed the breakpoint, and would be seen again.
  const Range covered = made.prologue.range();
  std::vector<Range> forbidden = {covered.begin == function.entry ? inside(covered) : covered,
                                  {function.entry + 1, function.entry + 2}};
  const BreakpointSite* site = space_.find(function.entry);
  if (site != nullptr && site->copy) forbidden.push_back({site->copy, site->copy + site->copy_size});
  Moves moves;
  for (const StoppedThread& thread : threads) {
    VirtAddr pc = site != nullptr ? way_on(thread.pc, *site, made.prologue, made.copy) : thread.pc;
    if (pc != thread.pc && at_system_call(thread.pc)) pc = thread.pc;
    const StandingThread standing{thread.tid, pc, thread.stack};
    if (auto busy = patch_conflicts(forbidden, {&standing, 1})) return std::move(*busy);
    if (pc != thread.pc) moves.emplace_back(thread.tid, pc);
  }
  return moves;
}

std::variant<Trampolines::Made, Declined, Busy> Trampolines::make_code(const Function& function,
                                                                       std::span<const std::byte> own,
                                                                       uint32_t index) {
  auto made = allocate(function);
  if (!made) return Busy{"no room for its wrapper near it yet"};
  std::string refusal;
  const size_t jump = function.hop ? arch::kShortJump : arch::kNearJump;
  auto prologue = arch::relocate_prologue({own, function.entry, function.size, jump}, made->copy);
  if (const auto* refused = std::get_if<arch::Refused>(&prologue)) refusal = refused->reason;
  if (refusal.empty()) {
    made->prologue = std::get<arch::Prologue>(std::move(prologue));
    refusal = why_refused(function, made->prologue);
  }
  if (refusal.empty()) refusal = write_code(function, *made, made->prologue.copy.code, index);
  if (refusal.empty()) return *made;
  release(function, *made);
  return Declined{refusal};
}

// What speaks against it as this process is now.
std::string Trampolines::why_refused(const Function& function, const arch::Prologue& prologue) const {
  const Range covered = prologue.range();
  if (prologue.calls && tracee::has_shadow_stack(space_.pid()))
    return "its first instructions make a call, and the process has a shadow stack";
  if (!same_page(covered.begin, function.hop ? arch::kShortJump : arch::kNearJump))
    return "its first instructions lie on two pages";
  if (function.hop && !same_page(function.hop, arch::kNearJump))
    return "the padding for its jump lies on two pages";
  if (space_.has_others_in(covered, function.entry))
    return "other breakpoints stand in its first instructions";
  const bool lends = std::ranges::any_of(lent_, [&](const BorrowedFrame& frame) {
    const LentCode code = lent_code(frame);
    return code.at < covered.end && covered.begin < code.at + code.bytes.size();
  });
  if (lends) return "other wrapped functions return through it";
  return function.borrowed ? why_not_borrowed(*function.borrowed) : "";
}

// Another wrapper's jump may stand there.
std::string Trampolines::why_not_borrowed(const BorrowedFrame& frame) const {
  if (tracee::has_shadow_stack(space_.pid()))
    return "an exception may pass it, and the process has a shadow stack";
  const LentCode expected = lent_code(frame);
  if (space_.own_code(expected.at, expected.bytes.size()) != expected.bytes)
    return "the code that it would return through is not the file's";
  return {};
}

void Trampolines::note_lent(const BorrowedFrame& frame) {
  if (std::ranges::find(lent_, frame) == lent_.end()) lent_.push_back(frame);
}

bool Trampolines::returns_to_wrapper(VirtAddr return_address) const {
  return space_.in_copy(return_address) ||
         std::ranges::any_of(lent_, [&](const BorrowedFrame& frame) { return frame.ret == return_address; });
}

bool Trampolines::publish(Entry& entry) {
  const agent::EntryNote& note = entry.note;
  const VirtAddr at{note.address};
  const auto written = bytes_of(note.written, note.length);
  if (const auto hop = hop_of(note)) {
    entry.hop_patch = ledger_.publish(space_.pid(), *hop, bytes_of(note.padding), bytes_of(note.hop));
    if (entry.hop_patch == PatchLedger::kNone) return false;
  }
  entry.patch = ledger_.publish(space_.pid(), at, bytes_of(note.original, note.length), written);
  return entry.patch != PatchLedger::kNone;
}

void Trampolines::withdraw(const Entry& entry) {
  ledger_.withdraw(entry.patch);
  ledger_.withdraw(entry.hop_patch);
}

// What whoever survives us needs is written before the jump is; and what a short one leads to.
Trampolines::Answer Trampolines::write_jump(const Function& function, const Made& made, uint32_t index) {
  const VirtAddr at = made.prologue.at, from = function.hop ? function.hop : at;
  const auto near = arch::encode_jmp(from, made.stub);
  if (!near) return Declined{"its wrapper is out of reach"};
  std::vector<std::byte> jump(near->begin(), near->end());
  if (function.hop) {
    const auto to_hop = arch::encode_short_jmp(at, function.hop);
    if (!to_hop) return Declined{"the padding for its jump is out of reach"};
    jump.assign(to_hop->begin(), to_hop->end());
  }
  const auto own = space_.own_code(at, jump.size());
  if (own.size() != jump.size()) return Declined{"its code cannot be read"};
  Entry entry;
  entry.index = index;
  entry.note.address = at.value;
  entry.note.length = static_cast<uint8_t>(jump.size());
  copy_to(entry.note.original, own);
  copy_to(entry.note.written, jump);
  if (function.hop) copy_to(entry.note.padding, function.padding), copy_to(entry.note.hop, *near);
  if (!publish(entry) || !link_.note_entry(space_.memory(), index, entry.note)) {
    withdraw(entry);
    return Declined{"what repairs it cannot be written"};
  }
  if (function.hop && !write_hop(function.hop, *near)) {
    withdraw(entry);
    return Declined{"the padding for its jump cannot be written"};
  }
  const moment::Scope writing(Moment::byte_write);
  space_.give_up(function.entry);
  if (space_.memory().write(at, jump) != 0) {
    if (function.hop) put_back(space_.memory(), function.hop, *near, function.padding);
    withdraw(entry);
    return Declined{"its code cannot be written, and its calls are not seen any more"};
  }
  ++next_;
  entries_[at] = entry;
  copies_[made.copy] = made.prologue.copy.points;
  if (function.borrowed) note_lent(*function.borrowed);
  RTRACE_LOG(mech, 2, "wrapper {} of {} in {}, stub {}", index, function.entry, space_.pid(), made.stub);
  return Wrapped{index, at, jump.front(), made.prologue.covered};
}

VirtAddr Trampolines::moved_from(VirtAddr pc) const {
  auto copy = copies_.upper_bound(pc);
  if (copy == copies_.begin()) return {};
  --copy;
  const auto point = std::ranges::find_if(copy->second, [&](const arch::ResumePoint& one) {
    return copy->first + one.offset == pc && one.sp_adjust == 0;
  });
  return point != copy->second.end() ? point->address : VirtAddr{};
}

VirtAddr Trampolines::moved_to(VirtAddr pc) const {
  if (entries_.contains(pc)) return {};
  for (const auto& [copy, points] : copies_)
    for (const arch::ResumePoint& point : points)
      if (point.address == pc && point.sp_adjust == 0) return copy + point.offset;
  return {};
}

bool Trampolines::write_hop(VirtAddr at, std::span<const std::byte> jump) const {
  const moment::Scope writing(Moment::byte_write);
  return space_.memory().write(at, jump) == 0;
}

void Trampolines::restore(const tracee::ProcessMemory& memory) const {
  for (const auto& [at, entry] : entries_)
    put_back(memory, at, bytes_of(entry.note.written, entry.note.length),
             bytes_of(entry.note.original, entry.note.length));
}

void Trampolines::restore_padding(const tracee::ProcessMemory& memory,
                                  std::span<const StoppedThread> threads) const {
  for (const auto& [at, entry] : entries_) {
    const auto hop = hop_of(entry.note);
    if (!hop || !stands(memory, at, bytes_of(entry.note.original, entry.note.length))) continue;
    const auto comes_back = [&](const StoppedThread& thread) {
      const Range place{*hop, *hop + 1};
      const StandingThread standing{thread.tid, thread.pc, thread.stack};
      return patch_conflicts({&place, 1}, {&standing, 1}).has_value();
    };
    if (std::ranges::none_of(threads, comes_back))
      put_back(memory, *hop, bytes_of(entry.note.hop), bytes_of(entry.note.padding));
  }
  const VirtAddr call = foretelling_.at;
  if (call && retire_foretelling(memory, space_.foothold().code_ranges(), call, threads))
    put_back(memory, call, kForetellingCall, foretelling_.padding);
}

bool Trampolines::uses_padding() const {
  return foretelling_.at || std::ranges::any_of(entries_, [](const auto& entry) {
           return hop_of(entry.second.note).has_value();
         });
}

void Trampolines::fall_silent() const {
  if (begun_) (void)link_.set_mode(space_.memory(), agent::Mode::off);
}

// A wrapper that runs shows by its call, which has not returned; but for its first and last instructions, and
// these by the thread's pc, or the pc in a handler's frame.
std::string Trampolines::why_needed(std::span<const StoppedThread> threads) const {
  if (!begun_) return {};
  if (std::ranges::any_of(threads, [&](const auto& thread) { return leads_to_wrapper(thread); }))
    return "a thread is still inside a wrapped call";
  if (slot_was_written_to(space_.memory()))
    return "the program has written to a GOT slot, and may have kept what it held";
  return has_open_calls() ? "a wrapped call has not returned" : "";
}

bool Trampolines::has_open_calls() const {
  const uint64_t counted = not_returned(records(), next_);
  return records().open_calls() != 0 || counted != records().header().left_calls;
}

bool Trampolines::leads_to_wrapper(const StoppedThread& thread) const {
  if (!begun_) return false;
  std::vector<Range> ours = space_.foothold().code_ranges();
  for (const auto& [at, entry] : entries_)
    if (const auto hop = hop_of(entry.note)) ours.push_back({*hop, *hop + 1});
  const StandingThread standing{thread.tid, thread.pc, thread.stack};
  return patch_conflicts(ours, {&standing, 1}).has_value();
}

void Trampolines::forget(Range range) {
  std::erase_if(entries_, [&](const auto& entry) {
    if (!range.contains(entry.first)) return false;
    const agent::EntryNote& note = entry.second.note;
    // In what has been mapped in its place, where it leads to the same wrapper.
    if (stands(space_.memory(), entry.first, bytes_of(note.written, note.length))) return false;
    withdraw(entry.second);
    (void)link_.note_entry(space_.memory(), entry.second.index, {});
    return true;
  });
}

void Trampolines::forget_all() {
  for (const auto& [at, entry] : entries_) withdraw(entry);
  entries_.clear();
  ledger_.withdraw(foretelling_.patch);
  foretelling_ = {};
}

}  // namespace rtrace::mech
