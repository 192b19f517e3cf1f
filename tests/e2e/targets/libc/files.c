// fcntl.h, unistd.h, sys/stat.h, dirent.h, sys/uio.h, sys/inotify.h, sys/eventfd.h
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

static char buf[64];
static volatile dev_t device;  // uses what calls of pure functions give

static void contents(void) {
  umask(022);                          //= umask({octal}) = {octal}
  int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644);  //= open("f", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3
  write(fd, "hello\0world", 11);       //= write(3, "hello\0world", 11) = 11
  lseek(fd, 0, SEEK_SET);              //= lseek(3, 0, SEEK_SET) = 0
  read(fd, buf, 5);                    //= read(3, "hello", 5) = 5
  pread(fd, buf, 32, 6);               //= pread(3, "world", 32, 6) = 5
  pwrite(fd, "W", 1, 6);               //= pwrite(3, "W", 1, 6) = 1
  struct iovec parts[2] = {{"abc", 3}, {"de", 2}}, room = {buf, 4};
  writev(fd, parts, 2);                //= writev(3, [ { "abc", 3 }, { "de", 2 } ], 2) = 5
  pwritev(fd, parts, 1, 0);            //= pwritev(3, [ { "abc", 3 } ], 1, 0) = 3
  preadv(fd, &room, 1, 0);             //= preadv(3, [ { "abcl", 4 } ], 1, 0) = 4
  lseek(fd, -2, SEEK_END);             //= lseek(3, -2, SEEK_END) = {number}
  readv(fd, &room, 1);                 //= readv(3, [ { "ed", 4 } ], 1) = 2
  ftruncate(fd, 4);                    //= ftruncate(3, 4) = 0
  fsync(fd);                           //= fsync(3) = 0
  fdatasync(fd);                       //= fdatasync(3) = 0
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);  //= posix_fadvise(3, 0, 0, POSIX_FADV_SEQUENTIAL) = 0
  posix_fallocate(fd, 0, 4);           //= posix_fallocate(3, 0, 4) = 0
  flock(fd, LOCK_EX | LOCK_NB);        //= flock(3, LOCK_EX|LOCK_NB) = 0
  lockf(fd, F_TEST, 0);                //= lockf(3, F_TEST, 0) = 0
  dup(fd);                             //= dup(3) = 4
  dup2(fd, 9);                         //= dup2(3, 9) = 9
  dup3(fd, 8, O_CLOEXEC);              //= dup3(3, 8, O_CLOEXEC) = 8
  fcntl(fd, F_DUPFD, 20);              //= fcntl(3, F_DUPFD, 20) = 20
  fcntl(8, F_GETFD, 0);                //= fcntl(8, F_GETFD) = FD_CLOEXEC
  isatty(fd);                          //= isatty(3) = false
  struct stat st;
  fstat(fd, &st);                      //= fstat(3, { 0100644, 4 }) = 0
  fchmod(fd, 0600);                    //= fchmod(3, 0600) = 0
  struct timespec times[2] = {{1, 0}, {2, 3}};
  futimens(fd, times);                 //= futimens(3, [ { 1, 0 }, { 2, 3 } ]) = 0
  close(8);                            //= close(8) = 0
  close_range(4, 100, 0);              //= close_range(4, 100, 0) = 0
  close(77);                           //= close(77) = -1 EBADF (Bad file descriptor)
}

static void names(void) {
  struct stat st;
  stat("f", &st);                      //= stat("f", { 0100600, 4 }) = 0
  access("f", R_OK | W_OK);            //= access("f", R_OK|W_OK) = 0
  access("f", F_OK);                   //= access("f", F_OK) = 0
  faccessat(AT_FDCWD, "f", R_OK, AT_EACCESS);  //= faccessat({cwd}, "f", R_OK, AT_EACCESS) = 0
  chmod("f", 0640);                    //= chmod("f", 0640) = 0
  fchmodat(AT_FDCWD, "f", 0644, 0);    //= fchmodat({cwd}, "f", 0644, 0) = 0
  chown("f", -1, -1);                  //= chown("f", 4294967295, 4294967295) = 0
  truncate("f", 2);                    //= truncate("f", 2) = 0
  link("f", "g");                      //= link("f", "g") = 0
  linkat(AT_FDCWD, "f", AT_FDCWD, "h", 0);  //= linkat({cwd}, "f", {cwd}, "h", 0) = 0
  symlink("f", "s");                   //= symlink("f", "s") = 0
  symlinkat("f", AT_FDCWD, "t");       //= symlinkat("f", {cwd}, "t") = 0
  lstat("s", &st);                     //= lstat("s", { 0120777, 1 }) = 0
  fstatat(AT_FDCWD, "s", &st, AT_SYMLINK_NOFOLLOW);  //= fstatat({cwd}, "s", { 0120777, 1 }, AT_SYMLINK_NOFOLLOW) = 0
  readlink("s", buf, sizeof buf);      //= readlink("s", "f", 64) = 1
  readlinkat(AT_FDCWD, "t", buf, 64);  //= readlinkat({cwd}, "t", "f", 64) = 1
  renameat(AT_FDCWD, "g", AT_FDCWD, "i");  //= renameat({cwd}, "g", {cwd}, "i") = 0
  unlink("i");                         //= unlink("i") = 0
  mkfifo("p", 0600);                   //= mkfifo("p", 0600) = 0
  mkdir("d", 0755);                    //= mkdir("d", 0755) = 0
  mkdirat(AT_FDCWD, "e", 0700);        //= mkdirat({cwd}, "e", 0700) = 0
  unlinkat(AT_FDCWD, "e", AT_REMOVEDIR);  //= unlinkat({cwd}, "e", AT_REMOVEDIR) = 0
  utimensat(AT_FDCWD, "f", NULL, 0);   //= utimensat({cwd}, "f", nil, 0) = 0
  creat("c", 0600);                    //= creat("c", 0600) = 4
  openat(AT_FDCWD, "c", O_WRONLY | O_APPEND | O_CREAT, 0600);  //= openat({cwd}, "c", O_WRONLY|O_CREAT|O_APPEND, 0600) = 5
  pathconf(".", _PC_NAME_MAX);         //= pathconf(".", _PC_NAME_MAX) = {number}
  device = gnu_dev_major(0x803);             //= gnu_dev_major(0x803) = 8
  device = gnu_dev_minor(0x803);             //= gnu_dev_minor(0x803) = 3
  device = gnu_dev_makedev(8, 3);             //= gnu_dev_makedev(8, 3) = 0x803
  rmdir("none");                       //= rmdir("none") = -1 ENOENT (No such file or directory)
}

static int each(const char *path, const struct stat *st, int flag) { return (void)path, (void)st, flag & 0; }
static int deep(const char *path, const struct stat *st, int flag, struct FTW *at) {
  return (void)path, (void)st, (void)at, flag & 0;
}

static void directories(void) {
  chdir("d");                          //= chdir("d") = 0
  getcwd(NULL, 0);                     //= getcwd(nil, 0) = {string}
  DIR *dir = opendir(".");             //= opendir(".") = ADDR
  readdir(dir);                        //= readdir(ADDR) = { DT_DIR, {string} }
  readdir(dir);                        //= readdir(ADDR) = { DT_DIR, {string} }
  readdir(dir);                        //= readdir(ADDR) = nil
  rewinddir(dir);                      //= rewinddir(ADDR) = <void>
  telldir(dir);                        //= telldir(ADDR) = 0
  seekdir(dir, 0);                     //= seekdir(ADDR, 0) = <void>
  dirfd(dir);                          //= dirfd(ADDR) = 6
  closedir(dir);                       //= closedir(ADDR) = 0
  struct dirent **list;
  scandir(".", &list, NULL, alphasort);  //= scandir(".", ADDR, nil, ADDR) = 2
  device = alphasort((const struct dirent **)&list[0], (const struct dirent **)&list[0]);  //= alphasort({ DT_DIR, "." }, { DT_DIR, "." }) = 0
  ftw(".", each, 5);                   //= ftw(".", ADDR, 5) = 0
  nftw(".", deep, 5, FTW_PHYS);        //= nftw(".", ADDR, 5, FTW_PHYS) = 0
  char *const roots[] = {".", NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL, NULL);  //= fts_open([ "." ], FTS_PHYSICAL, nil) = ADDR
  fts_close(tree);                     //= fts_close(ADDR) = 0
}

static void descriptors(void) {
  int ends[2];
  pipe(ends);                          //= pipe([ 6, 7 ]) = 0
  pipe2(ends, O_CLOEXEC | O_NONBLOCK); //= pipe2([ 8, 9 ], O_NONBLOCK|O_CLOEXEC) = 0
  read(ends[0], buf, 4);               //= read(8, {any}, 4) = -1 EAGAIN (Resource temporarily unavailable)
  int counter = eventfd(3, EFD_CLOEXEC);  //= eventfd(3, EFD_CLOEXEC) = 10
  eventfd_t value;
  eventfd_read(counter, &value);       //= eventfd_read(10, 3) = 0
  eventfd_write(counter, 1);           //= eventfd_write(10, 1) = 0
  int watch = inotify_init1(IN_CLOEXEC);  //= inotify_init1(IN_CLOEXEC) = 11
  inotify_add_watch(watch, ".", IN_CREATE | IN_ONLYDIR);  //= inotify_add_watch(11, ".", IN_CREATE|IN_ONLYDIR) = 1
  inotify_rm_watch(watch, 1);          //= inotify_rm_watch(11, 1) = 0
  memfd_create("m", MFD_CLOEXEC);      //= memfd_create("m", MFD_CLOEXEC) = 12
  off_t at = 0;
  sendfile(12, 3, &at, 2);             //= sendfile(12, 3, 0 -> 2, 2) = 2
  closefrom(20);                       //= closefrom(20) = <void>
}

int main(void) {
  contents();
  names();
  directories();
  descriptors();
  return 0;
}
