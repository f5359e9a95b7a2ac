/* Layers of a Llama in float32, over packed weights: what comes before attention and what comes after it, in one parallel
 * region each; and all layers of a decoding step with their attention in one. A decoding step has few rows, and to call
 * the parts one by one, or to wake threads for each, takes a good part of what the products take. Shapes: N rows (tokens), E width, I inner width, D head
 * size, a multiple of 2 SIDE; ``scratch`` has room for [panels_of(N), widest, SIDE] numbers. */
#include <math.h>
#include <stdint.h>

#include "cached_attention.h"
#include "product.h"

struct norm {
    const float *weight; /* [E] */
    float epsilon;
};

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

struct layer {
    struct norm before, between;
    struct weight qkv, out, gate_up, down;
    float *cache; /* its first block's first head; NULL where another attends */
};

/* What all layers of a call share. */
struct rows {
    size_t count;
    const int64_t *positions; /* [N] */
    const float *turns;
    size_t turned, size;      /* heads that are turned by their positions, the first ones; D */
    float *scratch;
};

INLINE void before(float *heads, const float *x, float *residual, const struct layer *layer, const struct rows *r) {
    norm_into(r->scratch, x, residual, &layer->before, r->count, layer->qkv.columns);
    multiply_by(heads, &layer->qkv, r->scratch, r->count);
    rotate(heads, r->positions, r->turns, r->count, layer->qkv.rows, r->turned, r->size);
}

INLINE void after(
    float *out, const float *attended, float *residual, float *both, const struct layer *layer, const struct rows *r) {
    rows_into(r->scratch, attended, r->count, layer->out.columns);
    multiply_by(out, &layer->out, r->scratch, r->count);
    norm_into(r->scratch, out, residual, &layer->between, r->count, layer->gate_up.columns);
    multiply_by(both, &layer->gate_up, r->scratch, r->count);
    silu_into(r->scratch, both, r->count, layer->down.columns);
    multiply_by(out, &layer->down, r->scratch, r->count);
}

/* Queries, keys and values side by side, ``heads`` [N, rows of qkv], of norm(residual += x). */
void before_attention(float *heads, const float *x, float *residual, const struct layer *layer, const struct rows *r) {
#pragma omp parallel
    before(heads, x, residual, layer, r);
}

/* ``out`` [N, E] of ``attended`` [N, heads x D]: residual += its product, and ``down`` of silu(gate) up of the norm of
 * that. ``both`` is room for gate and up, [N, 2 I]. */
void after_attention(
    float *out, const float *attended, float *residual, float *both, const struct layer *layer, const struct rows *r) {
#pragma omp parallel
    after(out, attended, residual, both, layer, r);
}

/* ``hidden`` and ``residual`` [N, E] through ``count`` layers, rows of a decoding step. ``heads`` [N, rows of qkv],
 * ``attended`` [N, heads x D] and ``both`` [N, 2 I] are room. */
void layers_step(
    const struct layer *layers, size_t count, float *hidden, float *residual, float *heads, float *attended,
    float *both, const struct rows *r, const struct cached *cached) {
#pragma omp parallel
    for (size_t l = 0; l < count; l++) {
        before(heads, hidden, residual, layers + l, r);
        rows_attend(attended, heads, layers[l].cache, cached, r->count);
        after(hidden, attended, residual, both, layers + l, r);
    }
}
