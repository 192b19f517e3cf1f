/* Goes on in a child, whose parent ends at once, as a daemon does. When nobody traces it, it says how many
   mappings it has that are executable and of no file. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static int is_traced(void) {
  char line[256];
  int tracer = 0;
  FILE* status = fopen("/proc/self/status", "r");
  if (status == NULL) return 0;
  while (fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "TracerPid: %d", &tracer) == 1) break;
  fclose(status);
  return tracer != 0;
}

static int made_code(void) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return -1;
  while (fgets(line, sizeof line, maps) != NULL)
    found += strstr(line, " r-xp ") != NULL && strchr(line, '/') == NULL && strchr(line, '[') == NULL;
  fclose(maps);
  return found;
}

int main(void) {
  add(1, 2);
  if (fork() != 0) _exit(0);
  while (is_traced()) usleep(1000);
  printf("made code %d\n", made_code());
  return 0;
}
