/* repeats add|greet|writev|getppid [locked]: for each line of its input, which is a number, so many calls of
   that function, the last of which is a system call; then `done`. With `locked` all that is mapped from the
   start on stays in memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fixture.h"

static int write_two(int where) {
  const struct iovec parts[] = {{"five ", 5}, {"letters", 7}};
  return (int)writev(where, parts, 2);
}

int main(int argc, char** argv) {
  const char* function = argc > 1 ? argv[1] : "add";
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  char line[32];
  if (argc > 2 && mlockall(MCL_FUTURE) != 0) return 77;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    int sum = 0;
    for (long i = atol(line); i > 0; i--)
      sum += function[0] == 'a'                ? add((int)i, 2)
             : strcmp(function, "greet") == 0  ? greet("seventeen letters")
             : strcmp(function, "writev") == 0 ? write_two(nowhere)
                                               : (int)syscall(SYS_getppid);
    printf("done %d\n", sum);
    fflush(stdout);
  }
  return 0;
}
