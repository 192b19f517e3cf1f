// A library with an SDT probe, and no semaphore.
#include <sys/sdt.h>

void mark(int number) {
  STAP_PROBE1(marker, mark, number);
}
