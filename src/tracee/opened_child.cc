#include "rtrace/tracee/opened_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/stop.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tracee {
namespace {

constexpr uint64_t kInstruction = 2;
constexpr unsigned kLongestStop = 1000;  // ms
constexpr int kMostSignals = 64;

bool is_closed(pid_t pid) {
  const UniqueFd fd(open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC));
  return !fd && errno == EACCES;
}

// Signals that come first are sent anew behind it.
bool run_to_syscall_stop(pid_t tid, std::vector<int>& signals) {
  for (int attempt = 0; attempt < kMostSignals; ++attempt) {
    if (resume_to_syscall(tid) == Alive::gone) return false;
    const auto event = call_stop_within(tid, kLongestStop);
    if (!event || event->status.is_end()) return false;
    const Stop stop = classify(event->status);
    if (std::holds_alternative<SyscallStop>(stop)) return true;
    if (const auto* delivery = std::get_if<SignalDelivery>(&stop)) signals.push_back(delivery->signal);
  }
  return false;
}

std::optional<int64_t> call_prctl(pid_t tid, int option, uint64_t argument) {
  const auto own = registers(tid);
  if (!own) return std::nullopt;
  arch::Regs regs = *own;
  regs.set_pc(VirtAddr{own->pc().value - kInstruction});
  regs.raw.rax = SYS_prctl;
  regs.raw.orig_rax = static_cast<uint64_t>(-1);
  regs.raw.rdi = static_cast<uint64_t>(option);
  regs.raw.rsi = argument;
  regs.raw.rdx = regs.raw.r10 = regs.raw.r8 = 0;
  std::vector<int> signals;
  std::optional<int64_t> answer;
  if (set_registers(tid, regs) == Alive::yes && run_to_syscall_stop(tid, signals) &&
      run_to_syscall_stop(tid, signals))
    if (const auto after = registers(tid)) answer = static_cast<int64_t>(after->raw.rax);
  (void)set_registers(tid, *own);
  for (int signal : signals) (void)syscall(SYS_tkill, tid, signal);
  return answer;
}

bool stands_behind_syscall(pid_t tid, const Memory& code) {
  const auto regs = registers(tid);
  const auto before =
      regs ? code.read_value<std::array<uint8_t, kInstruction>>(VirtAddr{regs->pc().value - kInstruction})
           : std::nullopt;
  return before == std::array<uint8_t, kInstruction>{0x0f, 0x05};
}

}  // namespace

OpenedChild::OpenedChild(pid_t child, const Memory& code) : child_(child) {
  if (!is_closed(child) || forbids_calls(child) || !stands_behind_syscall(child, code)) return;
  if (call_prctl(child, PR_GET_DUMPABLE, 0) != 0) return;
  opened_ = call_prctl(child, PR_SET_DUMPABLE, 1) == 0;
}

OpenedChild::~OpenedChild() {
  if (opened_) (void)call_prctl(child_, PR_SET_DUMPABLE, 0);
}

}  // namespace rtrace::tracee
