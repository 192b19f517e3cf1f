/* Calls warm() often, then makes a thread on a stack that is mapped only now, which is interrupted in the
 * midst of the first instructions of victim() and waits in its handler while victim() is called often by
 * others; goes on behind that, and calls it often once more. Prints what the interrupted call gave. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { kRounds = 300, kCalls = 30, kStack = 1 << 20 };

static int good = 7;
static atomic_int inside, go;

/* The second instruction faults, and lies within the first five bytes. */
int victim(const int* value);
__asm__(
    ".globl victim\n.type victim, @function\nvictim:\n.cfi_startproc\n"
    "  xor %eax, %eax\n  add (%rdi), %eax\n  add $1, %eax\n  ret\n.cfi_endproc\n.size victim, . - victim\n");

__attribute__((noipa)) int warm(int value) {
  return 3 * value + 1;
}

static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RDI] = (greg_t)&good;
  atomic_store(&inside, 1);
  while (!atomic_load(&go)) usleep(1000);
}

static void* interrupted(void* gave) {
  *(int*)gave = victim((const int*)16);
  return NULL;
}

static int call_victim(void) {
  int wrong = 0;
  for (int i = 0; i < kRounds; i++, usleep(2000))
    for (int k = 0; k < kCalls; k++) wrong += victim(&good) != good + 1;
  return wrong;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  volatile int sum = 0;
  for (int i = 0; i < kRounds; i++, usleep(2000))
    for (int k = 0; k < kCalls; k++) sum += warm(k);
  void* stack = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  pthread_t thread;
  int gave = 0;
  if (pthread_create(&thread, &attributes, interrupted, &gave) != 0) return 2;
  while (!atomic_load(&inside)) usleep(1000);
  int wrong = call_victim();
  atomic_store(&go, 1);
  pthread_join(thread, NULL);
  wrong += call_victim();
  printf("%d\n", gave);
  return wrong != 0;
}
