/* As many float32 numbers at a time as the processor has in a register, in the vectors of GCC and Clang: what the
   interpreter computes with.

   Most functions that are not exact compute in float64 with short polynomials and round once at the end: their error is
   under 0.51 ulp, at denormal numbers too. Nothing here may be contracted to fused multiply-adds: that would change
   bits from one processor to the next. VECTOR(name) gives each function its name, because the interpreter includes
   this file once for each instruction set; WIDTH is how many numbers a vector has, a divisor of 16. */

#ifndef NBGRAD_VECTOR_TYPES
#define NBGRAD_VECTOR_TYPES
#include <math.h>
#include <stdint.h>
#include <string.h>
#define INLINE static inline __attribute__((always_inline, unused))
#define FLOATS VECTOR(floats)
#define INTS VECTOR(ints)
#define DOUBLES VECTOR(doubles)
#define LONGS VECTOR(longs)
#ifdef __AVX__
#include <immintrin.h>
#endif
static const int32_t nbgrad_lanes[16] __attribute__((unused)) = {-1, -1, -1, -1, -1, -1, -1, -1};
#endif

typedef float VECTOR(floats) __attribute__((vector_size(WIDTH * 4)));
typedef float VECTOR(anywhere) __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef int32_t VECTOR(ints) __attribute__((vector_size(WIDTH * 4)));
/* Half as many. */
typedef float VECTOR(half) __attribute__((vector_size(WIDTH * 2)));
typedef double VECTOR(doubles) __attribute__((vector_size(WIDTH * 4)));
typedef int64_t VECTOR(longs) __attribute__((vector_size(WIDTH * 4)));
typedef uint64_t VECTOR(unsigned_longs) __attribute__((vector_size(WIDTH * 4)));
typedef union { VECTOR(floats) whole; VECTOR(half) half[2]; float one[WIDTH]; } VECTOR(pieces);

INLINE FLOATS VECTOR(load)(const float *from) { return *(const VECTOR(anywhere) *)from; }
INLINE void VECTOR(store)(float *to, FLOATS x) { *(VECTOR(anywhere) *)to = x; }
INLINE FLOATS VECTOR(spread)(float x) { return x - (FLOATS){0}; }
/* The first n numbers of a vector; the others are 0. MASKED: eight at a time, by the instructions of AVX for that. */
#ifdef MASKED
INLINE __m256i VECTOR(lanes)(long n) { return _mm256_loadu_si256((const __m256i *)(nbgrad_lanes + 8 - n)); }
INLINE FLOATS VECTOR(load_part)(const float *from, long n) {
  return (FLOATS)_mm256_maskload_ps(from, VECTOR(lanes)(n));
}
INLINE FLOATS VECTOR(first)(FLOATS x, long n) { return (FLOATS)((INTS)x & (INTS)VECTOR(lanes)(n)); }
INLINE void VECTOR(store_part)(float *to, FLOATS x, long n) {
  _mm256_maskstore_ps(to, VECTOR(lanes)(n), (__m256)x);
}
#else
INLINE FLOATS VECTOR(load_part)(const float *from, long n) {
  VECTOR(pieces) x = {{0}};
  for (long k = 0; k < n; k++) x.one[k] = from[k];
  return x.whole;
}
/* The first n numbers of a vector, with 0 in the place of the others. */
INLINE FLOATS VECTOR(first)(FLOATS x, long n) {
  VECTOR(pieces) held = {x};
  for (long k = n; k < WIDTH; k++) held.one[k] = 0.0f;
  return held.whole;
}
INLINE void VECTOR(store_part)(float *to, FLOATS x, long n) {
  VECTOR(pieces) held = {x};
  for (long k = 0; k < n; k++) to[k] = held.one[k];
}
#endif
INLINE FLOATS VECTOR(choose)(INTS mask, FLOATS a, FLOATS b) { return (FLOATS)(((INTS)a & mask) | ((INTS)b & ~mask)); }
INLINE DOUBLES VECTOR(either)(LONGS mask, DOUBLES a, DOUBLES b) {
  return (DOUBLES)(((LONGS)a & mask) | ((LONGS)b & ~mask));
}

/* Comparisons give 1 or 0. */
#define TRUTH(mask) ((FLOATS)((mask) & (INTS)VECTOR(spread)(1.0f)))
INLINE FLOATS VECTOR(lt)(FLOATS a, FLOATS b) { return TRUTH(a < b); }
INLINE FLOATS VECTOR(le)(FLOATS a, FLOATS b) { return TRUTH(a <= b); }
INLINE FLOATS VECTOR(gt)(FLOATS a, FLOATS b) { return TRUTH(a > b); }
INLINE FLOATS VECTOR(ge)(FLOATS a, FLOATS b) { return TRUTH(a >= b); }
INLINE FLOATS VECTOR(eq)(FLOATS a, FLOATS b) { return TRUTH(a == b); }
INLINE FLOATS VECTOR(ne)(FLOATS a, FLOATS b) { return TRUTH(a != b); }
INLINE FLOATS VECTOR(where)(FLOATS c, FLOATS a, FLOATS b) { return VECTOR(choose)(c != 0.0f, a, b); }
/* A NaN in either input is a NaN in the result, as in torch. */
INLINE FLOATS VECTOR(maximum)(FLOATS a, FLOATS b) { return VECTOR(choose)((a > b) | (a != a), a, b); }
INLINE FLOATS VECTOR(minimum)(FLOATS a, FLOATS b) { return VECTOR(choose)((a < b) | (a != a), a, b); }

INLINE FLOATS VECTOR(add)(FLOATS a, FLOATS b) { return a + b; }
INLINE FLOATS VECTOR(sub)(FLOATS a, FLOATS b) { return a - b; }
INLINE FLOATS VECTOR(mul)(FLOATS a, FLOATS b) { return a * b; }
INLINE FLOATS VECTOR(div)(FLOATS a, FLOATS b) { return a / b; }
INLINE FLOATS VECTOR(copy)(FLOATS a) { return a; }
INLINE FLOATS VECTOR(neg)(FLOATS a) { return -a; }
INLINE FLOATS VECTOR(square)(FLOATS a) { return a * a; }
INLINE FLOATS VECTOR(reciprocal)(FLOATS a) { return 1.0f / a; }
INLINE FLOATS VECTOR(abs)(FLOATS a) { return (FLOATS)((INTS)a & 0x7fffffff); }
INLINE FLOATS VECTOR(sign)(FLOATS a) { return TRUTH(a > 0.0f) - TRUTH(a < 0.0f); }
INLINE FLOATS VECTOR(relu)(FLOATS a) { return VECTOR(choose)((a > 0.0f) | (a != a), a, VECTOR(spread)(0.0f)); }
INLINE FLOATS VECTOR(sqrt)(FLOATS a) {
  VECTOR(pieces) x = {a};
  for (int k = 0; k < WIDTH; k++) x.one[k] = __builtin_sqrtf(x.one[k]);
  return x.whole;
}
INLINE FLOATS VECTOR(rsqrt)(FLOATS a) { return 1.0f / VECTOR(sqrt)(a); }

/* 2^n and r of x = n ln 2 + r, for |x| under 2^20. A NaN stays one in r. */
#define ROUNDING 0x1.8p52
INLINE DOUBLES VECTOR(split)(DOUBLES x, DOUBLES *power) {
  DOUBLES shifted = x * 0x1.71547652b82fep0 + ROUNDING, n = shifted - ROUNDING;
  *power = (DOUBLES)(((LONGS)shifted << 52) + (int64_t)0x3ff0000000000000);
  return (x - n * 0x1.62e42fefa39efp-1) - n * 0x1.abc9e3b39803fp-56;
}
/* (exp(r) - 1) for |r| up to ln 2 / 2, with a relative error of 3e-10. */
INLINE DOUBLES VECTOR(near_zero)(DOUBLES r) {
  return r * ((((((0.00019899390183679232 * r + 0.0013941213100006334) * r + 0.008333298344023092) * r +
    0.04166635163844457) * r + 0.1666666671931248) * r + 0.5000000047401394) * r + 1.0);
}
INLINE DOUBLES VECTOR(limited)(DOUBLES x, double low, double high) {
  DOUBLES zero = {0};
  x = VECTOR(either)(x > high, zero + high, x);
  return VECTOR(either)(x < low, zero + low, x);
}
INLINE DOUBLES VECTOR(expm1_double)(DOUBLES x) {
  DOUBLES power, r = VECTOR(split)(VECTOR(limited)(x, -200.0, 200.0), &power);
  return VECTOR(either)(x == 0.0, x, (power - 1.0) + power * VECTOR(near_zero)(r));
}
INLINE DOUBLES VECTOR(tanh_double)(DOUBLES x) {
  DOUBLES e = VECTOR(expm1_double)(VECTOR(limited)(x, -50.0, 50.0) * 2.0);
  return e / (e + 2.0);
}
/* log(2^e m) = e ln 2 + 2 artanh((m - 1) / (m + 1)), m from sqrt(1/2) to sqrt(2). */
INLINE DOUBLES VECTOR(log_of)(VECTOR(unsigned_longs) bits, DOUBLES correction) {
  VECTOR(unsigned_longs) biased = (bits + (uint64_t)(0x3ff0000000000000 - 0x3fe6a09e667f3bcd)) >> 52;
  DOUBLES m = (DOUBLES)(bits - ((biased - 1023) << 52));
  DOUBLES e = (DOUBLES)(biased | 0x4330000000000000) - (0x1p52 + 1023.0);
  DOUBLES s = (m - 1.0) / (m + 1.0), z = s * s;
  DOUBLES p = (((0.11809256003210332 * z + 0.14267470074236) * z + 0.20000193210143125) * z + 0.3333333261945999) * z + 1.0;
  return e * 0x1.62e42fefa39efp-1 + (2.0 * s * p + correction);
}
INLINE DOUBLES VECTOR(log_limits)(DOUBLES x, DOUBLES found) {
  DOUBLES zero = {0};
  found = VECTOR(either)(x == 0.0, zero - (double)INFINITY, found);
  found = VECTOR(either)(x < 0.0, zero + (double)NAN, found);
  return VECTOR(either)((x != x) | (x == (double)INFINITY), x, found);
}
INLINE DOUBLES VECTOR(log_double)(DOUBLES x) {
  DOUBLES none = {0};
  return VECTOR(log_limits)(x, VECTOR(log_of)((VECTOR(unsigned_longs))x, none));
}
/* What 1 + x loses in float64 is given back: (x - (u - 1)) / u, u = 1 + x. */
INLINE DOUBLES VECTOR(log1p_double)(DOUBLES x) {
  DOUBLES u = 1.0 + x, lost = (x - (u - 1.0)) / u;
  lost = VECTOR(either)(lost == lost, lost, x * 0.0);
  DOUBLES found = VECTOR(log_limits)(u, VECTOR(log_of)((VECTOR(unsigned_longs))u, lost));
  return VECTOR(either)(VECTOR(limited)(x, -1e-9, 1e-9) == x, x, found);
}
/* Beyond 4 it is 1 in float32. */
INLINE DOUBLES VECTOR(erf_double)(DOUBLES x) {
  x = VECTOR(limited)(x, -4.0, 4.0);
  DOUBLES t = x * x * 0.125 - 1.0, p = {0};
  p += 9.403812402468554e-05;
#define STEP(coefficient) p = p * t + coefficient;
  STEP(-0.00024642199980983505) STEP(0.00017322967630806508) STEP(-0.00032551968560941486)
  STEP(0.001410152598130207) STEP(-0.0029097128615879733) STEP(0.0047749464891676035) STEP(-0.008384044356366693)
  STEP(0.014381038603613836) STEP(-0.022562558254619065) STEP(0.033053291738967594) STEP(-0.04574431268539967)
  STEP(0.05988782957568627) STEP(-0.07473048679557817) STEP(0.09020894134343026) STEP(-0.1077102928865076)
  STEP(0.13167511777580795) STEP(-0.17657623580039056) STEP(0.35353099564340495)
#undef STEP
  return x * p;
}
/* The quarter turns in x and what is left, for |x| under 2^18: pi / 2 in three parts. */
INLINE DOUBLES VECTOR(turn)(DOUBLES x, LONGS *quarters) {
  DOUBLES shifted = x * 0x1.45f306dc9c883p-1 + ROUNDING, n = shifted - ROUNDING;
  *quarters = (LONGS)shifted;
  return ((x - n * 0x1.921fb544p0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
}
INLINE DOUBLES VECTOR(sine_of)(DOUBLES r, LONGS quarters) {
  DOUBLES z = r * r;
  DOUBLES sine = r * ((((2.717269367045458e-06 * z - 0.00019839193964485497) * z + 0.00833332875517132) * z -
    0.1666666663131027) * z + 0.9999999999956297);
  DOUBLES cosine = (((2.4378993728893832e-05 * z - 0.001388660894813359) * z + 0.04166661639305435) * z -
    0.4999999961177467) * z + 0.9999999999520133;
  DOUBLES found = VECTOR(either)((quarters & 1) == 1, cosine, sine);
  return (DOUBLES)((LONGS)found ^ ((quarters & 2) << 62));
}
INLINE DOUBLES VECTOR(sin_double)(DOUBLES x) {
  LONGS quarters, far = ~(VECTOR(limited)(x, -0x1p18, 0x1p18) == x);
  DOUBLES r = VECTOR(turn)(x, &quarters), found = VECTOR(sine_of)(r, quarters);
  for (int k = 0; k < WIDTH / 2; k++) if (far[k]) found[k] = sin(x[k]);
  return found;
}
INLINE DOUBLES VECTOR(cos_double)(DOUBLES x) {
  LONGS quarters, far = ~(VECTOR(limited)(x, -0x1p18, 0x1p18) == x);
  DOUBLES r = VECTOR(turn)(x, &quarters), found = VECTOR(sine_of)(r, quarters + 1);
  for (int k = 0; k < WIDTH / 2; k++) if (far[k]) found[k] = cos(x[k]);
  return found;
}
#define BY_HALVES(name) \
  INLINE FLOATS VECTOR(name)(FLOATS a) { \
    VECTOR(pieces) x = {a}; \
    for (int k = 0; k < 2; k++) \
      x.half[k] = __builtin_convertvector(VECTOR(name##_double)(__builtin_convertvector(x.half[k], DOUBLES)), VECTOR(half)); \
    return x.whole; \
  }
/* In float32, with an error under 1 ulp: 2^n exp(r), x = n ln 2 + r. The power is taken twice by halves, because it need
   not be a normal number. */
INLINE FLOATS VECTOR(exp)(FLOATS x) {
  x = VECTOR(choose)(x > 89.0f, VECTOR(spread)(89.0f), x);
  x = VECTOR(choose)(x < -104.0f, VECTOR(spread)(-104.0f), x);
  FLOATS shifted = x * 0x1.715476p0f + 0x1.8p23f, n = shifted - 0x1.8p23f;
  FLOATS r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  FLOATS p = (((((0.00019899390f * r + 0.0013941213f) * r + 0.0083332983f) * r + 0.041666351f) * r + 0.16666667f) * r +
    0.5f) * r * r;
  INTS power = (INTS)shifted - 0x4b400000, first = power >> 1;
  FLOATS one = (FLOATS)((first + 127) << 23), two = (FLOATS)((power - first + 127) << 23);
  return ((1.0f + (r + p)) * one) * two;
}
/* e / (1 + e) with e = exp(-|x|), or 1 / (1 + e) for a positive x. */
INLINE FLOATS VECTOR(sigmoid)(FLOATS x) {
  FLOATS e = VECTOR(exp)(-VECTOR(abs)(x));
  VECTOR(pieces) above = {VECTOR(choose)(x > 0.0f, VECTOR(spread)(1.0f), e)}, below = {e};
  for (int k = 0; k < 2; k++) {
    DOUBLES over = __builtin_convertvector(above.half[k], DOUBLES), under = __builtin_convertvector(below.half[k], DOUBLES);
    above.half[k] = __builtin_convertvector(over / (1.0 + under), VECTOR(half));
  }
  return above.whole;
}
BY_HALVES(expm1)
BY_HALVES(log)
BY_HALVES(log1p)
BY_HALVES(tanh)
BY_HALVES(erf)
BY_HALVES(sin)
BY_HALVES(cos)
#undef BY_HALVES

/* Sixteen partial results, side by side: additions are in the same order whatever the width. */
typedef struct { VECTOR(floats) part[16 / WIDTH]; } VECTOR(sixteen);
INLINE float VECTOR(sum_of)(VECTOR(sixteen) x) {
  float h[16];
  memcpy(h, &x, sizeof h);
  for (int half = 8; half; half /= 2) for (int k = 0; k < half; k++) h[k] += h[k + half];
  return h[0];
}
INLINE float VECTOR(largest_of)(VECTOR(sixteen) x) {
  float h[16];
  memcpy(h, &x, sizeof h);
  for (int k = 1; k < 16; k++) h[0] = h[0] > h[k] || h[0] != h[0] ? h[0] : h[k];
  return h[0];
}
#undef TRUTH
#undef ROUNDING
