/* The library that the fixtures call and the tests trace. Every function checks nothing and does one thing.
 */
#pragma once
#include <setjmp.h>

int add(int a, int b);
int twice(int value);
int greet(const char* who);
int outer(int value); /* calls middle(value + 1), which calls inner(value + 2) */
int middle(int value);
int inner(int value);
int descend(int depth);    /* calls itself, and returns `depth` */
int tail_outer(int value); /* jumps to tail_inner(value + 1) */
int tail_inner(int value);
int alias_a(int value); /* alias_b is the same address */
int alias_b(int value);
void leap(jmp_buf where, int value);
unsigned long work(int thread, unsigned long sequence); /* sequence * 3 + thread */
