// Processes for the tests of the modules that work on live ones.
//
// Tests and their children meet through pipes and words in shared memory; whoever waits, waits for a
// condition.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tests {

// A forked process that runs `body` and exits with its answer. It is killed and reaped when its owner goes,
// and dies with the test.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(body());
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (end() >= 1000) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  // Waits for the end: the exit status, or the negative of the signal that killed it. Stops on the way are an
  // answer too, 1000 and the stop's status: the test has forgotten one.
  int end() {
    for (;;) {
      int status = 0;
      if (waitpid(pid_, &status, __WALL) < 0) return -1000;
      if (WIFSTOPPED(status)) return 1000 + (status >> 8);
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
  }
  // The test has seen its end by itself: the number means nothing any more.
  void reaped() { pid_ = -1; }

 private:
  pid_t pid_;
};

class Pipe {
 public:
  Pipe() {
    if (pipe(ends_) != 0) abort();
  }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  // True where a byte came.
  bool wait() const {
    char byte = 0;
    return read(ends_[0], &byte, 1) == 1;
  }
  void signal() const {
    const char byte = 1;
    if (write(ends_[1], &byte, 1) != 1) abort();
  }

 private:
  int ends_[2];
};

// A T, zeroed, in memory that the test and the children it forks from now on share.
template <typename T>
class SharedValue {
 public:
  SharedValue()
      : at_(static_cast<T*>(
            mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (at_ == MAP_FAILED) abort();
  }
  ~SharedValue() { munmap(at_, sizeof(T)); }
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;
  T& operator*() const { return *at_; }
  T* operator->() const { return at_; }

 private:
  T* at_;
};

// Private memory of this process and, as a copy, of the children it forks.
class Pages {
 public:
  static constexpr size_t kSize = 4096;
  Pages(size_t count, int protection)
      : size_(count * kSize),
        at_(static_cast<std::byte*>(
            mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (at_ == MAP_FAILED) abort();
    protect(protection);
  }
  ~Pages() { munmap(at_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return at_; }
  std::byte* page(size_t index) const { return at_ + index * kSize; }
  VirtAddr address() const { return {reinterpret_cast<uint64_t>(at_)}; }
  void protect(int protection) const {
    if (mprotect(at_, size_, protection) != 0) abort();
  }
  void unmap(size_t index) const { munmap(page(index), kSize); }

 private:
  size_t size_;
  std::byte* at_;
};

// Returns when the task sleeps inside this system call (proc(5), /proc/pid/syscall).
inline void wait_until_in_syscall(pid_t tid, long number) {
  const std::string wanted = std::to_string(number) + " ";
  const std::string path = "/proc/" + std::to_string(tid) + "/syscall";
  while (!tracee::read_file(path).starts_with(wanted)) sched_yield();
}

// Seizes and stops a running task; afterwards it is in a consumed stop, about to run user code.
inline bool seize_and_stop(pid_t tid) {
  if (tracee::seize(tid) != 0) return false;
  if (tracee::interrupt(tid) == tracee::Alive::gone) return false;
  auto event = tracee::consume(tid, tracee::Block::yes);
  if (!event || !std::holds_alternative<tracee::Interrupted>(tracee::classify(event->status))) return false;
  auto regs = tracee::registers(tid);
  if (!regs) return false;
  tracee::rewind_interrupted_syscall(*regs, tracee::Restart::by_block);
  return tracee::set_registers(tid, *regs) == tracee::Alive::yes;
}

}  // namespace rtrace::tests
