/* leader_leaves CALLS: the main thread ends by pthread_exit(), another calls a traced function so often after
   that. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

static pthread_t leader;

/* A thread that has been joined has ended for the kernel too: its tid word is cleared by the exit itself. */
static void* call(void* calls) {
  pthread_join(leader, NULL);
  for (long i = 0; i < (long)calls; i++)
    if (greet("text") == 0) _exit(1);
  _exit(0);
}

int main(int argc, char** argv) {
  pthread_t thread;
  leader = pthread_self();
  if (argc < 2 || pthread_create(&thread, NULL, call, (void*)atol(argv[1])) != 0) return 2;
  pthread_exit(NULL);
}
