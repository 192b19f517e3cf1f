// time.h, sys/time.h, locale.h, langinfo.h, iconv.h, libintl.h, regex.h, glob.h, fnmatch.h, wordexp.h, pwd.h,
// grp.h
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#include <fnmatch.h>
#include <glob.h>
#include <grp.h>
#include <iconv.h>
#include <langinfo.h>
#include <libintl.h>
#include <locale.h>
#include <pwd.h>
#include <regex.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

static char buf[64];

static void clocks(void) {
  struct timespec ts, moment = {0, 1};
  struct timeval tv;
  struct tms used;
  time(NULL);                          //= time(nil) = {number}
  double apart = difftime(5, 3);                   //= difftime(5, 3) = 2.000000
  clock();                             //= clock() = {number}
  times(&used);                        //= times({ {number}, {number}, 0, 0 }) = {number}
  gettimeofday(&tv, NULL);             //= gettimeofday({ {number}, {number} }, nil) = 0
  clock_gettime(CLOCK_MONOTONIC, &ts); //= clock_gettime(CLOCK_MONOTONIC, { {number}, {number} }) = 0
  clock_getres(CLOCK_MONOTONIC, &ts);  //= clock_getres(CLOCK_MONOTONIC, { 0, 1 }) = 0
  timespec_get(&ts, TIME_UTC);         //= timespec_get({ {number}, {number} }, TIME_UTC) = 1
  nanosleep(&moment, NULL);            //= nanosleep({ 0, 1 }, nil) = 0
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);  //= clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, { 0, 1 }, nil) = 0
  sleep(0);                            //= sleep(0) = 0
  usleep(1);                           //= usleep(1) = 0
  alarm(0);                            //= alarm(0) = 0
  struct itimerval interval = {{0, 0}, {100, 0}}, old;
  setitimer(ITIMER_VIRTUAL, &interval, &old);  //= setitimer(ITIMER_VIRTUAL, { { 0, 0 }, { 100, 0 } }, { { 0, 0 }, { 0, 0 } }) = 0
  getitimer(ITIMER_PROF, &old);        //= getitimer(ITIMER_PROF, { { 0, 0 }, { 0, 0 } }) = 0
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);  //= timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC) = 3
  struct itimerspec after = {{0, 0}, {100, 0}};
  timerfd_settime(fd, 0, &after, NULL);  //= timerfd_settime(3, 0, { { 0, 0 }, { 100, 0 } }, nil) = 0
  timerfd_gettime(fd, &after);         //= timerfd_gettime(3, { { 0, 0 }, { {number}, {number} } }) = 0
}

static void dates(void) {
  time_t zero = 0;
  struct tm tm;
  tzset();                             //= tzset() = <void>
  gmtime(&zero);                       //= gmtime(0) = { 0, 0, 0, 1, 0, 70, 4, 0, 0 }
  localtime(&zero);                    //= localtime(0) = { 0, 0, 0, 1, 0, 70, 4, 0, 0 }
  localtime_r(&zero, &tm);             //= localtime_r(0, ADDR) = { 0, 0, 0, 1, 0, 70, 4, 0, 0 }
  gmtime_r(&zero, &tm);                //= gmtime_r(0, ADDR) = { 0, 0, 0, 1, 0, 70, 4, 0, 0 }
  asctime(&tm);                        //= asctime({ 0, 0, 0, 1, 0, 70, 4, 0, 0 }) = "Thu Jan  1 00:00:00 1970\n"
  ctime(&zero);                        //= ctime(0) = "Thu Jan  1 00:00:00 1970\n"
  ctime_r(&zero, buf);                 //= ctime_r(0, ADDR) = "Thu Jan  1 00:00:00 1970\n"
  strftime(buf, 32, "%F %T", &tm);     //= strftime("1970-01-01 00:00:00", 32, "%F %T", { 0, 0, 0, 1, 0, 70, 4, 0, 0 }) = 19
  tm.tm_mday = 32;
  tm.tm_wday = 0;
  mktime(&tm);                         //= mktime({ 0, 0, 0, 32, 0, 70, 0, 0, 0 } -> { 0, 0, 0, 1, 1, 70, 0, 31, 0 }) = 2678400
  timegm(&tm);                         //= timegm({ 0, 0, 0, 1, 1, 70, 0, 31, 0 }) = 2678400
  strptime("1999", "%Y", &tm);         //= strptime("1999", "%Y", { 0, 0, 0, 1, 1, 99, {number}, {number}, 0 }) = ""
  int days = dysize(2000);                     //= dysize(2000) = 366
}

static void languages(void) {
  setlocale(LC_ALL, "C");              //= setlocale(LC_ALL, "C") = "C"
  localeconv();                        //= localeconv() = ADDR
  nl_langinfo(CODESET);                //= nl_langinfo(CODESET) = "ANSI_X3.4-1968"
  nl_langinfo(RADIXCHAR);              //= nl_langinfo(RADIXCHAR) = "."
  locale_t c = newlocale(LC_ALL_MASK, "C", NULL);  //= newlocale(0x1fbf, "C", nil) = ADDR
  locale_t other = duplocale(c);       //= duplocale(ADDR) = ADDR
  uselocale(other);                    //= uselocale(ADDR) = {pointer}
  uselocale(LC_GLOBAL_LOCALE);         //= uselocale({pointer}) = ADDR
  freelocale(other);                   //= freelocale(ADDR) = <void>
  iconv_t cd = iconv_open("UTF-8", "ASCII");  //= iconv_open("UTF-8", "ASCII") = ADDR
  char in[] = "abc", *from = in, *to = buf;
  size_t left = 3, room = 16;
  iconv(cd, &from, &left, &to, &room); //= iconv(ADDR, ADDR, 3 -> 0, ADDR, 16 -> 13) = 0
  iconv_close(cd);                     //= iconv_close(ADDR) = 0
  bindtextdomain("d", "/l");           //= bindtextdomain("d", "/l") = "/l"
  textdomain("d");                     //= textdomain("d") = "d"
  gettext("hi");                       //= gettext("hi") = "hi"
  dgettext("d", "hi");                 //= dgettext("d", "hi") = "hi"
  dcgettext("d", "hi", LC_MESSAGES);   //= dcgettext("d", "hi", LC_MESSAGES) = "hi"
  ngettext("one", "many", 2);          //= ngettext("one", "many", 2) = "many"
  dngettext("d", "one", "many", 1);    //= dngettext("d", "one", "many", 1) = "one"
}

static void patterns(void) {
  regex_t regex;
  regmatch_t matches[2];
  regcomp(&regex, "a(b+)", REG_EXTENDED | REG_ICASE);  //= regcomp(ADDR, "a(b+)", REG_EXTENDED|REG_ICASE) = REG_NOERROR
  regexec(&regex, "xabb", 2, matches, 0);  //= regexec(ADDR, "xabb", 2, [ { 1, 4 }, { 2, 4 } ], 0) = REG_NOERROR
  regexec(&regex, "xyz", 0, NULL, REG_NOTBOL);  //= regexec(ADDR, "xyz", 0, nil, REG_NOTBOL) = REG_NOMATCH
  regerror(REG_NOMATCH, &regex, buf, 64);  //= regerror(REG_NOMATCH, ADDR, "No match", 64) = 9
  regfree(&regex);                     //= regfree(ADDR) = <void>
  fnmatch("*.c", "a.c", 0);            //= fnmatch("*.c", "a.c", 0) = 0
  fnmatch("*.c", "a/b.c", FNM_PATHNAME);  //= fnmatch("*.c", "a/b.c", FNM_PATHNAME) = FNM_NOMATCH
  glob_t found;
  glob("/[u]sr", GLOB_MARK, NULL, &found);  //= glob("/[u]sr", GLOB_MARK, nil, { 1, [ "/usr/" ] }) = 0
  globfree(&found);                    //= globfree(ADDR) = <void>
  glob("no*such", 0, NULL, &found);    //= glob("no*such", 0, nil, { 0, nil }) = GLOB_NOMATCH
  wordexp_t words;
  wordexp("a 'b c'", &words, WRDE_NOCMD);  //= wordexp("a 'b c'", { 2, [ "a", "b c" ] }, WRDE_NOCMD) = 0
  wordfree(&words);                    //= wordfree(ADDR) = <void>
}

static void users(void) {
  struct passwd pwd, *user;
  struct group grp, *group;
  char room[4096];
  getpwnam("root");                    //= getpwnam("root") = { "root", 0, 0, {string}, {string}, {string} }
  getpwuid(0);                         //= getpwuid(0) = { "root", 0, 0, {string}, {string}, {string} }
  getpwuid_r(0, &pwd, room, sizeof room, &user);  //= getpwuid_r(0, ADDR, ADDR, 4096, { "root", 0, 0, {string}, {string}, {string} }) = 0
  getpwnam("no such user");            //= getpwnam("no such user") = nil
  getgrgid(0);                         //= getgrgid(0) = { "root", 0, [ ] }
  getgrnam_r("root", &grp, room, sizeof room, &group);  //= getgrnam_r("root", ADDR, ADDR, 4096, { "root", 0, [ ] }) = 0
  openlog("t", LOG_PID | LOG_NDELAY, LOG_LOCAL3);  //= openlog("t", LOG_PID|LOG_NDELAY, LOG_LOCAL3) = <void>
  setlogmask(0xff);                    //= setlogmask(0xff) = 0xff
  closelog();                          //= closelog() = <void>
}

int main(void) {
  clocks();
  dates();
  languages();
  patterns();
  users();
  return 0;
}
