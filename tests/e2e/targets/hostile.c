/* hostile values: calls of the fixture whose arguments are not what the prototypes of the test say.

   hostile WHAT [FILE]: does WHAT to what a tracer reads of this process, then says "pid"; for each line on
   standard input calls add(0 ... 99, 1) and says "done". It ends by _exit(), for the dynamic linker must not
   walk what was done to its link map. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fixture.h"

typedef long any_function(const void*, long, long);

static long call(void* function, const void* first, long second) {
  return ((any_function*)function)(first, second, 0);
}

static struct r_debug* debugger(void) {
  for (ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_DEBUG) return (struct r_debug*)entry->d_un.d_ptr;
  return NULL;
}

static struct link_map* last_entry(void) {
  struct link_map* at = debugger()->r_map;
  while (at->l_next) at = at->l_next;
  return at;
}

static int values(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), endless = 1 << 20;
  char* edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* text = mmap(NULL, endless, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (edge == MAP_FAILED || text == MAP_FAILED || munmap(edge + page, page) != 0) return 2;
  memset(text, 'A', endless);
  memcpy(edge + page - 8, "abcdefgh", 8);
  void* self[2] = {self, self};
  call(twice, (void*)0xdead0000, 0);
  call(inner, edge + page - 8, 0);
  call(inner, text, 0);
  call(inner, "\033[2J\a\x9b\n", 0);
  call(add, edge + page - 8, 0);
  call(alias_a, text, INT64_MAX);
  call(alias_a, text, -1);
  call(alias_a, (void*)0xdead0000, 5);
  call(tail_inner, self, 0);
  return 0;
}

/* 3000 entries that the dynamic linker never made, with names that cannot be read, or had better not be
 * shown. */
static void make_up_entries(const char* file) {
  enum { kCount = 3000 };
  static struct link_map made_up[kCount];
  int fd = open(file, O_RDONLY);
  char* mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) exit(2);
  for (int i = 0; i < kCount; i++) {
    made_up[i].l_addr = (ElfW(Addr))0x1234567000 + (ElfW(Addr))i;
    made_up[i].l_name = i % 2 ? (char*)0xdead0000 : (char*)"/lib/\033[2J\n.so";
    made_up[i].l_ld = i == 0 ? (ElfW(Dyn)*)(mapped + 64) : (ElfW(Dyn)*)0xdead0000;
    made_up[i].l_next = i + 1 < kCount ? &made_up[i + 1] : NULL;
  }
  last_entry()->l_next = made_up;
}

static int attack(const char* what, const char* file) {
  struct r_debug* debug = debugger();
  if (!strcmp(what, "comm")) return prctl(PR_SET_NAME, "\033[2J\a\n\x9b");
  if (!strcmp(what, "nowhere")) return debug->r_map = (struct link_map*)0xdead0000, 0;
  if (!strcmp(what, "version")) return debug->r_version = 0x41414141, 0;
  if (!strcmp(what, "state")) return *(int*)&debug->r_state = 77, 0;
  if (!strcmp(what, "no_hook")) return debug->r_brk = 0, 0;
  if (!strcmp(what, "wild_hook")) return debug->r_brk = (ElfW(Addr))add + 1, 0;
  if (!strcmp(what, "cycle")) return last_entry()->l_next = debug->r_map, 0;
  if (!strcmp(what, "names")) return last_entry()->l_name = (char*)0xdead0000, 0;
  if (!strcmp(what, "made_up")) return make_up_entries(file), 0;
  return strcmp(what, "nothing");
}

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  if (!strcmp(argv[1], "values")) return values();
  if (attack(argv[1], argc > 2 ? argv[2] : "") != 0) return 1;
  char line[16];
  for (puts("pid"); fflush(stdout) == 0 && fgets(line, sizeof line, stdin); puts("done"))
    for (int i = 0; i < 100; i++)
      if (add(i, 1) != i + 1) _exit(3);
  _exit(0);
}
