/* A vector of numbers at a time: what the kernels of this folder share. SIDE is how many numbers a vector of the processor
 * has, 16 with AVX-512 and 8 with AVX2, as whoever compiles says. A panel [K, SIDE] has SIDE rows of a matrix, [SIDE, K],
 * side by side. */
#pragma once
#ifdef __FMA__
#include <immintrin.h>
#endif
#include <stddef.h>
#include <string.h>

typedef float vector __attribute__((vector_size(SIDE * sizeof(float))));
typedef int lanes __attribute__((vector_size(SIDE * sizeof(int))));

#define INLINE static inline __attribute__((always_inline))

INLINE size_t panels_of(size_t rows) { return (rows + SIDE - 1) / SIDE; }
INLINE size_t least(size_t a, size_t b) { return a < b ? a : b; }

INLINE vector vector_at(const float *from) {
    vector found;
    memcpy(&found, from, sizeof found);
    return found;
}

/* a * b + c, rounded once. Said, and not left to the compiler, which fuses some loops and others not: a row has the same
 * bits in tiles of any size. */
INLINE vector fused(vector a, vector b, vector c) {
#if defined __AVX512F__ && SIDE == 16
    return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__ && SIDE == 8
    return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

INLINE vector all(float of) {
    vector zero = {0};
    return of - zero; /* and not plus, which would change the sign of -0 */
}

INLINE float sum_of(vector v) {
    float sum = 0;
    for (int i = 0; i < SIDE; i++) sum += v[i];
    return sum;
}

INLINE void put(float *to, vector from) { memcpy(to, &from, sizeof from); }

INLINE vector chosen(lanes where, vector a, vector b) { return (vector)(((lanes)a & where) | ((lanes)b & ~where)); }

/* Eklundh, "A fast computer method for matrix transposing", 1972: exchanges at distances 1, 2, 4 and so on. */
INLINE void exchange(vector r[SIDE], int distance) {
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        if (i & distance) continue;
        vector a = r[i], b = r[i + distance];
        lanes low, high;
        for (int j = 0; j < SIDE; j++) {
            low[j] = j & distance ? SIDE + (j ^ distance) : j;
            high[j] = j & distance ? SIDE + j : j ^ distance;
        }
        r[i] = __builtin_shuffle(a, b, low);
        r[i + distance] = __builtin_shuffle(a, b, high);
    }
}

INLINE void transpose(vector r[SIDE]) {
    exchange(r, 1), exchange(r, 2), exchange(r, 4);
    if (SIDE > 8) exchange(r, 8);
}

/* exp(x), x <= 0, to about a unit in the last place: 2^n e^r with |r| <= ln(2) / 2, and e^r by its series. 0 for minus
 * infinity and what float32 has no normal number for; NaN stays NaN. */
INLINE vector exponential(vector x) {
    const float magic = 12582912; /* 1.5 * 2^23: added, it leaves whole numbers */
    vector least_x = {0}, one = least_x + 1;
    least_x -= 87.0f;
    vector within = chosen(x < least_x, least_x, x);
    vector shifted = within * 1.44269504f + magic, whole = shifted - magic;
    vector r = within - whole * 0.693359375f + whole * 2.12194440e-4f; /* ln(2) in two parts */
    vector sum = one / 5040;
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1;
    sum = sum * r + 1;
    lanes exponent = ((lanes)shifted - 0x4b400000 + 127) << 23;
    return chosen(x < least_x, one - 1, sum * (vector)exponent);
}
