// passes WAY N: so many times something passes calls of qsort(), bsearch(), read(), pause(),
// pthread_cond_wait() and through(); each is checked. passes under-load FILE: all of that in threads, until
// the board's first word is set (parked FILE: one that is nearly always inside a call on no stack); the
// second counts what went wrong, ten bits for each thread; rounds follow.
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "board.h"

// The program's own, whose prototype debug information has.
extern "C" __attribute__((noinline)) long through(long (*function)(long), long value) {
  return function(value) + 1;
}

namespace {

// What the comparator does, in this thread.
thread_local std::function<void()> deed;
int compare(const void* a, const void* b) {
  if (deed) deed();
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

void sort_some() {
  int numbers[] = {5, 3, 9, 1, 7, 2, 8, 4};
  qsort(numbers, 8, sizeof numbers[0], compare);
  for (int i = 0; i + 1 < 8; ++i)
    if (numbers[i] > numbers[i + 1]) std::abort();
}

struct Guard {
  explicit Guard(int& count) : count_(count) {}
  ~Guard() { ++count_; }
  int& count_;
};

long throw_it(long value) {
  throw std::runtime_error(std::to_string(value));
}

long rethrow_it(long value) {
  try {
    return through(throw_it, value);
  } catch (const std::runtime_error&) {
    throw;
  }
}

// Of each kind one; out of qsort() and of a qsort() that a comparator of bsearch() calls.
bool is_caught(long i) {
  int destroyed = 0, caught = 0;
  try {
    const Guard guard(destroyed);
    through(rethrow_it, i);
  } catch (const std::runtime_error& error) {
    caught += error.what() == std::to_string(i);
  }
  deed = [&] { throw i; };
  try {
    const Guard guard(destroyed);
    sort_some();
  } catch (long thrown) {
    caught += thrown == i;
  }
  deed = nullptr;
  const int numbers[] = {1, 2, 3, 4};
  const auto sorts = [](const void*, const void*) -> int {
    deed = [] { throw 7; };
    sort_some();
    return 0;
  };
  // Not what <stdlib.h> has of it.
  static const auto volatile search = bsearch;
  try {
    const Guard guard(destroyed);
    search(numbers, numbers, 4, sizeof numbers[0], sorts);
  } catch (int thrown) {
    caught += thrown == 7;
  }
  deed = nullptr;
  return caught == 3 && destroyed == 3;
}

int in_threads(long n, const std::function<bool(long)>& work) {
  constexpr long kThreads = 4;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (long t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < n / kThreads; ++i) wrong += !work(i);
    });
  for (std::thread& thread : threads) thread.join();
  return wrong != 0;
}

int throwing(long n) {
  return in_threads(n, is_caught);
}

struct Waiting {
  int how = 0;
  bool at_once = false;
  int pipe[2] = {-1, -1};
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  std::atomic<int> tid = 0;
  int destroyed = 0, cleaned = 0;
};

void clean(void* argument) {
  ++static_cast<Waiting*>(argument)->cleaned;
}

void wait_for_ever(Waiting& waiting) {
  char byte = 0;
  if (waiting.how == 0 && read(waiting.pipe[0], &byte, 1) != 1) std::abort();
  for (;;) {
    if (waiting.how == 1) pause();
    if (waiting.how == 2) pthread_cond_wait(&waiting.condition, &waiting.mutex);
  }
}

void* wait_in_thread(void* argument) {
  Waiting& waiting = *static_cast<Waiting*>(argument);
  if (waiting.at_once) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
  const Guard guard(waiting.destroyed);
  if (waiting.how == 2) pthread_mutex_lock(&waiting.mutex);
  pthread_cleanup_push(clean, argument);
  waiting.tid = gettid();
  wait_for_ever(waiting);
  pthread_cleanup_pop(0);
  return nullptr;
}

bool sleeps(pid_t tid) {
  const std::string path = "/proc/self/task/" + std::to_string(tid) + "/stat";
  FILE* file = fopen(path.c_str(), "re");
  char text[256] = {};
  const size_t got = file != nullptr ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file != nullptr) fclose(file);
  const char* state = got != 0 ? strrchr(text, ')') : nullptr;
  return state != nullptr && state[2] == 'S';
}

bool is_cancelled(long i) {
  Waiting waiting;
  waiting.how = static_cast<int>(i % 3);
  waiting.at_once = i % 2 == 1 && waiting.how != 2;  // a wait for a condition may not be left at any moment
  if (pipe(waiting.pipe) != 0) return false;
  pthread_t thread{};
  void* result = nullptr;
  if (pthread_create(&thread, nullptr, wait_in_thread, &waiting) != 0) return false;
  while (waiting.tid == 0 || !sleeps(waiting.tid)) std::this_thread::yield();
  pthread_cancel(thread);
  pthread_join(thread, &result);
  close(waiting.pipe[0]);
  close(waiting.pipe[1]);
  return result == PTHREAD_CANCELED && waiting.destroyed == 1 && waiting.cleaned == 1;
}

int cancelling(long n) {
  for (long i = 0; i < n; ++i)
    if (!is_cancelled(i)) return 1;
  return 0;
}

void* exit_from_sort(void* argument) {
  const Guard guard(*static_cast<int*>(argument));
  deed = [] { pthread_exit(nullptr); };
  sort_some();
  return argument;
}

bool has_exited(long) {
  int destroyed = 0;
  pthread_t thread{};
  void* result = &destroyed;
  if (pthread_create(&thread, nullptr, exit_from_sort, &destroyed) != 0) return false;
  pthread_join(thread, &result);
  return result == nullptr && destroyed == 1;
}

int exiting(long n) {
  for (long i = 0; i < n; ++i)
    if (!has_exited(i)) return 1;
  return 0;
}

std::jmp_buf away;
int jumping(long n) {
  static volatile long left;
  if (setjmp(away) != 0) left = left + 1;
  deed = [] { std::longjmp(away, 1); };
  if (left < n) sort_some();
  deed = nullptr;
  return left != n;
}

// The functions of this program that are on the stack, each by where it begins and ends.
__attribute__((noinline)) int sort_and_trace(std::string& names) {
  deed = [&] {
    void* frames[64];
    const int count = backtrace(frames, 64);
    char** symbols = backtrace_symbols(frames, count);
    names.clear();
    for (int i = 0; i < count; ++i) names += std::string(symbols[i]) + "\n";
    free(symbols);
  };
  sort_some();
  deed = nullptr;
  return static_cast<int>(names.size());
}

int tracing(long) {
  std::string names;
  if (sort_and_trace(names) == 0) return 1;
  printf("%s", names.c_str());
  return 0;
}

// A stack that coroutines run on by turns; what each has there is elsewhere meanwhile, as greenlets do it.
struct Coroutine {
  ucontext_t own{};
  std::vector<char> slice;
  bool done = false;
};
constexpr size_t kStack = 65536;
alignas(16) char shared_stack[kStack];
ucontext_t outside;
Coroutine* inside;

void run_coroutine() {
  deed = [] { swapcontext(&inside->own, &outside); };
  sort_some();
  inside->done = true;
}

__attribute__((noinline)) void begin(Coroutine& one) {
  one.done = false;
  getcontext(&one.own);
  one.own.uc_stack = {shared_stack, 0, kStack};
  one.own.uc_link = &outside;
  makecontext(&one.own, run_coroutine, 0);
  one.slice.clear();
}

int switching(long n) {
  std::vector<Coroutine> all(8);
  for (long i = 0; i < n; ++i) {
    for (Coroutine& one : all) begin(one);
    for (size_t left = all.size(); left > 0;) {
      for (Coroutine& one : all) {
        if (one.done) continue;
        if (!one.slice.empty()) memcpy(shared_stack, one.slice.data(), kStack);
        inside = &one;
        swapcontext(&outside, &one.own);
        one.slice.assign(shared_stack, shared_stack + kStack);
        left -= one.done;
      }
    }
  }
  deed = nullptr;
  return 0;
}

// For a while the open call is nowhere but in a heap's copy of its stack.
bool is_parked(long) {
  Coroutine one;
  begin(one);
  while (!one.done) {
    inside = &one;
    if (!one.slice.empty()) memcpy(shared_stack, one.slice.data(), kStack);
    swapcontext(&outside, &one.own);
    one.slice.assign(shared_stack, shared_stack + kStack);
    memset(shared_stack, 0, kStack);
    usleep(1000);  // the call stays where no stack shows it
  }
  deed = nullptr;
  return true;
}

// The child goes back through the call that made it.
bool is_forked(long) {
  pid_t child = -1;
  deed = [&] {
    if (child == -1) child = fork();
  };
  sort_some();
  deed = nullptr;
  if (child == 0) {
    sort_some();
    _exit(is_caught(1) ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int forking(long n) {
  for (long i = 0; i < n; ++i)
    if (!is_forked(i)) return 1;
  return 0;
}

struct Board {
  std::atomic<unsigned long> stop, wrong, rounds[5];
};

// All of them, or the last alone.
int under_load(const char* path, bool parked) {
  auto* board = static_cast<Board*>(map_board(path));
  if (board == nullptr) return 2;
  const auto go_on = [&](int index, bool (*work)(long)) {
    return std::thread([=] {
      for (long i = 0; board->stop == 0; ++i) {
        if (!work(i)) board->wrong += 1UL << 10 * index;
        board->rounds[index] = static_cast<unsigned long>(i) + 1;
      }
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(go_on(4, is_parked));
  bool (*const others[])(long) = {is_caught, is_cancelled, has_exited, is_forked};
  for (int i = 0; i < 4 && !parked; ++i) threads.push_back(go_on(i, others[i]));
  printf("pid %d\n", static_cast<int>(getpid()));
  fflush(stdout);
  for (std::thread& thread : threads) thread.join();
  return board->wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool parked = strcmp(argv[1], "parked") == 0;
  if (parked || strcmp(argv[1], "under-load") == 0) return under_load(argv[2], parked);
  const struct {
    const char* name;
    int (*run)(long);
  } ways[] = {{"throwing", throwing}, {"cancelling", cancelling}, {"exiting", exiting}, {"jumping", jumping},
              {"tracing", tracing},   {"switching", switching},   {"forking", forking}};
  for (const auto& way : ways)
    if (strcmp(argv[1], way.name) == 0) return way.run(atol(argv[2]));
  return 2;
}
