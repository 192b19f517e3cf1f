// stdio.h, err.h, error.h
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <error.h>
#include <printf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

static char buf[64];

static FILE *opened(void) {
  return fopen("f", "w+");             //= fopen("f", "w+") = ADDR
}

static void by_list(FILE *stream, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vfprintf(stream, format, list);        //= vfprintf(ADDR, "%d", ADDR) = 1
  va_end(list);
  va_start(list, format);
  vsprintf(buf, format, list);           //= vsprintf("7", "%d", ADDR) = 1
  va_end(list);
  va_start(list, format);
  vsnprintf(buf, 8, format, list);       //= vsnprintf("7", 8, "%d", ADDR) = 1
  va_end(list);
  char *made;
  va_start(list, format);
  vasprintf(&made, format, list);        //= vasprintf("7", "%d", ADDR) = 1
  va_end(list);
}

static void formats(FILE *stream) {
  printf("%s %c\n", "text", 'x');      //= printf("%s %c\n", "text", 'x') = 7
  fprintf(stream, "%d %s %.2f\n", 42, "text", 1.5);  //= fprintf(ADDR, "%d %s %.2f\n", 42, "text", 1.500000) = 13
  dprintf(1, "%u\n", 7);               //= dprintf(1, "%u\n", 7) = 2
  sprintf(buf, "n=%d", 42);            //= sprintf("n=42", "n=%d", 42) = 4
  snprintf(buf, 3, "%s", "hello");     //= snprintf("he", 3, "%s", "hello") = 5
  char *made;
  asprintf(&made, "%x %o %#lx", 255, 8, 4096L);  //= asprintf("ff 10 0x1000", "%x %o %#lx", 0xff, 010, 0x1000) = 12
  sprintf(buf, "%5.1f|%-4d|%*d|%.*s", 1.25, 7, 3, 9, 2, "abcdef");  //= sprintf("  1.2|7   |  9|ab", "%5.1f|%-4d|%*d|%.*s", 1.250000, 7, 3, 9, 2, "ab") = 17
  sprintf(buf, "%hhd %hd %ld %lld %zu", -1, -2, -3L, -4LL, (size_t)5);  //= sprintf("-1 -2 -3 -4 5", "%hhd %hd %ld %lld %zu", -1, -2, -3, -4, 5) = 13
  sprintf(buf, "%Lg %%", 2.5L);        //= sprintf("2.5 %", "%Lg %%", 2.500000) = 5
  sprintf(buf, "%2$s-%1$d", 1, "one"); //= sprintf("one-1", "%2$s-%1$d", 1, "one") = 5
  sprintf(buf, "%ls", L"wide");        //= sprintf("wide", "%ls", "wide") = 4
  int value, types_of_scan[1];
  sscanf("42", "%d", &value);          //= __isoc99_sscanf("42", "%d", 42) = 1
  char word[8];
  sscanf("7 seven x", "%d %7s %d", &value, word, types_of_scan);  //= __isoc99_sscanf("7 seven x", "%d %7s %d", 7, "seven", ADDR) = 2
  wchar_t wide[16];
  swprintf(wide, 16, L"%d %ls", 42, L"w");  //= swprintf("42 w", 16, "%d %ls", 42, "w") = 4
  swscanf(L"42", L"%d", &value);       //= __isoc99_swscanf("42", "%d", 42) = 1
  int types[4];
  parse_printf_format("%d %s", 4, types);  //= parse_printf_format("%d %s", 4, ADDR) = 2
}

static void characters(FILE *stream) {
  puts("line");                        //= puts("line") = {number}
  putchar('a');                        //= putchar('a') = 'a'
  putchar_unlocked('\n');              //= putchar_unlocked('\n') = '\n'
  fputs("hello\n", stream);            //= fputs("hello\n", ADDR) = {number}
  fputs_unlocked("again\n", stream);   //= fputs_unlocked("again\n", ADDR) = {number}
  fputc('x', stream);                  //= fputc('x', ADDR) = 'x'
  fputc_unlocked('y', stream);         //= fputc_unlocked('y', ADDR) = 'y'
  putc('z', stream);                   //= putc('z', ADDR) = 'z'
  fwrite("abcdef", 2, 3, stream);      //= fwrite("abcdef", 2, 3, ADDR) = 3
  fwrite_unlocked("gh", 1, 2, stream); //= fwrite_unlocked("gh", 1, 2, ADDR) = 2
  getchar();                           //= getchar() = EOF
  getc(stdin);                         //= getc(ADDR) = EOF
  rewind(stream);                      //= rewind(ADDR) = <void>
  fgetc(stream);                       //= fgetc(ADDR) = '7'
  ungetc('5', stream);                 //= ungetc('5', ADDR) = '5'
  fgets(buf, sizeof buf, stream);      //= fgets("542 text 1.50\n", 64, ADDR) = "542 text 1.50\n"
  getc_unlocked(stream);               //= getc_unlocked(ADDR) = 'h'
  char *line = NULL;
  size_t size = 0;
  getline(&line, &size, stream);       //= getline("ello\n", 0 -> {number}, ADDR) = 5
  getdelim(&line, &size, 'i', stream); //= getdelim("agai", {number}, 'i', ADDR) = 4
  fread(buf, 1, 3, stream);            //= fread("n\nx", 1, 3, ADDR) = 3
  fread_unlocked(buf, 2, 30, stream);  //= fread_unlocked("yzabcdefgh", 2, 30, ADDR) = 5
  feof(stream);                        //= feof(ADDR) = true
  ferror(stream);                      //= ferror(ADDR) = false
  clearerr(stream);                    //= clearerr(ADDR) = <void>
  fgets_unlocked(buf, 64, stream);     //= fgets_unlocked({string}, 64, ADDR) = nil
}

static void positions(FILE *stream) {
  fflush(stream);                      //= fflush(ADDR) = 0
  fseek(stream, 2, SEEK_SET);          //= fseek(ADDR, 2, SEEK_SET) = 0
  ftell(stream);                       //= ftell(ADDR) = 2
  fseeko(stream, -1, SEEK_CUR);        //= fseeko(ADDR, -1, SEEK_CUR) = 0
  ftello(stream);                      //= ftello(ADDR) = 1
  fpos_t position;
  fgetpos(stream, &position);          //= fgetpos(ADDR, ADDR) = 0
  fsetpos(stream, &position);          //= fsetpos(ADDR, ADDR) = 0
  fileno(stream);                      //= fileno(ADDR) = 3
  flockfile(stream);                   //= flockfile(ADDR) = <void>
  ftrylockfile(stream);                //= ftrylockfile(ADDR) = 0
  funlockfile(stream);                 //= funlockfile(ADDR) = <void>
  __fpending(stream);                  //= __fpending(ADDR) = 0
  __freadable(stream);                 //= __freadable(ADDR) = true
  __fwritable(stream);                 //= __fwritable(ADDR) = true
  __fsetlocking(stream, FSETLOCKING_QUERY);  //= __fsetlocking(ADDR, FSETLOCKING_QUERY) = 1
  __fpurge(stream);                    //= __fpurge(ADDR) = <void>
  fclose(stream);                      //= fclose(ADDR) = 0
}

static void others(void) {
  FILE *stream = tmpfile();            //= tmpfile() = ADDR
  setvbuf(stream, NULL, _IOFBF, 1024); //= setvbuf(ADDR, nil, _IOFBF, 1024) = 0
  setbuf(stream, NULL);                //= setbuf(ADDR, nil) = <void>
  setlinebuf(stream);                  //= setlinebuf(ADDR) = <void>
  stream = freopen("g", "w", stream);  //= freopen("g", "w", ADDR) = ADDR
  fwide(stream, 1);                    //= fwide(ADDR, 1) = 1
  fputwc(L'a', stream);                //= fputwc(0x61, ADDR) = 0x61
  fputws(L"bc", stream);               //= fputws("bc", ADDR) = {number}
  fwprintf(stream, L"%d\n", 7);        //= fwprintf(ADDR, "%d\n", 7) = 2
  stream = freopen("g", "r", stream);  //= freopen("g", "r", ADDR) = ADDR
  wchar_t wide[16];
  fgetwc(stream);                      //= fgetwc(ADDR) = 0x61
  ungetwc(L'z', stream);               //= ungetwc(0x7a, ADDR) = 0x7a
  fgetws(wide, 16, stream);            //= fgetws("zbc7\n", 16, ADDR) = "zbc7\n"
  fgetwc(stream);                      //= fgetwc(ADDR) = WEOF
  fclose(stream);                      //= fclose(ADDR) = 0
  stream = fmemopen(buf, 8, "w");      //= fmemopen(ADDR, 8, "w") = ADDR
  fclose(stream);                      //= fclose(ADDR) = 0
  char *text;
  size_t size;
  stream = open_memstream(&text, &size);  //= open_memstream(ADDR, ADDR) = ADDR
  fclose(stream);                      //= fclose(ADDR) = 0
  stream = popen("exit 2", "r");       //= popen("exit 2", "r") = ADDR
  pclose(stream);                      //= pclose(ADDR) = 512
  stream = fdopen(1, "w");             //= fdopen(1, "w") = ADDR
  fopen("no/such", "r");               //= fopen("no/such", "r") = nil ENOENT (No such file or directory)
  errno = 2;                           //= __errno_location() = ADDR
  perror("p");                         //= perror("p") = <void>
  warnx("x=%d", 1);                    //= warnx("x=%d", 1) = <void>
  warn("x=%d", 1);                     //= warn("x=%d", 1) = <void>
  error(0, 13, "m %s", "s");           //= error(0, EACCES, "m %s", "s") = <void>
  rename("g", "h");                    //= rename("g", "h") = 0
  remove("h");                         //= remove("h") = 0
  ctermid(NULL);                       //= ctermid(nil) = "/dev/tty"
  fcloseall();                         //= fcloseall() = 0
}

int main(void) {
  FILE *stream = opened();
  by_list(stream, "%d", 7);
  formats(stream);
  characters(stream);
  positions(stream);
  others();
  return 0;
}
