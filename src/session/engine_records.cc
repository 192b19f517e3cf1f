// What threads have recorded by themselves, taken from their rings: a thread's own, up to its stop, before
// that stop is looked at, so that the order of what happened to it stays; those of all now and then.
#include "engine_core.h"
#include "rtrace/base/text.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr size_t kSome = 1024;  // records of one ring, until another's turn
constexpr size_t kAll = ~size_t{0};
constexpr uint64_t kMuch = 32 << 10;      // bytes of a ring: some hundred records
constexpr uint64_t kLately = 50'000'000;  // ns
constexpr uint64_t kTurn = 2'000'000;     // ns, of the rings' and of the events' in turn
constexpr pid_t kNobody = 0, kNoneIsLeft = -1, kItsOwn = -2;

}  // namespace

bool Engine::recorded_lately() const {
  return recorded_at_ != 0 && monotonic_now() - recorded_at_ < kLately;
}

// Threads stand at events meanwhile, that may have nothing to do with what is recorded: each has its turn.
bool Engine::take_records_in_turn(bool met_event) {
  const bool events_have_it = met_event && recording_ && monotonic_now() < records_at_;
  if (events_have_it) return true;
  recording_ = take_records();
  if (recording_) records_at_ = monotonic_now() + kTurn;
  return recording_;
}

// In threads that run: told when all that was recorded before is read.
std::map<pid_t, CallTracer::Unwound> Engine::look_for_unwound() const {
  std::map<pid_t, CallTracer::Unwound> found;
  for (const auto& [tid, task] : tasks_) {
    if (!CallTracer::may_have_unwound(*task)) continue;
    found.emplace(tid, CallTracer::unwound(*task));
    task->left_before = task->stack.left();  // until it is told, at the latest when there are more
  }
  return found;
}

// Some of each thread's, as far as time allows. Whether there was anything: then there may be more.
bool Engine::take_records() {
  if (!ticks_ || services_.recording != agent::Mode::record) return false;
  ticks_->keep();
  // The recorders wait for us, or lose by rule and count it.
  if (reporter_.should_ease()) return true;
  std::vector<std::pair<std::shared_ptr<Image>, uint64_t>> rings;
  for (const auto& [pid, process] : processes_) {
    if (process->silent || process->image == nullptr || process->image->recordings() == nullptr) continue;
    for (uint64_t slot : process->image->recordings()->records().used())
      rings.emplace_back(process->image, slot);
  }
  const auto unwound = look_for_unwound();
  const uint64_t begin = monotonic_now();
  size_t count = 0;
  bool all = true;
  for (size_t looked = 0; looked < rings.size(); ++looked) {
    const auto& [image, slot] = rings[next_ring_++ % rings.size()];
    const size_t some = take_ring(*image, slot, kSome, kNobody);
    count += some;
    all = all && some < kSome;
    if (some == 0 || monotonic_now() - begin <= kTurn) continue;
    all = false;
    break;
  }
  if (all)
    for (const auto& [tid, calls] : unwound)
      if (const auto task = tasks_.find(tid); task != tasks_.end()) calls_.tell_unwound(*task->second, calls);
  if (count == 0) return false;
  recorded_at_ = monotonic_now();
  cpu_.run_free(recorded_at_);
  return true;
}

// What it has recorded is to be read before.
bool Engine::takes_long(pid_t tid) const {
  const auto task = tasks_.find(tid);
  const mech::Trampolines* trampolines = task != tasks_.end() ? trampolines_of(*task->second) : nullptr;
  return trampolines != nullptr && trampolines->records().unread(task->second->thread_pointer) > kMuch;
}

// Where that takes long, all others of which that is not so come first. By then the event may be another: it
// is asked for anew.
void Engine::serve(const tracee::WaitEvent& event) {
  if (!recording_ || !takes_long(event.tid)) return handle(event);
  std::vector<pid_t> in_order;
  for (const auto& [tid, task] : tasks_)
    if (!takes_long(tid)) in_order.push_back(tid);
  for (const auto& [tid, birth] : births_)
    if (!birth.stopped) in_order.push_back(tid);
  in_order.push_back(event.tid);
  for (pid_t tid : in_order) {
    queue_.forget(tid);
    if (const auto now = tracee::peek(tid)) handle(*now);
  }
}

// The task stands, or has ended.
void Engine::take_records_of(Task& task) {
  Image* image = task.process->image.get();
  if (task.process->silent || image == nullptr || image->recordings() == nullptr) return;
  const auto& records = image->recordings()->records();
  if (task.thread_pointer == 0 && task.process->borrowed_thread_pointer == 0)
    if (const auto regs = tracee::registers(task.id.tid)) task.thread_pointer = regs->raw.fs_base;
  if (task.thread_pointer != 0) {
    const auto slot = records.slot_of_thread(task.thread_pointer);
    if (slot) (void)take_ring(*image, *slot, kAll, kItsOwn);
    return;
  }
  for (uint64_t slot : records.used()) (void)take_ring(*image, slot, kAll, task.id.tid);
}

// Of whoever had the thread's slot before it.
void Engine::take_records_before(const Task& thread) {
  Image* image = thread.process->image.get();
  if (thread.process->silent || image == nullptr || image->recordings() == nullptr) return;
  const auto slot = image->recordings()->records().slot_of_thread(thread.thread_pointer);
  if (slot) (void)take_ring(*image, *slot, kAll, kNoneIsLeft);
}

// None of its threads runs in this memory any more, or none is traced.
void Engine::take_all_records(const Process& process) {
  Image* image = process.image.get();
  if (process.silent || image == nullptr || image->recordings() == nullptr) return;
  for (uint64_t slot : image->recordings()->records().used())
    (void)take_ring(*image, slot, kAll, kNoneIsLeft);
}

size_t Engine::take_ring(Image& image, uint64_t slot, size_t most, pid_t standing) {
  using Owner = mech::RingReader::Owner;
  const auto owner = [&](pid_t tid) {
    if (standing == kNoneIsLeft) return Owner::gone;
    return standing == kItsOwn || standing == tid ? Owner::stands : Owner::runs;
  };
  return image.recordings()->read(slot, most, owner, [&](pid_t tid, const mech::Record& record) {
    take_record(image, tid, record, owner(tid));
  });
}

void Engine::take_record(Image& image, pid_t tid, const mech::Record& record, mech::RingReader::Owner owner) {
  using Kind = mech::Record::Kind;
  const auto found = tasks_.find(tid);
  const bool known = found != tasks_.end() && found->second->process->image.get() == &image;
  if (record.kind == Kind::lost || record.kind == Kind::broken) {
    const event::TraceeId who =
        known ? found->second->id : event::TraceeId{image.space().pid(), image.space().pid(), 0};
    if (record.kind == Kind::broken)
      return reporter_.take(who, timestamp(), decode::Lost{1, "or more: the thread's ring was written over"});
    std::string what = "the thread's ring had no room";
    if (record.returns > 0) what += fmt::format(", and for {} of others", counted(record.returns, "return"));
    return reporter_.take(who, timestamp(), decode::Lost{record.entries, std::move(what)});
  }
  if (!known || found->second->process->silent || found->second->muted) return;
  Task& task = *found->second;
  if (record.kind == Kind::thread) return begin_ring(task, record);
  const WrappedFunction* function = image.wrapped(record.function);
  if (function == nullptr) return;
  const event::Timestamp stamp = ticks_->at(record.ticks);
  const uint64_t not_own = ticks_->nanoseconds(record.held - std::min(record.held, task.held_before));
  // When in what was not its own the rest fell is not known: no call is made shorter than it was.
  const bool enters = record.kind == Kind::entered;
  const uint64_t woken =
      std::max(enters && task.clock.held() ? task.account.woken : 0, stop_costs_.wake_up());
  using Of = event::ThreadClock::Of;
  const uint64_t of_thread =
      task.clock.time_at(stamp.monotonic, not_own + woken, enters ? Of::entry : Of::returned);
  calls_.recorded(task, *function, record, {stamp, of_thread, owner});
}

// The thread has a slot now, which another may have had before.
void Engine::begin_ring(Task& task, const mech::Record& record) const {
  task.thread_pointer = record.thread_pointer;
  task.held_before = record.held;
}

// Nanoseconds since it was resumed.
uint64_t Engine::recorders_time(const Task& task) const {
  const mech::Trampolines* trampolines = trampolines_of(task);
  if (trampolines == nullptr) return 0;
  const uint64_t held = trampolines->records().held(task.thread_pointer, 0).value_or(0);
  return ticks_->nanoseconds(held - std::min(held, task.held_before));
}

}  // namespace rtrace::session
