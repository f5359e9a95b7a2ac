/* Rows into oneDNN's blocks: a matrix [N, K] becomes [N / 64, K, 64], at about the speed of a copy.
 *
 * Sixteen rows of sixteen columns fill sixteen registers; four rounds of exchanges between registers, at distances 1,
 * 2, 4 and 8, transpose them. Eklundh, "A fast computer method for matrix transposing", 1972. */
#include <stddef.h>
#include <string.h>

/* Past the caches, where the processor can: what is written here is read much later. */
#ifdef __AVX512F__
#include <immintrin.h>
#define STORE(out, v) _mm512_stream_ps(out, (__m512)(v))
#define STORED() _mm_sfence()
#else
#define STORE(out, v) memcpy(out, &(v), sizeof(v))
#define STORED() (void)0
#endif

enum { SIDE = 16, ROWS = 64 };
typedef float vector __attribute__((vector_size(SIDE * sizeof(float))));
typedef int lanes __attribute__((vector_size(SIDE * sizeof(int))));

struct job {
    float *out;      /* [blocks, columns, ROWS], at a multiple of 64 bytes */
    const float *in; /* [blocks * ROWS, columns] */
    size_t blocks, columns;
};

static inline void exchange(vector r[SIDE], int distance) {
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

static inline void tile(float *restrict out, const float *restrict in, size_t columns) {
    vector r[SIDE];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) memcpy(&r[i], in + i * columns, sizeof(vector));
    exchange(r, 1), exchange(r, 2), exchange(r, 4), exchange(r, 8);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) STORE(out + i * ROWS, r[i]);
}

static void block(float *restrict out, const float *restrict in, size_t columns) {
    size_t k = 0;
    for (; k + SIDE <= columns; k += SIDE)
        for (size_t n = 0; n < ROWS; n += SIDE) tile(out + k * ROWS + n, in + n * columns + k, columns);
    for (; k < columns; k++)
        for (size_t n = 0; n < ROWS; n++) out[k * ROWS + n] = in[n * columns + k];
}

void blocks_write(const struct job *jobs, size_t count) {
#pragma omp parallel
    {
        for (size_t j = 0; j < count; j++) {
            const struct job *job = jobs + j;
#pragma omp for schedule(static) nowait
            for (size_t b = 0; b < job->blocks; b++)
                block(job->out + b * ROWS * job->columns, job->in + b * ROWS * job->columns, job->columns);
        }
        STORED();
    }
}
