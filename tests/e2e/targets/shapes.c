/* A function for each shape that the psABI (3.2.3) passes in its own way: it takes one between two integers
   and returns it. The debug information of both compilers describes them; shapes_test.py has the lines. Built
   without optimization, so that every value is where the psABI says. */
#include <complex.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>

volatile int sink;

typedef void (*caller)(void);
#define CALL(name) static caller pointer_##name __attribute__((used, section("callers"))) = call_##name;

#define SHAPE(name, type, ...)               \
  type name(int before, type v, int after) { \
    sink = before + after;                   \
    return v;                                \
  }                                          \
  static void call_##name(void) {            \
    static const type value = __VA_ARGS__;   \
    name(1, value, 2);                       \
  }                                          \
  CALL(name)

#define ORDER(name, parameters, ...) \
  void name parameters {             \
    sink = 1;                        \
  }                                  \
  static void call_##name(void) {    \
    name(__VA_ARGS__);               \
  }                                  \
  CALL(name)

typedef float v4f __attribute__((vector_size(16)));
typedef long v2l __attribute__((vector_size(16)));
typedef float v2f __attribute__((vector_size(8)));
typedef signed char v16c __attribute__((vector_size(16)));
typedef __int128 wide;
typedef unsigned __int128 uwide;
enum color { RED, GREEN = 3 };

SHAPE(t_bool, _Bool, 1)
SHAPE(t_char, char, 'x')
SHAPE(t_schar, signed char, -5)
SHAPE(t_uchar, unsigned char, 200)
SHAPE(t_short, short, -300)
SHAPE(t_ushort, unsigned short, 60000)
SHAPE(t_int, int, -70000)
SHAPE(t_uint, unsigned, 4000000000u)
SHAPE(t_long, long, -5000000000)
SHAPE(t_ulong, unsigned long, 18446744073709551615ul)
SHAPE(t_float, float, 1.5f)
SHAPE(t_double, double, -2.25)
SHAPE(t_longdouble, long double, 3.75L)
SHAPE(t_int128, wide, -((wide)1 << 100))
SHAPE(t_int128_small, wide, -7)
SHAPE(t_uint128, uwide, ~(uwide)0)
SHAPE(t_cfloat, float complex, 1.0f + 2.0f * _Complex_I)
SHAPE(t_cdouble, double complex, 3.0 + 4.0 * _Complex_I)
SHAPE(t_clongdouble, long double complex, 5.0L + 6.0L * _Complex_I)
SHAPE(t_v4f, v4f, {1, 2, 3, 4})
SHAPE(t_v2l, v2l, {-1, 2})
SHAPE(t_v2f, v2f, {1, 2})
SHAPE(t_v16c, v16c, {1, 2, 3, -4})
SHAPE(t_enum, enum color, GREEN)

#define STRUCT(name, members, ...) \
  struct s_##name members;         \
  SHAPE(h_##name, struct s_##name, __VA_ARGS__)
#define UNION(name, members, ...) \
  union s_##name members;         \
  SHAPE(h_##name, union s_##name, __VA_ARGS__)
#define PACKED(name, members, ...)                 \
  struct __attribute__((packed)) s_##name members; \
  SHAPE(h_##name, struct s_##name, __VA_ARGS__)

STRUCT(one_int, { int a; }, {1})
STRUCT(one_char, { char a; }, {'a'})
STRUCT(char_short,
       {
         char a;
         short b;
       },
       {'a', 2})
STRUCT(three_chars, { unsigned char a[3]; }, {{1, 2, 3}})
STRUCT(three_ints,
       {
         int a;
         int b;
         int c;
       },
       {1, 2, 3})
STRUCT(two_longs,
       {
         long a;
         long b;
       },
       {1, 2})
STRUCT(one_float, { float a; }, {1})
STRUCT(two_floats,
       {
         float a;
         float b;
       },
       {1, 2})
STRUCT(three_floats,
       {
         float a;
         float b;
         float c;
       },
       {1, 2, 3})
STRUCT(four_floats,
       {
         float a;
         float b;
         float c;
         float d;
       },
       {1, 2, 3, 4})
STRUCT(one_double, { double a; }, {1})
STRUCT(two_doubles,
       {
         double a;
         double b;
       },
       {1, 2})
STRUCT(double_long,
       {
         double a;
         long b;
       },
       {1, 2})
STRUCT(long_double,
       {
         long a;
         double b;
       },
       {1, 2})
STRUCT(float_int,
       {
         float a;
         int b;
       },
       {1, 2})
STRUCT(int_float_double,
       {
         int a;
         float b;
         double c;
       },
       {1, 2, 3})
STRUCT(double_float_int,
       {
         double a;
         float b;
         int c;
       },
       {1, 2, 3})
STRUCT(float_double,
       {
         float a;
         double b;
       },
       {1, 2})
STRUCT(chars16, { char a[16]; }, {"fifteen letters"})
STRUCT(chars17, { char a[17]; }, {"sixteen letters!"})
STRUCT(three_longs,
       {
         long a;
         long b;
         long c;
       },
       {1, 2, 3})
STRUCT(longdouble, { long double a; }, {1})
STRUCT(longdouble_int,
       {
         long double a;
         int b;
       },
       {1, 2})
STRUCT(nested,
       {
         struct {
           float a;
           float b;
         } x;
         struct {
           int c;
           int d;
         } y;
       },
       {{1, 2}, {3, 4}})
STRUCT(shorts, { short a[4]; }, {{1, 2, 3, 4}})
STRUCT(doubles, { double a[2]; }, {{1, 2}})
STRUCT(cfloat, { float complex a; }, {1.0f + 2.0f * _Complex_I})
STRUCT(vector, { v4f a; }, {{1, 2, 3, 4}})
STRUCT(vector_int,
       {
         v4f a;
         int b;
       },
       {{1, 2, 3, 4}, 5})
STRUCT(int128, { wide a; }, {-1})
STRUCT(char_int128,
       {
         char a;
         wide b;
       },
       {'a', 2})
STRUCT(aligned, { long a __attribute__((aligned(16))); }, {1})
STRUCT(pointer_length,
       {
         const char* a;
         size_t b;
       },
       {"text", 4})
STRUCT(flexible,
       {
         int a;
         int tail[];
       },
       {1})
STRUCT(bits,
       {
         unsigned a : 3;
         int b : 5;
       },
       {5, -3})
STRUCT(bits_long,
       {
         long a : 40;
         int b : 20;
         short c;
       },
       {-1, 2, 3})
STRUCT(bits_floats,
       {
         float a;
         int : 0;
         float b;
       },
       {1, 2})
STRUCT(function,
       {
         int (*a)(int);
         int b;
       },
       {NULL, 2})
PACKED(packed_int,
       {
         char a;
         int b;
       },
       {'a', 2})
PACKED(packed_chars,
       {
         char a;
         char b[4];
       },
       {'a', "bcd"})
PACKED(packed_bits,
       {
         unsigned a : 5;
         unsigned b : 30;
       },
       {1, 1000000})
PACKED(packed_longdouble,
       {
         char a;
         long double b;
       },
       {'a', 2})
UNION(int_or_float,
      {
        int a;
        float b;
      },
      {1065353216})
UNION(float_or_double,
      {
        double b;
        float a;
      },
      {1})
UNION(long_or_double,
      {
        long a;
        double b;
      },
      {1})
UNION(longdouble_or_longs,
      {
        long a[2];
        long double b;
      },
      {{LONG_MIN, 16383}})
UNION(longdouble_or_double,
      {
        double a;
        long double b;
      },
      {1})
UNION(chars20,
      {
        char a[20];
        int b;
      },
      {"nineteen letters!!!"})

ORDER(o_seven, (int a, int b, int c, int d, int e, int f, int g), 1, 2, 3, 4, 5, 6, 7)
ORDER(o_doubles, (double a, double b, double c, double d, double e, double f, double g, double h, double i),
      1, 2, 3, 4, 5, 6, 7, 8, 9)
ORDER(o_pair_does_not_fit, (int a, int b, int c, int d, int e, struct s_two_longs f, int g), 1, 2, 3, 4, 5,
      (struct s_two_longs){6, 7}, 8)
ORDER(o_mixed_does_not_fit,
      (double a, double b, double c, double d, double e, double f, double g, double h, struct s_double_long i,
       int j),
      1, 2, 3, 4, 5, 6, 7, 8, (struct s_double_long){9, 10}, 11)
ORDER(o_wide_on_stack, (int a, int b, int c, int d, int e, wide f, wide g, int h, int i), 1, 2, 3, 4, 5, 6, 7,
      8, 9)
ORDER(o_memory_between, (int a, struct s_three_longs b, int c, long double d, double e, int f), 1,
      (struct s_three_longs){2, 3, 4}, 5, 6, 7, 8)
ORDER(o_packed_behind_stack,
      (int a, int b, int c, int d, int e, int f, int g, struct s_packed_longdouble h, int i), 1, 2, 3, 4, 5,
      6, 7, (struct s_packed_longdouble){'h', 8}, 9)

struct s_nothing {};
ORDER(o_nothing, (int a, struct s_nothing b, int c), 1, (struct s_nothing){}, 2)

int v_sum(int count, ...) {
  va_list list;
  va_start(list, count);
  double sum = va_arg(list, double) + va_arg(list, int);
  va_end(list);
  return (int)sum;
}
static void call_v_sum(void) {
  v_sum(2, 1.5, 2);
}
CALL(v_sum)

#ifdef __AVX__
typedef double v4d __attribute__((vector_size(32)));
SHAPE(t_v4d, v4d, {1, 2, 3, 4})
STRUCT(wide_vector, { v4d a; }, {{1, 2, 3, 4}})
#endif

extern caller __start_callers[], __stop_callers[];
int main(void) {
  for (caller* each = __start_callers; each != __stop_callers; ++each) (*each)();
  return 0;
}
