/* witness WHAT [FILE]: a program that would notice a tracer's signals, and says so by its exit status. Prints
   "pid N" when all is set up; ends when a line comes on standard input.

   signals  threads with masks, handlers, flags and signal stacks of their own; all must be there at the end
   queue    a child sends numbered real-time signals, thousands a second; each must arrive once, in order
   own      a thread waits in epoll_wait(-1) for nothing but its own EINTR; FILE counts the rounds (one long)
   profile  SIGPROF at 1 kHz; the interrupted place and the frames above must lie in the program's own code */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "fixture.h"

static int told(void) {
  struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
  int answer;
  do answer = poll(&fd, 1, 0);
  while (answer < 0 && errno == EINTR);
  return answer == 1;
}

static void ready(void) {
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
}

/* --- signals */

enum { kThreads = 4 };
static _Atomic int over, settled;
static _Atomic unsigned long unexpected;

static void never(int signal) {
  (void)signal;
  atomic_fetch_add(&unexpected, 1);
}
static void never_info(int signal, siginfo_t* info, void* context) {
  (void)info, (void)context;
  never(signal);
}

struct State {
  sigset_t mask;
  stack_t stack;
  struct {
    void (*handler)(int);
    unsigned long flags, mask;
  } actions[64];
};

static void look(struct State* state) {
  memset(state, 0, sizeof *state);
  sigprocmask(SIG_BLOCK, NULL, &state->mask);
  sigaltstack(NULL, &state->stack);
  for (int signal = 1; signal < 64; signal++) {
    struct sigaction action = {.sa_flags = 0};
    sigaction(signal, NULL, &action);
    state->actions[signal].handler = action.sa_handler;
    state->actions[signal].flags = (unsigned)action.sa_flags;
    memcpy(&state->actions[signal].mask, &action.sa_mask,
           sizeof(unsigned long)); /* the kernel has 64 signals */
  }
}

static char* differs(long number, const struct State* before, const struct State* now) {
  if (memcmp(&before->mask, &now->mask, sizeof now->mask) != 0) printf("thread %ld: mask\n", number);
  if (memcmp(&before->stack, &now->stack, sizeof now->stack) != 0)
    printf("thread %ld: signal stack\n", number);
  for (int signal = 1; signal < 64; signal++)
    if (memcmp(&before->actions[signal], &now->actions[signal], sizeof now->actions[signal]) != 0)
      printf("thread %ld: action of %d was %p %lx %lx, is %p %lx %lx\n", number, signal,
             (void*)before->actions[signal].handler, before->actions[signal].flags,
             before->actions[signal].mask, (void*)now->actions[signal].handler, now->actions[signal].flags,
             now->actions[signal].mask);
  return "state";
}

static void* masked(void* argument) {
  long number = (long)argument;
  struct State before, now;
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1 + (int)number);
  if (number == 1) sigaddset(&mask, SIGTRAP);
  if (number == 2) sigfillset(&mask);
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  if (number == 3) sigaltstack(&stack, NULL);
  look(&before);
  atomic_fetch_add(&settled, 1);
  void* wrong = NULL;
  while (!atomic_load(&over)) {
    if (add((int)number, 1) != number + 1) wrong = "sum";
    usleep(200);
  }
  look(&now);
  return memcmp(&before, &now, sizeof now) != 0 ? differs(number, &before, &now) : wrong;
}

static int signals(void) {
  struct sigaction action = {.sa_handler = never};
  sigaddset(&action.sa_mask, SIGHUP);
  sigaction(SIGUSR1, &action, NULL);
  action = (struct sigaction){.sa_sigaction = never_info, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  sigaction(SIGUSR2, &action, NULL);
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGRTMIN + 3, &action, NULL);
  action = (struct sigaction){.sa_handler = SIG_IGN, .sa_flags = SA_NOCLDWAIT};
  sigaction(SIGCHLD, &action, NULL);
  sigaction(SIGPIPE, &action, NULL);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, masked, (void*)i) != 0) return 2;
  while (atomic_load(&settled) < kThreads) usleep(1000);
  ready();
  while (!told()) usleep(1000);
  atomic_store(&over, 1);
  int status = 0;
  for (int i = 0; i < kThreads; i++) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    if (wrong) status = 10 + i;
  }
  return atomic_load(&unexpected) ? 3 : status;
}

/* --- queue */

enum { burst = 10 }; /* signals, then a pair of calls, or the receiver would do nothing else */

static volatile sig_atomic_t received, disorder;
static pid_t sender;
static _Atomic long* paired; /* calls so far; shared */

static void in_order(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  if (info->si_value.sival_int != received || info->si_code != SI_QUEUE || info->si_pid != sender)
    disorder = 1;
  received = received + 1;
}

static void send_all(pid_t to, int stop) {
  struct pollfd fd = {.fd = stop, .events = POLLIN};
  long seen = 0;
  for (int number = 0; poll(&fd, 1, 0) == 0; number++) {
    while (number % burst == 0 && atomic_load(paired) == seen && poll(&fd, 1, 1) == 0) continue;
    seen = atomic_load(paired);
    union sigval value = {.sival_int = number};
    while (sigqueue(to, SIGRTMIN, value) != 0)
      if (errno != EAGAIN) _exit(1);
    usleep(100); /* thousands a second, not hundreds of thousands: this is the load, nothing waits for it */
  }
  _exit(0);
}

static int queue(void) {
  struct sigaction action = {.sa_sigaction = in_order, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGRTMIN, &action, NULL);
  sigset_t numbered, old;
  sigemptyset(&numbered);
  sigaddset(&numbered, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &numbered, &old);
  int stop[2], status = 0;
  paired = mmap(NULL, sizeof *paired, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (paired == MAP_FAILED || pipe(stop) != 0) return 2;
  sender = fork();
  if (sender == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    send_all(getppid(), stop[0]);
  }
  sigprocmask(SIG_SETMASK, &old, NULL);
  ready();
  while (!told())
    for (int i = 0; i < 50; i++, atomic_fetch_add(paired, 1))
      if (add(i, 1) != i + 1 || twice(i) != 2 * i) return 4;
  if (write(stop[1], "x", 1) != 1) return 2;
  while (waitpid(sender, &status, 0) < 0 && errno == EINTR) {
  }
  printf("received %d\n", (int)received);
  return status != 0 ? 5 : disorder ? 6 : received == 0;
}

/* --- own */

static _Atomic long asked;    /* the waiter is about to enter epoll_wait for that round */
static _Atomic long answered; /* it has seen its EINTR */
static pid_t waiter;

static void nothing(int signal) {
  (void)signal;
}

static void* wait_for_own(void* unused) {
  struct epoll_event event;
  int epoll = epoll_create1(0);
  waiter = (pid_t)syscall(SYS_gettid);
  for (long round = 1; !atomic_load(&over); round++) {
    atomic_store(&asked, round);
    if (epoll_wait(epoll, &event, 1, -1) != -1 || errno != EINTR) atomic_fetch_add(&unexpected, 1);
    atomic_store(&answered, round);
    add((int)round, 1);
  }
  return unused;
}

/* Whether the waiter sleeps: from that moment on a signal is its EINTR and nobody else's. */
static int sleeps(int stat) {
  char text[512];
  ssize_t got = pread(stat, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* name = strrchr(text, ')');
  return name != NULL && name[2] == 'S';
}

static int own(const char* file) {
  int fd = open(file, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096) != 0) return 2;
  _Atomic long* rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  struct sigaction action = {.sa_handler = nothing};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread;
  if (rounds == MAP_FAILED || pthread_create(&thread, NULL, wait_for_own, NULL) != 0) return 2;
  while (atomic_load(&asked) == 0) usleep(100);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)waiter);
  int stat = open(path, O_RDONLY);
  ready();
  for (long round = 1; stat >= 0; round++) {
    while (atomic_load(&asked) < round || !sleeps(stat)) {
    }
    if (told()) atomic_store(&over, 1);
    syscall(SYS_tgkill, getpid(), waiter, SIGUSR1);
    while (atomic_load(&answered) < round) usleep(10);
    atomic_store(rounds, round);
    if (atomic_load(&over)) break;
  }
  pthread_join(thread, NULL);
  return atomic_load(&unexpected) ? 3 : 0;
}

/* --- profile */

static struct { uintptr_t begin, end; } code[64];
static int codes;
static volatile sig_atomic_t samples, foreign;
static volatile uintptr_t foreign_place;

static void learn_code(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512], mode[8];
  unsigned long begin, end;
  while (maps && fgets(line, sizeof line, maps) && codes < 64)
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) == 3 && mode[2] == 'x')
      code[codes].begin = begin, code[codes++].end = end;
  if (maps) fclose(maps);
}

static int is_own(uintptr_t place) {
  for (int i = 0; i < codes; i++)
    if (place >= code[i].begin && place < code[i].end) return place != (uintptr_t)add + 1;
  return 0;
}

static void sample(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  void* frames[16];
  uintptr_t place = (uintptr_t)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  if (!is_own(place)) foreign = foreign + 1, foreign_place = place;
  int count = backtrace(frames, 16);
  for (int i = 0; i < count; i++)
    if (!is_own((uintptr_t)frames[i])) foreign = foreign + 1, foreign_place = (uintptr_t)frames[i];
  samples = samples + 1;
}

static int profile(void) {
  void* frames[4];
  backtrace(frames, 4); /* loads the unwinder, which must not happen in a handler */
  learn_code();
  struct sigaction action = {.sa_sigaction = sample, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGPROF, &action, NULL);
  struct itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &often, NULL);
  ready();
  while (!told())
    for (int i = 0; i < 100; i++)
      if (outer(i) != i + 5 || add(i, i) != 2 * i || descend(3) != 3) return 4;
  struct itimerval stop = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &stop, NULL);
  printf("samples %d foreign %d at %lx\n", (int)samples, (int)foreign, (unsigned long)foreign_place);
  return foreign ? 5 : samples == 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "signals") == 0) return signals();
  if (strcmp(what, "queue") == 0) return queue();
  if (strcmp(what, "own") == 0 && argc > 2) return own(argv[2]);
  if (strcmp(what, "profile") == 0) return profile();
  return 99;
}
