#include "rtrace/tracee/process_memory.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "rtrace/base/error.h"

namespace rtrace::tracee {
namespace {
constexpr size_t kPiecesAtOnce = 64;
}

ProcessMemory::ProcessMemory(pid_t pid) : pid_(pid) {
  std::string path = fmt::format("/proc/{}/mem", pid);
  mem_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!mem_) throw Error::from_errno(errno, "cannot open {}", path);
}

namespace {

// Of a task that has ended, be it before its threads, or that is not dumpable any more (PR_SET_DUMPABLE,
// prctl(2)), only what was opened before can be read.
bool needs_open_file(int error_number) {
  return error_number == ESRCH || error_number == EPERM;
}

// nullopt where the task's memory can be read through an open file alone.
std::optional<size_t> read_of(pid_t task, VirtAddr address, std::span<std::byte> out) {
  if (out.empty()) return 0;
  iovec local{out.data(), out.size()};
  iovec remote{reinterpret_cast<void*>(address.value), out.size()};
  const ssize_t got = process_vm_readv(task, &local, 1, &remote, 1, 0);
  if (got < 0 && needs_open_file(errno)) return std::nullopt;
  return got < 0 ? 0 : static_cast<size_t>(got);
}

}  // namespace

size_t ProcessMemory::read(VirtAddr address, std::span<std::byte> out) const {
  const auto got = read_of(pid_, address, out);
  return got ? *got : read_forced(address, out);
}

std::optional<size_t> ProcessMemory::read_by(pid_t task, VirtAddr address, std::span<std::byte> out) {
  const auto got = read_of(task, address, out);
  if (!got && errno == ESRCH) return 0;
  return got;
}

// A gathered read ends at the first page it cannot reach, and may end inside a piece: what came is given to
// the pieces in order, the piece that fell short is done, and the rest is asked for again.
void ProcessMemory::read_gathered(std::span<Piece> pieces) const {
  while (!pieces.empty()) {
    iovec local[kPiecesAtOnce];
    iovec remote[kPiecesAtOnce];
    const size_t count = std::min(pieces.size(), kPiecesAtOnce);
    for (size_t i = 0; i < count; ++i) {
      local[i] = {pieces[i].out, pieces[i].size};
      remote[i] = {reinterpret_cast<void*>(pieces[i].address.value), pieces[i].size};
    }
    const ssize_t answer = process_vm_readv(pid_, local, count, remote, count, 0);
    if (answer < 0 && needs_open_file(errno)) {
      for (Piece& piece : pieces) piece.got = read_forced(piece.address, {piece.out, piece.size});
      return;
    }
    size_t got = answer < 0 ? 0 : static_cast<size_t>(answer);
    size_t done = 0;
    while (done < count) {
      Piece& piece = pieces[done++];
      piece.got = std::min(piece.size, got);
      got -= piece.got;
      if (piece.got < piece.size) break;
    }
    pieces = pieces.subspan(done);
  }
}

int ProcessMemory::write(VirtAddr address, std::span<const std::byte> bytes) const {
  ssize_t done = pwrite(mem_.get(), bytes.data(), bytes.size(), static_cast<off_t>(address.value));
  if (done < 0) return errno;
  return static_cast<size_t>(done) == bytes.size() ? 0 : EFAULT;
}

size_t ProcessMemory::read_forced(VirtAddr address, std::span<std::byte> out) const {
  ssize_t got = pread(mem_.get(), out.data(), out.size(), static_cast<off_t>(address.value));
  return got < 0 ? 0 : static_cast<size_t>(got);
}

}  // namespace rtrace::tracee
