/* Preloaded into xz: counts the calls of two functions of liblzma, and writes the counts to the file that
   LZMA_COUNTS names when the program ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long calls;

/* The types do not matter for passing them on: lzma_stream is known by its address, lzma_action is an int. */
int lzma_code(void* stream, int action) {
  static int (*real)(void*, int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "lzma_code");
  ++calls;
  return real(stream, action);
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("LZMA_COUNTS");
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "lzma_code %lu %lu\n", calls, calls);
  fclose(file);
}
