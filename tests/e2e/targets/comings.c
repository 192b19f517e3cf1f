/* comings BOARD OBJECT...: one thread opens the objects in turn, has plugin_work called of those that have
   it, and closes them; another calls the C library at full speed. Both check what they get. Words of the
   board: 1 what was wrong, 2 objects opened, 3 calls of plugin_work, 4 rounds of the other thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"

enum { kEach = 10 };

static _Atomic uint64_t* board;
static char** objects;

static void* open_and_close(void* unused) {
  for (int which = 0; board[0] == 0; which = objects[which + 1] != NULL ? which + 1 : 0) {
    void* handle = dlopen(objects[which], RTLD_NOW);
    int (*work)(int) = handle ? (int (*)(int))dlsym(handle, "plugin_work") : NULL;
    board[1] += handle == NULL;
    if (work)
      for (int i = 0, adds = work(0); i < kEach - 1; i++) board[1] += work(i) != i + adds;
    board[3] += work ? kEach : 0;
    if (handle) dlclose(handle);
    board[2]++;
  }
  return unused;
}

static void* call(void* unused) {
  char text[32];
  for (uint64_t number = 0; board[0] == 0; board[4] = ++number) {
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    char* copy = strdup(text);
    board[1] += copy == NULL || strcmp(copy, text) != 0 || strtoull(copy, NULL, 10) != number;
    free(copy);
  }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  board = argc > 2 ? map_board(argv[1]) : NULL;
  if (board == NULL) return 2;
  objects = argv + 2;
  puts("pid ");
  fflush(stdout);
  if (pthread_create(&threads[0], NULL, open_and_close, NULL) != 0 ||
      pthread_create(&threads[1], NULL, call, NULL) != 0)
    return 2;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return board[1] == 0 ? 0 : 1;
}
