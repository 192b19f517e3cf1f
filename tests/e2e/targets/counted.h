/* A library whose functions count their own calls, so that a trace can be compared with what happened. The
   counts are atomic and async-signal-safe. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef int (*counted_work)(void* argument);

int visit(int value);                           /* value + 1 */
int through(counted_work work, void* argument); /* calls `work`, and counts whether that came back */
int counted_descend(int depth);                 /* calls itself, and returns `depth` */
int counted_first(int value);                   /* jumps to counted_middle(value + 1) */
int counted_middle(int value);                  /* jumps to counted_last(value + 1) */
int counted_last(int value);                    /* value * 2 */
int counted_tail_work(counted_work work, void* argument); /* jumps to work(argument) */

struct counted_way {
  const char* name;
  int (*run)(int count); /* 0 when all was as it must be, else the exit status */
};

/* The main function of a program with several ways: PROGRAM WAY COUNT prints its pid, waits for a line or the
   end of standard input, goes that way, and prints for each function how often it was entered and how often
   it returned. */
int counted_main(int argc, char** argv, const struct counted_way* ways);

#ifdef __cplusplus
}
#endif
