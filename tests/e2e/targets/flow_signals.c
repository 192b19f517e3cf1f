/* flow_signals WAY COUNT: handlers that call counted functions, and signals that are counted themselves. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counted.h"

static volatile int handled, nested, wrong;

static int visit_work(void* value) {
  return visit((int)(long)value);
}

static int handle(int number, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  return sigaction(number, &action, NULL);
}

static int on_own_stack(void) {
  stack_t stack;
  return sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0;
}

/* A handler within a handler within a traced call, the inner one on a stack of its own. */
static void on_inner(int signal, siginfo_t* info, void* context) {
  (void)context;
  if (signal != SIGUSR2 || info->si_pid != getpid() || !on_own_stack()) ++wrong;
  ++nested;
  if (through(visit_work, (void*)7) != 8) ++wrong;
}

static void on_outer(int signal, siginfo_t* info, void* context) {
  (void)context;
  if (signal != SIGUSR1 || info->si_pid != getpid() || on_own_stack()) ++wrong;
  ++handled;
  visit(1);
  raise(SIGUSR2);
  visit(2);
}

static int raise_work(void* signal) {
  return raise((int)(long)signal);
}

static int handlers(int count) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  if (sigaltstack(&stack, NULL) != 0) return 3;
  if (handle(SIGUSR1, on_outer, 0) != 0 || handle(SIGUSR2, on_inner, SA_ONSTACK) != 0) return 4;
  for (int i = 0; i < count; ++i)
    if (through(raise_work, (void*)SIGUSR1) != 0) return 5;
  printf("handled %d nested %d\n", handled, nested);
  return wrong != 0;
}

/* As many calls however long the signals take, then a wait for the rest of those: what is printed is the same
 * each time. */
static int calls_meanwhile(int calls, int signals) {
  for (int i = 0; i < calls; ++i)
    if (through(visit_work, (void*)(long)i) != i + 1) return 0;
  while (handled < signals) usleep(1000);
  return 1;
}

/* Queued by another process with a number each: none is lost, none comes twice, and they come in order. */
static void on_number(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  if (info->si_value.sival_int != handled) ++wrong;
  ++handled;
  visit(handled);
}

static int queued(int count) {
  if (handle(SIGRTMIN, on_number, SA_RESTART) != 0) return 3;
  pid_t here = getpid(), child = fork();
  if (child == 0) {
    for (int i = 0; i < count; ++i)
      while (sigqueue(here, SIGRTMIN, (union sigval){.sival_int = i}) != 0)
        usleep(100); /* the queue is full */
    _exit(0);
  }
  if (child < 0 || !calls_meanwhile(count / 2, count)) return 4;
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) return 5;
  printf("handled %d\n", handled);
  return wrong != 0 || handled != count;
}

/* 10 kHz. What the kernel could not deliver because the last one was still pending it says
   (timer_getoverrun(2)): the sum is the number of periods that have gone by, never more. */
enum { kPeriod = 100000 };
static timer_t timer;
static struct timespec begun;
static volatile long expired;
static int enough;

static void on_timer(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  struct timespec now;
  if (handled == enough) return; /* one was pending when the timer was stopped */
  expired += 1 + info->si_overrun;
  ++handled;
  clock_gettime(CLOCK_MONOTONIC, &now);
  long passed = (now.tv_sec - begun.tv_sec) * 1000000000L + (now.tv_nsec - begun.tv_nsec);
  if (expired > passed / kPeriod + 1) ++wrong;
  visit(handled);
  if (handled == enough) timer_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 0}}, NULL);
}

static int ticks(int count) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  enough = count;
  if (handle(SIGRTMIN, on_timer, SA_RESTART) != 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
    return 3;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  struct itimerspec often = {.it_interval = {0, kPeriod}, .it_value = begun};
  if (timer_settime(timer, TIMER_ABSTIME, &often, NULL) != 0) return 4;
  if (!calls_meanwhile(count / 10, count)) return 5;
  printf("handled %d\n", handled);
  return wrong != 0 || handled != count;
}

/* Set anew by each signal, so that however long one takes calls are made between two of them. */
static void on_rearmed(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  struct itimerspec once = {.it_value = {0, 10 * kPeriod}};
  ++handled;
  if (handled < enough) timer_settime(timer, 0, &once, NULL);
}

static int rearmed(int count) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  enough = count;
  if (handle(SIGRTMIN, on_rearmed, SA_RESTART) != 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
    return 3;
  on_rearmed(0, NULL, NULL);
  for (int i = 0; handled < count; ++i)
    if (visit(i) != i + 1) return 4;
  printf("handled %d\n", handled);
  return 0;
}

int main(int argc, char** argv) {
  static const struct counted_way ways[] = {
      {"handlers", handlers}, {"queued", queued}, {"ticks", ticks}, {"rearmed", rearmed}, {NULL, NULL}};
  return counted_main(argc, argv, ways);
}
