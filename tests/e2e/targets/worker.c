/* A plugin that itself calls through its PLT: plugin_work calls `add` of the fixture library, which is loaded
   with it, and `helper` of its own. With WORKER_AT_LOAD its constructor works as well, and opens the library
   that WORKER_OPENS names; with WORKER_WAITS it reads a byte from that FIFO first. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

__attribute__((noipa)) int helper(int value) {
  return value + 1;
}

int plugin_work(int value) {
  return add(helper(value), 1);
}

#ifdef WORKER_AT_LOAD
__attribute__((constructor)) static void at_load(void) {
  const char* fifo = getenv("WORKER_WAITS");
  const char* other = getenv("WORKER_OPENS");
  if (fifo) {
    char byte;
    int fd = open(fifo, O_RDONLY);
    if (read(fd, &byte, 1) != 1) abort();
    close(fd);
  }
  for (int i = 1; i <= 10; i++)
    if (plugin_work(i) != i + 2) abort();
  void* handle = other ? dlopen(other, RTLD_NOW) : NULL;
  int (*work)(int) = handle ? (int (*)(int))dlsym(handle, "plugin_work") : NULL;
  if (other && !work) abort();
  for (int i = 1; work && i <= 10; i++)
    if (work(i) <= i) abort();
}
#endif
