/* errnos [wait|threads|namespace]: functions that fail, in the main thread, in two threads at once, in a
 * library that has a C library of its own. Exit status 0 when errno is what it should be. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#ifdef ERRNOS_NAMESPACE
#include <dlfcn.h>
#endif

__attribute__((noinline)) int fails_with(int error) {
  errno = error;
  return error == 0 ? 0 : -1;
}

static int thing;
__attribute__((noinline)) void* lacks(int error) {
  errno = error;
  return error == 0 ? &thing : NULL;
}

__attribute__((noinline)) long counts(long result) {
  errno = ENOSPC;
  return result;
}

#ifndef ERRNOS_LIBRARY
static void* loop(void* argument) {
  for (int i = 0; i < 20; i++) {
    int error = 2 * i + 1 + (int)(long)argument;
    if (fails_with(error) != -1 || errno != error) return argument;
  }
  return NULL;
}

static int in_threads(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, loop, (void*)i) != 0) return 0;
  int good = 1;
  for (int i = 0; i < 2; i++) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    good &= wrong == NULL;
  }
  return good;
}

static int in_namespace(void) {
#ifdef ERRNOS_NAMESPACE
  void* library = dlmopen(LM_ID_NEWLM, ERRNOS_NAMESPACE, RTLD_NOW);
  int (*fails)(int) = library != NULL ? (int (*)(int))dlsym(library, "fails_with") : NULL;
  errno = ERANGE;
  return fails != NULL && fails(EXDEV) == -1 && errno == ERANGE;
#else
  return 1;
#endif
}

int main(int argc, char** argv) {
  const char* also = argc > 1 ? argv[1] : "";
  if (strcmp(also, "wait") == 0) {
    puts("ready");
    fflush(stdout);
    getchar();
  }
  int good = fails_with(ENOENT) == -1 && errno == ENOENT;
  good &= fails_with(0) == 0;
  good &= lacks(ENOMEM) == NULL && errno == ENOMEM;
  good &= lacks(0) != NULL;
  good &= counts(-1) == -1 && counts(255) == 255;
  if (strcmp(also, "threads") == 0) good &= in_threads();
  if (strcmp(also, "namespace") == 0) good &= in_namespace();
  return good ? 0 : 1;
}
#endif
