/* inner FILE: calls inner_read(), whose system call is among its first five bytes, once word 1 of FILE is
 * set; it returns at the end. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "board.h"

long inner_read(long fd, void* to, long size);
__asm__(
    ".globl inner_read\n.type inner_read, @function\ninner_read:\n.cfi_startproc\n"
    "xor %eax, %eax\nsyscall\nnop\nnop\nret\n.cfi_endproc\n.size inner_read, .-inner_read\n");

struct Board {
  _Atomic unsigned long stop, begin;
};
static struct Board* board;
static int ends[2];

static void* end_it(void* unused) {
  while (!atomic_load(&board->stop)) usleep(1000);
  close(ends[1]);
  return unused;
}

int main(int argc, char** argv) {
  char byte;
  pthread_t thread;
  board = map_board(argc > 1 ? argv[1] : NULL);
  if (board == NULL || pipe(ends) != 0 || pthread_create(&thread, NULL, end_it, NULL) != 0) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  while (!atomic_load(&board->begin)) usleep(1000);
  const long got = inner_read(ends[0], &byte, 1);
  pthread_join(thread, NULL);
  return got == 0 ? 0 : 1;
}
