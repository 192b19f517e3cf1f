// slots: built with -fno-plt, so that each library call reads its GOT slot. Does what the lines on its
// standard input say, and answers each with one line.
//   calls COUNT      add(1, 1), ...: its slot is called through only
//   tails COUNT      twice(1), ...: a tail call, which jumps through its slot, and a call
//   pointer COUNT    inner(1), ...: its slot is loaded, compared with the first value, and called through
//   threads COUNT    the three of them, by four threads at a time
//   children COUNT   add, by so many children, one call each
//   keep             reads the slot of add as a hooking library does, by the relocations
//   hook             writes a function of its own there, which calls what was kept
//   kept COUNT       calls what was kept
//   passed COUNT     tail_outer(1), ..., which jumps to tail_inner, and tail_inner(1) once
//   quit
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

typedef int (*Add)(int, int);
typedef int (*Inner)(int);
enum { kThreads = 4, kPage = 4096 };

static Inner at_first;
static Add kept;
static long hooked;

__attribute__((noipa)) static int last(int value) {
  return twice(value + 1);
}

static long calls(long count) {
  long sum = 0;
  for (long i = 1; i <= count; i++) sum += add((int)i, 1);
  return sum;
}

static long tails(long count) {
  long sum = 0;
  for (long i = 1; i <= count; i++) sum += last((int)i) + twice((int)i);
  return sum;
}

/* The compiler must not know that both are the same. */
__attribute__((noipa)) static Inner now(void) {
  return inner;
}

static long pointer(long count) {
  long sum = 0;
  for (long i = 1; i <= count; i++) sum += now() == at_first && at_first == inner ? inner((int)i) : -1000000;
  return sum;
}

static void* thread(void* count) {
  long* sum = malloc(sizeof *sum);
  *sum = calls((long)(intptr_t)count) + tails((long)(intptr_t)count) + pointer((long)(intptr_t)count);
  return sum;
}

static long threads(long count) {
  pthread_t all[kThreads];
  long sum = 0;
  for (int i = 0; i < kThreads; i++) pthread_create(&all[i], NULL, thread, (void*)(intptr_t)count);
  for (int i = 0; i < kThreads; i++) {
    void* part = NULL;
    pthread_join(all[i], &part);
    sum += *(long*)part;
    free(part);
  }
  return sum;
}

static long children(long count) {
  long good = 0;
  for (long i = 0; i < count; i++) {
    pid_t child = fork();
    if (child == 0) _exit(add(3, 4));
    int status = 0;
    waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  return good;
}

static const ElfW(Dyn) * entry_of(const ElfW(Dyn) * entry, ElfW(Sxword) tag) {
  while (entry->d_tag != tag && entry->d_tag != DT_NULL) entry++;
  return entry;
}

static Add* slot_of(const char* name) {
  const struct link_map* map = _r_debug.r_map;
  const Elf64_Rela* rela = (const Elf64_Rela*)entry_of(map->l_ld, DT_RELA)->d_un.d_ptr;
  const Elf64_Sym* symbols = (const Elf64_Sym*)entry_of(map->l_ld, DT_SYMTAB)->d_un.d_ptr;
  const char* strings = (const char*)entry_of(map->l_ld, DT_STRTAB)->d_un.d_ptr;
  size_t count = entry_of(map->l_ld, DT_RELASZ)->d_un.d_val / sizeof *rela;
  for (; count > 0; count--, rela++)
    if (ELF64_R_TYPE(rela->r_info) == R_X86_64_GLOB_DAT &&
        strcmp(strings + symbols[ELF64_R_SYM(rela->r_info)].st_name, name) == 0)
      return (Add*)(map->l_addr + rela->r_offset);
  return NULL;
}

static int hook(int a, int b) {
  hooked++;
  return kept(a, b);
}

static long write_slot(void) {
  Add* slot = slot_of("add");
  void* page = (void*)((uintptr_t)slot / kPage * kPage);
  if (mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) return -1;
  *(Add volatile*)slot = hook;
  return mprotect(page, kPage, PROT_READ);
}

static long call_kept(long count) {
  long sum = 0;
  for (long i = 1; i <= count; i++) sum += kept((int)i, 1);
  return sum;
}

static long passed(long count) {
  long sum = tail_inner(1);
  for (long i = 1; i <= count; i++) sum += tail_outer((int)i);
  return sum;
}

static long obey(const char* verb, long count) {
  if (strcmp(verb, "calls") == 0) return calls(count);
  if (strcmp(verb, "tails") == 0) return tails(count);
  if (strcmp(verb, "pointer") == 0) return pointer(count);
  if (strcmp(verb, "threads") == 0) return threads(count);
  if (strcmp(verb, "children") == 0) return children(count);
  if (strcmp(verb, "keep") == 0) return kept = *(Add volatile*)slot_of("add"), 0;
  if (strcmp(verb, "hook") == 0) return write_slot();
  if (strcmp(verb, "kept") == 0) return call_kept(count);
  if (strcmp(verb, "passed") == 0) return passed(count);
  if (strcmp(verb, "hooked") == 0) return hooked;
  return -1;
}

int main(void) {
  char line[256], verb[64];
  at_first = now();
  printf("pid %ld\n", (long)getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    long count = 0;
    sscanf(line, "%63s %ld", verb, &count);
    if (strcmp(verb, "quit") == 0) return 0;
    printf("is %ld\n", obey(verb, count));
    fflush(stdout);
  }
  return 0;
}
