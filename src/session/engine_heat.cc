// Which breakpoints are met so often that trampolines would pay.
#include <set>
#include <string>

#include "engine_core.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kPartOfTime = 20;  // that examining functions may take
constexpr uint32_t kManyInVain = 1000;

}  // namespace

// Was just met, and observed.
void Engine::note_heat(const Task& task, Image& image, mech::BreakpointSite& site) {
  if (task.thread_pointer != 0) image.note_thread_pointer();
  const uint64_t now = task.clock.stopped_at();
  ++site.met;
  if (options_.mechanism == Options::Mechanism::automatic && !site.probes.empty() && !site.considered &&
      site.calls.rises(now)) {
    site.considered = true;
    image.note_hot(site.address);
  }
  if (site.serves_returns_only() && calls_.nothing_returned()) note_idle(task, image, site);
}

// Where an interpreter's loop calls, what is awaited and much else return to the same place.
void Engine::note_idle(const Task& task, Image& image, mech::BreakpointSite& site) {
  const bool many = ++site.passed == kManyInVain;
  const bool hot = site.idle.rises(task.clock.stopped_at());
  if (hot && image.trampolines() != nullptr) image.note_idle_returns();
  if (!many && !hot) return;
  std::set<std::string> names;
  task.stack.for_each_active([&](const event::Frame& frame) {
    if (frame.identity.return_address != site.address) return;
    names.insert(services_.registry.at(frame.probe).label.text());
    mech::BreakpointSite* entry = image.space().find(frame.site);
    if (options_.mechanism != Options::Mechanism::automatic || entry == nullptr || entry->considered) return;
    entry->considered = true;
    image.note_hot(frame.site);
  });
  if (many && !names.empty())
    reporter_.notice(
        fmt::format("{}: other calls return to the same place all the time, and each of these stops: while "
                    "it is open the program is slow, and its time too long; a trampoline (--mechanism) has "
                    "no such stops",
                    fmt::join(names, ", ")));
}

// The plan of a process with many probes takes its time, in which threads wait: no more than a part of all.
void Engine::promote_hot() {
  for (const auto& [pid, process] : processes_) {
    if (process->silent || process->image == nullptr || !process->image->has_hot()) continue;
    const uint64_t begin = monotonic_now();
    if (begin < promote_at_) return;
    process->image->consider_hot();
    const uint64_t end = monotonic_now();
    promote_at_ = end + kPartOfTime * (end - begin);
    if (!owners_ && process->image->awaits_stop(end)) prepare_wrapping();
  }
}

}  // namespace rtrace::session
