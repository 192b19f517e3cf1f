/* remaps FILE: maps code from one file and from another at the same place in turn, in the second of which
 * stands an int3 wherever the first has a nop, until its board says stop; counts how often, and ends with 1
 * where what it had mapped was changed. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"

enum { kSize = 1 << 16 };

struct Board {
  _Atomic unsigned long stop, turns;
};

static int file_of(unsigned char byte) {
  char name[] = "/tmp/remaps.XXXXXX";
  static unsigned char content[kSize];
  memset(content, byte, sizeof content);
  const int fd = mkstemp(name);
  if (fd < 0 || write(fd, content, sizeof content) != sizeof content) return -1;
  return unlink(name) == 0 ? fd : -1;
}

int main(int argc, char** argv) {
  struct Board* board = map_board(argc > 1 ? argv[1] : NULL);
  static const unsigned char kBytes[2] = {0x90, 0xcc};
  const int files[2] = {file_of(kBytes[0]), file_of(kBytes[1])};
  unsigned char* place = mmap(NULL, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (board == NULL || files[0] < 0 || files[1] < 0 || place == MAP_FAILED) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  int wrong = 0;
  for (unsigned long turn = 0; !atomic_load(&board->stop) && wrong == 0; turn++) {
    const int which = turn % 2;
    if (mmap(place, kSize, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, files[which], 0) != place)
      return 2;
    for (int look = 0; look < 20; look++)
      for (int i = 0; i < kSize; i++) wrong |= place[i] != kBytes[which];
    atomic_store(&board->turns, turn);
  }
  while (!atomic_load(&board->stop)) usleep(1000);
  return wrong;
}
