/* A child that runs into breakpoints, and a tracer that does the least there is to do at each: wait for it,
   read the registers, write them, let it go on. */
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "floor.h"

/* Forks a child that runs `body` for ever on its core, and returns with it seized and stopped at its first
 * stop. */
static inline pid_t start_child(void (*body)(void), int tracer_core, int child_core) {
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    alarm(kPatienceSeconds);
    pin_to(child_core);
    raise(SIGSTOP);
    for (;;) body();
  }
  pin_to(tracer_core);
  int status;
  if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) fail("the child's start");
  if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_EXITKILL) != 0) fail("PTRACE_SEIZE");
  kill(child, SIGCONT);
  for (;;) {
    if (waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status)) fail("the child's first stop");
    if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0) return child;
    if (ptrace(PTRACE_CONT, child, 0, 0) != 0) fail("PTRACE_CONT");
  }
}

static inline void pass_stop(pid_t child) {
  struct user_regs_struct regs;
  if (ptrace(PTRACE_GETREGS, child, 0, &regs) != 0) fail("PTRACE_GETREGS");
  if (ptrace(PTRACE_SETREGS, child, 0, &regs) != 0) fail("PTRACE_SETREGS");
  if (ptrace(PTRACE_CONT, child, 0, 0) != 0) fail("PTRACE_CONT");
  int status;
  if (waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status)) fail("a stop");
}

/* PROGRAM 1|2: tracer and child on one core, or on two. `stops` make one unit. */
static inline int measure_stops(int argc, char** argv, const char* what, void (*body)(void), int stops) {
  begin();
  struct Cores cores = allowed_cores();
  int two = argc > 1 && strcmp(argv[1], "2") == 0;
  if (two && cores.first == cores.last) {
    fputs("there is one core only\n", stderr);
    return 3;
  }
  pid_t child = start_child(body, cores.last, two ? cores.first : cores.last);
  for (int i = 0; i < 100; i++) pass_stop(child);
  clockid_t childs;
  if (clock_getcpuclockid(child, &childs) != 0) fail("clock_getcpuclockid");
  uint64_t cpu = cpu_ns() + read_clock(childs), rounds = 0;
  uint64_t started = now_ns(), end = started + budget_ns(), now = started;
  for (; now < end && rounds < kMostRounds; now = now_ns()) {
    for (int i = 0; i < 50 * stops; i++) pass_stop(child);
    rounds += 50;
  }
  cpu = cpu_ns() + read_clock(childs) - cpu;
  report(what, (double)(now - started) / (double)rounds, (double)cpu / (double)rounds, rounds);
  kill(child, SIGKILL);
  return 0;
}
