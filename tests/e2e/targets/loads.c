/* loads ROUNDS OBJECT ADDS [OBJECT ADDS]: opens each object in turn, calls its plugin_work with the number of
   the round, checks the result, closes it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int visit(const char* object, int value, int adds) {
  void* handle = dlopen(object, value % 2 ? RTLD_LAZY : RTLD_NOW);
  if (!handle) {
    fprintf(stderr, "loads: %s\n", dlerror());
    return 1;
  }
  int (*plugin_work)(int) = (int (*)(int))dlsym(handle, "plugin_work");
  int result = plugin_work ? plugin_work(value) : -1;
  return dlclose(handle) != 0 || result != value + adds;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 0;
  for (int round = 1; round <= rounds; round++)
    for (int i = 2; i + 1 < argc; i += 2)
      if (visit(argv[i], round, atoi(argv[i + 1])) != 0) return 1;
  return rounds > 0 ? 0 : 1;
}
