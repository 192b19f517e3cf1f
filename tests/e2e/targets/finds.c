/* A function of a library that finds what stands behind that library: its tail is a jump to dlsym(), which
   goes by who calls it. */
#define _GNU_SOURCE
#include <dlfcn.h>

void* find_next(const char* name);

void* find_next(const char* name) {
  return dlsym(RTLD_NEXT, name);
}
