/* lingers FILE: calls, and threads that are in read(2) until the end. Word 1 of FILE is how many are wanted,
 * word 2 how many have been made, word 3 how often the first thread has called, word 4 how many threads are
 * to end before. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "board.h"

enum { kThreads = 64 };
struct Board {
  _Atomic unsigned long stop, wanted, made, calls, released;
};
static struct Board* board;
static int ends[2];

static void* wait_for_the_end(void* unused) {
  char byte;
  (void)unused;
  return read(ends[0], &byte, 1) >= 0 ? NULL : board;
}

int main(int argc, char** argv) {
  board = map_board(argc > 1 ? argv[1] : NULL);
  if (board == NULL || pipe(ends) != 0) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  pthread_t threads[kThreads];
  unsigned long made = 0, written = 0;
  int wrong = 0;
  for (long i = 0; !atomic_load(&board->stop); i++) {
    if (made < kThreads && made < atomic_load(&board->wanted)) {
      if (pthread_create(&threads[made++], NULL, wait_for_the_end, NULL) != 0) return 2;
      atomic_store(&board->made, made);
    }
    if (written < atomic_load(&board->released)) wrong += write(ends[1], &wrong, 1) != 1, written++;
    wrong += labs(-i) != i;
    atomic_fetch_add(&board->calls, 1);
  }
  close(ends[1]);
  for (unsigned long k = 0; k < made; k++) {
    void* answer = board;
    wrong += pthread_join(threads[k], &answer) != 0 || answer != NULL;
  }
  return wrong != 0;
}
