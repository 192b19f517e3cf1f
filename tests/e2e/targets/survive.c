/* survive FILE PLUGIN_A PLUGIN_B: eight threads in work(), one that makes children which call work() too, one
   that loads and unloads plugins, and a timer whose handler calls work(). Everything is checked. FILE is
   mapped shared: whoever reads it sees how far each part is, and writes to its first word to end it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

enum { kThreads = 8, kChildren = kThreads, kLoads, kTicks, kParts };

struct Board {
  _Atomic unsigned long stop;
  _Atomic unsigned long wrong;
  _Atomic unsigned long done[kParts];
  char first[120]; /* what went wrong first */
};
static struct Board* board;
static char** arguments;
extern char** environ;

static void wrong(const char* what, long value) {
  if (atomic_fetch_add(&board->wrong, 1) == 0)
    snprintf(board->first, sizeof board->first, "%s: %ld", what, value);
}

static void call(int part, unsigned long sequence) {
  const unsigned long got = work(part, sequence);
  if (got != sequence * 3 + (unsigned long)part) wrong("work", (long)got);
  if (part < kParts) atomic_store(&board->done[part], sequence);
}

static int running(void) {
  return !atomic_load(&board->stop);
}

static void* loop(void* argument) {
  for (unsigned long sequence = 1; running(); sequence++) call((int)(long)argument, sequence);
  return NULL;
}

static void await(pid_t child, const char* what) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) continue;
  if (status != 0) wrong(what, status);
}

static void* children(void* unused) {
  for (unsigned long sequence = 1; running(); sequence++) {
    pid_t child = fork();
    if (child == 0) {
      for (unsigned long i = 1; i <= 20; i++) call(kParts, i);
      _exit(atomic_load(&board->wrong) != 0);
    }
    await(child, "forked child");
    char* words[] = {"true", NULL};
    if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) != 0) wrong("posix_spawn", 0);
    await(child, "spawned child");
    atomic_store(&board->done[kChildren], sequence);
  }
  return unused;
}

static void* loads(void* unused) {
  for (unsigned long sequence = 1; running(); sequence++) {
    void* plugin = dlopen(arguments[2 + sequence % 2], RTLD_NOW);
    int (*function)(int) = plugin != NULL ? (int (*)(int))dlsym(plugin, "plugin_work") : NULL;
    if (function == NULL) {
      wrong("dlopen", (long)sequence);
      continue;
    }
    if (function(1) != (sequence % 2 ? 2001 : 1001)) wrong("plugin_work", (long)sequence);
    dlclose(plugin);
    atomic_store(&board->done[kLoads], sequence);
  }
  return unused;
}

static void on_tick(int signal) {
  static unsigned long ticks;
  (void)signal;
  call(kTicks, ++ticks);
}

int main(int argc, char** argv) {
  arguments = argv;
  int fd = argc > 3 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
  if (fd < 0 || ftruncate(fd, 4096) != 0) return 2;
  board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (board == MAP_FAILED) return 2;
  pthread_t threads[kThreads + 2];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, loop, (void*)i) != 0) return 2;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, NULL);
  if (pthread_create(&threads[kThreads], NULL, children, NULL) != 0) return 2;
  if (pthread_create(&threads[kThreads + 1], NULL, loads, NULL) != 0) return 2;
  pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &every, NULL);
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (int i = 0; i < kThreads + 2; i++) pthread_join(threads[i], NULL);
  return atomic_load(&board->wrong) == 0 ? 0 : 1;
}
