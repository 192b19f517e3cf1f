// All tasks of a process, seized and stopped for a repair.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <unordered_set>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/mech/remains.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/stop.h"

namespace rtrace::mech {

class HaltedProcess {
 public:
  // Throws Error where the process cannot be seized. `sites`: where int3s of ours stand or stood; a thread
  // that has met one is taken back onto it. `remains`: the pages of ours. SIGTRAPs that a dead tracer's last
  // requests have left on their way are swallowed.
  HaltedProcess(const tracee::ProcessMemory& memory, const std::unordered_set<VirtAddr>& sites,
                const Remains& remains);
  // Lets all tasks go.
  ~HaltedProcess();
  HaltedProcess(const HaltedProcess&) = delete;
  HaltedProcess& operator=(const HaltedProcess&) = delete;

  // False where a task ran on in spite of all.
  bool all_stopped() const { return all_stopped_; }
  std::vector<pid_t> stopped() const;
  // One that can make remote calls.
  std::optional<pid_t> fit();
  // One instruction, as tracee::step() does it, and the stop behind it. nullopt where the task has ended, or
  // waits in a system call: then it stands in that.
  static std::optional<tracee::WaitEvent> step(pid_t tid);
  // The task stands at this signal's delivery: it gets it when it is let go.
  void owe(pid_t tid, int signal) { owed_[tid] = signal; }
  // Children with memory of their own that were made meanwhile; they are this process's tracees.
  const std::vector<pid_t>& children() const { return children_; }

 private:
  enum class State : uint8_t { running, stopped, interrupted, group_stopped };
  void seize_all();
  void let_go();
  bool stop_all();
  bool ask_running();
  bool ask(pid_t tid);
  State classify(pid_t tid, const tracee::Stop& stop);
  bool release(pid_t tid, State state);
  static State consumed(pid_t tid);
  bool met_site(pid_t tid, VirtAddr* site) const;
  bool is_left_over(pid_t tid) const;
  bool may_step_itself(pid_t tid) const;
  void on_child(pid_t parent);
  static void settle(pid_t tid);

  pid_t pid_;
  const tracee::ProcessMemory& memory_;
  const std::unordered_set<VirtAddr>& sites_;
  const Remains& remains_;
  std::map<pid_t, State> tasks_;
  std::map<pid_t, int> owed_;
  pid_t fit_ = 0;
  std::vector<pid_t> children_;
  bool all_stopped_ = false;
};

}  // namespace rtrace::mech
