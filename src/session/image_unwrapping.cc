// Wrapped functions in the copies of a memory that fork(2) makes, and when they are left.
#include <algorithm>

#include "image.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {

// In memory where only that task stands.
void unwrap(const mech::Trampolines& trampolines, pid_t tid, const tracee::ProcessMemory& memory) {
  trampolines.restore(memory);
  if (!trampolines.uses_padding()) return;
  const auto thread = mech::look_at(tid, memory, tracee::read_maps(memory.pid()), mech::Below::nothing);
  if (thread) trampolines.restore_padding(memory, {&*thread, 1});
}

// Signals that are not ours pass the handler in front of the program's own, and others may interrupt it
// there.
bool is_in_screen(const mech::Foothold& foothold, pid_t tid, const tracee::ProcessMemory& memory,
                  const std::vector<tracee::MapsEntry>& maps) {
  const auto ours = [&](VirtAddr pc) { return foothold.contains(pc); };
  const auto thread = mech::look_at(tid, memory, maps);
  return thread && (ours(thread->pc) || mech::handler_returns_to(*thread, ours));
}

}  // namespace

void Image::unwrap_copy(pid_t tid, const tracee::ProcessMemory& memory) const {
  if (wrapping_.trampolines != nullptr) unwrap(*wrapping_.trampolines, tid, memory);
}

void Image::inherit_wrapping(const Image& parent, uint64_t thread_pointer,
                             const std::optional<mech::ThreadState>& state, const NeedStopped& need_stopped) {
  wrapping_.hot = parent.wrapping_.hot;
  wrapping_.queued = parent.wrapping_.queued;
  wrapping_.waiting = parent.wrapping_.waiting;
  services_.to_wrap += wrapping_.unfinished();
  const mech::Trampolines* wrapped = parent.wrapping_.trampolines.get();
  if (wrapped == nullptr || !wrapped->begun()) return;
  auto own = std::make_unique<mech::Trampolines>(*space_, services_.ledger, *services_.owners);
  std::string failure = "no system call can be made in it";
  if (const auto stopped = need_stopped())
    failure = own->inherit({space_->memory(), services_.ledger, *stopped, find_slack()}, *wrapped,
                           thread_pointer, state);
  if (!failure.empty()) return unwrap_child(*wrapped, failure, need_stopped);
  wrapping_.trampolines = std::move(own);
  wrapping_.functions = parent.wrapping_.functions;
  if (services_.recording == agent::Mode::record)
    wrapping_.recordings.emplace(wrapping_.trampolines->records());
  else
    wrapping_.handed_on = wrapping_.trampolines->counted();
}

// Breakpoints again. Calls that the child was forked in return unseen.
void Image::unwrap_child(const mech::Trampolines& parent, const std::string& why,
                         const NeedStopped& need_stopped) {
  services_.reporter.say(fmt::format("child {}: breakpoints, no trampolines: {}", pid_, why));
  unwrap(parent, pid_, space_->memory());
  std::erase_if(armed_, [](const auto& entry) { return entry.second.wrapped; });
  no_wrapping_ = why;
  services_.to_wrap -= wrapping_.unfinished();
  wrapping_.queued.clear();
  wrapping_.waiting.clear();
  arm(plan::Objects(objects_), plan::Relocated::yes, need_stopped);
}

bool Image::needs_all_stopped() const {
  return wrapping_.trampolines != nullptr || !no_wrapping_.empty() || survival_.has_screened();
}

std::string Image::why_pages_stay(const std::vector<pid_t>& stopped, bool all_stopped) const {
  if (!no_wrapping_.empty()) return "it may have been forked inside a wrapped call";
  if (!needs_all_stopped()) return {};
  const auto maps = tracee::read_maps(pid_);
  const auto is_inside = [&](pid_t tid) {
    return is_in_screen(space_->foothold(), tid, space_->memory(), maps);
  };
  if (survival_.has_screened() && std::ranges::any_of(stopped, is_inside))
    return "a thread is inside the handler for SIGTRAP";
  if (wrapping_.trampolines == nullptr) return {};
  std::vector<mech::StoppedThread> threads;
  for (pid_t tid : stopped)
    if (auto thread = mech::look_at(tid, space_->memory(), maps, mech::Below::nothing))
      threads.push_back(std::move(*thread));
  const bool known =
      std::ranges::all_of(threads, [](const mech::StoppedThread& thread) { return thread.stack_known; });
  if (!known) return "the stack of a thread is not to be found";
  if (all_stopped && threads.size() == stopped.size())
    wrapping_.trampolines->restore_padding(space_->memory(), threads);
  return wrapping_.trampolines->why_needed(threads);
}

bool Image::records_calls() const {
  const mech::Trampolines* wrapped = wrapping_.trampolines.get();
  return wrapped != nullptr && wrapped->begun() && services_.recording == agent::Mode::record;
}

std::string Image::part_wrapping(pid_t stopped) {
  const mech::Trampolines* wrapped = wrapping_.trampolines.get();
  if (wrapped == nullptr || !wrapped->begun()) return {};
  if (!records_calls()) return space_->unmap_rings(stopped, find_slack());
  return space_->part_copies(stopped, find_slack(), wrapped->records().without_records());
}

bool Image::leads_to_wrapper(pid_t tid, const tracee::ProcessMemory& memory) const {
  if (!no_wrapping_.empty()) return true;
  const mech::Trampolines* wrapped = wrapping_.trampolines.get();
  if (!needs_all_stopped()) return false;
  const auto maps = tracee::read_maps(memory.pid());
  if (survival_.has_screened() && is_in_screen(space_->foothold(), tid, memory, maps)) return true;
  if (wrapped == nullptr) return false;
  const auto thread = mech::look_at(tid, memory, maps, mech::Below::nothing);
  return !thread || wrapped->is_needed_by(*thread, memory);
}

}  // namespace rtrace::session
