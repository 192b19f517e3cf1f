/* children WAY: calls add(1, 1), makes a child that calls add(2, 2) and ends with status 7, checks that, and
   calls add(3, 3). WAY: fork, vfork, forkexec, spawn, clone (memory of its own), clonevm (the parent's
   memory, while the parent runs on); "clonevms": eight of those, that make kMany calls each while their
   parent makes as many, and nothing else; "exec" becomes the leaf itself; "leaf" is the child's program. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

extern char** environ;

static int leaf(void) {
  return add(2, 2) == 4 ? 7 : 8;
}

static int in_clone(void* unused) {
  (void)unused;
  return leaf();
}

static char stack[65536] __attribute__((aligned(16)));

enum { kMany = 1000, kChildren = 8, kStack = 16384 };

static int in_many(void* unused) {
  int good = 1;
  for (int i = 0; i < kMany; i++) good &= add(2, i) == 2 + i;
  return unused == NULL && good ? 7 : 8;
}

/* Each ends a little later than the one before. */
static int many(void) {
  static char stacks[kChildren][kStack] __attribute__((aligned(16)));
  int good = 1;
  for (int i = 0; i < kChildren; i++)
    good &= clone(in_many, stacks[i] + kStack, CLONE_VM | SIGCHLD, NULL) > 0;
  for (int i = 0; i < kMany; i++) good &= add(1, i) == 1 + i;
  int status = 0;
  for (int i = 0; i < kChildren; i++)
    good &= waitpid(-1, &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7;
  return good ? 0 : 1;
}

static pid_t child(const char* way, char* self) {
  char* words[] = {self, "leaf", NULL};
  pid_t pid = -1;
  if (strcmp(way, "fork") == 0) {
    pid = fork();
    if (pid == 0) _exit(leaf());
  } else if (strcmp(way, "vfork") == 0) {
    pid = vfork();
    if (pid == 0) _exit(leaf());
  } else if (strcmp(way, "forkexec") == 0) {
    pid = fork();
    if (pid == 0) execv(self, words), _exit(9);
  } else if (strcmp(way, "spawn") == 0) {
    if (posix_spawn(&pid, self, NULL, NULL, words, environ) != 0) return -1;
  } else if (strcmp(way, "clone") == 0) {
    pid = clone(in_clone, stack + sizeof stack, SIGCHLD, NULL);
  } else if (strcmp(way, "clonevm") == 0) {
    pid = clone(in_clone, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
  }
  return pid;
}

int main(int argc, char** argv) {
  if (argc < 2) return 99;
  if (strcmp(argv[1], "leaf") == 0) return leaf();
  if (strcmp(argv[1], "clonevms") == 0) return many();
  int good = add(1, 1) == 2;
  if (strcmp(argv[1], "exec") == 0) {
    char* words[] = {argv[0], "leaf", NULL};
    execv(argv[0], words);
    return 98;
  }
  pid_t pid = child(argv[1], argv[0]);
  int status = 0;
  good &= pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7;
  good &= add(3, 3) == 6;
  return good ? 0 : 1;
}
