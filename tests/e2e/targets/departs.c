// Ends while functions are under way: two in the first thread, one in another. `departs exit | abort | thread
// | exec`.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#define VISIBLE __attribute__((noinline, visibility("default")))

static const char* how;
static volatile int waiting, leaving;

static void pause_for(long milliseconds) {
  const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

VISIBLE int wait_idly(int seconds) {
  waiting = 1;
  pause_for(seconds * 1000L);
  return seconds;
}

static void* idle(void* unused) {
  add(1, wait_idly(100));
  return unused;
}

// The first thread stays where it is.
static void* end_all(void* unused) {
  while (leaving == 0) pause_for(1);
  pause_for(20);
  exit(3);
  return unused;
}

VISIBLE int leave(int status) {
  leaving = 1;
  pause_for(20);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "exec") == 0) execl("/bin/true", "true", NULL);
  if (strcmp(how, "thread") == 0) pause_for(100000);
  exit(status);
}

VISIBLE int labour(int status) {
  pause_for(20);
  return leave(status) + 1;
}

int main(int argc, char** argv) {
  pthread_t thread;
  how = argc > 1 ? argv[1] : "exit";
  pthread_create(&thread, NULL, idle, NULL);
  while (waiting == 0) pause_for(1);
  if (strcmp(how, "thread") == 0) pthread_create(&thread, NULL, end_all, NULL);
  return labour(3);
}
