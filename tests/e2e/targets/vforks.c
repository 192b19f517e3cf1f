/* vforks [later]: makes a child by vfork (later: when a line comes on standard input), in whose hands the
   parent sleeps uninterruptibly until a line comes and the child, which calls add(2, 2) first, ends. Then
   calls add(3, 3) for each line more.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static int line(void) {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1)
    if (byte == '\n') return 1;
  return 0;
}

int main(int count, char** words) {
  (void)words;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  if (count > 1 && !line()) return 3;
  pid_t child = vfork();
  if (child == 0) {
    if (write(STDOUT_FILENO, "child\n", 6) != 6 || !line()) _exit(8);
    _exit(add(2, 2) == 4 ? 7 : 9);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
  puts("collected");
  fflush(stdout);
  while (line()) {
    if (add(3, 3) != 6) return 2;
    puts("done");
    fflush(stdout);
  }
  return 0;
}
