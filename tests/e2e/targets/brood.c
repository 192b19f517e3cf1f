/* brood FILE: two threads that fork without a pause, beside a first one that sleeps. The last kChildren
 * children live; at each SIGUSR1 one calls labs() with its pid, negated. While word 1 of FILE is set they
 * rest; word 2 counts the children, words 3 and 4 say which threads rest. The pids of the children stand in
 * the words from 8 on. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "board.h"

enum { kThreads = 2, kChildren = 240 };
struct Board {
  _Atomic unsigned long stop, rest, made, rests[kThreads], unused[3], child[kChildren];
};
static struct Board* board;
static sigset_t signals;
static volatile long answer;

static void end(pid_t child) {
  if (child == 0) return;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

/* The child goes on inside. */
__attribute__((noinline, noclone, externally_visible)) long make_child(long parent) {
  const pid_t made = fork();
  if (made != 0) return made;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int number = 0; getppid() == parent; answer = labs(-(long)getpid()))
    if (sigwait(&signals, &number) != 0) _exit(1);
  _exit(0);
}

static void* loop(void* argument) {
  const long thread = (long)argument;
  const long parent = getpid();
  for (unsigned long i = (unsigned long)thread; !atomic_load(&board->stop); i += kThreads) {
    _Atomic unsigned long* child = &board->child[i % kChildren];
    end((pid_t)atomic_load(child));
    const long made = make_child(parent);
    atomic_store(child, made > 0 ? (unsigned long)made : 0);
    atomic_fetch_add(&board->made, 1);
    while (atomic_load(&board->rest) && !atomic_load(&board->stop)) {
      atomic_store(&board->rests[thread], 1);
      usleep(1000);
    }
    atomic_store(&board->rests[thread], 0);
  }
  return NULL;
}

int main(int argc, char** argv) {
  board = map_board(argc > 1 ? argv[1] : NULL);
  if (board == NULL) return 2;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0) return 2;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, loop, (void*)i) != 0) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < kChildren; i++) end((pid_t)atomic_load(&board->child[i]));
  return 0;
}
