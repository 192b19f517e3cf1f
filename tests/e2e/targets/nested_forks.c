/* nested_forks DEPTH: a function that forks; parent and child both return from it, and the child calls it
   again. The output is what all calls together come to. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

__attribute__((noinline)) int branch(int depth) {
  int sum = add(depth, 1);
  pid_t child = fork();
  if (child == 0) {
    sum += add(depth, 2);
    if (depth > 0) sum += branch(depth - 1);
    return sum;
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return sum + add(depth, 3) + WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  pid_t self = getpid();
  int sum = branch(argc > 1 ? atoi(argv[1]) : 0);
  if (getpid() == self) printf("%d\n", sum);
  return sum & 0x7f;
}
