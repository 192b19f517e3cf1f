/* frames SHAPE: calls twice() through functions with frames of every shape, and prints before each call where
 * the functions on the stack will go on, the innermost first: "stack 0x... 0x... 0x...". The caller of
 * twice() itself is not among them. Exit status 0 when all results are right. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

#define FRAME __attribute__((noinline, noclone))
/* Keeps a call from becoming a jump. */
#define AFTER_THE_CALL() __asm__ volatile("" ::: "memory")

enum { kMost = 512 };
static __thread uintptr_t stack[kMost];
static __thread int depth;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static void enter(void* back) {
  stack[depth++] = (uintptr_t)back;
}
#define ENTER() enter(__builtin_return_address(0))
#define LEAVE() depth--

static void print_stack(void) {
  char line[kMost * 20], *at = line;
  at += sprintf(at, "stack");
  for (int i = depth; i-- > 0;) at += sprintf(at, " 0x%lx", (unsigned long)stack[i]);
  *at++ = '\n';
  pthread_mutex_lock(&output);
  if (write(1, line, (size_t)(at - line)) < 0) abort();
  pthread_mutex_unlock(&output);
}

FRAME int leaf(int value) {
  ENTER();
  print_stack();
  int result = twice(value);
  AFTER_THE_CALL();
  LEAVE();
  return result;
}

/* rbp is its frame's base, for the stack pointer moves by an amount that nobody knows ahead. */
FRAME int with_alloca(int value) {
  ENTER();
  volatile char* room = alloca((size_t)value * 16 + 32);
  room[0] = (char)value;
  int result = leaf(value);
  AFTER_THE_CALL();
  LEAVE();
  return result + (room[0] - (char)value);
}

/* Its frame's base is found through an expression: the stack pointer was rounded down. */
FRAME int with_alignment(int value) {
  ENTER();
  _Alignas(128) volatile char room[256];
  room[value & 255] = 1;
  int result = with_alloca(value);
  AFTER_THE_CALL();
  LEAVE();
  return result + room[value & 255] - 1;
}

/* Many registers to save, and a frame of several pages. */
FRAME int with_much(int a, int b, int c, int d, int e, int f, int g, int h) {
  ENTER();
  volatile char room[20000];
  room[a & 1023] = 1;
  int result = with_alignment(a);
  AFTER_THE_CALL();
  LEAVE();
  return result + b * c - d * e + f * g - h + room[a & 1023] - 1;
}

FRAME int descend_to(int levels, int value) {
  ENTER();
  int result = levels == 0 ? leaf(value) : descend_to(levels - 1, value);
  AFTER_THE_CALL();
  LEAVE();
  return result;
}

static int wrong;

FRAME int compare(const void* a, const void* b) {
  ENTER();
  int one = *(const int*)a, other = *(const int*)b;
  int twice_one = leaf(one);
  AFTER_THE_CALL();
  LEAVE();
  return twice_one - 2 * other;
}

FRAME int sorted(void) {
  ENTER();
  int numbers[3] = {3, 1, 2};
  qsort(numbers, 3, sizeof numbers[0], compare);
  AFTER_THE_CALL();
  LEAVE();
  return numbers[0] == 1 && numbers[1] == 2 && numbers[2] == 3;
}

extern char fault_site[];

/* Steps over the instruction that faulted. */
FRAME void on_fault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ucontext_t* interrupted = context;
  if ((uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP] != (uintptr_t)fault_site) wrong = 1;
  enter(fault_site);
  ENTER();
  if (leaf(21) != 42) wrong = 1;
  interrupted->uc_mcontext.gregs[REG_RIP] += 2;
  LEAVE();
  LEAVE();
}

FRAME int faulting(int value) {
  ENTER();
  __asm__ volatile(".globl fault_site\nfault_site: ud2" ::: "memory");
  LEAVE();
  return value;
}

static int interrupted(int on_own_stack) {
  static char room[65536];
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | (on_own_stack ? SA_ONSTACK : 0);
  stack_t own = {.ss_sp = room, .ss_size = sizeof room};
  if (on_own_stack && sigaltstack(&own, NULL) != 0) return 0;
  if (sigaction(SIGILL, &action, NULL) != 0) return 0;
  return faulting(5) == 5 && !wrong;
}

static void* in_thread(void* argument) {
  long number = (long)argument;
  return (void*)(long)(with_alloca((int)number) == 2 * number);
}

static int in_threads(void) {
  pthread_t threads[3];
  int good = 1;
  for (long i = 0; i < 3; i++)
    if (pthread_create(&threads[i], NULL, in_thread, (void*)(i + 1)) != 0) return 0;
  for (int i = 0; i < 3; i++) {
    void* right = NULL;
    pthread_join(threads[i], &right);
    good &= right != NULL;
  }
  return good;
}

static int run(const char* shape, int argument) {
  if (strcmp(shape, "shapes") == 0) return with_much(7, 2, 3, 3, 2, 0, 5, 0) == 14;
  if (strcmp(shape, "recursion") == 0) return descend_to(argument, 8) == 16;
  if (strcmp(shape, "qsort") == 0) return sorted();
  if (strcmp(shape, "signal") == 0) return interrupted(0);
  if (strcmp(shape, "altstack") == 0) return interrupted(1);
  if (strcmp(shape, "threads") == 0) return in_threads();
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 3) {
    puts("ready");
    fflush(stdout);
    getchar();
  }
  return argc > 1 && run(argv[1], argc > 2 ? atoi(argv[2]) : 0) ? 0 : 1;
}
