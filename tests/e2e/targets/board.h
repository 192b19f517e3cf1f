/* A page of words that whoever runs the program maps too (board.py): the first ends it, the others are its
 * own. */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void* map_board(const char* path) {
  int fd = path != NULL ? open(path, O_RDWR | O_CREAT, 0600) : -1;
  if (fd < 0 || ftruncate(fd, 4096) != 0) return NULL;
  void* board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return board == MAP_FAILED ? NULL : board;
}
