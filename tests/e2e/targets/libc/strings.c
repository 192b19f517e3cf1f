// string.h, strings.h, argz.h, envz.h. The lines expected are beside the calls; see libc_test.py.
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#include <argz.h>
#include <envz.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char *__xpg_basename(char *path);
extern char *dirname(char *path);
extern int __xpg_strerror_r(int errnum, char *buf, size_t size);

static char buf[64];

static void lengths_and_orders(void) {
  strlen("hello");                     //= strlen("hello") = 5
  strnlen("hello", 3);                 //= strnlen("hel", 3) = 3
  strcmp("same", "same");              //= strcmp("same", "same") = 0
  strncmp("abc", "abd", 2);            //= strncmp("ab", "ab", 2) = 0
  strcasecmp("Hello", "hELLO");        //= strcasecmp("Hello", "hELLO") = 0
  strncasecmp("Abc", "aBd", 2);        //= strncasecmp("Ab", "aB", 2) = 0
  strverscmp("v1.9", "v1.9");          //= strverscmp("v1.9", "v1.9") = 0
  strcoll("a", "a");                   //= strcoll("a", "a") = 0
  strxfrm(buf, "abc", sizeof buf);     //= strxfrm("abc", "abc", 64) = 3
  strspn("aabc", "a");                 //= strspn("aabc", "a") = 2
  strcspn("abcd", "cd");               //= strcspn("abcd", "cd") = 2
  memcmp("a\0b", "a\0b", 3);           //= memcmp("a\0b", "a\0b", 3) = 0
  bcmp("abc", "abc", 3);               //= bcmp("abc", "abc", 3) = 0
  ffs(8);                              //= ffs(0x8) = 4
  ffsl(0x100);                         //= ffsl(0x100) = 9
  ffsll(1);                            //= ffsll(0x1) = 1
  strlen("a\tb\"c\\d\001\377");        //= strlen("a\tb\"c\\d\001\377") = 9
  strlen("0123456789012345678901234567890123456789");  //= strlen("01234567890123456789012345678901"...) = 40
}

static void copies(void) {
  strcpy(buf, "hello");                //= strcpy(ADDR, "hello") = "hello"
  strncpy(buf, "worlds", 3);           //= strncpy(ADDR, "wor", 3) = "wor"
  stpcpy(buf, "abc");                  //= stpcpy(ADDR, "abc") = ADDR
  stpncpy(buf + 8, "abc", 2);          //= stpncpy(ADDR, "ab", 2) = ADDR
  strcat(buf, "def");                  //= strcat("abc", "def") = "abcdef"
  strncat(buf, "ghi", 1);              //= strncat("abcdef", "g", 1) = "abcdefg"
  memcpy(buf, "a\0b", 3);              //= memcpy(ADDR, "a\0b", 3) = ADDR
  mempcpy(buf, "hello", 5);            //= mempcpy(ADDR, "hello", 5) = ADDR
  memmove(buf, "hello", 5);            //= memmove(ADDR, "hello", 5) = ADDR
  memccpy(buf, "hello", 'l', 5);       //= memccpy(ADDR, ADDR, 'l', 5) = ADDR
  memset(buf, '*', 4);                 //= memset(ADDR, 0x2a, 4) = ADDR
  bzero(buf, 4);                       //= bzero(ADDR, 4) = <void>
  explicit_bzero(buf, 4);              //= explicit_bzero(ADDR, 4) = <void>
  bcopy("abc", buf, 3);                //= bcopy("abc", ADDR, 3) = <void>
  swab("abcd", buf, 4);                //= swab("abcd", ADDR, 4) = <void>
  strcpy(buf, "ab");                   //= strcpy(ADDR, "ab") = "ab"
  memfrob(buf, 2);                     //= memfrob("ab", 2) = ADDR
  char *copy = strdup("hello");        //= strdup("hello") = "hello"
  free(copy);                          //= free(ADDR) = <void>
  copy = strndup("hello", 2);          //= strndup("he", 2) = "he"
  free(copy);                          //= free(ADDR) = <void>
}

static void searches(void) {
  strchr("hello", 'l');                //= strchr("hello", 'l') = "llo"
  strchr("hello", 'z');                //= strchr("hello", 'z') = nil
  strchrnul("hello", 'z');             //= strchrnul("hello", 'z') = ""
  strrchr("hello", 'l');               //= strrchr("hello", 'l') = "lo"
  index("hello", 'e');                 //= index("hello", 'e') = "ello"
  rindex("hello", 'e');                //= rindex("hello", 'e') = "ello"
  strstr("haystack", "st");            //= strstr("haystack", "st") = "stack"
  strcasestr("HAYSTACK", "st");        //= strcasestr("HAYSTACK", "st") = "STACK"
  strpbrk("hello", "xl");              //= strpbrk("hello", "xl") = "llo"
  memchr("hello", 'l', 5);             //= memchr("hello", 'l', 5) = ADDR
  memrchr("hello", 'l', 5);            //= memrchr("hello", 'l', 5) = ADDR
  rawmemchr("hello", 'o');             //= rawmemchr(ADDR, 'o') = ADDR
  memmem("hello", 5, "ll", 2);         //= memmem("hello", 5, "ll", 2) = ADDR
  char list[] = "a,b";
  strtok(list, ",");                   //= strtok("a,b", ",") = "a"
  strtok(NULL, ",");                   //= strtok(nil, ",") = "b"
  char other[] = "a,b", *rest = NULL;
  strtok_r(other, ",", &rest);         //= strtok_r("a,b", ",", nil -> "b") = "a"
  char third[] = "x:y", *at = third;
  strsep(&at, ":");                    //= strsep("x:y" -> "y", ":") = "x"
  char path[] = "/usr/lib";
  basename(path);                      //= basename("/usr/lib") = "lib"
  __xpg_basename(path);                //= __xpg_basename("/usr/lib") = "lib"
  dirname(path);                       //= dirname("/usr/lib") = "/usr"
}

static void errors(void) {
  strerror(2);                         //= strerror(ENOENT) = "No such file or directory"
  strerror_r(13, buf, sizeof buf);     //= strerror_r(EACCES, ADDR, 64) = "Permission denied"
  __xpg_strerror_r(1, buf, sizeof buf);  //= __xpg_strerror_r(EPERM, "Operation not permitted", 64) = 0
  strerrorname_np(2);                  //= strerrorname_np(2) = "ENOENT"
  strerrordesc_np(13);                 //= strerrordesc_np(13) = "Permission denied"
  strsignal(2);                        //= strsignal(SIGINT) = "Interrupt"
  sigabbrev_np(15);                    //= sigabbrev_np(15) = "TERM"
  sigdescr_np(15);                     //= sigdescr_np(15) = "Terminated"
  locale_t c = newlocale(LC_ALL_MASK, "C", NULL);  //= newlocale(0x1fbf, "C", nil) = ADDR
  strerror_l(4, c);                    //= strerror_l(EINTR, ADDR) = "Interrupted system call"
  strcoll_l("a", "a", c);              //= strcoll_l("a", "a", ADDR) = 0
  strcasecmp_l("A", "a", c);           //= strcasecmp_l("A", "a", ADDR) = 0
  strncasecmp_l("Ab", "aC", 1, c);     //= strncasecmp_l("A", "a", 1, ADDR) = 0
  strxfrm_l(buf, "ab", 64, c);         //= strxfrm_l("ab", "ab", 64, ADDR) = 2
}

static void vectors(void) {
  char *argz, *envz = NULL;
  size_t size, envsize = 0;
  argz_create_sep("a:b", ':', &argz, &size);  //= argz_create_sep("a:b", ':', ADDR, 4) = 0
  argz_count(argz, size);              //= argz_count("a\0b\0", 4) = 2
  argz_add(&argz, &size, "c");         //= argz_add(ADDR, 4 -> 6, "c") = 0
  argz_append(&argz, &size, "d", 2);   //= argz_append(ADDR, 6 -> 8, "d\0", 2) = 0
  argz_next(argz, size, NULL);         //= argz_next("a\0b\0c\0d\0", 8, nil) = "a"
  argz_delete(&argz, &size, argz);     //= argz_delete(ADDR, 8 -> 6, "a") = <void>
  argz_stringify(argz, size, ',');     //= argz_stringify("b\0c\0d\0", 6, ',') = <void>
  envz_add(&envz, &envsize, "A", "1");  //= envz_add(ADDR, 0 -> 4, "A", "1") = 0
  envz_get(envz, envsize, "A");        //= envz_get("A=1\0", 4, "A") = "1"
  envz_entry(envz, envsize, "A");      //= envz_entry("A=1\0", 4, "A") = "A=1"
  envz_remove(&envz, &envsize, "A");   //= envz_remove(ADDR, 4 -> 0, "A") = <void>
}

int main(void) {
  lengths_and_orders();
  copies();
  searches();
  errors();
  vectors();
  return 0;
}
