/* large_pages: moves the code of libfixture.so to memory without a file, as programs do that want large pages
   for it, on the first line of its standard input; on each line it calls add(). At the end it says whether
   the code is what it was in the beginning. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static char* code;
static size_t size;

static int find_code(void) {
  char line[512];
  uint64_t begin = 0, end = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps) && !size)
    if (strstr(line, " r-xp ") && strstr(line, "libfixture.so") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
      size = end - begin;
  if (maps) fclose(maps);
  code = (char*)begin;
  return size != 0;
}

static int move(void) {
  char* copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return 0;
  memcpy(copy, code, size);
  if (mprotect(copy, size, PROT_READ | PROT_EXEC) != 0) return 0;
  return mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, code) == code;
}

int main(void) {
  char line[64];
  int calls = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!find_code()) return 2;
  char* before = malloc(size);
  memcpy(before, code, size);
  printf("pid %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) {
    if (calls == 0 && !move()) return 2;
    printf("sum %d\n", add(calls++, 1));
  }
  puts(memcmp(before, code, size) == 0 ? "the same" : "changed");
  return 0;
}
