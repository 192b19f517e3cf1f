#include "rtrace/tracee/run_times.h"

#include <fcntl.h>
#include <linux/rseq.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>

#include "rtrace/base/error.h"
#include "rtrace/tracee/descriptor_limit.h"

namespace rtrace::tracee {

std::optional<RunTimes> parse_run_times(std::string_view text) {
  std::array<uint64_t, 3> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (uint64_t& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) return std::nullopt;
    at = parsed.ptr;
  }
  return RunTimes{numbers[0], numbers[2]};
}

std::optional<RunTimes> RunTimesFile::read(pid_t pid, pid_t tid) {
  if (refused_) return std::nullopt;
  if (!fd_) {
    fd_.reset(::open(fmt::format("/proc/{}/task/{}/schedstat", pid, tid).c_str(), O_RDONLY | O_CLOEXEC));
    if (!leaves_descriptors(fd_.get())) fd_.reset();
  }
  std::array<char, 96> text{};
  const ssize_t size = fd_ ? ::pread(fd_.get(), text.data(), text.size(), 0) : -1;
  refused_ = size <= 0;
  if (refused_) {
    fd_.reset();
    return std::nullopt;
  }
  return parse_run_times({text.data(), static_cast<size_t>(size)});
}

std::optional<int> RseqProcessor::read(pid_t tid, const ProcessMemory& memory) {
  if (refused_) return std::nullopt;
  if (!at_) {
    __ptrace_rseq_configuration area{};
    refused_ = ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof area, &area) != sizeof area;
    // It may still come: the C library registers it at the thread's start.
    if (refused_ || area.rseq_abi_pointer == 0) return std::nullopt;
    at_ = {area.rseq_abi_pointer + offsetof(rseq, cpu_id)};
  }
  int32_t cpu = -1;  // negative: not registered after all (RSEQ_CPU_ID_UNINITIALIZED)
  if (memory.read_forced(at_, std::as_writable_bytes(std::span(&cpu, 1))) != sizeof cpu || cpu < 0)
    return std::nullopt;
  return cpu;
}

}  // namespace rtrace::tracee
