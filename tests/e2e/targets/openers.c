/* openers ROUNDS OBJECT ADDS OBJECT ADDS [wait]: two threads for each object open it, call its plugin_work
   five times, check the results and close it, ROUNDS times. With `wait` they begin at a line on standard
   input. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int rounds;
static atomic_int wrong;

struct Job {
  const char* object;
  int adds;
};

static void* work(void* argument) {
  const struct Job* job = argument;
  for (int round = 1; round <= rounds; round++) {
    void* handle = dlopen(job->object, round % 2 ? RTLD_LAZY : RTLD_NOW);
    int (*plugin_work)(int) = handle ? (int (*)(int))dlsym(handle, "plugin_work") : NULL;
    for (int i = 0; i < 5; i++)
      if (!plugin_work || plugin_work(round + i) != round + i + job->adds) atomic_fetch_add(&wrong, 1);
    if (handle) dlclose(handle);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[4];
  char line[16];
  if (argc < 6) return 2;
  rounds = atoi(argv[1]);
  struct Job jobs[2] = {{argv[2], atoi(argv[3])}, {argv[4], atoi(argv[5])}};
  puts("ready");
  fflush(stdout);
  if (argc > 6 && !fgets(line, sizeof line, stdin)) return 2;
  for (int i = 0; i < 4; i++)
    if (pthread_create(&threads[i], NULL, work, &jobs[i % 2]) != 0) return 2;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return atomic_load(&wrong) == 0 ? 0 : 1;
}
