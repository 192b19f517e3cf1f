// Who is repaired when: the code of all first; what then still waits for threads is visited again.
#include <algorithm>
#include <thread>
#include <utility>

#include "repair_once.h"
#include "rtrace/base/error.h"
#include "rtrace/mech/repair.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::mech {
namespace {

using Clock = std::chrono::steady_clock;

class Rounds {
 public:
  Rounds(const std::function<std::vector<pid_t>()>& find_more, const RepairWish& wish)
      : find_more_(find_more), wish_(wish) {}
  std::map<pid_t, RepairOutcome> run(std::map<pid_t, std::vector<ForeignBytes>> known);

 private:
  struct Patient {
    std::vector<ForeignBytes> bytes = {};
    RepairOutcome outcome = {};
    unsigned visits = 0;
    bool waits = false;  // something is left, and another visit may take it out
  };
  bool visit_new();
  void visit(pid_t pid, Patient& patient, bool files, Visit which = Visit::ordinary);
  void find_others();
  bool is_waited_for(const Patient& patient) const;
  static bool still_waits(const Patient& patient);
  void visit_waiting();

  const std::function<std::vector<pid_t>()>& find_more_;
  const RepairWish& wish_;
  const Clock::time_point begin_ = Clock::now();
  std::map<pid_t, Patient> patients_;
};

// A thread that is in the way is elsewhere a moment later, or, on a busy machine, once it has been given
// time: there a visit may take a second, and a few are made all the same.
bool Rounds::is_waited_for(const Patient& patient) const {
  const Repaired& repaired = patient.outcome.repaired;
  constexpr int kTimesAsLong = 6;
  constexpr std::chrono::milliseconds kLongest(3000), kBusy(30'000);
  constexpr unsigned kFewestVisits = 8;
  if (!patient.waits || (repaired.inert && wish_.until == Until::inert)) return false;
  const auto elapsed = Clock::now() - begin_;
  const auto patience = repaired.passing
                            ? std::max(wish_.patience, std::min(wish_.patience * kTimesAsLong, kLongest))
                            : wish_.patience;
  return elapsed < patience || (elapsed < kBusy && patient.visits < kFewestVisits);
}

void Rounds::visit(pid_t pid, Patient& patient, bool files, Visit which) {
  const bool first = patient.visits++ == 0;
  patient.waits = false;
  if (first) patient.outcome.name = tracee::read_comm(pid);
  RepairOnce once;
  try {
    once = repair_once(pid, patient.bytes, files, which);
  } catch (const Error& error) {
    // One that has ended since the first visit leaves nothing.
    if (first || !tracee::read_maps(pid).empty()) patient.outcome.failure = error.what();
    patient.outcome.repaired.left.clear();
    patient.outcome.repaired.standing = 0;
    return;
  }
  const Repaired before = std::exchange(patient.outcome.repaired, once.repaired);
  patient.outcome.repaired.places += before.places;
  patient.outcome.repaired.handler |= before.handler;
  patient.outcome.repaired.pages += before.pages;
  for (pid_t child : once.children) patients_[child] = Patient{once.bytes};
  patient.bytes = std::move(once.bytes);
  patient.waits = !once.repaired.left.empty() && !tracee::forbids_calls(pid);
}

// True where one had foreign code: its children may have it.
bool Rounds::visit_new() {
  bool had_code = false;
  for (bool again = true; again;) {
    again = false;
    for (auto& [pid, patient] : patients_) {  // a visit may add some
      if (patient.visits != 0) continue;
      visit(pid, patient, wish_.files);
      const Repaired& repaired = patient.outcome.repaired;
      had_code |= repaired.places > 0 || repaired.standing > 0;
      again = true;
    }
  }
  return had_code;
}

void Rounds::find_others() {
  for (pid_t pid : find_more_()) patients_.try_emplace(pid);
}

// Who sleeps on in the wrapped call: a timeout that is begun anew each time would never end.
bool Rounds::still_waits(const Patient& patient) {
  const auto& waiter = patient.outcome.repaired.waiter;
  const auto place = waiter ? tracee::read_sleeping_place(waiter->tid) : std::nullopt;
  return place && place->sp == waiter->sp;
}

void Rounds::visit_waiting() {
  bool stands = false;
  for (auto& [pid, patient] : patients_) {
    if (!is_waited_for(patient)) continue;
    if (still_waits(patient)) {
      ++patient.visits;
      continue;
    }
    visit(pid, patient, false);
    stands |= patient.outcome.repaired.standing > 0;
  }
  if (stands) find_others();
  (void)visit_new();
}

std::map<pid_t, RepairOutcome> Rounds::run(std::map<pid_t, std::vector<ForeignBytes>> known) {
  constexpr std::chrono::milliseconds kLongestPause(64);
  std::chrono::milliseconds pause(2);
  for (auto& [pid, bytes] : known) patients_[pid].bytes = std::move(bytes);
  find_others();
  while (visit_new()) find_others();
  while (std::ranges::any_of(patients_, [this](const auto& entry) { return is_waited_for(entry.second); })) {
    std::this_thread::sleep_for(std::exchange(pause, std::min(2 * pause, kLongestPause)));
    visit_waiting();
  }
  for (auto& [pid, patient] : patients_)
    if (patient.outcome.repaired.standing > 0 && std::ranges::any_of(patient.bytes, &ForeignBytes::stands_in))
      visit(pid, patient, false, Visit::last);
  std::map<pid_t, RepairOutcome> outcomes;
  for (auto& [pid, patient] : patients_) outcomes.emplace(pid, std::move(patient.outcome));
  return outcomes;
}

}  // namespace

std::map<pid_t, RepairOutcome> repair_all(std::map<pid_t, std::vector<ForeignBytes>> known,
                                          const std::function<std::vector<pid_t>()>& find_more,
                                          const RepairWish& wish) {
  return Rounds(find_more, wish).run(std::move(known));
}

Repaired repair(pid_t pid, const std::vector<ForeignBytes>& known, const RepairWish& wish) {
  RepairOutcome outcome = std::move(repair_all(
                                        {{pid, known}}, [] { return std::vector<pid_t>(); }, wish)
                                        .at(pid));
  if (!outcome.failure.empty()) throw Error(outcome.failure);
  return outcome.repaired;
}

}  // namespace rtrace::mech
