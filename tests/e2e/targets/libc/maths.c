// math.h, complex.h, fenv.h
// Each expected line stands behind its call.
// clang-format off
#define _GNU_SOURCE
#include <complex.h>
#include <fenv.h>
#include <math.h>

// Not known to the compiler, or it would work them out itself.
static volatile double one = 1, two = 2, four = 4, half = 0.5, zero = 0, odd = 2.6;
static volatile float onef = 1, fourf = 4, oddf = 2.6f, zerof = 0;
// And the results are used, or it would leave out the calls.
static volatile long double number;
static volatile long double complex pair;
static volatile long double onel = 1, fourl = 4, oddl = 2.5L, zerol = 0;

static void of_one_argument(void) {
  number = sqrt(four);                           //= sqrt(4.000000) = 2.000000
  number = sqrtf(fourf);                         //= sqrtf(4.000000) = 2.000000
  number = sqrtl(fourl);                         //= sqrtl(4.000000) = 2.000000
  number = cbrt(four);                           //= cbrt(4.000000) = 1.587401
  number = cbrtf(fourf);                         //= cbrtf(4.000000) = 1.587401
  number = cbrtl(fourl);                         //= cbrtl(4.000000) = 1.587401
  number = exp2(four);                           //= exp2(4.000000) = 16.000000
  number = exp2f(fourf);                         //= exp2f(4.000000) = 16.000000
  number = exp2l(fourl);                         //= exp2l(4.000000) = 16.000000
  number = log2(four);                           //= log2(4.000000) = 2.000000
  number = log2f(fourf);                         //= log2f(4.000000) = 2.000000
  number = log2l(fourl);                         //= log2l(4.000000) = 2.000000
  number = fabs(four);                           //= fabs(4.000000) = 4.000000
  number = fabsf(fourf);                         //= fabsf(4.000000) = 4.000000
  number = fabsl(fourl);                         //= fabsl(4.000000) = 4.000000
  number = tgamma(four);                         //= tgamma(4.000000) = 6.000000
  number = tgammaf(fourf);                       //= tgammaf(4.000000) = 6.000000
  number = tgammal(fourl);                       //= tgammal(4.000000) = 6.000000
  number = logb(four);                           //= logb(4.000000) = 2.000000
  number = logbf(fourf);                         //= logbf(4.000000) = 2.000000
  number = logbl(fourl);                         //= logbl(4.000000) = 2.000000
  number = sin(zero);                            //= sin(0.000000) = 0.000000
  number = sinf(zerof);                          //= sinf(0.000000) = 0.000000
  number = sinl(zerol);                          //= sinl(0.000000) = 0.000000
  number = tan(zero);                            //= tan(0.000000) = 0.000000
  number = tanf(zerof);                          //= tanf(0.000000) = 0.000000
  number = tanl(zerol);                          //= tanl(0.000000) = 0.000000
  number = asin(zero);                           //= asin(0.000000) = 0.000000
  number = asinf(zerof);                         //= asinf(0.000000) = 0.000000
  number = asinl(zerol);                         //= asinl(0.000000) = 0.000000
  number = atan(zero);                           //= atan(0.000000) = 0.000000
  number = atanf(zerof);                         //= atanf(0.000000) = 0.000000
  number = atanl(zerol);                         //= atanl(0.000000) = 0.000000
  number = sinh(zero);                           //= sinh(0.000000) = 0.000000
  number = sinhf(zerof);                         //= sinhf(0.000000) = 0.000000
  number = sinhl(zerol);                         //= sinhl(0.000000) = 0.000000
  number = tanh(zero);                           //= tanh(0.000000) = 0.000000
  number = tanhf(zerof);                         //= tanhf(0.000000) = 0.000000
  number = tanhl(zerol);                         //= tanhl(0.000000) = 0.000000
  number = asinh(zero);                          //= asinh(0.000000) = 0.000000
  number = asinhf(zerof);                        //= asinhf(0.000000) = 0.000000
  number = asinhl(zerol);                        //= asinhl(0.000000) = 0.000000
  number = atanh(zero);                          //= atanh(0.000000) = 0.000000
  number = atanhf(zerof);                        //= atanhf(0.000000) = 0.000000
  number = atanhl(zerol);                        //= atanhl(0.000000) = 0.000000
  number = erf(zero);                            //= erf(0.000000) = 0.000000
  number = erff(zerof);                          //= erff(0.000000) = 0.000000
  number = erfl(zerol);                          //= erfl(0.000000) = 0.000000
  number = expm1(zero);                          //= expm1(0.000000) = 0.000000
  number = expm1f(zerof);                        //= expm1f(0.000000) = 0.000000
  number = expm1l(zerol);                        //= expm1l(0.000000) = 0.000000
  number = log1p(zero);                          //= log1p(0.000000) = 0.000000
  number = log1pf(zerof);                        //= log1pf(0.000000) = 0.000000
  number = log1pl(zerol);                        //= log1pl(0.000000) = 0.000000
  number = cos(zero);                            //= cos(0.000000) = 1.000000
  number = cosf(zerof);                          //= cosf(0.000000) = 1.000000
  number = cosl(zerol);                          //= cosl(0.000000) = 1.000000
  number = cosh(zero);                           //= cosh(0.000000) = 1.000000
  number = coshf(zerof);                         //= coshf(0.000000) = 1.000000
  number = coshl(zerol);                         //= coshl(0.000000) = 1.000000
  number = exp(zero);                            //= exp(0.000000) = 1.000000
  number = expf(zerof);                          //= expf(0.000000) = 1.000000
  number = expl(zerol);                          //= expl(0.000000) = 1.000000
  number = erfc(zero);                           //= erfc(0.000000) = 1.000000
  number = erfcf(zerof);                         //= erfcf(0.000000) = 1.000000
  number = erfcl(zerol);                         //= erfcl(0.000000) = 1.000000
  number = j0(zero);                             //= j0(0.000000) = 1.000000
  number = j0f(zerof);                           //= j0f(0.000000) = 1.000000
  number = j0l(zerol);                           //= j0l(0.000000) = 1.000000
  number = acos(one);                            //= acos(1.000000) = 0.000000
  number = acosf(onef);                          //= acosf(1.000000) = 0.000000
  number = acosl(onel);                          //= acosl(1.000000) = 0.000000
  number = acosh(one);                           //= acosh(1.000000) = 0.000000
  number = acoshf(onef);                         //= acoshf(1.000000) = 0.000000
  number = acoshl(onel);                         //= acoshl(1.000000) = 0.000000
  number = log(one);                             //= log(1.000000) = 0.000000
  number = logf(onef);                           //= logf(1.000000) = 0.000000
  number = logl(onel);                           //= logl(1.000000) = 0.000000
  number = log10(one);                           //= log10(1.000000) = 0.000000
  number = log10f(onef);                         //= log10f(1.000000) = 0.000000
  number = log10l(onel);                         //= log10l(1.000000) = 0.000000
  number = lgamma(one);                          //= lgamma(1.000000) = 0.000000
  number = lgammaf(onef);                        //= lgammaf(1.000000) = 0.000000
  number = lgammal(onel);                        //= lgammal(1.000000) = 0.000000
  number = ceil(odd);                            //= ceil(2.600000) = 3.000000
  number = ceilf(oddf);                          //= ceilf(2.600000) = 3.000000
  number = ceill(oddl);                          //= ceill(2.500000) = 3.000000
  number = floor(odd);                           //= floor(2.600000) = 2.000000
  number = floorf(oddf);                         //= floorf(2.600000) = 2.000000
  number = floorl(oddl);                         //= floorl(2.500000) = 2.000000
  number = round(odd);                           //= round(2.600000) = 3.000000
  number = roundf(oddf);                         //= roundf(2.600000) = 3.000000
  number = roundl(oddl);                         //= roundl(2.500000) = 3.000000
  number = trunc(odd);                           //= trunc(2.600000) = 2.000000
  number = truncf(oddf);                         //= truncf(2.600000) = 2.000000
  number = truncl(oddl);                         //= truncl(2.500000) = 2.000000
  number = rintl(oddl);                          //= rintl(2.500000) = 2.000000
  number = nearbyintl(oddl);                     //= nearbyintl(2.500000) = 2.000000
  number = roundevenl(oddl);                     //= roundevenl(2.500000) = 2.000000
  number = lrint(odd);                           //= lrint(2.600000) = 3
  number = lround(odd);                          //= lround(2.600000) = 3
  number = llrint(odd);                          //= llrint(2.600000) = 3
  number = llround(odd);                         //= llround(2.600000) = 3
}

static void others(void) {
  int exponent;
  double whole, sine, cosine;
  number = pow(two, four);                       //= pow(2.000000, 4.000000) = 16.000000
  number = powf(fourf, onef);                    //= powf(4.000000, 1.000000) = 4.000000
  number = powl(fourl, onel);                    //= powl(4.000000, 1.000000) = 4.000000
  number = fmod(odd, one);                       //= fmod(2.600000, 1.000000) = 0.600000
  number = remainder(odd, one);                  //= remainder(2.600000, 1.000000) = -0.400000
  number = hypot(3 * one, four);                 //= hypot(3.000000, 4.000000) = 5.000000
  number = atan2(zero, one);                     //= atan2(0.000000, 1.000000) = 0.000000
  number = fmax(two, four);                      //= fmax(2.000000, 4.000000) = 4.000000
  number = fmin(two, four);                      //= fmin(2.000000, 4.000000) = 2.000000
  number = fdim(four, one);                      //= fdim(4.000000, 1.000000) = 3.000000
  number = fma(two, four, one);                  //= fma(2.000000, 4.000000, 1.000000) = 9.000000
  number = fmal(oddl, fourl, onel);              //= fmal(2.500000, 4.000000, 1.000000) = 11.000000
  number = copysign(two, -one);                  //= copysign(2.000000, -1.000000) = -2.000000
  number = nextafter(one, one);                  //= nextafter(1.000000, 1.000000) = 1.000000
  number = ldexp(half, 3);                       //= ldexp(0.500000, 3) = 4.000000
  number = scalbn(half, 3);                      //= scalbn(0.500000, 3) = 4.000000
  number = scalbln(half, 3);                     //= scalbln(0.500000, 3) = 4.000000
  number = ilogb(four);                          //= ilogb(4.000000) = 2
  number = frexp(four, &exponent);               //= frexp(4.000000, 3) = 0.500000
  number = frexpl(fourl, &exponent);             //= frexpl(4.000000, 3) = 0.500000
  number = modf(odd, &whole);                    //= modf(2.600000, 2.000000) = 0.600000
  sincos(zero, &sine, &cosine);                  //= sincos(0.000000, 0.000000, 1.000000) = <void>
  number = remquo(odd, one, &exponent);          //= remquo(2.600000, 1.000000, 3) = -0.400000
  number = lgamma_r(one, &exponent);             //= lgamma_r(1.000000, 1) = 0.000000
  number = nan("");                              //= nan("") = nan
  number = jn(0, zero);                          //= jn(0, 0.000000) = 1.000000
  feraiseexcept(FE_DIVBYZERO | FE_INEXACT);      //= feraiseexcept(FE_DIVBYZERO|FE_INEXACT) = 0
  fetestexcept(FE_DIVBYZERO);                    //= fetestexcept(FE_DIVBYZERO) = FE_DIVBYZERO
  feclearexcept(FE_ALL_EXCEPT);                  //= feclearexcept(FE_INVALID|FE_DIVBYZERO|FE_OVERFLOW|FE_UNDERFLOW|FE_INEXACT) = 0
  fesetround(FE_UPWARD);                         //= fesetround(FE_UPWARD) = 0
  number = fegetround();                                 //= fegetround() = FE_UPWARD
  fesetround(FE_TONEAREST);                      //= fesetround(FE_TONEAREST) = 0
}

static void of_complex(void) {
  double complex z = 3 + 4 * I;
  float complex zf = 3 + 4 * I;
  long double complex zl = 3 + 4 * I;
  number = cabs(z);                              //= cabs({ 3.000000, 4.000000 }) = 5.000000
  pair = conj(z);                                //= conj({ 3.000000, 4.000000 }) = { 3.000000, -4.000000 }
  number = creal(z);                             //= creal({ 3.000000, 4.000000 }) = 3.000000
  number = cimag(z);                             //= cimag({ 3.000000, 4.000000 }) = 4.000000
  pair = csqrt(z);                               //= csqrt({ 3.000000, 4.000000 }) = { 2.000000, 1.000000 }
  pair = cproj(z);                               //= cproj({ 3.000000, 4.000000 }) = { 3.000000, 4.000000 }
  number = cabsf(zf);                            //= cabsf({ 3.000000, 4.000000 }) = 5.000000
  pair = conjf(zf);                              //= conjf({ 3.000000, 4.000000 }) = { 3.000000, -4.000000 }
  number = cimagl(zl);                           //= cimagl({ 3.000000, 4.000000 }) = 4.000000
  number = cabsl(zl);                            //= cabsl({ 3.000000, 4.000000 }) = 5.000000
}

int main(void) {
  of_one_argument();
  others();
  of_complex();
  return 0;
}
