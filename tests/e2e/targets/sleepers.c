/* sleepers FOLDER: threads that wait in system calls which a careless tracer ends with EINTR (signal(7),
   "Interruption of system calls and library functions by stop signals"). A line on standard input lets them
   all go; each must have come back for that and nothing else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

static const struct timeval kLong = {600, 0};
static const struct timespec kLongSpec = {600, 0};
static int gate[2], pair[2], listener, semaphores, queue, watch, locked, lock_holder;
static struct sockaddr_un name = {.sun_family = AF_UNIX};
static _Atomic int waiting;
static _Atomic unsigned futex_word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int condition_holds;
static pthread_t signalled;

static int in_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(gate[0], &set);
  struct timeval timeout = kLong;
  return select(gate[0] + 1, &set, NULL, NULL, &timeout) != 1;
}
static int in_ppoll(void) {
  struct pollfd fd = {.fd = gate[0], .events = POLLIN};
  return ppoll(&fd, 1, &kLongSpec, NULL) != 1;
}
static int in_epoll_pwait(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  sigset_t none;
  sigemptyset(&none);
  return epoll_ctl(epoll, EPOLL_CTL_ADD, gate[0], &event) != 0 ||
         epoll_pwait(epoll, &event, 1, -1, &none) != 1;
}
static int in_recv_with_timeout(void) {
  char byte;
  return setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &kLong, sizeof kLong) != 0 ||
         recv(pair[0], &byte, 1, 0) != 1;
}
static int in_accept_with_timeout(void) {
  return setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &kLong, sizeof kLong) != 0 ||
         accept(listener, NULL, NULL) < 0;
}
static int in_semop(void) {
  struct sembuf take = {.sem_op = -1};
  return semop(semaphores, &take, 1) != 0;
}
static int in_semtimedop(void) {
  struct sembuf take = {.sem_num = 1, .sem_op = -1};
  return semtimedop(semaphores, &take, 1, &kLongSpec) != 0;
}
static int in_msgrcv(void) {
  struct {
    long type;
    char text[8];
  } message;
  return msgrcv(queue, &message, sizeof message.text, 0, 0) != 1;
}
static int in_sigtimedwait(void) {
  sigset_t set;
  siginfo_t info;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return sigtimedwait(&set, &info, &kLongSpec) != SIGUSR2;
}
static int in_inotify_read(void) {
  char events[512];
  return read(watch, events, sizeof events) <= 0;
}
static int in_futex(void) {
  return syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, &kLongSpec, NULL, 0) != 0;
}
static int in_condition(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 600;
  int answer = 0;
  pthread_mutex_lock(&mutex);
  while (!condition_holds && answer == 0) answer = pthread_cond_timedwait(&condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  return answer != 0;
}
static int in_lock(void) {
  struct flock lock = {.l_type = F_WRLCK};
  return fcntl(locked, F_OFD_SETLKW, &lock) != 0;
}

static int (*const kWays[])(void) = {
    in_select,     in_ppoll,  in_epoll_pwait, in_recv_with_timeout, in_accept_with_timeout, in_semop,
    in_semtimedop, in_msgrcv, in_futex,       in_sigtimedwait,      in_inotify_read,        in_condition,
    in_lock,
};
enum { kThreads = sizeof kWays / sizeof *kWays };

static void* wait_once(void* argument) {
  atomic_fetch_add(&waiting, 1);
  return kWays[(long)argument]() ? "interrupted" : NULL;
}

static int prepare(const char* folder) {
  char path[256];
  snprintf(path, sizeof path, "%s/lock", folder);
  struct flock lock = {.l_type = F_WRLCK};
  locked = open(path, O_RDWR | O_CREAT, 0600);
  lock_holder = open(path, O_RDWR);
  if (locked < 0 || fcntl(lock_holder, F_OFD_SETLK, &lock) != 0) return 1;
  snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", folder);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr*)&name, sizeof name) != 0 || listen(listener, 1) != 0) return 1;
  semaphores = semget(IPC_PRIVATE, 2, 0600);
  queue = msgget(IPC_PRIVATE, 0600);
  watch = inotify_init();
  if (inotify_add_watch(watch, folder, IN_CREATE) < 0) return 1;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  return pipe(gate) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || semaphores < 0 || queue < 0;
}

static int let_go(const char* folder) {
  char path[256];
  struct sembuf give[] = {{.sem_op = 1}, {.sem_num = 1, .sem_op = 1}};
  const struct {
    long type;
    char text[1];
  } message = {1, "x"};
  snprintf(path, sizeof path, "%s/made", folder);
  int caller = socket(AF_UNIX, SOCK_STREAM, 0);
  close(lock_holder);
  atomic_store(&futex_word, 1);
  syscall(SYS_futex, &futex_word, FUTEX_WAKE, 1, NULL, NULL, 0);
  pthread_mutex_lock(&mutex);
  condition_holds = 1;
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
  return write(gate[1], "x", 1) != 1 || write(pair[1], "x", 1) != 1 || semop(semaphores, give, 2) != 0 ||
         msgsnd(queue, &message, 1, 0) != 0 || mkdir(path, 0700) != 0 ||
         connect(caller, (struct sockaddr*)&name, sizeof name) != 0 || pthread_kill(signalled, SIGUSR2) != 0;
}

static int run(const char* folder) {
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) {
    if (pthread_create(&threads[i], NULL, wait_once, (void*)i) != 0) return 2;
    if (kWays[i] == in_sigtimedwait) signalled = threads[i];
  }
  while (atomic_load(&waiting) < kThreads) usleep(1000);
  printf("pid %d semaphores %d queue %d\n", (int)getpid(), semaphores, queue);
  fflush(stdout);
  char byte;
  if (read(STDIN_FILENO, &byte, 1) != 1) return 3;
  if (add(1, 1) != 2) return 4;
  if (let_go(folder)) return 5;
  int status = 0;
  for (int i = 0; i < kThreads; i++) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    if (wrong) status = 10 + i;
  }
  return status;
}

int main(int argc, char** argv) {
  if (argc != 2 || prepare(argv[1]) != 0) return 2;
  int status = run(argv[1]);
  semctl(semaphores, 0, IPC_RMID);
  msgctl(queue, IPC_RMID, NULL);
  return status;
}
