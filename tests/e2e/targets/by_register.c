/* by_register ROUNDS: what a callback of the C library's frees, three of each of ROUNDS, the last by a jump
   to free; and calls of a library that calls add three times, beside two of its own. Prints what was
   returned. */
#define _GNU_SOURCE
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

int add(int left, int right);
int thrice(int value);

struct pair {
  char *left, *right;
};

static int compare(const void* one, const void* other) {
  return (one > other) - (one < other);
}

static void destroy(void* node) {
  struct pair* pair = node;
  free(pair->left);
  free(pair->right);
  free(pair);
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  void* root = NULL;
  long sum = 0;
  for (int i = 0; i < rounds; i++) {
    struct pair* pair = malloc(sizeof *pair);
    pair->left = malloc(10);
    pair->right = malloc(20);
    tsearch(pair, &root, compare);
  }
  tdestroy(root, destroy);
  for (int i = 0; i < rounds; i++) sum += thrice(i);
  sum += add(1, 1);
  sum += add(2, 2);
  printf("%ld\n", sum);
  return 0;
}
