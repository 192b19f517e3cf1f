#include "rtrace/mech/agent_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "announced.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kNoExecSeal = 8;  // MFD_NOEXEC_SEAL (Linux 6.3)

template <typename T>
bool put(const tracee::ProcessMemory& memory, VirtAddr address, const T& value) {
  return memory.write(address, std::as_bytes(std::span(&value, 1))) == 0;
}

std::string failed(const char* what, const std::optional<int64_t>& answer) {
  if (!answer) return "the thread could not make the system call";
  return fmt::format("{} in the process failed: {}", what, strerror(static_cast<int>(-*answer)));
}

bool is_error(const std::optional<int64_t>& answer) {
  return !answer || *answer < 0;
}

agent::MappingHeader header_of(agent::MappingKind kind, uint64_t size, uint64_t session) {
  agent::MappingHeader header{{}, agent::kAbiVersion, kind, size, session};
  std::memcpy(header.magic, agent::kMappingMagic, sizeof header.magic);
  return header;
}

// Where the kernel promises every page ahead (Documentation/mm/overcommit-accounting.rst), one that it has
// none for would kill the program.
bool memory_is_counted_ahead() {
  return tracee::read_file("/proc/sys/vm/overcommit_memory").starts_with("2");
}

// The recorder's memory is hardly used, and counts as a whole for a limit that the program may need itself.
std::string too_large_for(pid_t pid, uint64_t size) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_AS, nullptr, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const std::string sizes =
      tracee::read_file(fmt::format("/proc/{}/statm", pid));  // in pages, all of it first
  const uint64_t now = parse_number(sizes.substr(0, sizes.find(' '))).value_or(0) * arch::kPageSize;
  const uint64_t left = limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, now);
  constexpr uint64_t kPart = 4;
  if (size <= left / kPart) return {};
  return fmt::format("its address space may grow by {} MiB only (RLIMIT_AS), and the recorder takes {}",
                     left >> 20, size >> 20);
}

// Of a process's memory, as proc(5) says; its unit is of no matter.
uint64_t locked_memory(pid_t pid) {
  constexpr std::string_view kKey = "\nVmLck:";
  const std::string status = tracee::read_file(fmt::format("/proc/{}/status", pid));
  const size_t key = status.find(kKey);
  if (key == std::string::npos) return 0;
  const size_t begin = std::min(status.find_first_not_of(" \t", key + kKey.size()), status.size());
  return parse_number(status.substr(begin, status.find(' ', begin) - begin)).value_or(0);
}

}  // namespace

AgentLink::~AgentLink() {
  if (owned_) {
    auto* node = reinterpret_cast<OwnerList::Node*>(view_ + arch::kPageSize - 64);
    owners_.remove(*node);
    // Nobody waits for a reader any more.
    records_->abandon();
  }
  if (view_ != nullptr) munmap(view_, view_size_);
}

std::string AgentLink::begin(const Foothold::Means& means, Foothold& foothold, const Setting& setting) {
  setting_ = setting;
  if (memory_is_counted_ahead()) return "memory is not overcommitted here (vm.overcommit_memory)";
  if (std::string reason = too_large_for(means.memory.pid(), setting.size.layout().size); !reason.empty())
    return reason;
  tracee::RemoteCall remote(means.stopped, means.memory, foothold.gadget(), foothold.frame_area());
  // The memory file's name: the magic word at the blob's beginning.
  const VirtAddr name = foothold.code_ranges().front().begin;
  const uint64_t locked = locked_memory(means.memory.pid());
  std::string failure = map_control(remote, means, name);
  // Then the rest would be too, and at once be there.
  if (failure.empty() && locked_memory(means.memory.pid()) > locked)
    failure = fmt::format("what is mapped is locked in memory (mlockall), and the recorder takes {} MiB",
                          setting.size.layout().size >> 20);
  if (failure.empty()) failure = map_shared(remote, means, name);
  if (failure.empty()) failure = fill(means.memory);
  if (failure.empty() && !foothold.adopt_recorder(means.memory, control_, shared_))
    failure = "the new pages cannot be written (/proc/PID/mem)";
  // Last of all: from here on wrappers record.
  if (failure.empty() && !set_mode(means.memory, setting.mode)) failure = "the new pages cannot be written";
  if (failure.empty()) return failure;
  for (Range range : {control_, shared_})
    if (range.begin) (void)remote.call(SYS_munmap, {range.begin.value, range.size()});
  control_ = shared_ = {};
  return failure;
}

std::string AgentLink::inherit(const Foothold::Means& means, const Foothold& foothold,
                               const AgentLink& parent) {
  setting_ = parent.setting_;
  control_ = parent.control_;
  foretelling_ = parent.foretelling_;
  shared_ = parent.shared_;
  tracee::RemoteCall remote(means.stopped, means.memory, foothold.gadget(), foothold.frame_area());
  std::string failure = map_shared(remote, means, foothold.code_ranges().front().begin);
  if (failure.empty()) failure = fill(means.memory);
  return failure;
}

bool AgentLink::record(const tracee::ProcessMemory& memory) const {
  return set_mode(memory, setting_.mode);
}

// At once after each mapping was made: whoever comes after our death finds it by this.
bool AgentLink::write_head(const Foothold::Means& means) const {
  const agent::ControlLayout layout = agent::control_layout(setting_.size.functions);
  agent::ControlHead head{};
  head.mapping = header_of(agent::kControlMapping, layout.size, means.ledger.session());
  head.notes = control_.begin.value + layout.notes;
  head.notes_count = setting_.size.functions;
  head.shared = shared_.begin.value;
  head.shared_size = shared_.size();
  head.foretelling = foretelling_;
  return put(means.memory, control_.begin, head);
}

std::string AgentLink::map_control(tracee::RemoteCall& remote, const Foothold::Means& means, VirtAddr blob) {
  const uint64_t size = agent::control_layout(setting_.size.functions).size;
  const auto mark = [&](VirtAddr at) {
    control_ = {at, at + size};
    return write_head(means);
  };
  const Mapped mapped = map_announced(remote, means.memory, blob, {{}, VirtAddr{size}}, PROT_READ, mark);
  if (!mapped.failure.empty()) return mapped.failure;
  (void)remote.call(SYS_madvise, {control_.begin.value, size, uint64_t{MADV_DONTDUMP}});
  const auto answer = remote.call(SYS_madvise, {control_.begin.value + agent::kControlOffset, arch::kPageSize,
                                                uint64_t{MADV_WIPEONFORK}});
  return is_error(answer) ? failed("madvise", answer) : std::string();
}

std::string AgentLink::map_shared(tracee::RemoteCall& remote, const Foothold::Means& means, VirtAddr name) {
  constexpr uint64_t kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  auto fd = remote.call(SYS_memfd_create, {name.value, kFlags | kNoExecSeal});
  if (fd && *fd == -EINVAL) fd = remote.call(SYS_memfd_create, {name.value, kFlags});
  if (is_error(fd)) return failed("memfd_create", fd);
  const UniqueFd ours(
      open(fmt::format("/proc/{}/fd/{}", means.memory.pid(), *fd).c_str(), O_RDWR | O_CLOEXEC));
  const uint64_t size = setting_.size.layout().size;
  const std::string failure = ours ? view(ours.get()) : std::string("its memfd cannot be opened");
  if (failure.empty())
    reinterpret_cast<agent::SharedHeader*>(view_ + arch::kPageSize)->mapping =
        header_of(agent::kSharedMapping, size, means.ledger.session());
  std::optional<int64_t> mapped;
  if (failure.empty())
    mapped = remote.call(SYS_mmap, {shared_.begin.value, size, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_NORESERVE | (shared_.begin ? uint64_t{MAP_FIXED} : 0),
                                    static_cast<uint64_t>(*fd), 0});
  if (!is_error(mapped)) {
    const VirtAddr at{static_cast<uint64_t>(*mapped)};
    shared_ = {at, at + size};
    // A core that held it would be a gigabyte of zeros (core(5): shared memory of no file is in it).
    (void)remote.call(SYS_madvise, {at.value, size, uint64_t{MADV_DONTDUMP}});
  }
  const moment::Scope unmarked(Moment::mapped);
  const bool written = write_head(means);
  (void)remote.call(SYS_close, {static_cast<uint64_t>(*fd)});
  if (!failure.empty()) return failure;
  if (is_error(mapped)) return failed("mmap", mapped);
  return written ? std::string() : "the new pages cannot be written (/proc/PID/mem)";
}

// Its size is sealed: a file that somebody cut off would kill us at the next look.
std::string AgentLink::view(int fd) {
  const uint64_t size = align_up(setting_.size.layout().size, arch::kPageSize);
  if (ftruncate(fd, static_cast<off_t>(size)) != 0)
    return fmt::format("its memfd cannot be made {} MiB large: {}", size >> 20, strerror(errno));
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fmt::format("its memfd cannot be sealed: {}", strerror(errno));
  view_size_ = arch::kPageSize + size;
  void* reserved =
      mmap(nullptr, view_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return fmt::format("no memory of ours for it: {}", strerror(errno));
  view_ = static_cast<std::byte*>(reserved);
  if (mmap(view_ + arch::kPageSize, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
           0) == MAP_FAILED)
    return fmt::format("it cannot be mapped by us: {}", strerror(errno));
  return {};
}

std::string AgentLink::fill(const tracee::ProcessMemory& memory) {
  records_.emplace(std::span(view_ + arch::kPageSize, view_size_ - arch::kPageSize), setting_.size);
  agent::SharedHeader& shared = records_->header();
  auto* node = new (view_ + arch::kPageSize - 64) OwnerList::Node;
  // In this order: whoever finds an owner there is told of its death.
  owned_ = owners_.add(*node);
  if (!owned_) return fmt::format("more than {} processes are traced so", OwnerList::kMost);
  std::atomic_ref<uint32_t>(shared.owner).store(static_cast<uint32_t>(gettid()));
  agent::Control control = records_->control(shared_.begin, control_.begin + agent::kPlansOffset);
  control.shapes = control_.begin.value + agent::control_layout(setting_.size.functions).shapes;
  control.mode = agent::Mode::off;
  control.on_full = setting_.on_full;
  control.nanoseconds_per_tick = setting_.nanoseconds_per_tick;
  control.share_inside = setting_.share_inside;
  control.share_outside = setting_.share_outside;
  const bool written = put(memory, control_.begin + agent::kControlOffset, control);
  RTRACE_LOG(mech, 1, "recorder of {}: control at {}, shared at {}, {} MiB", memory.pid(), control_.begin,
             shared_.begin, shared_.size() >> 20);
  return written ? std::string() : "the new pages cannot be written (/proc/PID/mem)";
}

bool AgentLink::set_shapes(const tracee::ProcessMemory& memory, uint64_t first,
                           std::span<const agent::ShapeEntry> entries) const {
  if (entries.empty()) return true;
  const VirtAddr table = control_.begin + agent::control_layout(setting_.size.functions).shapes;
  return memory.write(table + first * sizeof(agent::ShapeEntry), std::as_bytes(entries)) == 0;
}

bool AgentLink::set_plan(const tracee::ProcessMemory& memory, uint32_t function,
                         agent::FunctionPlan plan) const {
  plan.finish(function);
  return put(memory, plan_at(function), plan);
}

VirtAddr AgentLink::plan_at(uint32_t function) const {
  return control_.begin + agent::kPlansOffset + function * sizeof(agent::FunctionPlan);
}

bool AgentLink::note_entry(const tracee::ProcessMemory& memory, uint32_t function,
                           const agent::EntryNote& note) const {
  const uint64_t notes = agent::control_layout(setting_.size.functions).notes;
  return put(memory, control_.begin + notes + function * sizeof note, note);
}

bool AgentLink::note_foretelling(const tracee::ProcessMemory& memory, VirtAddr at,
                                 std::span<const std::byte> padding) {
  foretelling_.address = at.value;
  std::memcpy(foretelling_.padding, padding.data(), std::min(padding.size(), sizeof foretelling_.padding));
  return put(memory, control_.begin + offsetof(agent::ControlHead, foretelling), foretelling_);
}

bool AgentLink::set_mode(const tracee::ProcessMemory& memory, agent::Mode mode) const {
  return put(memory, control_.begin + agent::kControlOffset + offsetof(agent::Control, mode), mode);
}

}  // namespace rtrace::mech
