/* Sixteen numbers at a time: what the kernels of this folder share. A panel [K, 16] has 16 rows of a matrix, [16, K],
 * side by side. */
#include <stddef.h>
#include <string.h>

enum { SIDE = 16 };
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

/* Eklundh, "A fast computer method for matrix transposing", 1972: exchanges at distances 1, 2, 4 and 8. */
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

INLINE void transpose(vector r[SIDE]) { exchange(r, 1), exchange(r, 2), exchange(r, 4), exchange(r, 8); }
