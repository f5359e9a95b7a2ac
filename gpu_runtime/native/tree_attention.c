/* Attention over a packed tree, forward and backward: softmax(Q K^T) V in float32, a block of queries and a key head at
 * a time, so that scores never leave a core's cache. The arithmetic is FlashAttention's (Dao et al. 2022,
 * arXiv:2205.14135, section 3 and appendix B) without tiling of the keys.
 *
 * SIDE queries of one head are the lanes of a vector: scores [keys, SIDE] come from panels of queries and keys, and
 * softmax over keys is one operation for all of them. A query i sees a key j where j <= i < end[j]. Shapes: N nodes, H
 * query heads, G key heads, D head size, a multiple of SIDE. */
#include <math.h>
#include <stdlib.h>

#include "panels.h"

/* Queries [first, last) and the ``keys`` that one of them sees, ascending; the first ``common`` are seen by all. */
struct block {
    const int *key;
    size_t first, last, keys, common;
};

/* [nodes, heads, D]: where it begins, and how many numbers a node and a head are from the next. */
struct view {
    const float *begin;
    size_t node, head;
};

struct attention {
    struct view query, key, value;
    struct view grad;                          /* of attended */
    float *attended;                           /* [N, H, D] */
    float *grad_query, *grad_key, *grad_value; /* [N, H, D]; [G, N, D] of zeros, which are added to */
    const int *end;                            /* [N] */
    const struct block *blocks;
    size_t count, nodes, heads, groups, size;
    float scale; /* of a score */
};

/* A thread's: key and value panels of a block, and what is computed for SIDE of its queries. */
struct scratch {
    float *key_turned, *value_turned;    /* [keys / SIDE, D, SIDE] */
    float *key, *value;                  /* [D / SIDE, keys, SIDE] */
    float *grad_key, *grad_value;        /* [keys, D] */
    float *weights, *slopes;             /* [keys, SIDE queries] */
    float *query, *grad, *attended;      /* [D, SIDE queries] */
    float *query_rows, *grad_rows;       /* [D / SIDE, SIDE queries, SIDE] */
};

/* out [rows, SIDE of ``stride``] from x [K, SIDE rows] and weight [K, SIDE]; with ``add``, added to what is there. */
INLINE void product(
    float *restrict out, size_t stride, const float *restrict x, const float *restrict weight, size_t K, size_t rows,
    const int add) {
    vector sums[SIDE] = {{0}};
    if (add) {
#pragma GCC unroll 16
        for (size_t r = 0; r < SIDE; r++) sums[r] = vector_at(out + r * stride);
    }
    for (size_t k = 0; k < K; k++) {
        vector of_weight = vector_at(weight + k * SIDE);
#pragma GCC unroll 16
        for (size_t r = 0; r < SIDE; r++) sums[r] = fused(of_weight, all(x[k * SIDE + r]), sums[r]);
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < SIDE; r++)
        if (r < rows) put(out + r * stride, sums[r]);
}

/* SIDE rows, of which ``count`` exist: turned [D, SIDE] and, where wanted, as they are [D / SIDE, SIDE, SIDE]. */
static void rows_take(
    float *restrict turned, float *restrict plain, size_t plain_stride, const float *const rows[SIDE], size_t count,
    size_t size) {
    for (size_t d = 0; d < size; d += SIDE) {
        vector r[SIDE] = {{0}};
        for (size_t i = 0; i < count; i++) r[i] = vector_at(rows[i] + d);
        if (plain)
            for (size_t i = 0; i < SIDE; i++) put(plain + d * plain_stride + i * SIDE, r[i]);
        if (!turned) continue;
        transpose(r);
        for (size_t i = 0; i < SIDE; i++) put(turned + (d + i) * SIDE, r[i]);
    }
}

/* The block's keys of one head, or their values. */
static void keys_take(
    float *turned, float *plain, struct view from, const struct block *block, size_t head, size_t size) {
    size_t padded = panels_of(block->keys) * SIDE;
    for (size_t k = 0; k < padded; k += SIDE) {
        const float *rows[SIDE];
        size_t count = least(SIDE, block->keys - k);
        for (size_t i = 0; i < count; i++)
            rows[i] = from.begin + (size_t)block->key[k + i] * from.node + head * from.head;
        rows_take(turned ? turned + k * size : NULL, plain ? plain + k * SIDE : NULL, padded, rows, count, size);
    }
}

/* ``count`` queries of one head from node ``first`` on. */
static void queries_take(
    float *turned, float *plain, struct view from, size_t first, size_t count, size_t head, size_t size) {
    const float *rows[SIDE];
    for (size_t i = 0; i < count; i++) rows[i] = from.begin + (first + i) * from.node + head * from.head;
    rows_take(turned, plain, SIDE, rows, count, size);
}

/* How many keys, a multiple of SIDE, hold all that queries before ``last`` see: keys ascend. */
static size_t keys_before(const struct block *block, size_t last) {
    size_t low = 0, high = block->keys;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((size_t)block->key[middle] < last) low = middle + 1;
        else high = middle;
    }
    return panels_of(low) * SIDE;
}

/* P [keys, SIDE] of the queries in ``s->query``, of which node ``first`` is the first: softmax over ``keys``. */
static void weights_of(
    const struct attention *a, const struct scratch *s, const struct block *block, size_t first, size_t keys) {
    float *P = s->weights;
    vector hidden = {0}, most = hidden, total = hidden;
    hidden -= INFINITY, most -= 3e38f; /* so that a lane that sees nothing has weights of 0 */
    lanes row;
    for (int i = 0; i < SIDE; i++) row[i] = (int)first + i;
    for (size_t k = 0; k < keys; k += SIDE)
        product(P + k * SIDE, SIDE, s->key_turned + k * a->size, s->query, a->size, SIDE, 0);
    for (size_t k = 0; k < keys; k++) {
        vector score = vector_at(P + k * SIDE) * a->scale;
        if (k >= block->keys) {
            score = hidden;
        } else if (k >= block->common) {
            int node = block->key[k];
            score = chosen((row >= node) & (row < a->end[node]), score, hidden);
        }
        put(P + k * SIDE, score);
        most = chosen(score > most, score, most);
    }
    for (size_t k = 0; k < keys; k++) {
        vector weight = exponential(vector_at(P + k * SIDE) - most);
        put(P + k * SIDE, weight);
        total += weight;
    }
    vector zero = {0}, share = 1 / (total + chosen(total == zero, zero + 1, zero));
    for (size_t k = 0; k < keys; k++) put(P + k * SIDE, vector_at(P + k * SIDE) * share);
}

/* Room for the largest block; NULL inside where there is no memory. ``room`` is what is freed. */
static struct scratch scratch_make(const struct attention *a, int is_backward, float **room) {
    size_t keys = 0, D = a->size;
    for (size_t b = 0; b < a->count; b++) keys = a->blocks[b].keys > keys ? a->blocks[b].keys : keys;
    keys = panels_of(keys) * SIDE;
    size_t of_keys = keys * D, of_queries = D * SIDE, back = is_backward;
    size_t sizes[] = {of_keys, back * of_keys, back * of_keys, !back * of_keys, back * of_keys, back * of_keys,
        keys * SIDE, back * keys * SIDE, of_queries, back * of_queries, back * of_queries, back * of_queries,
        back * of_queries};
    enum { PARTS = sizeof sizes / sizeof *sizes };
    size_t all = SIDE;
    for (size_t i = 0; i < PARTS; i++) all += sizes[i];
    float *parts[PARTS], *next = *room = aligned_alloc(64, all * sizeof(float));
    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = next;
        if (next) next += sizes[i];
    }
    return (struct scratch){parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7], parts[8],
        parts[9], parts[10], parts[11], parts[12]};
}

static void block_forward(
    const struct attention *a, const struct scratch *s, const struct block *block, size_t group) {
    size_t D = a->size, shared = a->heads / a->groups, padded = panels_of(block->keys) * SIDE;
    keys_take(s->key_turned, NULL, a->key, block, group, D);
    keys_take(NULL, s->value, a->value, block, group, D);
    for (size_t head = group * shared; head < (group + 1) * shared; head++)
        for (size_t first = block->first; first < block->last; first += SIDE) {
            size_t rows = least(SIDE, block->last - first), keys = keys_before(block, first + rows);
            queries_take(s->query, NULL, a->query, first, rows, head, D);
            weights_of(a, s, block, first, keys);
            float *out = a->attended + (first * a->heads + head) * D;
            for (size_t d = 0; d < D; d += SIDE)
                product(out + d, a->heads * D, s->weights, s->value + d * padded, keys, rows, 0);
        }
}

/* dS = scale P (dP - sum(dO O)), dP = dO V^T; and what SIDE queries add to the gradients of the block's keys and values. */
static void slopes_of(const struct attention *a, const struct scratch *s, size_t keys) {
    size_t D = a->size;
    vector sums = {0};
    for (size_t d = 0; d < D; d++) sums += vector_at(s->grad + d * SIDE) * vector_at(s->attended + d * SIDE);
    for (size_t k = 0; k < keys; k += SIDE) {
        float *dS = s->slopes + k * SIDE, weights[SIDE * SIDE], slopes[SIDE * SIDE];
        vector turned[SIDE];
        product(dS, SIDE, s->value_turned + k * D, s->grad, D, SIDE, 0);
        for (size_t i = 0; i < SIDE; i++) {
            turned[i] = (vector_at(dS + i * SIDE) - sums) * vector_at(s->weights + (k + i) * SIDE) * a->scale;
            put(dS + i * SIDE, turned[i]);
        }
        transpose(turned);
        memcpy(slopes, turned, sizeof slopes);
        memcpy(turned, s->weights + k * SIDE, sizeof turned);
        transpose(turned);
        memcpy(weights, turned, sizeof weights);
        for (size_t d = 0; d < D; d += SIDE) {
            product(s->grad_value + k * D + d, D, weights, s->grad_rows + d * SIDE, SIDE, SIDE, 1);
            product(s->grad_key + k * D + d, D, slopes, s->query_rows + d * SIDE, SIDE, SIDE, 1);
        }
    }
}

static void block_backward(
    const struct attention *a, const struct scratch *s, const struct block *block, size_t group) {
    size_t D = a->size, shared = a->heads / a->groups, padded = panels_of(block->keys) * SIDE;
    struct view attended = {a->attended, a->heads * D, D};
    keys_take(s->key_turned, s->key, a->key, block, group, D);
    keys_take(s->value_turned, NULL, a->value, block, group, D);
    memset(s->grad_key, 0, padded * D * sizeof(float));
    memset(s->grad_value, 0, padded * D * sizeof(float));
    for (size_t head = group * shared; head < (group + 1) * shared; head++)
        for (size_t first = block->first; first < block->last; first += SIDE) {
            size_t rows = least(SIDE, block->last - first), keys = keys_before(block, first + rows);
            queries_take(s->query, s->query_rows, a->query, first, rows, head, D);
            queries_take(s->grad, s->grad_rows, a->grad, first, rows, head, D);
            queries_take(s->attended, NULL, attended, first, rows, head, D);
            weights_of(a, s, block, first, keys);
            slopes_of(a, s, keys);
            float *out = a->grad_query + (first * a->heads + head) * D;
            for (size_t d = 0; d < D; d += SIDE)
                product(out + d, a->heads * D, s->slopes, s->key + d * padded, keys, rows, 0);
        }
}

static void block_add(const struct attention *a, const struct scratch *s, const struct block *block, size_t group) {
    for (size_t k = 0; k < block->keys; k++)
        for (size_t d = 0; d < a->size; d++) {
            size_t at = (group * a->nodes + (size_t)block->key[k]) * a->size + d;
            a->grad_key[at] += s->grad_key[k * a->size + d];
            a->grad_value[at] += s->grad_value[k * a->size + d];
        }
}

/* 0, or 1 where there was no memory. */
int attend(const struct attention *a) {
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *room;
        struct scratch s = scratch_make(a, 0, &room);
        failed = !room;
#pragma omp for schedule(dynamic, 1)
        for (size_t task = 0; task < a->count * a->groups; task++)
            if (room) block_forward(a, &s, a->blocks + task / a->groups, task % a->groups);
        free(room);
    }
    return failed;
}

/* The same; blocks are added in their order, so that sums are the same for any number of threads. */
int attend_back(const struct attention *a) {
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        float *room;
        struct scratch s = scratch_make(a, 1, &room);
        failed = !room;
#pragma omp for ordered schedule(dynamic, 1)
        for (size_t task = 0; task < a->count * a->groups; task++) {
            const struct block *block = a->blocks + task / a->groups;
            if (room) block_backward(a, &s, block, task % a->groups);
#pragma omp ordered
            if (room) block_add(a, &s, block, task % a->groups);
        }
        free(room);
    }
    return failed;
}
