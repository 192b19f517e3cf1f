/* For LD_AUDIT: takes part in every binding, as rtld-audit(7) has it. While AUDIT_WAITS names a FIFO, the
   search for a dependency of a library opened later (the link map is then being changed: RT_ADD) waits for a
   byte from it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned la_version(unsigned version) {
  return version;
}

unsigned la_objopen(struct link_map* map, Lmid_t space, uintptr_t* cookie) {
  (void)map, (void)space, (void)cookie;
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned index, uintptr_t* from, uintptr_t* to, unsigned* flags,
                       const char* name) {
  (void)index, (void)from, (void)to, (void)flags, (void)name;
  return symbol->st_value;
}

char* la_objsearch(const char* name, uintptr_t* cookie, unsigned flag) {
  (void)cookie;
  const char* fifo = getenv("AUDIT_WAITS");
  if (fifo && flag == LA_SER_ORIG && strstr(name, "libplugin_b.so")) {
    char byte;
    int fd = open(fifo, O_RDONLY);
    if (read(fd, &byte, 1) != 1) abort();
    close(fd);
  }
  return (char*)name;
}
