/* vforks [later|beside]: makes a child by vfork (later: when a line comes on standard input; beside: in a
   second thread, which the first awaits), in whose hands the parent sleeps uninterruptibly until a line comes
   and the child, which calls add(2, 2) first, ends. Then calls add(3, 3) for each line more.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static int line(void) {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1)
    if (byte == '\n') return 1;
  return 0;
}

static int is_well;

static void* lend(void* unused) {
  pid_t child = vfork();
  if (child == 0) {
    if (write(STDOUT_FILENO, "child\n", 6) != 6 || !line()) _exit(8);
    _exit(add(2, 2) == 4 ? 7 : 9);
  }
  int status = 0;
  is_well = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
  return unused;
}

int main(int count, char** words) {
  const char* when = count > 1 ? words[1] : "";
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  if (strcmp(when, "later") == 0 && !line()) return 3;
  pthread_t beside;
  if (strcmp(when, "beside") != 0)
    lend(NULL);
  else if (pthread_create(&beside, NULL, lend, NULL) != 0 || pthread_join(beside, NULL) != 0)
    return 4;
  if (!is_well) return 1;
  puts("collected");
  fflush(stdout);
  while (line()) {
    if (add(3, 3) != 6) return 2;
    puts("done");
    fflush(stdout);
  }
  return 0;
}
