// pthread.h, semaphore.h, threads.h, signal.h, sched.h, sys/mman.h, sys/wait.h, sys/resource.h
// Each expected line stands behind its call.
// clang-format off
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

static void *run(void *argument) { return argument; }

static void locks(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, run, NULL);  //= pthread_create(ADDR, nil, ADDR, nil) = 0
  void *result;
  pthread_join(thread, &result);       //= pthread_join(ADDR, nil) = 0
  thread = pthread_self();             //= pthread_self() = ADDR
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);       //= pthread_mutexattr_init(ADDR) = 0
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);  //= pthread_mutexattr_settype(ADDR, PTHREAD_MUTEX_ERRORCHECK) = 0
  int kind;
  pthread_mutexattr_gettype(&attr, &kind);  //= pthread_mutexattr_gettype(ADDR, PTHREAD_MUTEX_ERRORCHECK) = 0
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &attr);   //= pthread_mutex_init(ADDR, ADDR) = 0
  pthread_mutex_lock(&mutex);          //= pthread_mutex_lock(ADDR) = 0
  pthread_mutex_lock(&mutex);          //= pthread_mutex_lock(ADDR) = EDEADLK
  pthread_mutex_trylock(&mutex);       //= pthread_mutex_trylock(ADDR) = EBUSY
  pthread_mutex_unlock(&mutex);        //= pthread_mutex_unlock(ADDR) = 0
  pthread_mutex_destroy(&mutex);       //= pthread_mutex_destroy(ADDR) = 0
  pthread_cond_t cond;
  pthread_cond_init(&cond, NULL);      //= pthread_cond_init(ADDR, nil) = 0
  pthread_cond_signal(&cond);          //= pthread_cond_signal(ADDR) = 0
  pthread_cond_broadcast(&cond);       //= pthread_cond_broadcast(ADDR) = 0
  pthread_cond_destroy(&cond);         //= pthread_cond_destroy(ADDR) = 0
  pthread_rwlock_t rwlock;
  pthread_rwlock_init(&rwlock, NULL);  //= pthread_rwlock_init(ADDR, nil) = 0
  pthread_rwlock_rdlock(&rwlock);      //= pthread_rwlock_rdlock(ADDR) = 0
  pthread_rwlock_trywrlock(&rwlock);   //= pthread_rwlock_trywrlock(ADDR) = EBUSY
  pthread_rwlock_unlock(&rwlock);      //= pthread_rwlock_unlock(ADDR) = 0
  pthread_key_t key;
  pthread_key_create(&key, NULL);      //= pthread_key_create({number}, nil) = 0
  pthread_setspecific(key, &mutex);    //= pthread_setspecific({number}, ADDR) = 0
  pthread_getspecific(key);            //= pthread_getspecific({number}) = ADDR
  int old;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);  //= pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, PTHREAD_CANCEL_ENABLE) = 0
  sem_t sem;
  sem_init(&sem, 0, 1);                //= sem_init(ADDR, false, 1) = 0
  sem_wait(&sem);                      //= sem_wait(ADDR) = 0
  sem_trywait(&sem);                   //= sem_trywait(ADDR) = -1 EAGAIN (Resource temporarily unavailable)
  sem_post(&sem);                      //= sem_post(ADDR) = 0
  sem_getvalue(&sem, &old);            //= sem_getvalue(ADDR, 1) = 0
  sem_destroy(&sem);                   //= sem_destroy(ADDR) = 0
  mtx_t mtx;
  mtx_init(&mtx, mtx_plain);           //= mtx_init(ADDR, mtx_plain) = thrd_success
  mtx_lock(&mtx);                      //= mtx_lock(ADDR) = thrd_success
  mtx_trylock(&mtx);                   //= mtx_trylock(ADDR) = thrd_busy
  mtx_unlock(&mtx);                    //= mtx_unlock(ADDR) = thrd_success
}

static void signals(void) {
  sigset_t set, empty;
  sigemptyset(&empty);                 //= sigemptyset(ADDR) = 0
  sigfillset(&set);                    //= sigfillset(ADDR) = 0
  sigdelset(&set, SIGSYS);             //= sigdelset(ALL -> {any}, SIGSYS) = 0
  sigemptyset(&set);                   //= sigemptyset(ADDR) = 0
  sigaddset(&set, SIGUSR2);            //= sigaddset(0 -> SIGUSR2, SIGUSR2) = 0
  sigismember(&set, SIGUSR1);          //= sigismember(SIGUSR2, SIGUSR1) = 0
  sigprocmask(SIG_BLOCK, &set, &empty);  //= sigprocmask(SIG_BLOCK, SIGUSR2, {any}) = 0
  raise(SIGUSR2);                      //= raise(SIGUSR2) = 0
  sigpending(&empty);                  //= sigpending(SIGUSR2) = 0
  int number;
  sigwait(&set, &number);              //= sigwait(SIGUSR2, SIGUSR2) = 0
  signal(SIGUSR1, SIG_IGN);            //= signal(SIGUSR1, SIG_IGN) = SIG_DFL
  signal(100, SIG_IGN);                //= signal(100, SIG_IGN) = SIG_ERR EINVAL (Invalid argument)
  struct sigaction act = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART}, old;
  sigaction(SIGUSR1, &act, &old);      //= sigaction(SIGUSR1, { SIG_DFL, 0, SA_RESTART }, { SIG_IGN, {any}, SA_RESTART|SA_RESTORER }) = 0
  kill(getpid(), 0);                   //= getpid() = {number}
  //= kill({number}, 0) = 0
}

static void processes(void) {
  pid_t pid;
  char *words[] = {"sh", "-c", "exit 3", NULL}, *none[] = {NULL};
  posix_spawn(&pid, "/bin/sh", NULL, NULL, words, none);  //= posix_spawn({number}, "/bin/sh", nil, nil, [ "sh", "-c", "exit 3" ], ADDR) = 0
  int status;
  waitpid(pid, &status, 0);            //= waitpid({number}, WIFEXITED(s) && WEXITSTATUS(s) == 3, 0) = {number}
  waitpid(-1, &status, WNOHANG);       //= waitpid(-1, ADDR, WNOHANG) = -1 ECHILD (No child processes)
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);    //= getrlimit(RLIMIT_NOFILE, { {number}, {number} }) = 0
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);      //= getrusage(RUSAGE_SELF, { { {number}, {number} }, { {number}, {number} }, {number} }) = 0
  sched_yield();                       //= sched_yield() = 0
  sched_get_priority_max(SCHED_FIFO);  //= sched_get_priority_max(SCHED_FIFO) = 99
  prctl(PR_SET_NAME, "worker", 0, 0, 0);  //= prctl(PR_SET_NAME, "worker") = 0
  struct utsname system;
  uname(&system);                      //= uname({ "Linux", {string}, {string}, {string}, {string} }) = 0
  sysconf(_SC_PAGESIZE);               //= sysconf(_SC_PAGESIZE) = 4096
  int size = getpagesize();            //= getpagesize() = 4096
}

static void memory(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  //= mmap(nil, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = ADDR
  madvise(page, 4096, MADV_DONTNEED);  //= madvise(ADDR, 4096, MADV_DONTNEED) = 0
  msync(page, 4096, MS_SYNC);          //= msync(ADDR, 4096, MS_SYNC) = 0
  mprotect(page, 4096, PROT_NONE);     //= mprotect(ADDR, 4096, PROT_NONE) = 0
  page = mremap(page, 4096, 8192, MREMAP_MAYMOVE);  //= mremap(ADDR, 4096, 8192, MREMAP_MAYMOVE) = ADDR
  munmap(page, 8192);                  //= munmap(ADDR, 8192) = 0
}

int main(void) {
  locks();
  signals();
  processes();
  memory();
  return 0;
}
