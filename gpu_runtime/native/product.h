/* Products of packed weights, y [M, N] = x [M, K] W^T + b, in float32: what the files of this folder share.
 *
 * W [N, K] lies in panels [N / SIDE, K, SIDE], the last one filled up with zeros: a product reads it from end to end. x is
 * turned into panels of SIDE of its rows, [M / SIDE, K, SIDE], and a tile of SIDE x SIDE sums stays in registers over all
 * of K, with a product and a sum of SIDE numbers in each instruction. So the sums of a row of y run over K in one order,
 * whatever the other rows are. The tile and the panels are those of Goto and van de Geijn, "Anatomy of high-performance
 * matrix multiplication", 2008. */
#pragma once
#include "panels.h"

/* Past the caches, where the processor can: what is written so is read much later. */
#if defined __AVX512F__ && SIDE == 16
#define STORE_PAST(out, v) _mm512_stream_ps(out, (__m512)(v))
#define STORED() _mm_sfence()
#elif defined __FMA__ && SIDE == 8
#define STORE_PAST(out, v) _mm256_stream_ps(out, (__m256)(v))
#define STORED() _mm_sfence()
#else
#define STORE_PAST(out, v) memcpy(out, &(v), sizeof(v))
#define STORED() (void)0
#endif

/* AHEAD: of the weights that are read, 2 KiB, so that memory is not waited for. GROUP panels stay in the cache while
 * more than SIDE rows of x go past them. */
enum { GROUP = 4, AHEAD = 512 / SIDE };

/* SIDE columns of a panel from ``rows`` rows, each ``columns`` long, and zeros for the rest. */
INLINE void turn(
    float *restrict out, const float *restrict in, size_t rows, size_t columns, const int past) {
    vector r[SIDE] = {{0}};
    if (rows >= SIDE) {
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++) memcpy(&r[i], in + i * columns, sizeof(vector));
    } else {
        for (size_t i = 0; i < rows; i++) memcpy(&r[i], in + i * columns, sizeof(vector));
    }
    transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        if (past) STORE_PAST(out + i * SIDE, r[i]);
        else memcpy(out + i * SIDE, &r[i], sizeof(vector));
    }
}

/* [columns, SIDE] at ``out``, a multiple of a vector's bytes, from [rows, columns]. */
INLINE void panel_write(
    float *restrict out, const float *restrict in, size_t rows, size_t columns, const int past) {
    size_t k = 0;
    for (; k + SIDE <= columns; k += SIDE) turn(out + k * SIDE, in + k, rows, columns, past);
    for (; k < columns; k++)
        for (size_t r = 0; r < SIDE; r++) out[k * SIDE + r] = r < rows ? in[r * columns + k] : 0;
}

/* ROWS x SIDE sums; ``rows`` and ``columns`` of them are written. */
INLINE void tile(
    float *restrict out, const float *restrict x, const float *restrict weight, const float *bias, size_t columns_in,
    size_t stride, size_t rows, size_t columns, const size_t ROWS) {
    vector start = {0}, sums[SIDE];
    if (bias) memcpy(&start, bias, columns * sizeof(float));
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++) sums[r] = start;
    for (size_t k = 0; k < columns_in; k++) {
        vector of_weight;
        memcpy(&of_weight, weight + k * SIDE, sizeof(vector));
        __builtin_prefetch(weight + (k + AHEAD) * SIDE);
#pragma GCC unroll 16
        for (size_t r = 0; r < ROWS; r++) sums[r] = fused(of_weight, all(x[k * SIDE + r]), sums[r]);
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++)
        if (r < rows) memcpy(out + r * stride, &sums[r], columns * sizeof(float));
}

struct weight {
    const float *panels;  /* [panels_of(rows), columns, SIDE] */
    size_t rows, columns; /* N, K */
};

struct product {
    float *out;                  /* [rows, weight->rows] */
    const struct weight *weight;
    const float *bias;           /* [weight->rows] or NULL */
    size_t rows;
};

static void tiles(const struct product *p, const float *x, size_t row, size_t column) {
    size_t stride = p->weight->rows, K = p->weight->columns;
    size_t rows = least(p->rows - row, SIDE), columns = least(stride - column, SIDE);
    float *out = p->out + row * stride + column;
    const float *weight = p->weight->panels + column * K, *bias = p->bias ? p->bias + column : NULL;
    if (columns < SIDE) tile(out, x, weight, bias, K, stride, rows, columns, SIDE);
    else if (rows > 8) tile(out, x, weight, bias, K, stride, rows, SIDE, SIDE);
    else if (rows > 4) tile(out, x, weight, bias, K, stride, rows, SIDE, 8);
    else if (rows > 1) tile(out, x, weight, bias, K, stride, rows, SIDE, 4);
    else tile(out, x, weight, bias, K, stride, rows, SIDE, 1);
}

/* Within a parallel region, whose threads share it: the product of x, which is in panels at ``x``. */
INLINE void multiply(const struct product *p, const float *x) {
    size_t strips = panels_of(p->rows), panels = panels_of(p->weight->rows), group = strips > 1 ? GROUP : 1;
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < panels; first += group)
        for (size_t s = 0; s < strips; s++)
            for (size_t n = first; n < least(first + group, panels); n++)
                tiles(p, x + s * SIDE * p->weight->columns, s * SIDE, n * SIDE);
}

/* Within a parallel region: ``x`` [rows, columns] in panels. */
INLINE void rows_into(float *restrict panels, const float *x, size_t rows, size_t columns) {
#pragma omp for schedule(static)
    for (size_t s = 0; s < panels_of(rows); s++)
        panel_write(panels + s * SIDE * columns, x + s * SIDE * columns, rows - s * SIDE, columns, 0);
}
