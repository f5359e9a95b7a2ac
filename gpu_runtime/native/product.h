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

/* GROUP panels stay in the cache while many strips, each of SIDE rows of x, go past them; a few strips stay themselves. A
 * tile's two reads ahead are one line of LINE bytes each for every EVERY columns: together all of a panel. */
enum { GROUP = 4, FEW = 4, LINE = 64, EVERY = 2 * LINE / (SIDE * sizeof(float)) };

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

/* sums += x W, of one column of both. */
INLINE void column_add(vector *sums, const float *restrict x, const float *restrict weight, const size_t ROWS) {
    vector of_weight = vector_at(weight);
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++) sums[r] = fused(of_weight, all(x[r]), sums[r]);
}

/* ROWS x SIDE sums; ``rows`` and ``columns`` of them are written. Meanwhile a line from each place of ``ahead`` on comes into
 * the cache for every EVERY columns. */
INLINE void tile(
    float *restrict out, const float *restrict x, const float *restrict weight, const float *bias, size_t columns_in,
    size_t stride, size_t rows, size_t columns, const float *const *ahead, const size_t ROWS) {
    vector start = {0}, sums[SIDE];
    if (bias) memcpy(&start, bias, columns * sizeof(float));
#pragma GCC unroll 16
    for (size_t r = 0; r < ROWS; r++) sums[r] = start;
    size_t k = 0;
    for (; k + EVERY <= columns_in; k += EVERY) {
        __builtin_prefetch((const char *)ahead[0] + k / EVERY * LINE, 0, 2);
        __builtin_prefetch((const char *)ahead[1] + k / EVERY * LINE, 0, 2);
#pragma GCC unroll 16
        for (size_t i = 0; i < EVERY; i++) column_add(sums, x + (k + i) * SIDE, weight + (k + i) * SIDE, ROWS);
    }
    for (; k < columns_in; k++) column_add(sums, x + k * SIDE, weight + k * SIDE, ROWS);
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

static void tiles(const struct product *p, const float *x, size_t row, size_t column, const float *const *ahead) {
    size_t stride = p->weight->rows, K = p->weight->columns;
    size_t rows = least(p->rows - row, SIDE), columns = least(stride - column, SIDE);
    float *out = p->out + row * stride + column;
    const float *weight = p->weight->panels + column * K, *bias = p->bias ? p->bias + column : NULL;
    if (columns < SIDE) tile(out, x, weight, bias, K, stride, rows, columns, ahead, SIDE);
    else if (rows > 8) tile(out, x, weight, bias, K, stride, rows, SIDE, ahead, SIDE);
    else if (rows > 4) tile(out, x, weight, bias, K, stride, rows, SIDE, ahead, 8);
    else if (rows > 1) tile(out, x, weight, bias, K, stride, rows, SIDE, ahead, 4);
    else tile(out, x, weight, bias, K, stride, rows, SIDE, ahead, 1);
}

/* Within a parallel region, whose threads share it: the product of x, which is in panels at ``x``. While a panel is
 * multiplied by all strips of x, a later one comes from memory, half of it with each of two strips: were it to come with
 * the first alone, that one would wait for memory, and memory for the others. */
INLINE void multiply(const struct product *p, const float *x) {
    size_t strips = panels_of(p->rows), panels = panels_of(p->weight->rows), group = strips > FEW ? GROUP : 1;
    size_t size = SIDE * p->weight->columns;
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < panels; first += group)
        for (size_t s = 0; s < strips; s++)
            for (size_t n = first; n < least(first + group, panels); n++) {
                const float *next = p->weight->panels + (n + group) * size, *half = next + size / 2;
                const float *ahead[] = {s % 2 ? half : next, s % 2 || strips == 1 ? half : next};
                tiles(p, x + s * size, s * SIDE, n * SIDE, ahead);
            }
}

/* Within a parallel region: ``x`` [rows, columns] in panels. */
INLINE void rows_into(float *restrict panels, const float *x, size_t rows, size_t columns) {
#pragma omp for schedule(static)
    for (size_t s = 0; s < panels_of(rows); s++)
        panel_write(panels + s * SIDE * columns, x + s * SIDE * columns, rows - s * SIDE, columns, 0);
}
