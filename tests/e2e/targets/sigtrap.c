/* sigtrap WAY COUNT [later]: what the program itself does with SIGTRAP stays as it is while add is called
   COUNT times. WAY: handler (it must run for the program's own traps and no others), ignored, sigset (the
   same, by that function), blocked, all (signals are blocked), unblocks (all, and had that one blocked),
   sections (each call is made with all blocked, and none behind it), spawns (before each a child is made by
   posix_spawn, which does that too, and a thread), nested (both), partial (a thread is made with that and
   another blocked), caught (spawns, with a handler from the second call on), turns (set by signal() and its
   kin, which tell of the last), around (blocked, around a handler with all blocked), default. "later": prints
   "pid N", and waits for a line on standard input first; whether SIGTRAP is blocked is not looked at then. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "later.h"

static volatile int handled;

static void handler(int number) {
  (void)number;
  handled = handled + 1;
}

static int mask_calls;

static int change_mask(int how, const sigset_t* set, sigset_t* old) {
  mask_calls++;
  return sigprocmask(how, set, old);
}

static int is_blocked(void) {
  sigset_t now;
  change_mask(SIG_BLOCK, NULL, &now);
  return sigismember(&now, SIGTRAP);
}

// Of one that waits, and no breakpoint is met meanwhile.
static int tells_of_sender(void) {
  const struct timespec at_once = {0, 0};
  siginfo_t sent;
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  if (syscall(SYS_tgkill, getpid(), getpid(), SIGTRAP) || sigtimedwait(&trap, &sent, &at_once) != SIGTRAP)
    return 0;
  return sent.si_pid == getpid();
}

// From a mask of all signals, one waiting, to none and back.
static int leaves_all(void) {
  const struct timespec at_once = {0, 0};
  sigset_t trap, child, all, none, was;
  sigemptyset(&none);
  sigfillset(&all);
  trap = child = none;
  sigaddset(&trap, SIGTRAP);
  sigaddset(&child, SIGCHLD);
  if (sigtimedwait(&trap, NULL, &at_once) != SIGTRAP) return 6;
  change_mask(SIG_UNBLOCK, &child, &was);
  if (!sigismember(&was, SIGTRAP) || !sigismember(&was, SIGCHLD)) return 7;
  change_mask(SIG_BLOCK, &all, &was);
  if (!sigismember(&was, SIGTRAP) || sigismember(&was, SIGCHLD)) return 8;
  change_mask(SIG_SETMASK, &none, &was);
  if (!sigismember(&was, SIGTRAP) || is_blocked()) return 9;
  change_mask(SIG_SETMASK, &was, NULL);
  return is_blocked() ? 0 : 10;
}

static int is_pending(void) {
  sigset_t now;
  sigpending(&now);
  return sigismember(&now, SIGTRAP);
}

// As interpreters do around each child that they start.
static int calls_in_sections(int count) {
  sigset_t all, was;
  sigfillset(&all);
  for (int i = 0; i < count; i++) {
    if (i % 2 == 0 ? change_mask(SIG_SETMASK, &all, &was) : pthread_sigmask(SIG_BLOCK, &all, &was)) return 12;
    if (add(i, 1) != i + 1) return 1;
    if (i % 2 == 0 ? pthread_sigmask(SIG_SETMASK, &was, NULL) : change_mask(SIG_SETMASK, &was, NULL))
      return 13;
  }
  return 0;
}

static int looked_at = SIGTRAP;  // whether it is blocked

static void* is_blocked_here(void* expected) {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  return (sigismember(&now, looked_at) ? &looked_at : NULL) != expected ? &looked_at : NULL;
}

// With a child and a thread before each. 0 where all is well.
static int calls_behind_children(int count, const sigset_t* blocked) {
  char* const words[] = {"true", NULL};
  void* expected = blocked != NULL ? &looked_at : NULL;
  for (int i = 0; i < count; i++) {
    sigset_t was;
    pid_t child;
    pthread_t thread;
    void* wrong = NULL;
    int status = 0;
    if (blocked != NULL) change_mask(SIG_BLOCK, blocked, &was);
    if (posix_spawn(&child, "/bin/true", NULL, NULL, words, NULL)) return 12;
    if (waitpid(child, &status, 0) != child || status != 0) return 13;
    if (is_blocked_here(expected) != NULL) return 14;
    if (pthread_create(&thread, NULL, is_blocked_here, expected) || pthread_join(thread, &wrong)) return 15;
    if (wrong != NULL) return 16;
    if (add(i, 1) != i + 1) return 1;
    if (is_blocked_here(expected) != NULL) return 17;
    if (blocked != NULL) change_mask(SIG_SETMASK, &was, NULL);
    if (is_blocked_here(NULL) != NULL) return 18;
  }
  return 0;
}

static int calls_with_a_handler(int count) {
  const struct sigaction action = {.sa_handler = handler};
  int wrong = calls_behind_children(1, NULL);
  if (wrong || sigaction(SIGTRAP, &action, NULL)) return wrong;
  for (int i = 1; i < count; i++) {
    if ((wrong = calls_behind_children(1, NULL))) return wrong;
    if (raise(SIGTRAP) || handled != i) return 19;
  }
  return 0;
}

static void calls_inside(int unused) {
  (void)unused;
  handled = handled + 1;
  add(1, 1);
}

static int calls_around(int count) {
  struct sigaction action = {.sa_handler = calls_inside};
  sigset_t trap;
  sigfillset(&action.sa_mask);
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  if (sigaction(SIGUSR1, &action, NULL)) return 30;
  for (int i = 0; i < count; i += 5) {
    if (change_mask(SIG_BLOCK, &trap, NULL) || add(i, 1) != i + 1 || raise(SIGUSR1)) return 31;
    if (i % 2 == 0 && add(i, 1) != i + 1) return 32;
    if (raise(SIGTRAP) || add(i, 1) != i + 1 || !is_blocked() || !is_pending()) return 33;
    if (sigwaitinfo(&trap, NULL) != SIGTRAP || change_mask(SIG_UNBLOCK, &trap, NULL)) return 34;
    if (add(i, 1) != i + 1 || is_blocked() || (i % 2 != 0 && add(i, 1) != i + 1)) return 35;
  }
  return handled == count / 5 ? 0 : 36;
}

static int calls_by_turns(int count) {
  struct sigaction now;
  sigset_t all, was;
  sigfillset(&all);
  for (int i = 0; i < count; i += 5) {
    if (signal(SIGTRAP, SIG_IGN) != SIG_DFL || add(i, 1) != i + 1 || raise(SIGTRAP)) return 20;
    if (sigaction(SIGTRAP, NULL, &now) || now.sa_handler != SIG_IGN) return 25;
    if ((now.sa_flags & SA_RESTART) == 0 || !sigismember(&now.sa_mask, SIGTRAP)) return 26;
    change_mask(SIG_SETMASK, &all, &was);
    if (signal(SIGTRAP, handler) != SIG_IGN || add(i, 1) != i + 1 || !is_blocked()) return 21;
    change_mask(SIG_SETMASK, &was, NULL);
    if (is_blocked() || raise(SIGTRAP)) return 27;
    if (sigset(SIGTRAP, SIG_IGN) != handler || add(i, 1) != i + 1 || raise(SIGTRAP)) return 22;
    if (signal(SIGTRAP, SIG_DFL) != SIG_IGN || add(i, 1) != i + 1 || sigignore(SIGTRAP)) return 23;
    if (signal(SIGTRAP, SIG_DFL) != SIG_IGN || add(i, 1) != i + 1 || handled != i / 5 + 1) return 24;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  const char* way = argv[1];
  int count = atoi(argv[2]);
  if (argc > 3) {
    looked_at = SIGUSR1;
    wait_for_a_line();
  }
  if (strcmp(way, "sections") == 0) return calls_in_sections(count);
  sigset_t some, every;
  sigfillset(&every);
  sigemptyset(&some);
  sigaddset(&some, SIGTRAP);
  sigaddset(&some, SIGUSR1);
  if (strcmp(way, "spawns") == 0) return calls_behind_children(count, NULL);
  if (strcmp(way, "nested") == 0) return calls_behind_children(count, &every);
  if (strcmp(way, "partial") == 0) return calls_behind_children(count, &some);
  if (strcmp(way, "caught") == 0) return calls_with_a_handler(count);
  if (strcmp(way, "turns") == 0) return calls_by_turns(count);
  if (strcmp(way, "around") == 0) return calls_around(count);
  struct sigaction action = {.sa_handler = SIG_DFL};
  if (strcmp(way, "handler") == 0) action.sa_handler = handler;
  if (strcmp(way, "ignored") == 0) action.sa_handler = SIG_IGN;
  sigaction(SIGTRAP, &action, NULL);
  if (strcmp(way, "sigset") == 0) {
    action.sa_handler = SIG_IGN;
    sigset(SIGTRAP, SIG_IGN);
  }
  if (strcmp(way, "unblocks") == 0) {
    sigset_t all, one;
    sigfillset(&all);
    sigemptyset(&one);
    sigaddset(&one, SIGTRAP);
    change_mask(SIG_BLOCK, &one, NULL);
    add(1, 1);
    change_mask(SIG_UNBLOCK, &all, NULL);
    add(1, 1);
    if (is_blocked()) return 11;
    count -= 2;
  }
  int blocked = strcmp(way, "blocked") == 0;
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  if (strcmp(way, "all") == 0) blocked = sigfillset(&trap) == 0;
  if (blocked) change_mask(SIG_BLOCK, &trap, NULL);
  if (blocked && !tells_of_sender()) return 19;

  int traps = 0;
  for (int i = 0; i < count; i++) {
    if (add(i, 1) != i + 1) return 1;
    if (action.sa_handler == SIG_DFL && !blocked) continue;
    raise(SIGTRAP);
    traps++;
    if (action.sa_handler == handler) {
      __asm__ volatile("int3");
      traps++;
    }
    if (is_blocked() != blocked) return 2;
    if (blocked && !is_pending()) return 5;
  }
  struct sigaction now;
  sigaction(SIGTRAP, NULL, &now);
  if (now.sa_handler != action.sa_handler) return 3;
  if (action.sa_handler == handler && handled != traps) return 4;
  int wrong = strcmp(way, "all") == 0 ? leaves_all() : 0;
  printf("%d calls\n", mask_calls);
  return wrong;
}
