/* trap_handlers WAY COUNT [later]: calls of add in handlers that have SIGTRAP blocked, which changes neither
   what is done with it nor the mask, as the kernel tells of them. WAY: own (that of SIGTRAP itself), masked
   (another's, for which it is blocked, too), late (the handler is set while it is blocked), once (the handler
   is gone after its first), nested (own, in masked), full (own, with all signals blocked). "later": prints
   "pid N", and waits for a line on standard input when all is set. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"
#include "later.h"

static volatile int handled, wrong;
static int one_shot;  // nothing tells then whether SIGTRAP was blocked

// Without the C library.
static int is_blocked(void) {
  unsigned long now = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof now);
  return (now >> (SIGTRAP - 1) & 1) != 0;
}

static void handler(int number) {
  handled = add(handled, 1);
  if (!one_shot && !is_blocked()) wrong = 20 + number;
}

static void plain(int number) {
  (void)number;
  handled = handled + 1;
}

// `raise` would block signals in between.
static void send(int number) {
  syscall(SYS_tgkill, getpid(), gettid(), number);
}

static void nests(int number) {
  handler(number);
  send(SIGTRAP);  // waits for the end of this one
}

static int is_set(void (*expected)(int)) {
  struct sigaction now;
  sigaction(SIGTRAP, NULL, &now);
  return now.sa_handler == expected;
}

enum Blocked { kNone, kTrap, kAll };

static void set(int number, void (*function)(int), int flags, enum Blocked blocks) {
  struct sigaction action = {.sa_handler = function, .sa_flags = flags};
  sigemptyset(&action.sa_mask);
  if (blocks == kTrap) sigaddset(&action.sa_mask, SIGTRAP);
  if (blocks == kAll) sigfillset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

static void set_late(void) {
  sigset_t trap, was;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  sigprocmask(SIG_BLOCK, &trap, &was);
  add(1, 1);
  set(SIGTRAP, plain, 0, kNone);
  add(1, 1);
  sigprocmask(SIG_SETMASK, &was, NULL);
}

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  const char* way = argv[1];
  const int count = atoi(argv[2]);
  void (*trap)(int) = handler;
  one_shot = strcmp(way, "once") == 0;
  int number = SIGTRAP, times = count;
  if (strcmp(way, "masked") == 0 || strcmp(way, "nested") == 0) {
    number = SIGUSR1;
    set(SIGUSR1, strcmp(way, "nested") == 0 ? nests : handler, 0, kTrap);
    if (strcmp(way, "nested") == 0) times = 2 * count;
  }
  if (strcmp(way, "late") == 0) {
    trap = plain;
    set_late();
  } else {
    set(SIGTRAP, trap, one_shot ? (int)SA_RESETHAND : 0, strcmp(way, "full") == 0 ? kAll : kNone);
  }
  if (argc > 3) wait_for_a_line();
  if (one_shot) {
    trap = SIG_DFL;
    times = 1;
  }
  for (int i = 0; i < (one_shot ? 1 : count); i++) {
    send(number);
    if (add(i, 1) != i + 1) return 1;
    if (is_blocked()) return 2;
    if (!is_set(trap)) return 3;
    if (add(i, 1) != i + 1) return 1;
    if (is_blocked()) return 4;
  }
  if (!is_set(trap)) return 5;
  if (handled != times) return 6;
  return wrong;
}
