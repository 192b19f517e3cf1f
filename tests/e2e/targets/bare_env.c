/* bare_env [NAME=VALUE]... PROGRAM [ARGUMENT]...: env(1) that allocates nothing: of what is counted all is
 * PROGRAM's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

int main(int argc, char** argv) {
  int settings = 1, number = 0;
  while (settings < argc && strchr(argv[settings], '=') != NULL) ++settings;
  while (environ[number] != NULL) ++number;
  if (settings >= argc) return 2;
  const char* all[number + settings];
  /* Of a name that is there twice, the first counts. */
  memcpy(all, argv + 1, (size_t)(settings - 1) * sizeof *all);
  memcpy(all + settings - 1, environ, (size_t)(number + 1) * sizeof *all);
  execve(argv[settings], argv + settings, (char**)all);
  perror(argv[settings]);
  return 127;
}
