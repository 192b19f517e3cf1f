/* interpreter BLOCKS: a loop that calls what it is told by a table, as interpreters' do: op_block(), which
   runs the loop for 2000 op_nothing(), so often; all of them return to the same place. At its end it says how
   often the process has waited. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kNothings = 2000 };

typedef int (*op)(int);

int run(const op* program, int value);

__attribute__((noinline)) int op_nothing(int value) {
  __asm__ volatile("" : "+r"(value));
  return value + 1;
}

static op nothings[kNothings + 1];

__attribute__((noinline)) int op_block(int value) {
  return run(nothings, value) - kNothings;
}

__attribute__((noinline)) int run(const op* program, int value) {
  while (*program) value = (*program++)(value);
  return value;
}

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? atoi(argv[1]) : 1;
  op* program = calloc((size_t)blocks + 1, sizeof *program);
  for (int i = 0; i < kNothings; i++) nothings[i] = op_nothing;
  for (int i = 0; i < blocks; i++) program[i] = op_block;
  printf("value %d\n", run(program, 7));
  char line[128];
  int waits = -1;
  FILE* status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "voluntary_ctxt_switches: %d", &waits);
  printf("waits %d\n", waits);
  return 0;
}
