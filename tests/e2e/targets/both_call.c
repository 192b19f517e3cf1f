/* both_call COUNT: so many processes, one after the other, each of which forks a child; both make four calls
   of getppid() then, from a place that nobody has called it from before. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) int calls(void) {
  int seen = 0;
  for (int i = 0; i < 4; i++) seen += getppid() > 0;
  return seen;
}

static int fresh(void) {
  const pid_t child = fork();
  if (child < 0 || calls() != 4) return 1;
  int status = 0;
  return child != 0 && (waitpid(child, &status, 0) != child || status != 0);
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < count; i++) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(fresh());
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
