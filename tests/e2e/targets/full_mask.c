/* full_mask [late]: handlers for SIGUSR1 and SIGUSR2 that call add() of the fixture library, and block all
   signals while they run; `late`: set when the first line comes on standard input. Another line, and it
   raises both, calls itself what is wrong, and says "done"; end of file, and it ends. Status 0: all sums were
   right, and what it asked for was what it had set. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static atomic_int runs, wrong;

static void sum(int number) {
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  if (add(number, 1) != number + 1 || !sigismember(&now, SIGINT)) atomic_fetch_add(&wrong, 1);
  atomic_fetch_add(&runs, 1);
}

static void set(int number) {
  struct sigaction action = {.sa_handler = sum, .sa_flags = SA_RESTART};
  sigfillset(&action.sa_mask);
  if (sigaction(number, &action, NULL) != 0) atomic_fetch_add(&wrong, 1);
}

/* What stands is told as it was set, also where the same call sets it anew. */
static void check(int number) {
  struct sigaction action = {.sa_handler = sum, .sa_flags = SA_RESTART}, told;
  sigfillset(&action.sa_mask);
  for (int again = 0; again < 2; again++)
    if (sigaction(number, again ? &action : NULL, &told) != 0 || told.sa_handler != sum ||
        !sigismember(&told.sa_mask, SIGTRAP) || !sigismember(&told.sa_mask, SIGHUP) ||
        told.sa_flags & SA_NODEFER)
      atomic_fetch_add(&wrong, 1);
}

static int check_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    check(SIGUSR1);
    raise(SIGUSR1);
    _exit(atomic_load(&wrong));
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char** argv) {
  char line[16];
  const int late = argc > 1 && strcmp(argv[1], "late") == 0;
  if (!late) set(SIGUSR1), set(SIGUSR2);
  puts("pid ");
  fflush(stdout);
  if (late && !fgets(line, sizeof line, stdin)) return 2;
  if (late) set(SIGUSR1), set(SIGUSR2);
  while (fgets(line, sizeof line, stdin)) {
    const int before = atomic_load(&runs);
    raise(SIGUSR1);
    raise(SIGUSR2);
    if (line[0] != 'q') check(SIGUSR1), check(SIGUSR2);
    if (line[0] == 'f' && !check_child()) atomic_fetch_add(&wrong, 1);
    printf("done %d\n", atomic_load(&runs) - before);
    fflush(stdout);
  }
  return atomic_load(&wrong) == 0 ? 0 : 1;
}
