/* rings FILE: calls, while a worker of the kernel's is in a read of an empty pipe, for io_uring(7). 77 where
 * the kernel offers none. */
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "board.h"

struct Board {
  _Atomic unsigned long stop, calls;
};

static int submit_read(int fd) {
  static char byte;
  struct io_uring_params params = {0};
  const int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
  if (ring < 0) return 77;
  char* queue = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe* entry = mmap(NULL, params.sq_entries * sizeof *entry, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
  if (queue == MAP_FAILED || entry == MAP_FAILED) return 77;
  *entry = (struct io_uring_sqe){.opcode = IORING_OP_READ, .flags = IOSQE_ASYNC, .fd = fd, .len = 1};
  entry->addr = (uintptr_t)&byte;
  ((uint32_t*)(queue + params.sq_off.array))[0] = 0;
  atomic_store((_Atomic uint32_t*)(queue + params.sq_off.tail), 1);
  return syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1 ? 0 : 77;
}

int main(int argc, char** argv) {
  struct Board* board = map_board(argc > 1 ? argv[1] : NULL);
  int ends[2];
  if (board == NULL || pipe(ends) != 0) return 2;
  const int status = submit_read(ends[0]);
  if (status != 0) return status;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  int wrong = 0;
  for (long i = 0; !atomic_load(&board->stop); i++) {
    wrong += labs(-i) != i;
    atomic_fetch_add(&board->calls, 1);
  }
  return wrong != 0;
}
