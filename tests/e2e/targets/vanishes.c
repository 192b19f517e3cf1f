/* vanishes COUNT: so many calls of shown and inside with a pointer to a page that another thread maps and
   unmaps meanwhile, and that neither of them looks at. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kPage = 4096 };

struct holder {
  long number;
  const char* text;
};

__attribute__((noinline, visibility("default"))) long shown(const char* text) {
  __asm__ volatile("");
  return text != NULL;
}

__attribute__((noinline, visibility("default"))) long inside(const struct holder* holder) {
  __asm__ volatile("");
  return holder->number > 0 ? holder->number : -1;
}

static char* page;
static volatile int ends;

static void* maps(void* unused) {
  (void)unused;
  while (!ends) {
    mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    strcpy(page, "some text of thirty bytes, say");
    munmap(page, kPage);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 1;
  pthread_t thread;
  page = mmap(NULL, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pthread_create(&thread, NULL, maps, NULL) != 0) return 2;
  const struct holder holder = {1, page};
  long sum = 0;
  for (long i = 0; i < count; i++) sum += shown(page) + inside(&holder);
  ends = 1;
  pthread_join(thread, NULL);
  return sum != 2 * count;
}
