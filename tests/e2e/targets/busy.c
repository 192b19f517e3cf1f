/* busy FILE: four threads that do nothing but call work(thread, 1, 2, 3 ...) until told to stop, each
   checking every result. FILE is mapped shared; whoever reads it sees how far each thread is. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "board.h"
#include "fixture.h"

enum { kThreads = 4 };

struct Board {
  _Atomic unsigned long stop;
  _Atomic unsigned long wrong;               /* results that were not what they must be */
  _Atomic unsigned long completed[kThreads]; /* the last sequence number whose call has returned */
};
static struct Board* board;

static void* loop(void* argument) {
  int thread = (int)(long)argument;
  for (unsigned long sequence = 1; !atomic_load(&board->stop); sequence++) {
    if (work(thread, sequence) != sequence * 3 + (unsigned long)thread) atomic_fetch_add(&board->wrong, 1);
    atomic_store(&board->completed[thread], sequence);
  }
  return NULL;
}

int main(int argc, char** argv) {
  board = map_board(argc > 1 ? argv[1] : NULL);
  if (board == NULL) return 2;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, loop, (void*)i) != 0) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return atomic_load(&board->wrong) == 0 ? 0 : 1;
}
