// ctype.h, wchar.h, wctype.h, uchar.h
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#define __NO_CTYPE
#include <ctype.h>
#include <locale.h>
#include <stdlib.h>
#include <time.h>
#include <uchar.h>
#include <wchar.h>
#include <wctype.h>

static wchar_t wide[16];
static char narrow[16];

static void classes(void) {
  (isalnum)('a');  //= isalnum('a') = true
  (isalpha)('1');  //= isalpha('1') = false
  (isblank)(' ');  //= isblank(' ') = true
  (iscntrl)('\n'); //= iscntrl('\n') = true
  (isdigit)('7');  //= isdigit('7') = true
  (isgraph)(' ');  //= isgraph(' ') = false
  (islower)('a');  //= islower('a') = true
  (isprint)('a');  //= isprint('a') = true
  (ispunct)('.');  //= ispunct('.') = true
  (isspace)('\t'); //= isspace('\t') = true
  (isupper)('a');  //= isupper('a') = false
  (isxdigit)('f'); //= isxdigit('f') = true
  (isascii)(200);  //= isascii(200) = false
  (toascii)(200);  //= toascii(200) = 72
  (tolower)('A');  //= tolower('A') = 'a'
  (toupper)('a');  //= toupper('a') = 'A'
  iswalnum(L'a');  //= iswalnum(0x61) = true
  iswalpha(L'1');  //= iswalpha(0x31) = false
  iswblank(L' ');  //= iswblank(0x20) = true
  iswcntrl(L'\n'); //= iswcntrl(0xa) = true
  iswdigit(L'7');  //= iswdigit(0x37) = true
  iswgraph(L' ');  //= iswgraph(0x20) = false
  iswlower(L'a');  //= iswlower(0x61) = true
  iswprint(L'a');  //= iswprint(0x61) = true
  iswpunct(L'.');  //= iswpunct(0x2e) = true
  iswspace(L' ');  //= iswspace(0x20) = true
  iswupper(L'a');  //= iswupper(0x61) = false
  iswxdigit(WEOF); //= iswxdigit(WEOF) = false
  towlower(L'A');  //= towlower(0x41) = 0x61
  towupper(L'a');  //= towupper(0x61) = 0x41
  wctype_t alpha = wctype("alpha");         //= wctype("alpha") = ADDR
  iswctype(L'a', alpha);                    //= iswctype(0x61, ADDR) = true
  wctrans_t lower = wctrans("tolower");     //= wctrans("tolower") = ADDR
  towctrans(L'A', lower);                   //= towctrans(0x41, ADDR) = 0x61
  locale_t c = newlocale(LC_ALL_MASK, "C", NULL);  //= newlocale(0x1fbf, "C", nil) = ADDR
  (isalpha_l)('a', c);                      //= isalpha_l('a', ADDR) = true
  (toupper_l)('a', c);                      //= toupper_l('a', ADDR) = 'A'
  iswalpha_l(L'a', c);                      //= iswalpha_l(0x61, ADDR) = true
  towupper_l(L'a', c);                      //= towupper_l(0x61, ADDR) = 0x41
}

static void strings(void) {
  wcslen(L"hello");                    //= wcslen("hello") = 5
  wcsnlen(L"hello", 3);                //= wcsnlen("hel", 3) = 3
  wcscmp(L"a", L"a");                  //= wcscmp("a", "a") = 0
  wcsncmp(L"abc", L"abd", 2);          //= wcsncmp("ab", "ab", 2) = 0
  wcscasecmp(L"A", L"a");              //= wcscasecmp("A", "a") = 0
  wcsncasecmp(L"Ab", L"aC", 1);        //= wcsncasecmp("A", "a", 1) = 0
  wcscoll(L"a", L"a");                 //= wcscoll("a", "a") = 0
  wcsxfrm(wide, L"ab", 16);            //= wcsxfrm("ab", "ab", 16) = 2
  wcscpy(wide, L"abc");                //= wcscpy(ADDR, "abc") = "abc"
  wcsncpy(wide, L"xyz", 2);            //= wcsncpy(ADDR, "xy", 2) = "xy"
  wcpcpy(wide, L"abc");                //= wcpcpy(ADDR, "abc") = ADDR
  wcpncpy(wide + 8, L"abc", 2);        //= wcpncpy(ADDR, "ab", 2) = ADDR
  wcscat(wide, L"d");                  //= wcscat("abc", "d") = "abcd"
  wcsncat(wide, L"ef", 1);             //= wcsncat("abcd", "e", 1) = "abcde"
  wchar_t *copy = wcsdup(L"abc");      //= wcsdup("abc") = "abc"
  free(copy);                          //= free(ADDR) = <void>
  wcschr(L"hello", L'l');              //= wcschr("hello", 0x6c) = "llo"
  wcschrnul(L"hello", L'z');           //= wcschrnul("hello", 0x7a) = ""
  wcsrchr(L"hello", L'l');             //= wcsrchr("hello", 0x6c) = "lo"
  wcsstr(L"haystack", L"st");          //= wcsstr("haystack", "st") = "stack"
  wcspbrk(L"hello", L"xl");            //= wcspbrk("hello", "xl") = "llo"
  wcsspn(L"aab", L"a");                //= wcsspn("aab", "a") = 2
  wcscspn(L"abc", L"c");               //= wcscspn("abc", "c") = 2
  wchar_t list[] = L"a,b", *rest = NULL;
  wcstok(list, L",", &rest);           //= wcstok("a,b", ",", nil -> "b") = "a"
  wcswidth(L"ab", 2);                  //= wcswidth("ab", 2) = 2
  wcwidth(L'a');                       //= wcwidth(0x61) = 1
  wmemcpy(wide, L"ab", 2);             //= wmemcpy(ADDR, [ 0x61, 0x62 ], 2) = ADDR
  wmempcpy(wide, L"ab", 2);            //= wmempcpy(ADDR, [ 0x61, 0x62 ], 2) = ADDR
  wmemmove(wide, L"ab", 2);            //= wmemmove(ADDR, [ 0x61, 0x62 ], 2) = ADDR
  wmemset(wide, L'x', 3);              //= wmemset(ADDR, 0x78, 3) = ADDR
  wmemcmp(L"ab", L"ab", 2);            //= wmemcmp([ 0x61, 0x62 ], [ 0x61, 0x62 ], 2) = 0
  wmemchr(L"ab", L'b', 2);             //= wmemchr([ 0x61, 0x62 ], 0x62, 2) = ADDR
  wcslen(L"01234567890123456789012345678901234567");  //= wcslen("01234567890123456789012345678901"...) = 38
  wcslen(L"\u00e4");                   //= wcslen("\303\244") = 1
}

static void numbers(void) {
  wchar_t *end;
  wcstol(L"42x", &end, 10);            //= wcstol("42x", "x", 10) = 42
  wcstoul(L"42x", &end, 10);           //= wcstoul("42x", "x", 10) = 42
  wcstoll(L"-7", &end, 0);             //= wcstoll("-7", "", 0) = -7
  wcstoull(L"0x1f", NULL, 0);          //= wcstoull("0x1f", nil, 0) = 31
  wcstof(L"1.5", &end);                //= wcstof("1.5", "") = 1.500000
  wcstod(L"1.5e3z", &end);             //= wcstod("1.5e3z", "z") = 1500.000000
  wcstold(L"2.5", &end);               //= wcstold("2.5", "") = 2.500000
}

static void conversions(void) {
  mbstate_t state = {0};
  wchar_t wc;
  char16_t c16;
  char32_t c32;
  const char *text = "abc";
  const wchar_t *wtext = L"abc";
  btowc('a');                          //= btowc('a') = 0x61
  wctob(L'a');                         //= wctob(0x61) = 'a'
  wctob(WEOF);                         //= wctob(WEOF) = EOF
  mblen("a", 1);                       //= mblen("a", 1) = 1
  mbrlen("a", 1, &state);              //= mbrlen("a", 1, ADDR) = 1
  mbsinit(&state);                     //= mbsinit(ADDR) = true
  mbtowc(&wc, "a", 1);                 //= mbtowc(0x61, "a", 1) = 1
  mbrtowc(&wc, "b", 1, &state);        //= mbrtowc(0x62, "b", 1, ADDR) = 1
  wctomb(narrow, L'a');                //= wctomb("a", 0x61) = 1
  wcrtomb(narrow, L'b', &state);       //= wcrtomb("b", 0x62, ADDR) = 1
  mbstowcs(wide, "abc", 16);           //= mbstowcs("abc", "abc", 16) = 3
  wcstombs(narrow, L"abc", 16);        //= wcstombs("abc", "abc", 16) = 3
  mbsrtowcs(wide, &text, 16, &state);  //= mbsrtowcs("abc", "abc", 16, ADDR) = 3
  wcsrtombs(narrow, &wtext, 16, &state);  //= wcsrtombs("abc", "abc", 16, ADDR) = 3
  mbrtoc16(&c16, "a", 1, &state);      //= mbrtoc16(0x61, "a", 1, ADDR) = 1
  c16rtomb(narrow, u'a', &state);      //= c16rtomb("a", 0x61, ADDR) = 1
  mbrtoc32(&c32, "a", 1, &state);      //= mbrtoc32(0x61, "a", 1, ADDR) = 1
  c32rtomb(narrow, U'a', &state);      //= c32rtomb("a", 0x61, ADDR) = 1
  struct tm tm = {.tm_mday = 1, .tm_year = 70, .tm_wday = 4};
  wcsftime(wide, 16, L"%Y", &tm);      //= wcsftime("1970", 16, "%Y", { 0, 0, 0, 1, 0, 70, 4, 0, 0 }) = 4
}

int main(void) {
  classes();
  strings();
  numbers();
  conversions();
  return 0;
}
