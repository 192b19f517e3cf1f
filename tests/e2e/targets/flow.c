/* flow WAY COUNT: the ways in which one thread enters functions and leaves them without a plain return. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "counted.h"

static int visit_work(void* value) {
  return visit((int)(long)value);
}

static int through_visit(void* value) {
  return through(visit_work, value);
}

static int deep(int count) {
  return counted_descend(count) == count ? 0 : 1;
}

/* Leaps: out of three traced frames, one of them entered by a tail call, and now and then back to the middle
 * one. */
static jmp_buf outside, halfway;

static int leap_out(void* far) {
  visit(0);
  if (far == NULL) longjmp(halfway, 1);
  longjmp(outside, 1);
}

static int leap_by_tail(void* far) {
  return counted_tail_work(leap_out, far);
}

static int land_halfway(void* unused) {
  (void)unused;
  if (setjmp(halfway) == 0) through(leap_out, NULL);
  return through(leap_by_tail, "far");
}

static int leaps(int count) {
  static volatile int done;
  for (done = 0; done < count; done = done + 1)
    if (setjmp(outside) == 0) {
      through(land_halfway, NULL);
      return 1;
    }
  return through(visit_work, (void*)41) == 42 ? 0 : 2;
}

/* The same out of a signal handler, which stands on a stack of its own: the mask has to come back. */
static sigjmp_buf before_signal;

static int leap_from_handler(void* unused) {
  (void)unused;
  visit(0);
  siglongjmp(before_signal, 1);
}

static void on_signal(int signal) {
  (void)signal;
  through(leap_from_handler, NULL);
}

static int raise_work(void* signal) {
  return raise((int)(long)signal);
}

static int sigleaps(int count) {
  static volatile int done;
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) return 3;
  for (done = 0; done < count; done = done + 1)
    if (sigsetjmp(before_signal, 1) == 0) {
      through(raise_work, (void*)SIGUSR1);
      return 1;
    }
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  return sigismember(&now, SIGUSR1) ? 2 : 0;
}

/* Coroutines: each stands in as many calls of through() as its number says, and all are resumed in an order
   that has nothing to do with the order of their calls, now from the program's stack, now from within a call
   of through(). */
enum { kCoroutines = 7, kStack = 65536 };
static ucontext_t scheduler, contexts[kCoroutines];
static int rounds, wrong, alive;

static void yield(int self) {
  swapcontext(&contexts[self], &scheduler);
}

static int nest(int self, int levels);
struct level {
  int self, levels;
};
static int nest_work(void* argument) {
  struct level* level = argument;
  yield(level->self);
  int result = nest(level->self, level->levels - 1);
  yield(level->self);
  return result + 1;
}
static int nest(int self, int levels) {
  struct level level = {self, levels};
  return levels == 0 ? visit(self) : through(nest_work, &level);
}

static void coroutine(int self) {
  for (int round = 0; round < rounds; ++round)
    if (nest(self, self + 1) != visit(self) + self + 1) ++wrong;
  --alive;
  for (;;) yield(self);
}

static char stacks[kCoroutines + 1][kStack] __attribute__((aligned(64)));

static void make(ucontext_t* context, void (*run)(void), int self, void* stack) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = kStack;
  makecontext(context, run, 1, self);
}

static int resume(void* which) {
  return swapcontext(&scheduler, &contexts[(long)which]);
}

static int which_next(void) {
  static unsigned order = 1;
  order = order * 1103515245U + 12345U;
  return (int)(order >> 16) % kCoroutines;
}

/* On a stack between those of the coroutines: what it calls is neither above nor below all of theirs. */
static ucontext_t program;
static void schedule(int unused) {
  (void)unused;
  while (alive != 0) {
    long which = which_next();
    if (which_next() % 2 == 0)
      through(resume, (void*)which);
    else
      resume((void*)which);
  }
  setcontext(&program);
}

static int coroutines(int count) {
  static ucontext_t start;
  rounds = count;
  alive = kCoroutines;
  for (int i = 0; i < kCoroutines; ++i)
    make(&contexts[i], (void (*)(void))coroutine, i, stacks[i < 3 ? i : i + 1]);
  make(&start, (void (*)(void))schedule, 0, stacks[3]);
  swapcontext(&program, &start);
  return wrong != 0;
}

/* Coroutines that live in turn at one place: what the others have there is put aside, as greenlets do it.
   Their calls have the same stack pointers, and are open at the same time. */
static int moved(int count) {
  char* here = stacks[kCoroutines];
  rounds = count;
  alive = kCoroutines;
  for (int i = 0; i < kCoroutines; ++i) {
    make(&contexts[i], (void (*)(void))coroutine, i, here);
    memcpy(stacks[i], here, kStack);
  }
  while (alive != 0) {
    long which = which_next();
    memcpy(here, stacks[which], kStack);
    resume((void*)which);
    memcpy(stacks[which], here, kStack);
  }
  return wrong != 0;
}

static int tails(int count) {
  for (int i = 0; i < count; ++i)
    if (counted_first(i) != 2 * (i + 2) || counted_middle(i) != 2 * (i + 1) || through_visit((void*)1L) != 2)
      return 1;
  return 0;
}

int main(int argc, char** argv) {
  static const struct counted_way ways[] = {{"deep", deep},
                                            {"leaps", leaps},
                                            {"sigleaps", sigleaps},
                                            {"coroutines", coroutines},
                                            {"moved", moved},
                                            {"tails", tails},
                                            {NULL, NULL}};
  return counted_main(argc, argv, ways);
}
