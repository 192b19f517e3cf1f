#include "rtrace/tracee/proc_fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::tracee {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

template <typename T>
bool parse_int(std::string_view word, T& out, int base) {
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out, base);
  return error == std::errc() && end == word.data() + word.size();
}

std::string_view next_word(std::string_view& line) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const auto* begin = std::find_if_not(line.begin(), line.end(), is_blank);
  const auto* end = std::find_if(begin, line.end(), is_blank);
  const std::string_view word(begin, static_cast<size_t>(end - begin));
  line = std::string_view(end, static_cast<size_t>(line.end() - end));
  return word;
}

// "00400000-00452000 r-xp 00000000 08:02 173521   /usr/bin/dbus-daemon"
std::optional<MapsEntry> parse_maps_line(std::string_view line) {
  MapsEntry entry;
  std::string_view range = next_word(line);
  size_t dash = range.find('-');
  if (dash == std::string_view::npos || !parse_int(range.substr(0, dash), entry.range.begin.value, 16) ||
      !parse_int(range.substr(dash + 1), entry.range.end.value, 16))
    return std::nullopt;
  std::string_view mode = next_word(line);
  if (mode.size() != 4) return std::nullopt;
  entry.readable = mode[0] == 'r';
  entry.writable = mode[1] == 'w';
  entry.executable = mode[2] == 'x';
  entry.shared = mode[3] == 's';
  if (!parse_int(next_word(line), entry.offset.value, 16)) return std::nullopt;
  next_word(line);  // the device
  if (!parse_int(next_word(line), entry.inode, 10)) return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  entry.deleted = entry.inode != 0 && line.ends_with(kDeleted);
  if (entry.deleted) line.remove_suffix(kDeleted.size());
  entry.path = line;
  return entry;
}

// Newlines and backslashes of a task's name (kernel: fs/proc/array.c, proc_task_name).
std::string unescaped(std::string_view name) {
  std::string plain;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool escape = name[i] == '\\' && i + 1 < name.size();
    plain += !escape ? name[i] : name[++i] == 'n' ? '\n' : name[i];
  }
  return plain;
}

void parse_status_line(std::string_view key, std::string_view rest, StatusFields& status) {
  if (key == "Name")
    status.name = unescaped(rest.substr(std::min(rest.find_first_not_of('\t'), rest.size())));
  std::string_view value = next_word(rest);
  if (key == "State") status.state = value.empty() ? '?' : value[0];
  if (key == "Tgid") parse_int(value, status.tgid, 10);
  if (key == "PPid") parse_int(value, status.parent, 10);
  if (key == "TracerPid") parse_int(value, status.tracer, 10);
  if (key == "NSpid")
    for (std::string_view word = value; !word.empty(); word = next_word(rest))
      parse_int(word, status.own_tid, 10);
  if (key == "Uid") {
    parse_int(value, status.uid, 10);
    parse_int(next_word(rest), status.effective_uid, 10);
    parse_int(next_word(rest), status.saved_uid, 10);
  }
  if (key == "Gid") parse_int(next_word(rest), status.effective_gid, 10);
  if (key == "NoNewPrivs") status.no_new_privileges = value == "1";
  if (key == "CapPrm") parse_int(value, status.permitted, 16);
  if (key == "CapEff") parse_int(value, status.effective, 16);
  if (key == "Threads") parse_int(value, status.threads, 10);
  if (key == "Seccomp") parse_int(value, status.seccomp, 10);
  if (key == "CapEff") parse_int(value, status.capabilities, 16);
  if (key == "SigPnd") parse_int(value, status.pending, 16);
  if (key == "ShdPnd") parse_int(value, status.shared_pending, 16);
  if (key == "SigBlk") parse_int(value, status.blocked, 16);
  if (key == "SigIgn") parse_int(value, status.ignored, 16);
  if (key == "SigCgt") parse_int(value, status.caught, 16);
}

}  // namespace

std::string read_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  char piece[4096];  // what most of these files fit into: the heap need not grow to that
  for (;;) {
    const ssize_t got = ::read(fd.get(), piece, sizeof piece);
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

std::vector<MapsEntry> parse_maps(std::string_view text) {
  std::vector<MapsEntry> entries;
  entries.reserve(static_cast<size_t>(std::ranges::count(text, '\n')));
  for_each_part(text, '\n', [&](std::string_view line) {
    if (auto entry = parse_maps_line(line)) entries.push_back(std::move(*entry));
  });
  return entries;
}

std::vector<MapsEntry> read_maps(pid_t pid) {
  return parse_maps(read_file(fmt::format("/proc/{}/maps", pid)));
}

const MapsEntry* find_mapping(const std::vector<MapsEntry>& maps, VirtAddr address) {
  auto after =
      std::upper_bound(maps.begin(), maps.end(), address,
                       [](VirtAddr value, const MapsEntry& entry) { return value < entry.range.begin; });
  if (after == maps.begin()) return nullptr;
  --after;
  return after->range.contains(address) ? &*after : nullptr;
}

const MapsEntry* first_mapping_of(const std::vector<MapsEntry>& maps, VirtAddr inside) {
  const MapsEntry* found = find_mapping(maps, inside);
  if (found == nullptr || !found->file_backed()) return nullptr;
  while (found != maps.data() && found->offset.value != 0 && (found - 1)->inode == found->inode) --found;
  return found;
}

std::optional<StatusFields> parse_status(std::string_view text) {
  if (text.empty()) return std::nullopt;
  StatusFields status;
  for_each_part(text, '\n', [&](std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    status.has_memory |= line.starts_with("VmSize:");
    parse_status_line(line.substr(0, colon), line.substr(colon + 1), status);
  });
  return status;
}

std::optional<StatusFields> read_status(pid_t tid) {
  return parse_status(read_file(fmt::format("/proc/{}/status", tid)));
}

pid_t own_tid(pid_t tid) {
  const auto status = read_status(tid);
  if (!status) return 0;
  return status->own_tid != 0 ? status->own_tid : tid;
}

pid_t find_own_tid(pid_t pid, pid_t own) {
  if (own == 0) return 0;
  for (const pid_t tid : read_tasks(pid))
    if (own_tid(tid) == own) return tid;
  return 0;
}

bool is_zombie(pid_t tid) {
  const auto status = read_status(tid);
  return status && status->state == 'Z';
}

// Kernels that give none have no such line (before 6.6), and writing the whole file takes them long.
bool has_shadow_stack(pid_t pid) {
  constexpr std::string_view kLine = "x86_Thread_features:";
  static const bool can_be = read_file("/proc/self/status").find(kLine) != std::string::npos;
  if (!can_be) return false;
  const std::string status = read_file(fmt::format("/proc/{}/status", pid));
  const size_t line = status.find(kLine);
  return line != std::string::npos &&
         status.substr(line, status.find('\n', line) - line).find("shstk") != std::string::npos;
}

std::optional<int> parse_last_processor(std::string_view stat) {
  constexpr int kField = 39;
  // The name may hold blanks and parentheses; the fields behind it count from the third.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  std::string_view word;
  for (int field = 3; field <= kField; ++field) word = next_word(stat);
  int processor = 0;
  return parse_int(word, processor, 10) ? std::optional(processor) : std::nullopt;
}

bool is_real_time(pid_t tid) {
  constexpr int kDeadline = 6;  // SCHED_DEADLINE, of no header of the C library's
  const int policy = sched_getscheduler(tid);
  const int own = policy < 0 ? SCHED_OTHER : policy & ~SCHED_RESET_ON_FORK;
  return own == SCHED_FIFO || own == SCHED_RR || own == kDeadline;
}

std::optional<int> last_processor(pid_t pid, pid_t tid) {
  return parse_last_processor(read_file(fmt::format("/proc/{}/task/{}/stat", pid, tid)));
}

std::optional<SleepingPlace> parse_sleeping_place(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  SleepingPlace place;
  for (VirtAddr* word : {&place.pc, &place.sp}) {
    const size_t blank = text.rfind(' ');
    if (blank == text.npos || !text.substr(blank + 1).starts_with("0x") ||
        !parse_int(text.substr(blank + 3), word->value, 16))
      return std::nullopt;
    text = text.substr(0, blank);
  }
  return place;
}

std::optional<SleepingPlace> read_sleeping_place(pid_t tid) {
  return parse_sleeping_place(read_file(fmt::format("/proc/{}/syscall", tid)));
}

std::optional<long> read_syscall(pid_t tid) {
  const std::string text = read_file(fmt::format("/proc/{}/syscall", tid));
  std::string_view rest = text;
  long number = 0;
  if (!parse_int(next_word(rest), number, 10)) return std::nullopt;
  return number;
}

std::vector<pid_t> read_children(pid_t tid) {
  const std::string text = read_file(fmt::format("/proc/{0}/task/{0}/children", tid));
  std::vector<pid_t> children;
  pid_t child = 0;
  for (std::string_view rest = text; parse_int(next_word(rest), child, 10);) children.push_back(child);
  return children;
}

// Of its memory, from its accounts: what is mapped and how much of it is there.
static std::string describe_memory(pid_t tid) {
  std::string lines;
  const std::string status = read_file(fmt::format("/proc/{}/status", tid));
  for (std::string_view rest = status; !rest.empty();) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    if (line.starts_with("Vm") || line.starts_with("Rss")) lines += line;
    rest.remove_prefix(line.size());
  }
  return lines.empty() ? lines : lines + read_file(fmt::format("/proc/{}/maps", tid));
}

bool look_like_one_memory(pid_t one, pid_t other) {
  constexpr int kTries = 8;  // one may be running
  for (int tries = 0; tries < kTries; ++tries)
    if (const std::string own = describe_memory(one); !own.empty() && own == describe_memory(other))
      return true;
  return false;
}

bool share_memory(pid_t one, pid_t other) {
  constexpr int kCompareMemory = 1;  // KCMP_VM
  const long answer = syscall(SYS_kcmp, one, other, kCompareMemory, 0, 0);
  if (answer < 0 && (errno == ENOSYS || errno == EPERM)) return look_like_one_memory(one, other);
  return answer == 0;
}

namespace {

bool trusted_filters = false;

// Suspending takes CAP_SYS_ADMIN, and no filter on ourselves (kernel/ptrace.c, check_ptrace_options).
bool may_suspend() {
  constexpr uint64_t kSysAdmin = uint64_t{1} << 21;
  static const bool may = [] {
    const auto self = read_status(getpid());
    return self && self->seccomp == 0 && (self->capabilities & kSysAdmin) != 0;
  }();
  return may;
}

}  // namespace

namespace {

// Of the task that was asked for last while it stood alone; 0 where there is none.
thread_local pid_t status_known_of = 0;
thread_local StatusFields known_status;

Seccomp seccomp_in(const std::optional<StatusFields>& status) {
  constexpr int kFilter = 2;
  if (!status) return Seccomp::forbids;
  if (status->seccomp == 0) return Seccomp::none;
  if (trusted_filters && status->seccomp == kFilter) return Seccomp::trusted;
  return may_suspend() ? Seccomp::suspended : Seccomp::forbids;
}

}  // namespace

std::optional<StatusFields> status_of_stopped(pid_t tid) {
  if (knows_status(tid)) return known_status;
  const auto status = read_status(tid);
  if (status && status->threads == 1) remember_status(tid, *status);
  return status;
}

Seccomp seccomp_of_stopped(pid_t tid) {
  return seccomp_in(status_of_stopped(tid));
}

bool knows_status(pid_t tid) {
  return status_known_of == tid;
}

void forget_status(pid_t tid) {
  if (status_known_of == tid) status_known_of = 0;
}

void remember_status(pid_t tid, StatusFields status) {
  status_known_of = tid;
  known_status = std::move(status);
}

void trust_seccomp() {
  trusted_filters = true;
}

Seccomp seccomp_of(pid_t tid) {
  return seccomp_in(knows_status(tid) ? known_status : read_status(tid));
}

Auxv parse_auxv(std::string_view bytes) {
  Auxv auxv;
  for (; bytes.size() >= 16; bytes.remove_prefix(16)) {
    uint64_t pair[2];
    std::memcpy(pair, bytes.data(), sizeof pair);
    if (pair[0] == 0) break;
    auxv[pair[0]] = pair[1];
  }
  return auxv;
}

Auxv read_auxv(pid_t pid) {
  return parse_auxv(read_file(fmt::format("/proc/{}/auxv", pid)));
}

std::vector<pid_t> read_tasks(pid_t pid) {
  std::vector<pid_t> tasks;
  DIR* folder = opendir(fmt::format("/proc/{}/task", pid).c_str());
  if (folder == nullptr) return tasks;
  while (const dirent* entry = readdir(folder)) {
    pid_t tid = 0;
    if (parse_int(std::string_view(entry->d_name), tid, 10)) tasks.push_back(tid);
  }
  closedir(folder);
  return tasks;
}

std::string why_proc_is_not_ours() {
  char self[32];
  const ssize_t got = readlink("/proc/self", self, sizeof self);
  pid_t pid = 0;
  if (got > 0 && parse_int(std::string_view(self, static_cast<size_t>(got)), pid, 10) && pid == getpid())
    return {};
  struct stat link {};
  if (lstat("/proc/self", &link) != 0)
    return "/proc is not mounted, and what processes are is read there; mount it: mount -t proc proc /proc";
  return "/proc is that of another pid namespace: under the pids of this one it shows other processes; mount "
         "the right one: mount -t proc proc /proc (unshare does so by --mount-proc)";
}

std::string read_comm(pid_t pid) {
  std::string comm = read_file(fmt::format("/proc/{}/comm", pid));
  if (comm.ends_with('\n')) comm.pop_back();
  return comm;
}

}  // namespace rtrace::tracee
