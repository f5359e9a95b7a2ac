/* A Llama's layer but for its attention, in float32, over packed weights: what comes before attention and what comes
 * after it, in one parallel region each. A decoding step has few rows, and to call the parts one by one, or to wake
 * threads for each, takes a good part of what the products take. Shapes: N rows (tokens), E width, I inner width, D head
 * size, a multiple of 2 SIDE; ``scratch`` has room for [panels_of(N), widest, SIDE] numbers. */
#include <math.h>
#include <stdint.h>

#include "product.h"

struct norm {
    const float *weight; /* [E] */
    float epsilon;
};

INLINE float sum_of(vector v) {
    float sum = 0;
    for (int i = 0; i < SIDE; i++) sum += v[i];
    return sum;
}

/* residual += x, and into panels the norm of that: weight residual / sqrt(mean(residual^2) + epsilon), each [N, E], E a
 * multiple of SIDE (Zhang and Sennrich 2019, arXiv:1910.07467). */
INLINE void norm_into(
    float *restrict panels, const float *x, float *residual, const struct norm *norm, size_t rows, size_t width) {
#pragma omp for schedule(static)
    for (size_t s = 0; s < panels_of(rows); s++) {
        size_t first = s * SIDE, count = least(rows - first, SIDE);
        float scales[SIDE] = {0};
        for (size_t r = 0; r < count; r++) {
            const float *in = x + (first + r) * width;
            float *kept = residual + (first + r) * width;
            vector squares = {0};
            for (size_t e = 0; e < width; e += SIDE) {
                vector sum = vector_at(in + e) + vector_at(kept + e);
                put(kept + e, sum);
                squares += sum * sum;
            }
            scales[r] = 1 / sqrtf(sum_of(squares) / (float)width + norm->epsilon);
        }
        for (size_t e = 0; e < width; e += SIDE) {
            vector r[SIDE] = {{0}}, weight = vector_at(norm->weight + e);
            for (size_t i = 0; i < count; i++) r[i] = vector_at(residual + (first + i) * width + e) * scales[i] * weight;
            transpose(r);
            memcpy(panels + first * width + e * SIDE, r, sizeof r);
        }
    }
}

/* Into panels silu(gate) up [N, I], where gate and up stand side by side, [N, 2 I]; silu(g) = g / (1 + exp(-g)). I is a
 * multiple of SIDE. */
INLINE void silu_into(float *restrict panels, const float *restrict both, size_t rows, size_t inner) {
#pragma omp for schedule(static) collapse(2)
    for (size_t s = 0; s < panels_of(rows); s++)
        for (size_t i = 0; i < inner; i += SIDE) {
            size_t first = s * SIDE, count = least(rows - first, SIDE);
            vector r[SIDE] = {{0}}, zero = {0};
            for (size_t n = 0; n < count; n++) {
                const float *row = both + (first + n) * 2 * inner + i;
                vector gate = vector_at(row), up = vector_at(row + inner);
                lanes positive = gate > zero;
                vector power = exponential(chosen(positive, -gate, gate)); /* exp(-|g|), which does not overflow */
                vector share = chosen(positive, zero + 1, power) / (1 + power);
                r[n] = gate * share * up;
            }
            transpose(r);
            memcpy(panels + first * inner + i * SIDE, r, sizeof r);
        }
}

/* Turns the two halves of each of ``heads`` heads of a row by the angles of its position (Su et al. 2021,
 * arXiv:2104.09864): row n begins at x + n * stride; ``turns`` [positions, D] has cosines, then sines. */
INLINE void rotate(
    float *x, const int64_t *positions, const float *turns, size_t rows, size_t stride, size_t heads, size_t size) {
    size_t half = size / 2;
#pragma omp for schedule(static)
    for (size_t n = 0; n < rows; n++)
        for (size_t h = 0; h < heads; h++)
            for (size_t d = 0; d < half; d += SIDE) {
                float *low = x + n * stride + h * size + d, *high = low + half;
                const float *turn = turns + (size_t)positions[n] * size + d;
                vector a = vector_at(low), b = vector_at(high), cosine = vector_at(turn), sine = vector_at(turn + half);
                put(low, a * cosine - b * sine);
                put(high, b * cosine + a * sine);
            }
}

/* Ends when every thread has written its part. */
INLINE void multiply_by(float *out, const struct weight *weight, const float *panels, size_t rows) {
    struct product p = {out, weight, NULL, rows};
    multiply(&p, panels);
#pragma omp barrier
}

/* Queries, keys and values side by side, ``out`` [N, rows of weight], of norm(residual += x): the first ``heads`` heads
 * are turned by ``positions`` [N]. */
void before_attention(
    float *out, const float *x, float *residual, const struct norm *norm, const struct weight *weight,
    const int64_t *positions, const float *turns, size_t heads, size_t size, size_t rows, float *restrict scratch) {
#pragma omp parallel
    {
        norm_into(scratch, x, residual, norm, rows, weight->columns);
        multiply_by(out, weight, scratch, rows);
        rotate(out, positions, turns, rows, weight->rows, heads, size);
    }
}

/* ``out`` [N, E] of ``attended`` [N, heads x D]: residual += its product, and ``down`` of silu(gate) up of the norm of
 * that. ``both`` is room for gate and up, [N, 2 I]. */
void after_attention(
    float *out, const float *attended, float *residual, const struct norm *norm, const struct weight *product,
    const struct weight *gate_up, const struct weight *down, float *restrict both, size_t rows,
    float *restrict scratch) {
#pragma omp parallel
    {
        rows_into(scratch, attended, rows, product->columns);
        multiply_by(out, product, scratch, rows);
        norm_into(scratch, out, residual, norm, rows, gate_up->columns);
        multiply_by(both, gate_up, scratch, rows);
        silu_into(scratch, both, rows, down->columns);
        multiply_by(out, down, scratch, rows);
    }
}
