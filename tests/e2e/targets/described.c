/* A program whose debug information says what its functions take. Given a word it waits for a line first. */
#include <stdio.h>
#include <strings.h>

#define KEPT __attribute__((noinline, noclone))

enum color { RED, GREEN, BLUE = 7 };
struct point {
  int x, y;
};
struct node {
  int value;
  struct node* next;
};
struct record {
  char name[8];
  struct point at;
  unsigned ready : 1;
  int level : 5;
};
typedef int (*handler)(int);

volatile int sink;

KEPT void greet(char* s, enum color c, struct point* p, double d) {
  sink = s[0] + (int)c + p->x + (int)d;
}
KEPT enum color paint(enum color c) {
  sink = (int)c;
  return c;
}
KEPT int length(struct node* list) {
  int nodes = 0;
  for (struct node* n = list; n != NULL && nodes < 3; n = n->next) ++nodes;
  return sink = nodes;
}
KEPT struct record copy(struct record r) {
  sink = r.level;
  return r;
}
KEPT size_t bytes(const unsigned char* data, size_t size) {
  sink = data[0];
  return size;
}
KEPT int words(char** list, handler h, void* nothing) {
  sink = h(list[0][0]) + (nothing != NULL);
  return 0;
}
KEPT int say(int level, const char* format, ...) {
  sink = format[0];
  return level;
}
KEPT int sum(int count, ...) {
  return sink = count;
}
KEPT long double mean(float a, double b, long double c) {
  return a + b + c;
}

int main(int argc, char** argv) {
  struct point p = {1, 2};
  struct node last = {3, NULL}, middle = {2, &last}, first = {1, &middle};
  struct record r = {"tea", {3, 4}, 1, -3};
  char* list[] = {"first", "second", NULL};
  (void)argv;
  if (argc > 1) {
    puts("ready");
    fflush(stdout);
    getchar();
  }
  greet("hi", RED, &p, 1.5);
  paint(BLUE);
  paint((enum color)5);
  length(&first);
  last.next = &first;
  length(&first);
  copy(r);
  bytes((const unsigned char*)"a\0b", 3);
  words(list, ffs, NULL);
  say(3, "x=%d s=%s", 42, "text");
  sum(1, 2, 3);
  sink = (int)mean(1, 2, 3);
  return 0;
}
