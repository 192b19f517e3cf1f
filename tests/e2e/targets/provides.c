/* provides: a thread of its own provides the pages of a mapping as they are first read (userfaultfd), and
   calls strdup() for each; the first one calls strdup() for what lies in each page, until its standard input
   ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 64 };

static int faults;
static char* mapped;

static void* provide(void* unused) {
  static char page[kPage] __attribute__((aligned(kPage)));
  struct uffd_msg message;
  while (read(faults, &message, sizeof message) == sizeof message) {
    strcpy(page, "provided");
    free(strdup("another"));
    struct uffdio_copy copy = {
        .dst = message.arg.pagefault.address & ~(uint64_t)(kPage - 1), .src = (uint64_t)page, .len = kPage};
    ioctl(faults, UFFDIO_COPY, &copy);
  }
  return unused;
}

static int ask_for_all(void) {
  int wrong = 0;
  for (int i = 0; i < kPages; i++) {
    char* copy = strdup(mapped + i * kPage);
    wrong += strcmp(copy, "provided") != 0;
    free(copy);
  }
  madvise(mapped, kPages * kPage, MADV_DONTNEED);
  return wrong;
}

int main(void) {
  struct uffdio_api api = {.api = UFFD_API};
  pthread_t thread;
  char line[16];
  faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) return 77;
  mapped = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register range = {.range = {(uint64_t)mapped, kPages * kPage},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (ioctl(faults, UFFDIO_REGISTER, &range) != 0) return 77;
  pthread_create(&thread, NULL, provide, NULL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("pid %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) printf("wrong %d\n", ask_for_all());
  return 0;
}
