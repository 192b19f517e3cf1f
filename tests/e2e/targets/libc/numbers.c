// stdlib.h, search.h, malloc.h, getopt.h, inttypes.h: numbers, memory, the environment, tables
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#define __STDC_WANT_IEC_60559_BFP_EXT__ 1
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static char buf[64];

static void from_text(void) {
  char *end;
  atoi("42");                          //= atoi("42") = 42
  atol("-42");                         //= atol("-42") = -42
  atoll("42");                         //= atoll("42") = 42
  atof("1.5");                         //= atof("1.5") = 1.500000
  strtol("42x", &end, 10);             //= strtol("42x", "x", 10) = 42
  strtoul("0x1f", &end, 0);            //= strtoul("0x1f", "", 0) = 31
  strtoll("-7", NULL, 10);             //= strtoll("-7", nil, 10) = -7
  strtoull("7", &end, 8);              //= strtoull("7", "", 8) = 7
  strtoimax("z", &end, 36);            //= strtoimax("z", "", 36) = 35
  strtoumax("8", &end, 8);             //= strtoumax("8", "8", 8) = 0
  strtof("1.5x", &end);                //= strtof("1.5x", "x") = 1.500000
  strtod("-1e3", &end);                //= strtod("-1e3", "") = -1000.000000
  strtold("2.5", &end);                //= strtold("2.5", "") = 2.500000
  a64l("/");                           //= a64l("/") = 1
  l64a(1);                             //= l64a(1) = "/"
  strfromd(buf, 16, "%.2f", 1.5);      //= strfromd("1.50", 16, "%.2f", 1.500000) = 4
  strfromf(buf, 16, "%.1f", 2.5f);     //= strfromf("2.5", 16, "%.1f", 2.500000) = 3
  strfroml(buf, 16, "%.1f", 3.5L);     //= strfroml("3.5", 16, "%.1f", 3.500000) = 3
  int point, sign;
  ecvt(-1.5, 3, &point, &sign);        //= ecvt(-1.500000, 3, 1, 1) = "150"
  fcvt(1.5, 2, &point, &sign);         //= fcvt(1.500000, 2, 1, 0) = "150"
  gcvt(1.5, 3, buf);                   //= gcvt(1.500000, 3, ADDR) = "1.5"
}

static void arithmetic(void) {
  long abs_of = abs(-5);                          //= abs(-5) = 5
  long labs_of = labs(-5);                         //= labs(-5) = 5
  long llabs_of = llabs(-5);                        //= llabs(-5) = 5
  long imaxabs_of = imaxabs(-5);                      //= imaxabs(-5) = 5
  div_t div_of = div(7, 2);                        //= div(7, 2) = { 3, 1 }
  ldiv_t ldiv_of = ldiv(-7, 2);                      //= ldiv(-7, 2) = { -3, -1 }
  lldiv_t lldiv_of = lldiv(7, 2);                      //= lldiv(7, 2) = { 3, 1 }
  imaxdiv_t imaxdiv_of = imaxdiv(7, 2);                    //= imaxdiv(7, 2) = { 3, 1 }
  srand(1);                            //= srand(1) = <void>
  rand();                              //= rand() = {number}
  unsigned seed = 5;
  rand_r(&seed);                       //= rand_r(5 -> {number}) = {number}
  srandom(1);                          //= srandom(1) = <void>
  random();                            //= random() = {number}
  srand48(1);                          //= srand48(1) = <void>
  drand48();                           //= drand48() = 0.{number}
  lrand48();                           //= lrand48() = {number}
  mrand48();                           //= mrand48() = {number}
  getrandom(buf, 0, GRND_NONBLOCK);    //= getrandom("", 0, GRND_NONBLOCK) = 0
  getentropy(buf, 8);                  //= getentropy(ADDR, 8) = 0
  arc4random();                        //= arc4random() = {number}
  arc4random_uniform(1);               //= arc4random_uniform(1) = 0
  arc4random_buf(buf, 4);              //= arc4random_buf(ADDR, 4) = <void>
}

static void memory(void) {
  char *block = malloc(10);            //= malloc(10) = ADDR
  block = realloc(block, 20);          //= realloc(ADDR, 20) = ADDR
  block = reallocarray(block, 5, 8);   //= reallocarray(ADDR, 5, 8) = ADDR
  malloc_usable_size(block);           //= malloc_usable_size(ADDR) = 40
  free(block);                         //= free(ADDR) = <void>
  free(NULL);                          //= free(nil) = <void>
  block = calloc(3, 4);                //= calloc(3, 4) = ADDR
  free(block);                         //= free(ADDR) = <void>
  block = aligned_alloc(64, 128);      //= aligned_alloc(64, 128) = ADDR
  block = memalign(32, 8);             //= memalign(32, 8) = ADDR
  block = valloc(8);                   //= valloc(8) = ADDR
  block = pvalloc(8);                  //= pvalloc(8) = ADDR
  void *aligned = NULL;
  posix_memalign(&aligned, 64, 8);     //= posix_memalign(ADDR, 64, 8) = 0
  posix_memalign(&aligned, 3, 8);      //= posix_memalign(ADDR, 3, 8) = EINVAL
  mallopt(M_MXFAST, 64);               //= mallopt(M_MXFAST, 64) = true
  malloc_trim(0);                      //= malloc_trim(0) = {word}
  sbrk(0);                             //= sbrk(0) = ADDR
}

static void environment(void) {
  getenv("LC_ALL");                    //= getenv("LC_ALL") = "C"
  getenv("RTRACE_NO_SUCH");            //= getenv("RTRACE_NO_SUCH") = nil
  setenv("A", "1", 1);                 //= setenv("A", "1", true) = 0
  secure_getenv("A");                  //= secure_getenv("A") = "1"
  unsetenv("A");                       //= unsetenv("A") = 0
  static char assignment[] = "B=2";
  putenv(assignment);                  //= putenv("B=2") = 0
  realpath("/../", NULL);              //= realpath("/../", nil) = "/"
  canonicalize_file_name("/..");       //= canonicalize_file_name("/..") = "/"
  system("exit 3");                    //= system("exit 3") = 768
  char options[] = "ro,size=5", *at = options, *value;
  char *const names[] = {"ro", "size", NULL};
  getsubopt(&at, names, &value);       //= getsubopt("ro,size=5" -> "size=5", [ "ro", "size" ], nil) = 0
  getsubopt(&at, names, &value);       //= getsubopt("size=5" -> "", [ "ro", "size" ], "5") = 1
  char *words[] = {"prog", "-a", "rest", NULL};
  getopt(3, words, "a");               //= getopt(3, [ "prog", "-a", "rest" ], "a") = 'a'
  getopt(3, words, "a");               //= getopt(3, [ "prog", "-a", "rest" ], "a") = EOF
  optind = 0;
  char *more[] = {"prog", "--all", NULL};
  struct option all[] = {{"all", no_argument, NULL, 500}, {0}};
  getopt_long(2, more, "", all, NULL); //= getopt_long(2, [ "prog", "--all" ], "", ADDR, nil) = 500
  rpmatch("yes");                      //= rpmatch("yes") = 1
  char name[] = "fXXXXXX";
  mkstemp(name);                       //= mkstemp("fXXXXXX" -> {string}) = 3
  char folder[] = "dXXXXXX";
  mkdtemp(folder);                     //= mkdtemp(ADDR) = {string}
  confstr(_CS_PATH, buf, sizeof buf);  //= confstr(_CS_PATH, "/bin:/usr/bin", 64) = 14
}

static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void visit(const void *node, VISIT which, int depth) { (void)node, (void)which, (void)depth; }

static void tables(void) {
  int values[4] = {3, 1, 2}, key = 2;
  size_t count = 3;
  qsort(values, 3, sizeof(int), order);             //= qsort(ADDR, 3, 4, ADDR) = <void>
  bsearch(&key, values, 3, sizeof(int), order);     //= bsearch(ADDR, ADDR, 3, 4, ADDR) = ADDR
  lfind(&key, values, &count, sizeof(int), order);  //= lfind(ADDR, ADDR, 3, 4, ADDR) = ADDR
  key = 9;
  lsearch(&key, values, &count, sizeof(int), order);  //= lsearch(ADDR, ADDR, 3 -> 4, 4, ADDR) = ADDR
  hcreate(10);                                      //= hcreate(10) = 1
  ENTRY entry = {"key", NULL};
  hsearch(entry, ENTER);                            //= hsearch({ "key", nil }, ENTER) = { "key", nil }
  hdestroy();                                       //= hdestroy() = <void>
  void *root = NULL;
  tsearch(&key, &root, order);                      //= tsearch(ADDR, ADDR, ADDR) = ADDR
  tfind(&key, &root, order);                        //= tfind(ADDR, ADDR, ADDR) = ADDR
  twalk(root, visit);                               //= twalk(ADDR, ADDR) = <void>
  tdelete(&key, &root, order);                      //= tdelete(ADDR, ADDR, ADDR) = ADDR
  struct { void *next, *prev; } first = {0}, second = {0};
  insque(&first, NULL);                             //= insque(ADDR, nil) = <void>
  insque(&second, &first);                          //= insque(ADDR, ADDR) = <void>
  remque(&second);                                  //= remque(ADDR) = <void>
}

int main(void) {
  from_text();
  arithmetic();
  memory();
  environment();
  tables();
  return 0;
}
