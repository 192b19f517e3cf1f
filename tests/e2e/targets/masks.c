/* masks: two threads that block all signals and unblock them without pause. Says "ran" now and then. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static void block_all_once(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void* block_all(void* none) {
  for (;;) block_all_once();
  return none;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, block_all, NULL) != 0) return 2;
  for (;;) {
    for (int i = 0; i < 1000; i++) block_all_once();
    puts("ran");
    if (fflush(stdout) != 0) return 0;
  }
}
