/* suspends N: as garbage collectors stop a thread, N times: the handler of SIGUSR1, which blocks all but what
   reports faults and what ends a program, waits in sigsuspend(2) for SIGUSR2. The thread calls getuid(), and
   looks whether SIGTRAP is in its mask outside of handlers: says how often it was, and whether it is at last.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sigset_t handlers, suspended;
static atomic_int inside, over;
static atomic_long found;

static void suspend(int signal) {
  (void)signal;
  atomic_store(&inside, 1);
  sigsuspend(&suspended);
  atomic_store(&inside, 0);
}

static void resume(int signal) {
  (void)signal;
}

static int blocks_trap(void) {
  sigset_t now;
  return pthread_sigmask(SIG_BLOCK, NULL, &now) != 0 || sigismember(&now, SIGTRAP);
}

static void* work(void* unused) {
  while (!atomic_load(&over)) {
    getuid();
    atomic_fetch_add(&found, blocks_trap());
  }
  printf("blocked %ld times, at last %d\n", atomic_load(&found), blocks_trap());
  return unused;
}

static void send(pthread_t thread, int signal, int until) {
  pthread_kill(thread, signal);
  while (atomic_load(&inside) != until) usleep(10);
}

int main(int argc, char** argv) {
  static const int kOpen[] = {SIGINT, SIGQUIT, SIGABRT, SIGBUS, SIGSEGV, SIGTERM};
  struct sigaction action = {.sa_handler = suspend, .sa_flags = SA_RESTART};
  pthread_t worker;
  sigfillset(&handlers);
  for (unsigned i = 0; i < sizeof kOpen / sizeof *kOpen; i++) sigdelset(&handlers, kOpen[i]);
  suspended = action.sa_mask = handlers;
  sigdelset(&suspended, SIGUSR2);
  if (sigaction(SIGUSR1, &action, NULL) != 0) return 2;
  action.sa_handler = resume;
  if (sigaction(SIGUSR2, &action, NULL) != 0 || pthread_create(&worker, NULL, work, NULL) != 0) return 2;
  for (long i = argc > 1 ? atol(argv[1]) : 1; i > 0; i--) {
    send(worker, SIGUSR1, 1);
    send(worker, SIGUSR2, 0);
  }
  atomic_store(&over, 1);
  return pthread_join(worker, NULL);
}
