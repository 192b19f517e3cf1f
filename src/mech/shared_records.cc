#include "rtrace/mech/shared_records.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "load.h"
#include "rtrace/base/error.h"

namespace rtrace::mech {
namespace {

template <typename T>
void store(T& place, T value) {
  std::atomic_ref<T>(place).store(value, std::memory_order_release);
}

uint64_t returned(const agent::Summary& summary) {
  uint64_t all = 0;
  for (const uint64_t& count : summary.durations.counts) all += load(count);
  return all;
}

void add(CountedCalls& calls, const agent::Summary& summary) {
  calls.entered += load(summary.entered);
  calls.errors += load(summary.errors);
  calls.total += load(summary.total);
  calls.inner += load(summary.inner);
  calls.recursive += load(summary.recursive);
  calls.greatest = std::max(calls.greatest, load(summary.greatest));
  calls.durations.resize(agent::kBuckets);
  for (unsigned i = 0; i < agent::kBuckets; ++i) {
    const uint64_t count = load(summary.durations.counts[i]);
    calls.durations[i] += count;
    calls.returned += count;
  }
}

}  // namespace

SharedRecords::SharedRecords(std::span<std::byte> memory, const RecorderSize& size)
    : memory_(memory), size_(size), layout_(size.layout()) {
  CHECK(memory.size() >= layout_.size, "{} bytes for a layout of {}", memory.size(), layout_.size);
  CHECK(size.ring_bytes >= agent::kLeastRing && (size.ring_bytes & (size.ring_bytes - 1)) == 0,
        "rings of {} bytes", size.ring_bytes);
  CHECK(size.slot_bits > 0 && size.slot_bits <= agent::kMostSlotBits, "2^{} slots", size.slot_bits);
  CHECK(size.summaries == 0 || size.summaries >= size.functions, "{} summaries for {} functions",
        size.summaries, size.functions);
}

agent::Slot& SharedRecords::slot(uint64_t index) const {
  return reinterpret_cast<agent::Slot*>(memory_.data() + layout_.slots)[index];
}

std::span<const std::byte> SharedRecords::ring(uint64_t index) const {
  return memory_.subspan(layout_.rings + index * size_.ring_bytes, size_.ring_bytes);
}

agent::Summary& SharedRecords::summary(uint64_t index) const {
  return reinterpret_cast<agent::Summary*>(memory_.data() + layout_.summaries)[index];
}

agent::Control SharedRecords::control(VirtAddr shared, VirtAddr plans) const {
  agent::Control control{};
  control.slot_bits = static_cast<uint8_t>(size_.slot_bits);
  control.functions = size_.functions;
  control.plans = plans.value;
  control.shared = shared.value;
  control.slots = shared.value + layout_.slots;
  control.pages = shared.value + layout_.pages;
  control.summary_index = shared.value + layout_.summary_index;
  control.summaries = shared.value + layout_.summaries;
  control.rings = shared.value + layout_.rings;
  control.ring_bytes = size_.ring_bytes;
  control.summaries_count = size_.summaries;
  control.slot_mask = agent::slot_mask(size_.slot_bits);
  return control;
}

// Where the recorder looks (agent/threads.cc), and no further.
agent::Slot* SharedRecords::find(uint64_t thread_pointer) const {
  const uint64_t mask = size_.slots() - 1;
  uint64_t index = agent::slot_of(thread_pointer, size_.slot_bits);
  for (uint64_t looked = 0; looked <= mask && looked < agent::kLongestChain; ++looked) {
    agent::Slot& found = slot(index);
    const uint64_t holder = load(found.thread);
    if (holder == agent::Slot::kFree) return nullptr;
    if ((holder & ~agent::Slot::kStates) == thread_pointer) return &found;
    index = (index + 1) & mask;
  }
  return nullptr;
}

// Whoever has it next begins with no time.
static void give_back(agent::Slot& slot) {
  store(slot.held, uint64_t{0});
  store(slot.own, uint64_t{0});
  store(slot.tid, int32_t{0});
  store(slot.inside_breakpoints, uint64_t{0});
  store(slot.thread, agent::Slot::kGivenBack);
}

void SharedRecords::thread_ended(uint64_t thread_pointer, pid_t tid) const {
  agent::Slot* slot = find(thread_pointer);
  if (slot != nullptr && load(slot->tid) == tid) give_back(*slot);
}

void SharedRecords::thread_begins(uint64_t thread_pointer) const {
  if (agent::Slot* slot = find(thread_pointer)) give_back(*slot);
}

// A thread that has no slot yet would let the other task claim one in its name: it gets one, unsettled.
void SharedRecords::mute(uint64_t thread_pointer, pid_t tid) const {
  if (agent::Slot* slot = find(thread_pointer)) {
    store(slot->tid, int32_t{tid});
    store(slot->thread, thread_pointer | agent::Slot::kMuted | (load(slot->thread) & agent::Slot::kClaiming));
    return;
  }
  uint64_t index = agent::slot_of(thread_pointer, size_.slot_bits);
  for (uint64_t looked = 0; looked < agent::kLongestChain; ++looked) {
    uint64_t holder = load(slot(index).thread);
    const uint64_t taken = thread_pointer | agent::Slot::kMuted | agent::Slot::kClaiming;
    if (holder <= agent::Slot::kGivenBack &&
        std::atomic_ref<uint64_t>(slot(index).thread).compare_exchange_strong(holder, taken))
      return store(slot(index).tid, int32_t{tid});
    index = (index + 1) & (size_.slots() - 1);
  }
}

void SharedRecords::unmute(uint64_t thread_pointer) const {
  if (agent::Slot* slot = find(thread_pointer))
    store(slot->thread, load(slot->thread) & ~agent::Slot::kMuted);
}

std::optional<uint64_t> SharedRecords::add(uint64_t agent::Slot::*ticks, uint64_t thread_pointer,
                                           uint64_t more) const {
  agent::Slot* slot = find(thread_pointer);
  if (slot == nullptr) return std::nullopt;
  const uint64_t sum = load(slot->*ticks) + more;
  if (more != 0) store(slot->*ticks, sum);
  return sum;
}

std::optional<uint64_t> SharedRecords::held(uint64_t thread_pointer, uint64_t ticks) const {
  return add(&agent::Slot::held, thread_pointer, ticks);
}

std::optional<uint64_t> SharedRecords::own(uint64_t thread_pointer, uint64_t ticks) const {
  return add(&agent::Slot::own, thread_pointer, ticks);
}

void SharedRecords::note_inside(uint64_t thread_pointer, bool inside) const {
  if (agent::Slot* slot = find(thread_pointer)) store(slot->inside_breakpoints, uint64_t{inside});
}

std::optional<uint64_t> SharedRecords::slot_of_thread(uint64_t thread_pointer) const {
  const agent::Slot* found = thread_pointer != 0 ? find(thread_pointer) : nullptr;
  if (found == nullptr) return std::nullopt;
  return static_cast<uint64_t>(found - &slot(0));
}

void SharedRecords::know_page(uint64_t page) const {
  auto* pages = reinterpret_cast<uint64_t*>(memory_.data() + layout_.pages);
  store(pages[agent::known_page(page)], page);
}

void SharedRecords::forget_page(uint64_t page) const {
  auto& place = reinterpret_cast<uint64_t*>(memory_.data() + layout_.pages)[agent::known_page(page)];
  std::atomic_ref<uint64_t>(place).compare_exchange_strong(page, 0);
}

std::vector<std::pair<uint64_t, std::vector<std::byte>>> SharedRecords::without_records() const {
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> pieces;
  const auto add = [&](uint64_t offset, const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    pieces.emplace_back(offset, std::vector<std::byte>(bytes.begin(), bytes.end()));
  };
  add(0, header());
  for (uint64_t index : used()) {
    agent::Slot slot = this->slot(index);
    slot.capacity = slot.tail = slot.room_end = 0;
    add(layout_.slots + index * sizeof(agent::Slot), slot);
  }
  return pieces;
}

void SharedRecords::abandon() const {
  store(header().owner, agent::kOwnerDied);
}

bool SharedRecords::abandoned() const {
  return load(header().owner) == agent::kOwnerDied;
}

std::optional<uint64_t> SharedRecords::own_summary(uint64_t slot, uint32_t function) const {
  const auto* index = reinterpret_cast<const uint32_t*>(memory_.data() + layout_.summary_index);
  const uint32_t own = load(index[slot * size_.functions + function]);
  if (own <= size_.functions || own > size_.summaries) return std::nullopt;
  return own - 1;
}

// Counted calls of a function that the slot's thread is in; 0 where it has no summary of its own.
uint64_t SharedRecords::open_calls_of(uint64_t slot, uint32_t function) const {
  const auto own = own_summary(slot, function);
  if (!own) return 0;
  const agent::Summary& summary = this->summary(*own);
  return load(summary.entered) - returned(summary);
}

std::optional<ThreadState> SharedRecords::state_of(uint64_t thread_pointer, uint32_t functions) const {
  const auto index = slot_of_thread(thread_pointer);
  if (!index) return std::nullopt;
  const agent::Slot& slot = this->slot(*index);
  ThreadState state{load(slot.head), load(slot.held), load(slot.own), load(slot.open), {}};
  if (size_.summaries == 0) return state;
  for (uint32_t function = 0; function < std::min(functions, size_.functions); ++function)
    if (const uint64_t open = open_calls_of(*index, function); open != 0)
      state.counted.emplace_back(function, open);
  return state;
}

// Names of calls go on where the parent's end, so that none of the child's means one that it was forked in.
void SharedRecords::begin_from(uint64_t thread_pointer, const ThreadState& state) const {
  const uint64_t index = agent::slot_of(thread_pointer, size_.slot_bits);
  agent::Slot& own = slot(index);
  // Its open calls are some that another stack of the child's may return from, if it never calls again.
  if (state.open != 0) store(header().used[index / 64], uint64_t{1} << index % 64);
  store(own.head, state.head);
  store(own.tail, state.head);
  store(own.held, state.held);
  store(own.own, state.own);
  store(own.open, state.open);
  for (const auto& [function, open] : state.counted) {
    agent::Summary& everybodys = summary(function);
    store(everybodys.function, function);
    store(everybodys.shared, uint32_t{1});
    store(everybodys.entered, open);
  }
}

void SharedRecords::leave_calls(uint64_t thread_pointer, pid_t tid, const ThreadState& before) const {
  agent::Slot* slot = find(thread_pointer);
  if (slot == nullptr) return;
  store(slot->open, before.open);
  store(slot->tid, int32_t{tid});
  if (size_.summaries == 0) return;
  const auto index = static_cast<uint64_t>(slot - &this->slot(0));
  for (uint32_t function = 0; function < size_.functions; ++function) {
    const auto known = std::ranges::find(before.counted, function, &std::pair<uint32_t, uint64_t>::first);
    const uint64_t open = known != before.counted.end() ? known->second : 0;
    const uint64_t left = open_calls_of(index, function) - open;
    if (left != 0) store(header().left_calls, load(header().left_calls) + left);
  }
}

uint64_t SharedRecords::read_up_to(uint64_t slot) const {
  return load(this->slot(slot).tail) / sizeof(uint64_t) * sizeof(uint64_t);
}

uint64_t SharedRecords::unread(uint64_t thread_pointer) const {
  const auto index = slot_of_thread(thread_pointer);
  return index ? load(slot(*index).head) - load(slot(*index).tail) : 0;
}

uint64_t SharedRecords::open_calls() const {
  uint64_t open = load(header().unrecorded);
  for (uint64_t index : used()) open += load(slot(index).open);
  return open;
}

uint64_t SharedRecords::unplaced() const {
  return load(header().unplaced);
}

std::vector<uint64_t> SharedRecords::used() const {
  std::vector<uint64_t> found;
  for (uint64_t first = 0; first < size_.slots(); first += 64) {
    uint64_t word = load(header().used[first / 64]);
    if (size_.slots() - first < 64) word &= (uint64_t{1} << (size_.slots() - first)) - 1;
    for (; word != 0; word &= word - 1)
      found.push_back(first + static_cast<uint64_t>(std::countr_zero(word)));
  }
  return found;
}

// Those that are in use, of the first so many functions.
template <typename Take>
static void for_each_summary(const SharedRecords& records, uint32_t functions, Take take) {
  functions = std::min(functions, records.size().functions);
  const auto look = [&](const agent::Summary& summary) {
    if (load(summary.function) < functions && load(summary.entered) != 0) take(summary);
  };
  // Those that threads share, then those of one thread each.
  for (uint64_t index = 0; index < std::min(functions, records.size().summaries); ++index)
    look(records.summary(index));
  const uint64_t own = load(records.header().summaries_claimed);
  const uint64_t claimed = std::min<uint64_t>(records.size().functions + own, records.size().summaries);
  for (uint64_t index = records.size().functions; index < claimed; ++index) look(records.summary(index));
}

std::vector<CountedCalls> counted_calls(const SharedRecords& records, uint32_t functions) {
  std::vector<CountedCalls> calls(std::min(functions, records.size().functions));
  for_each_summary(records, functions, [&](const agent::Summary& summary) {
    const uint32_t function = load(summary.function);  // the tracee may have written meanwhile
    if (function < calls.size()) add(calls[function], summary);
  });
  return calls;
}

uint64_t not_returned(const SharedRecords& records, uint32_t functions) {
  uint64_t open = 0;
  for_each_summary(records, functions,
                   [&](const agent::Summary& summary) { open += load(summary.entered) - returned(summary); });
  return open;
}

}  // namespace rtrace::mech
