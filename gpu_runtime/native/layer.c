/* What lies between the products of a Llama's layer, in float32, for rows as few as a decoding step has: one thread does
 * them in less time than others need to wake. Shapes: N rows (tokens), E width, a multiple of 16, I inner width, D head
 * size, a multiple of 32. */
#include <math.h>
#include <stdint.h>

#include "panels.h"

/* From so many rows on all threads share them. */
enum { MANY = 64 };

INLINE float sum_of(vector v) {
    float sum = 0;
    for (int i = 0; i < SIDE; i++) sum += v[i];
    return sum;
}

/* residual += x, then x = weight residual / sqrt(mean(residual^2) + epsilon), each [N, E] (Zhang and Sennrich 2019,
 * arXiv:1910.07467). */
void add_and_norm(float *x, float *residual, const float *weight, float epsilon, size_t rows, size_t width) {
#pragma omp parallel for schedule(static) if (rows > MANY)
    for (size_t n = 0; n < rows; n++) {
        float *in = x + n * width, *kept = residual + n * width;
        vector squares = {0};
        for (size_t e = 0; e < width; e += SIDE) {
            vector sum = vector_at(in + e) + vector_at(kept + e);
            put(kept + e, sum);
            squares += sum * sum;
        }
        float scale = 1 / sqrtf(sum_of(squares) / (float)width + epsilon);
        for (size_t e = 0; e < width; e += SIDE) put(in + e, vector_at(kept + e) * scale * vector_at(weight + e));
    }
}

/* out [N, I] = silu(gate) up, where gate and up stand side by side, [N, 2 I]; silu(g) = g / (1 + exp(-g)). */
void silu_and_mul(float *restrict out, const float *restrict both, size_t rows, size_t inner) {
#pragma omp parallel for schedule(static) if (rows > MANY)
    for (size_t n = 0; n < rows; n++)
        for (size_t i = 0; i < inner; i += SIDE) {
            vector gate = vector_at(both + 2 * n * inner + i), up = vector_at(both + (2 * n + 1) * inner + i);
            vector zero = {0};
            lanes positive = gate > zero;
            vector power = exponential(chosen(positive, -gate, gate)); /* exp(-|g|), which does not overflow */
            vector share = chosen(positive, zero + 1, power) / (1 + power);
            put(out + n * inner + i, gate * share * up);
        }
}

/* Turns the two halves of each of ``heads`` heads of a row by the angles of its position (Su et al. 2021,
 * arXiv:2104.09864): row n begins at x + n * stride; ``turns`` [positions, D] has cosines, then sines. */
void rotate(
    float *x, const int64_t *positions, const float *turns, size_t rows, size_t stride, size_t heads, size_t size) {
    size_t half = size / 2;
#pragma omp parallel for schedule(static) if (rows > MANY)
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
