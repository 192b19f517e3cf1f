// A program with SDT probes and semaphores, which does what it is told, a line at a time:
//
//   work N      N times: begin, a point, begin again inside, end, end
//   turn N      a call of inside(), and one more between a begin and an end that have arguments
//   leave N     N times: a call of leaves(), which does not return, and a begin and an end behind it
//   lone, half  an end without a begin; a begin without an end
//   args        the probe with an argument of each kind
//   threads N   two threads, N begins and ends each
//   fork        a child that works twice and shows its semaphores
//   open FILE, use N, close   a library with a probe
//   add N       as another tracer would, to each semaphore
//   show        the semaphores
#define _SDT_HAS_SEMAPHORES 1
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEMAPHORE(name) volatile unsigned short marks_##name##_semaphore __attribute__((section(".probes")))
SEMAPHORE(begin);
SEMAPHORE(end);
SEMAPHORE(point);
SEMAPHORE(args);
SEMAPHORE(turn);
SEMAPHORE(turned);

static void point(int i) {
  if (marks_point_semaphore) STAP_PROBE1(marks, point, i);
}

static void work(int times) {
  for (int i = 0; i < times; ++i) {
    STAP_PROBE2(marks, begin, i, "outer");
    point(i);
    STAP_PROBE2(marks, begin, i, "inner");
    STAP_PROBE(marks, end);
    STAP_PROBE(marks, end);
  }
}

static void args(void) {
  int8_t small = -1;
  uint8_t byte = 255;
  int16_t half = -300;
  uint16_t word = 65535;
  int32_t number = -7;
  uint32_t large = 4000000000u;
  int64_t whole = -1234567890123;
  const char* text = "some text";
  STAP_PROBE9(marks, args, small, byte, half, word, number, large, whole, text, 5);
}

__attribute__((noinline)) int inside(int number) {
  __asm__ volatile("" : "+r"(number));
  return 2 * number;
}

static void turn(int number) {
  inside(number);
  STAP_PROBE1(marks, turn, number);
  STAP_PROBE2(marks, turned, inside(number), "done");
}

__attribute__((noinline)) int leaves(jmp_buf where) {
  longjmp(where, 1);
}

static void leave(int times) {
  static jmp_buf where;
  for (volatile int i = 0; i < times; ++i) {
    if (setjmp(where) == 0) leaves(where);
    STAP_PROBE2(marks, begin, i, "behind");
    STAP_PROBE(marks, end);
  }
}

static void* thread(void* times) {
  for (intptr_t i = 0; i < (intptr_t)times; ++i) {
    STAP_PROBE2(marks, begin, 0, "thread");
    STAP_PROBE(marks, end);
  }
  return NULL;
}

static void threads(int times) {
  pthread_t two[2];
  for (int i = 0; i < 2; ++i) pthread_create(&two[i], NULL, thread, (void*)(intptr_t)times);
  for (int i = 0; i < 2; ++i) pthread_join(two[i], NULL);
}

static void show(const char* who) {
  printf("%s %d %d %d %d\n", who, marks_begin_semaphore, marks_end_semaphore, marks_point_semaphore,
         marks_args_semaphore);
  fflush(stdout);
}

static void make_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    work(2);
    show("child");
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void* library;

static void use(int number) {
  void (*mark)(int) = (void (*)(int))dlsym(library, "mark");
  if (mark) mark(number);
}

int main(void) {
  char line[4096];
  printf("pid %d\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    char word[64] = "", rest[4000] = "";
    sscanf(line, "%63s %3999s", word, rest);
    const int number = atoi(rest);
    if (!strcmp(word, "work")) work(number);
    if (!strcmp(word, "turn")) turn(number);
    if (!strcmp(word, "leave")) leave(number);
    if (!strcmp(word, "lone")) STAP_PROBE(marks, end);
    if (!strcmp(word, "half")) STAP_PROBE2(marks, begin, -1, "half");
    if (!strcmp(word, "args")) args();
    if (!strcmp(word, "threads")) threads(number);
    if (!strcmp(word, "fork")) make_child();
    if (!strcmp(word, "open")) library = dlopen(rest, RTLD_NOW);
    if (!strcmp(word, "use")) use(number);
    if (!strcmp(word, "close")) dlclose(library);
    if (!strcmp(word, "add")) {
      marks_begin_semaphore += number;
      marks_end_semaphore += number;
      marks_point_semaphore += number;
      marks_args_semaphore += number;
    }
    if (!strcmp(word, "show")) show("semaphores");
    printf("done %s\n", word);
    fflush(stdout);
  }
  return 0;
}
