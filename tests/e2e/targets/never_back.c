// never_back COUNT: calls takes() so often; what they return comes to the status.
#include <stdlib.h>

long takes(long value);

int main(int argc, char** argv) {
  long sum = 0;
  for (int i = 1; i <= (argc > 1 ? atoi(argv[1]) : 3); i++) sum += takes(i);
  return (int)(sum & 0x7f);
}
