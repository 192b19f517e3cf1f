/* counts FILE: four threads that do nothing but call bsearch(), memcpy(), strtol() and labs(), each checking
   every result, while the main thread makes children and starts threads that end at once. FILE is mapped
   shared: its first word ends it, the second counts wrong results, the others how often each thread has
   called both. counts WAY N: calls of known number, printed at the end; see ways[]. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "board.h"

enum { kThreads = 4 };
struct Board {
  _Atomic unsigned long stop, wrong, done[kThreads], rounds;
};
static struct Board* board;
static char* words[] = {"true", NULL};

static int by_value(const void* one, const void* other) {
  const long a = *(const long*)one, b = *(const long*)other;
  return (a > b) - (a < b);
}

static int call(unsigned long i) {
  static const long sorted[] = {1, 2, 3, 5, 8, 13, 21};
  const long* found = bsearch(&sorted[i % 7], sorted, 7, sizeof *sorted, by_value);
  if (found != &sorted[i % 7]) return 0;
  char text[32], *end;
  int length = 0;
  unsigned long value = i % 1000003;
  char digits[32], reversed[32];
  do digits[length++] = (char)('0' + value % 10);
  while ((value /= 10) != 0);
  for (int k = 0; k < length; k++) reversed[k] = digits[length - 1 - k];
  reversed[length] = 0;
  if (memcpy(text, reversed, (size_t)length + 1) != text) return 0;
  long got = strtol(text, &end, 10);
  return got == (long)(i % 1000003) && end == text + length && labs(-got) == got;
}

static void* loop(void* argument) {
  long thread = (long)argument;
  for (unsigned long i = 1; !atomic_load(&board->stop); i++) {
    if (!call(i)) atomic_fetch_add(&board->wrong, 1);
    atomic_store(&board->done[thread], i);
  }
  return NULL;
}

static void* once(void* argument) {
  return call((unsigned long)argument) ? NULL : argument;
}

static void check(int good) {
  if (!good) atomic_fetch_add(&board->wrong, 1);
}

/* What the children do is nobody's. */
static void one_round(unsigned long i) {
  int status = 1;
  pid_t child = fork();
  if (child == 0) _exit(call(i) && call(i + 1) ? 0 : 1);
  check(waitpid(child, &status, 0) == child && status == 0);
  check(posix_spawnp(&child, words[0], NULL, NULL, words, environ) == 0);
  check(waitpid(child, &status, 0) == child && status == 0);
  pthread_t thread;
  void* answer = NULL;
  if (pthread_create(&thread, NULL, once, (void*)i) == 0) pthread_join(thread, &answer);
  check(answer == NULL);
  atomic_store(&board->rounds, i);
}

static int under_load(const char* path) {
  board = map_board(path);
  if (board == NULL) return 2;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, loop, (void*)i) != 0) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (unsigned long i = 1; !atomic_load(&board->stop); i++) one_round(i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return atomic_load(&board->wrong) == 0 ? 0 : 1;
}

static int plain(long n) {
  for (long i = 0; i < n; i++)
    if (!call((unsigned long)i)) return 1;
  return 0;
}

static int threads(long n) {
  pthread_t all[8];
  for (long i = 0; i < n; i += 8) {
    for (long k = 0; k < 8; k++)
      if (pthread_create(&all[k], NULL, once, (void*)(i + k)) != 0) return 2;
    for (long k = 0; k < 8; k++) pthread_join(all[k], NULL);
  }
  return 0;
}

static __attribute__((noinline)) int borrowed(void) {
  int status = 1;
  pid_t child = vfork();
  if (child == 0) _exit(labs(-7) == 7 ? 0 : 1);
  return waitpid(child, &status, 0) == child && status == 0;
}

static int children(long n) {
  for (long i = 0; i < n; i++) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) _exit(plain(10));
    if (!call((unsigned long)i) || waitpid(child, &status, 0) != child || status != 0) return 1;
    if (!borrowed()) return 1;
  }
  return 0;
}

static sigjmp_buf away;
static volatile sig_atomic_t ticks;
static volatile int leaves;
static void on_tick(int number) {
  (void)number;
  ++ticks;
  if (labs(-ticks) != ticks) abort();
  if (leaves && ticks % 2 == 0) siglongjmp(away, 1);
}

/* Handlers that call labs() themselves, and leave wherever they have interrupted. */
static int ticking(long n) {
  struct sigaction action = {.sa_handler = on_tick};
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  if (leaves == 0) {
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
  }
  sigaction(SIGALRM, &action, NULL);
  struct itimerval each = {{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &each, NULL);
  static volatile long i;
  sigsetjmp(away, 1);
  for (; i < n; i = i + 1)
    if (strtol("12345", NULL, 10) != 12345) return 1;
  each = (struct itimerval){{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &each, NULL);
  printf("ticks %ld\n", (long)ticks);
  return 0;
}

static int leaving(long n) {
  leaves = 1;
  return ticking(n);
}

static int failing(long n) {
  for (long i = 0; i < n; i++)
    if (access(i % 4 == 0 ? "/" : "/no/such/file", F_OK) != (i % 4 == 0 ? 0 : -1)) return 1;
  return 0;
}

static volatile sig_atomic_t is_child;
static volatile long forked, died, forks_wanted;
static volatile int bad_status;  // of the last that died; -errno: there was none to die
static const struct itimerval soon = {{0, 0}, {0, 300}};

/* The child goes on with what the handler has interrupted. */
static void on_tick_fork(int number) {
  (void)number;
  forked = forked + 1;
  pid_t child = fork();
  if (child == 0) {
    is_child = 1;
    return;
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    died = died + 1;
    bad_status = child < 0 ? -errno : status;
  }
  if (forked < forks_wanted) setitimer(ITIMER_REAL, &soon, NULL);
}

static void enough(int number) {
  (void)number;
  forks_wanted = 0;
}

static int labs_is_right(void) {
  return labs(-1) == 1;
}

static int trywait_fails(void) {
  static sem_t none;
  errno = 0;
  return sem_trywait(&none) == -1 && errno == EAGAIN;
}

/* Long enough to be interrupted in its own code, mostly. */
static int strtol_is_right(void) {
  static char text[1024];
  if (text[0] == 0) memcpy(memset(text, ' ', sizeof text - 3) + sizeof text - 3, "-1", 3);
  return strtol(text, NULL, 10) == -1;
}

/* n times, or until SIGUSR1. */
static int fork_within(int (*is_right)(void), long n, int flags) {
  struct sigaction action = {.sa_handler = on_tick_fork, .sa_flags = flags},
                   end = {.sa_handler = enough, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGUSR1, &end, NULL);
  forks_wanted = n;
  setitimer(ITIMER_REAL, &soon, NULL);
  long sum = 0, calls = 0;
  while (forked < forks_wanted && !is_child) sum += is_right(), calls++;
  if (is_child) {
    for (int i = 0; i < 100; i++) sum += is_right(), calls++;
    _exit(sum != calls);
  }
  printf("forks %ld died %ld\n", forked, died);
  if (died != 0) printf("status %d\n", bad_status);
  return sum != calls;
}

static int forking(long n) {
  return fork_within(labs_is_right, n, 0);
}

static int forking_failing(long n) {
  return fork_within(trywait_fails, n, 0);
}

/* The handler's own stack lies above what it interrupts, in the same mapping. */
static int forking_above(long n) {
  char above[1 << 16];
  const stack_t stack = {.ss_sp = above, .ss_size = sizeof above};
  return sigaltstack(&stack, NULL) != 0 || fork_within(strtol_is_right, n, SA_ONSTACK);
}

static int execing(long n) {
  if (plain(n) != 0) return 1;
  char* again[] = {"counts", "plain", "10", NULL};
  execv("/proc/self/exe", again);
  return 1;
}

/* Reading the time stamp counter is SIGSEGV from here on. */
static int clockless(long n) {
  return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0 || plain(n) != 0;
}

/* Waits for as many bytes, each in a call that has begun before. */
static int clockless_reading(long n) {
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 1;
  char byte = 0;
  for (; n > 0; n--) {
    printf("reading\n");
    fflush(stdout);
    if (read(STDIN_FILENO, &byte, 1) != 1) return 1;
  }
  return 0;
}

/* Ends by that signal, but under a hypervisor that cannot refuse the read. */
static int clock_read(long n) {
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 1;
  for (; n > 0; n--) (void)__rdtsc();
  return 0;
}

/* And every system call but a few is SIGKILL. */
static int strict(long n) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) return 1;
  syscall(SYS_exit, plain(n));
  return 1;
}

static const struct {
  const char* name;
  int (*run)(long n);
} ways[] = {{"plain", plain},
            {"threads", threads},
            {"children", children},
            {"ticking", ticking},
            {"leaving", leaving},
            {"failing", failing},
            {"execing", execing},
            {"forking", forking},
            {"clockless", clockless},
            {"strict", strict},
            {"clock-read", clock_read},
            {"forking-failing", forking_failing},
            {"forking-above", forking_above},
            {"clockless-reading", clockless_reading}};

/* The C library's own functions for this call strtol(). */
static long number(const char* text) {
  long value = 0;
  for (; *text != 0; text++) value = 10 * value + *text - '0';
  return value;
}

int main(int argc, char** argv) {
  if (argc == 2) return under_load(argv[1]);
  for (size_t i = 0; argc == 3 && i < sizeof ways / sizeof *ways; i++)
    if (strcmp(argv[1], ways[i].name) == 0) return ways[i].run(number(argv[2]));
  return 99;
}
