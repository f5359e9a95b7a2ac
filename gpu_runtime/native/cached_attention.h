/* Attention of single queries over cached keys and values, as vLLM's engine on a CPU keeps them in float32: blocks of S
 * tokens, in which each head has keys [D, S], then values [S, D]. One pass over the blocks of a sequence, whose sums are
 * corrected when a larger score comes (Milakov and Gimelshein 2018, arXiv:1805.02867); a row's sums run in the order of
 * its tokens, whatever the other rows are. Shapes: N rows, each of another sequence, H query heads, G key heads, D head
 * size, a multiple of 2 SIDE, S a multiple of 32. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "panels.h"

enum { PIECE = 32, MOST_SIZE = 256, VECTORS = PIECE / SIDE, TOGETHER_MOST = 3 };

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

/* Of COUNT queries [D], one after the other, the running sums of the pieces so far; P is room for a piece's weights. */
struct attended {
    float sums[TOGETHER_MOST][MOST_SIZE], P[TOGETHER_MOST][PIECE], most[TOGETHER_MOST];
    vector total[TOGETHER_MOST];
};

/* P of COUNT queries with 32 keys of [D, S]: scaled scores, minus infinity from ``count`` on. Meanwhile the next 32 keys,
 * and the next values, come into the cache. */
INLINE void scores_of(
    struct attended *a, const float *queries, const float *keys, const float *values, const struct cached *c, size_t count,
    const size_t COUNT) {
    vector sums[TOGETHER_MOST][VECTORS] = {{{0}}};
    for (size_t d = 0; d < c->size; d++) {
        const float *of_d = keys + d * c->tokens;
        for (size_t i = 0; i < PIECE; i += 16) {
            __builtin_prefetch(of_d + PIECE + i, 0, 2);
            __builtin_prefetch(values + (c->size + d) * PIECE + i, 0, 2);
        }
#pragma GCC unroll 4
        for (size_t q = 0; q < COUNT; q++)
#pragma GCC unroll 4
            for (size_t i = 0; i < VECTORS; i++)
                sums[q][i] = fused(vector_at(of_d + i * SIDE), all(queries[q * c->size + d]), sums[q][i]);
    }
    for (size_t q = 0; q < COUNT; q++) {
        for (size_t i = 0; i < VECTORS; i++) put(a->P[q] + i * SIDE, sums[q][i] * c->scale);
        for (size_t i = count; i < PIECE; i++) a->P[q][i] = -INFINITY;
    }
}

/* Turns the scores of query ``q`` to weights, exp(score - most), and corrects its sums for a larger most. */
INLINE void weights_of(struct attended *a, size_t q, size_t size) {
    vector largest = all(a->most[q]);
    for (size_t i = 0; i < PIECE; i += SIDE) {
        vector score = vector_at(a->P[q] + i);
        largest = chosen(score > largest, score, largest);
    }
    float before = a->most[q], most = most_of(largest);
    vector correction = exponential(all(before - most));
    a->most[q] = most;
    a->total[q] *= correction;
    for (size_t i = 0; i < PIECE; i += SIDE) {
        vector weight = exponential(vector_at(a->P[q] + i) - most);
        put(a->P[q] + i, weight);
        a->total[q] += weight;
    }
    if (most > before)
        for (size_t d = 0; d < size; d += SIDE) put(a->sums[q] + d, vector_at(a->sums[q] + d) * correction);
}

/* sums [D] of COUNT queries += P values, of ``count`` tokens, values [S, D], two vectors of them at a time. */
INLINE void values_add(struct attended *a, const float *values, size_t size, size_t count, const size_t COUNT) {
    for (size_t d = 0; d < size; d += 2 * SIDE) {
        vector low[TOGETHER_MOST], high[TOGETHER_MOST];
#pragma GCC unroll 4
        for (size_t q = 0; q < COUNT; q++) low[q] = vector_at(a->sums[q] + d), high[q] = vector_at(a->sums[q] + d + SIDE);
        for (size_t t = 0; t < count; t++) {
            vector of_low = vector_at(values + t * size + d), of_high = vector_at(values + t * size + d + SIDE);
#pragma GCC unroll 4
            for (size_t q = 0; q < COUNT; q++) {
                vector weight = all(a->P[q][t]);
                low[q] = fused(weight, of_low, low[q]), high[q] = fused(weight, of_high, high[q]);
            }
        }
#pragma GCC unroll 4
        for (size_t q = 0; q < COUNT; q++) put(a->sums[q] + d, low[q]), put(a->sums[q] + d + SIDE, high[q]);
    }
}

/* ``out`` of COUNT queries, [D] each, over the first ``length`` tokens of a sequence: softmax(scale q K^T) V. */
INLINE void queries_attend(
    float *out, const float *queries, const float *cache, const struct cached *c, const int32_t *blocks, size_t length,
    const size_t COUNT) {
    struct attended a;
    for (size_t q = 0; q < COUNT; q++) {
        a.most[q] = -3e38f, a.total[q] = all(0); /* finite, so that a difference is a number */
        memset(a.sums[q], 0, c->size * sizeof(float));
    }
    for (size_t first = 0; first < length; first += PIECE) {
        size_t count = least(length - first, PIECE), within = first % c->tokens;
        const float *keys = cache + (size_t)blocks[first / c->tokens] * c->block;
        const float *values = keys + (c->tokens + within) * c->size;
        scores_of(&a, queries, keys + within, values, c, count, COUNT);
        for (size_t q = 0; q < COUNT; q++) weights_of(&a, q, c->size);
        values_add(&a, values, c->size, count, COUNT);
    }
    for (size_t q = 0; q < COUNT; q++) {
        float share = 1 / sum_of(a.total[q]);
        for (size_t d = 0; d < c->size; d += SIDE) put(out + q * c->size + d, vector_at(a.sums[q] + d) * share);
    }
}

/* As many of the ``count`` queries of one head as there are, three at a time, so that keys are read once for them. */
INLINE void head_attend(
    float *out, const float *queries, const float *cache, const struct cached *c, const int32_t *blocks, size_t length,
    size_t count) {
    size_t q = 0;
    for (; q + 3 <= count; q += 3) queries_attend(out + q * c->size, queries + q * c->size, cache, c, blocks, length, 3);
    if (count - q == 2) queries_attend(out + q * c->size, queries + q * c->size, cache, c, blocks, length, 2);
    if (count - q == 1) queries_attend(out + q * c->size, queries + q * c->size, cache, c, blocks, length, 1);
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
            head_attend(attended + (n * c->heads + g * shared) * D, row + g * shared * D, of_head, c, c->blocks + n * c->most,
                (size_t)c->lengths[n], shared);
        }
}
