/* clocks: for each number on its standard input asks so often what time it is, by two functions that the
   kernel's own code (vdso) implements, then once more in a forked child. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ask(void) {
  struct timeval now;
  if (gettimeofday(&now, NULL) != 0) return 1;
  return labs(time(NULL) - now.tv_sec) > 1;
}

int main(void) {
  char line[32];
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("pid %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) {
    int wrong = 0, status = 0;
    for (long left = atol(line); left > 0; left--) wrong += ask();
    if (fork() == 0) _exit(ask());
    wait(&status);
    printf("wrong %d child %d\n", wrong, status);
  }
  return 0;
}
