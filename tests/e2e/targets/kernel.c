// Programs that ask the kernel for something.
//
//   lines    one call after the other, between two writes that mark them
//   signals  calls that a signal interrupts
//   busy     three threads that check what each call of theirs answers, until the end of stdin or a line
//   "quit"; with
//            another word, calls that wait may be interrupted
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_ulong rounds;
static atomic_int ending;
static int patient;  // EINTR is no mistake

static void mark(const char* text) {
  if (write(2, text, strlen(text)) < 0) exit(9);
}

static int lines(void) {
  char bytes[4];
  int ends[2];
  mark("begin\n");
  if (pipe(ends) != 0) return 1;
  if (write(ends[1], "a\0b", 3) != 3 || read(ends[0], bytes, sizeof bytes) != 3) return 1;
  close(ends[0]);
  close(ends[1]);
  close(ends[1]);
  open("/no/such/file", O_RDONLY | O_CLOEXEC);
  syscall(SYS_mkdir, "/", 0755);
  syscall(4711, 1, 2, 3, 4);
  lseek(0, 0, SEEK_END + 100);
  syscall(SYS_fork) == 0 ? _exit(7) : 0;
  wait(NULL);
  mark("end\n");
  return 0;
}

static void nothing(int signal) {
  (void)signal;
}

static int interrupted(int flags) {
  struct sigaction action = {.sa_handler = nothing, .sa_flags = flags};
  const struct itimerval soon = {{0, 0}, {0, 20000}};
  char byte;
  int ends[2];
  sigaction(SIGALRM, &action, NULL);
  if (pipe(ends) != 0) return 1;
  if (flags == 0) {
    setitimer(ITIMER_REAL, &soon, NULL);
    if (read(ends[0], &byte, 1) != -1 || errno != EINTR) return 2;
    return 0;
  }
  // What is restarted ends when the child writes.
  const pid_t child = fork();
  if (child == 0) {
    const struct timespec later = {0, 80000000};
    nanosleep(&later, NULL);
    if (write(ends[1], "x", 1) != 1) _exit(1);
    _exit(0);
  }
  setitimer(ITIMER_REAL, &soon, NULL);
  if (read(ends[0], &byte, 1) != 1) return 3;
  wait(NULL);
  return 0;
}

static void wrong(const char* what) {
  printf("wrong: %s: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static void* waits(void* unused) {
  (void)unused;
  struct epoll_event event;
  const int epoll = epoll_create1(0);
  while (!ending) {
    if (epoll_wait(epoll, &event, 1, 1) != 0 && !(patient && errno == EINTR)) wrong("epoll_wait");
    const struct timespec moment = {0, 100000};
    if (nanosleep(&moment, NULL) != 0 && !(patient && errno == EINTR)) wrong("nanosleep");
    ++rounds;
  }
  return NULL;
}

static void* talks(void* unused) {
  (void)unused;
  int ends[2];
  long sent = 0, got = 0;
  if (pipe(ends) != 0) wrong("pipe");
  while (!ending) {
    ++sent;
    if (write(ends[1], &sent, sizeof sent) != sizeof sent) wrong("write");
    if (read(ends[0], &got, sizeof got) != sizeof got || got != sent) wrong("read");
    ++rounds;
  }
  return NULL;
}

static void* asks(void* unused) {
  (void)unused;
  const pid_t parent = getppid();
  while (!ending) {
    if (getppid() != parent) wrong("getppid");
    if (close(-1) != -1 || errno != EBADF) wrong("close");
    ++rounds;
  }
  return NULL;
}

static int busy(void) {
  pthread_t threads[3];
  char line[100];
  void* (*const works[3])(void*) = {waits, talks, asks};
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, works[i], NULL);
  printf("pid %d\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'q') break;
    printf("rounds %lu\n", rounds);
    fflush(stdout);
  }
  ending = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  return 0;
}

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "";
  if (!strcmp(what, "lines")) return lines();
  if (!strcmp(what, "signals")) return interrupted(0) + interrupted(SA_RESTART);
  patient = count > 2;
  if (!strcmp(what, "busy")) return busy();
  return 2;
}
