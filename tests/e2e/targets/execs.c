/* execs HOW PROGRAM [WORD...]: calls add(1, 1), then becomes PROGRAM. HOW: self, thread (another than the
   main thread calls exec, while a third waits), traced (the same, once the process has a tracer), child (a
   child does; it must end with status 7, and add(3, 3) follows). "execs told" waits for a line, calls
   add(2, 2) and ends with status 7. "execs again BOARD" becomes itself until the board's first byte is not 0,
   with so many words that the kernel has the new program's memory in place long before it says so, and ends
   with status 7. "execs hop BOARD": the same with few words, by another thread than the first each time. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static void* become(void* words) {
  execv(((char**)words)[0], words);
  _exit(98);
}

static int has_tracer(void) {
  char line[128];
  int tracer = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && tracer == 0 && fgets(line, sizeof line, status) != NULL)
    sscanf(line, "TracerPid: %d", &tracer);
  if (status != NULL) fclose(status);
  return tracer != 0;
}

static void* become_when_traced(void* words) {
  while (!has_tracer()) usleep(100);
  return become(words);
}

static void* wait_for_ever(void* unused) {
  for (;;) pause();
  return unused;
}

enum { MANY_WORDS = 10000 };

static int again(char* program, char* board) {
  static char* words[MANY_WORDS + 1];
  FILE* file = fopen(board, "r");
  if (file == NULL || fgetc(file) != 0) return 7;
  fclose(file);
  for (int i = 0; i < MANY_WORDS; ++i) words[i] = (char*)"w";
  words[0] = program;
  words[1] = (char*)"again";
  words[2] = board;
  execv("/proc/self/exe", words);
  return 98;
}

static int hop(char* program, char* board) {
  static char* words[4];
  FILE* file = fopen(board, "r");
  if (file == NULL || fgetc(file) != 0) return 7;
  fclose(file);
  words[0] = program;
  words[1] = (char*)"hop";
  words[2] = board;
  pthread_t one;
  pthread_create(&one, NULL, become, words);
  wait_for_ever(NULL);
  return 98;
}

static int told(void) {
  return getchar() != EOF && add(2, 2) == 4 ? 7 : 8;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "told") == 0) return told();
  if (argc < 3 || add(1, 1) != 2) return 99;
  if (strcmp(argv[1], "again") == 0) return again(argv[0], argv[2]);
  if (strcmp(argv[1], "hop") == 0) return hop(argv[0], argv[2]);
  char** words = argv + 2;
  if (strcmp(argv[1], "self") == 0) become(words);
  const int traced = strcmp(argv[1], "traced") == 0;
  if (traced || strcmp(argv[1], "thread") == 0) {
    pthread_t one, other;
    pthread_create(&one, NULL, wait_for_ever, NULL);
    pthread_create(&other, NULL, traced ? become_when_traced : become, words);
    wait_for_ever(NULL);
  }
  pid_t child = fork();
  if (child == 0) become(words);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
    return 1;
  return add(3, 3) == 6 ? 0 : 2;
}
