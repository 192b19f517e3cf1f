/* host: does to its libraries what the lines on its standard input say, and answers each with one line.

     open PATH | lazy PATH | ns PATH    dlopen with RTLD_NOW, RTLD_LAZY, or into a namespace of its own
     call N FROM COUNT                  plugin_work(FROM), ... of the N-th that was opened; the sum
     add COUNT                          add(1, 1), ... of the fixture library, by the program itself
     close N                            dlclose
     sum N                              a checksum of the page that holds its plugin_work
     remap N | unmap N                  a fresh copy of that page from its file, or none at all, behind
                                        the linker's back
     state N                            what the dynamic linker tells debuggers: 0 consistent, 2 deleting
     jit N FROM COUNT | jitshared N ... the calls made by code written into anonymous or MAP_SHARED memory
     sibling N FROM COUNT               the same, by another process that has the MAP_SHARED page too
     hide N | show N                    takes its link map entry out of the list, or puts it back
     quit | leave                       the end, or one without the libraries' own finishing */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

typedef int (*Work)(int);
typedef int (*Caller)(int, Work);
enum { kPage = 4096, kMost = 512 };

static struct {
  void* handle;
  Work work;
} opened[kMost];
static int count;
static unsigned char* shared_code;

static void answer(const char* word, long value) {
  printf("%s %ld\n", word, value);
  fflush(stdout);
}

static void add_object(void* handle) {
  if (!handle || count == kMost) {
    printf("failed %s\n", handle ? "too many" : dlerror());
    fflush(stdout);
    return;
  }
  opened[count].handle = handle;
  opened[count].work = (Work)dlsym(handle, "plugin_work");
  answer("opened", count++);
}

static void* open_in_namespace(const char* path) {
#ifdef __GLIBC__
  return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
#else
  return dlopen(path, RTLD_NOW);
#endif
}

/* Where the page of an address comes from. */
static int find_file(void* address, char* path, unsigned long* offset) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[8192];
  int found = 0;
  while (!found && maps && fgets(line, sizeof line, maps)) {
    unsigned long begin, end, start;
    if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &begin, &end, &start, path) != 4) continue;
    if (begin > (uintptr_t)address || end <= (uintptr_t)address) continue;
    *offset = start + ((uintptr_t)address - begin);
    found = 1;
  }
  if (maps) fclose(maps);
  return found;
}

static int remap(unsigned char* page) {
  char path[4096];
  unsigned long offset;
  if (!find_file(page, path, &offset)) return -1;
  int fd = open(path, O_RDONLY);
  void* now = mmap(page, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset);
  close(fd);
  return now == page ? 0 : -1;
}

/* sub $8,%rsp; call *%rsi; add $8,%rsp; ret */
static const unsigned char kCode[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x08, 0xc3};

static Caller make_code(int is_shared) {
  if (is_shared && shared_code) return (Caller)shared_code;
  int fd = is_shared ? memfd_create("code", 0) : -1;
  if (is_shared && ftruncate(fd, kPage) != 0) return NULL;
  unsigned char* page = mmap(NULL, kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
                             is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
  if (page == MAP_FAILED) return NULL;
  memcpy(page, kCode, sizeof kCode);
  if (is_shared) shared_code = page;
  return (Caller)page;
}

static long call_from(Caller caller, Work work, int from, int calls) {
  long sum = 0;
  for (int i = from; i < from + calls; i++) sum += caller ? caller(i, work) : work(i);
  return sum;
}

static long in_a_sibling(Work work, int from, int calls) {
  Caller caller = make_code(1);
  int pipes[2];
  if (pipe(pipes) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    long sum = call_from(caller, work, from, calls);
    _exit(write(pipes[1], &sum, sizeof sum) != sizeof sum);
  }
  long sum = -1;
  int status = -1;
  close(pipes[1]);
  if (read(pipes[0], &sum, sizeof sum) != sizeof sum) sum = -1;
  close(pipes[0]);
  waitpid(child, &status, 0);
  return status == 0 ? sum : -1;
}

static long checksum(const unsigned char* page) {
  long sum = 0;
  for (int i = 0; i < kPage; i++) sum = sum * 31 + page[i];
  return sum & 0xffffffff;
}

static void hide(struct link_map* map) {
  map->l_prev->l_next = map->l_next;
  if (map->l_next) map->l_next->l_prev = map->l_prev;
}

static void show(struct link_map* map) {
  map->l_next = map->l_prev->l_next;
  map->l_prev->l_next = map;
  if (map->l_next) map->l_next->l_prev = map;
}

static void tell_state(int state) {
  struct r_debug* map = dlsym(RTLD_DEFAULT, "_r_debug");
  map->r_state = state;
}

static int obey(const char* verb, const char* rest) {
  int n = 0, from = 0, calls = 0;
  if (strcmp(verb, "open") == 0) return add_object(dlopen(rest, RTLD_NOW)), 1;
  if (strcmp(verb, "lazy") == 0) return add_object(dlopen(rest, RTLD_LAZY)), 1;
  if (strcmp(verb, "ns") == 0) return add_object(open_in_namespace(rest)), 1;
  sscanf(rest, "%d %d %d", &n, &from, &calls);
  if (strcmp(verb, "add") == 0) {
    long sum = 0;
    for (int i = 1; i <= n; i++) sum += add(i, 1);
    return answer("sum", sum), 1;
  }
  if (strcmp(verb, "state") == 0) return tell_state(n), answer("state", n), 1;
  if (n < 0 || n >= count) return 0;
  Work work = opened[n].work;
  unsigned char* page = (unsigned char*)((uintptr_t)work / kPage * kPage);
  if (strcmp(verb, "call") == 0) return answer("sum", call_from(NULL, work, from, calls)), 1;
  if (strcmp(verb, "hide") == 0) return hide(opened[n].handle), answer("hidden", n), 1;
  if (strcmp(verb, "show") == 0) return show(opened[n].handle), answer("shown", n), 1;
  if (strcmp(verb, "close") == 0) return answer("closed", dlclose(opened[n].handle)), 1;
  if (strcmp(verb, "sum") == 0) return answer("sum", checksum(page)), 1;
  if (strcmp(verb, "remap") == 0) return answer("remapped", remap(page)), 1;
  if (strcmp(verb, "unmap") == 0) return answer("unmapped", munmap(page, kPage)), 1;
  if (strcmp(verb, "jit") == 0) return answer("sum", call_from(make_code(0), work, from, calls)), 1;
  if (strcmp(verb, "jitshared") == 0) return answer("sum", call_from(make_code(1), work, from, calls)), 1;
  if (strcmp(verb, "sibling") == 0) return answer("sum", in_a_sibling(work, from, calls)), 1;
  return 0;
}

int main(void) {
  char line[8192];
  answer("pid", (long)getpid());
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    char* rest = strchr(line, ' ');
    if (rest) *rest++ = 0;
    if (strcmp(line, "quit") == 0) return 0;
    if (strcmp(line, "leave") == 0) _exit(0);
    if (!obey(line, rest ? rest : "")) answer("failed", 0);
  }
  return 0;
}
