// requests: for each line of its standard input handles that many requests, every other one of which fails
// by an exception, or forks a child for "fork". The text of a request lies in the frame of who handles it, so
// that no two frames look alike.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern "C" {
__attribute__((noinline)) long parse(long number, const char* text) {
  if (number % 2 != 0) throw std::runtime_error(text);
  asm volatile("" : "+r"(number));
  return number;
}

__attribute__((noinline)) long handle(long number) {
  char text[32];
  snprintf(text, sizeof text, "request %ld", number);
  try {
    return parse(number, text) + 1;
  } catch (const std::exception&) {
    return -1;
  }
}
}

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("pid %d\n", getpid());
  static long handled = 0;
  for (char line[64]; fgets(line, sizeof line, stdin) != nullptr;) {
    if (strcmp(line, "fork\n") == 0) {
      if (fork() == 0) _exit(0);
      wait(nullptr);
    }
    for (long left = atol(line); left > 0; left--) (void)handle(handled++);
    printf("done\n");
  }
}
