/* Attention of single queries over cached keys and values, as vLLM's engine on a CPU keeps them in float32: blocks of S
 * tokens, in which each head has keys [D, S], then values [S, D]. One pass over the blocks of a sequence, whose sums are
 * corrected when a larger score comes (Milakov and Gimelshein 2018, arXiv:1805.02867); a row's sums run in the order of
 * its tokens, whatever the other rows are. Shapes: N rows, each of another sequence, H query heads, G key heads, D head
 * size, a multiple of SIDE, S a multiple of 32. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "panels.h"

enum { PIECE = 32, MOST_SIZE = 256, TOGETHER = PIECE / SIDE };

struct cached {
    size_t block, head, tokens; /* numbers from a block, or a head, to the next; S */
    const int32_t *blocks;      /* [N, most]: those of a row's sequence, in order */
    size_t most;
    const int32_t *lengths;     /* [N]: tokens of the sequence, the row's own with them */
    const int64_t *slots;       /* [N]: block * S + place of the row's own key and value */
    size_t heads, kept, size;   /* H, G, D */
    float scale;                /* of a score */
};

INLINE float most_of(vector v) {
    float most = v[0];
    for (int i = 1; i < SIDE; i++) most = v[i] > most ? v[i] : most;
    return most;
}

/* exp(x) of one number, x <= 0. */
INLINE float exponential_of(float x) { return exponential(all(x))[0]; }

/* P [32] of a query [D] with 32 keys of [D, S]: scaled scores, minus infinity from ``count`` on. Returns the largest. */
INLINE float scores_of(
    float *P, const float *query, const float *keys, size_t tokens, size_t size, size_t count, float scale) {
    vector sums[TOGETHER] = {{0}}, most = all(-INFINITY);
    for (size_t d = 0; d < size; d++) {
        vector of_query = all(query[d]);
#pragma GCC unroll 4
        for (size_t i = 0; i < TOGETHER; i++) sums[i] = fused(vector_at(keys + d * tokens + i * SIDE), of_query, sums[i]);
    }
    for (size_t i = 0; i < TOGETHER; i++) put(P + i * SIDE, sums[i] * scale);
    for (size_t i = count; i < PIECE; i++) P[i] = -INFINITY;
    for (size_t i = 0; i < TOGETHER; i++) {
        vector score = vector_at(P + i * SIDE);
        most = chosen(score > most, score, most);
    }
    return most_of(most);
}

/* sums [D] = correction sums + P values, of ``count`` tokens, values [S, D]. */
INLINE void values_add(
    float *sums, const float *P, const float *values, size_t size, size_t count, float correction) {
    for (size_t d = 0; d < size; d += SIDE) {
        vector sum = vector_at(sums + d) * correction;
        for (size_t t = 0; t < count; t++) sum = fused(all(P[t]), vector_at(values + t * size + d), sum);
        put(sums + d, sum);
    }
}

/* ``out`` [D] of one query over the first ``length`` tokens of a sequence: softmax(scale q K^T) V. */
INLINE void query_attend(
    float *out, const float *query, const float *cache, const struct cached *c, const int32_t *blocks, size_t length) {
    float sums[MOST_SIZE] = {0}, P[PIECE], most = -3e38f; /* finite, so that a difference is a number */
    vector total = {0};
    for (size_t first = 0; first < length; first += PIECE) {
        size_t count = least(length - first, PIECE), within = first % c->tokens;
        const float *keys = cache + (size_t)blocks[first / c->tokens] * c->block;
        float largest = scores_of(P, query, keys + within, c->tokens, c->size, count, c->scale), before = most;
        if (largest > most) most = largest;
        float correction = exponential_of(before - most);
        total *= correction;
        for (size_t i = 0; i < TOGETHER; i++) {
            vector weight = exponential(vector_at(P + i * SIDE) - most);
            put(P + i * SIDE, weight);
            total += weight;
        }
        values_add(sums, P, keys + c->tokens * c->size + within * c->size, c->size, count, correction);
    }
    float share = 1 / sum_of(total);
    for (size_t d = 0; d < c->size; d += SIDE) put(out + d, vector_at(sums + d) * share);
}

/* Within a parallel region: keeps keys and values of the rows of ``heads`` [N, (H + 2 G) D] in ``cache``, which begins at
 * its first block's first head, and writes ``attended`` [N, H D]. */
INLINE void rows_attend(float *attended, const float *heads, float *cache, const struct cached *c, size_t rows) {
    size_t D = c->size, shared = c->heads / c->kept, width = (c->heads + 2 * c->kept) * D;
#pragma omp for schedule(dynamic, 1) collapse(2)
    for (size_t n = 0; n < rows; n++)
        for (size_t g = 0; g < c->kept; g++) {
            const float *row = heads + n * width, *key = row + (c->heads + g) * D, *value = key + c->kept * D;
            size_t slot = (size_t)c->slots[n], place = slot % c->tokens;
            float *of_head = cache + g * c->head, *block = of_head + slot / c->tokens * c->block;
            for (size_t d = 0; d < D; d++) block[d * c->tokens + place] = key[d];
            memcpy(block + (c->tokens + place) * D, value, D * sizeof(float));
            for (size_t h = g * shared; h < (g + 1) * shared; h++)
                query_attend(attended + (n * c->heads + h) * D, row + h * D, of_head, c, c->blocks + n * c->most,
                    (size_t)c->lengths[n]);
        }
}
