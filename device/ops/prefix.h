/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scans share on the CPU. Several tiles: each leaves what it comes to in the workspace, finish turns these
 * into what comes before each tile, in order, and in the second phase tiles go on from there; one tile begins at once.
 * One thread a share; bounded by the tile.
 *
 * What a scan has come to is 64 bits, its state: an integer sum modulo 2^width, an f64, or the least key so far
 * (keys.h). A sum that does not fit is found where the step from one element to the next leaves the type. Modulo
 * 2^width every state is right, so the first such step is at the first sum that does not fit, however tiles are cut.
 */
#ifndef GM_OPS_PREFIX_H
#define GM_OPS_PREFIX_H

#include <math.h>
#include <string.h>

#include "least.h"
#include "core/plan.h"

#define GM_PREFIX_CHAINS 8u

enum gm_prefix_op { GM_PREFIX_SUM, GM_PREFIX_MIN, GM_PREFIX_MAX };

struct gm_prefix {
    struct gm_key_rule rule;
    enum gm_prefix_op op;
    uint32_t dtype;
    bool exclusive;
};

/* In the workspace: what a tile comes to, then what comes before it. head: a segment begins in the tile, and the state
 * is of what is behind the last beginning (segscan.h). */
struct gm_prefix_partial {
    uint64_t state, head;
};
static_assert(sizeof(struct gm_prefix_partial) == GM_PARTIAL_BYTES, "plan.h reserves this much a tile");

static inline uint64_t gm_prefix_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
static inline double gm_prefix_number(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* _total: what elements from first on come to. _piece: the outputs of count elements, of which the first used ones are
 * gone over; true when a step left the type. The output may be the input. */
#define GM_PREFIX_INTEGER(name, type, bits)                                                                            \
    static inline uint64_t gm_prefix_total_##name(const void *data, uint64_t first, uint64_t count)                    \
    {                                                                                                                  \
        const type *in = (const type *)data + first;                                                                   \
        bits sum = 0;                                                                                                  \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            sum += (bits)in[i];                                                                                        \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static inline bool gm_prefix_piece_##name(uint64_t *state, const type *in, type *out, uint64_t count,              \
                                              uint64_t used, bool exclusive)                                           \
    {                                                                                                                  \
        type sum = (type)*state;                                                                                       \
        bool over = false;                                                                                             \
        for (uint64_t i = 0; i < used; i++) {                                                                          \
            const type before = sum;                                                                                   \
            over |= __builtin_add_overflow(before, in[i], &sum);                                                       \
            out[i] = exclusive ? before : sum;                                                                         \
        }                                                                                                              \
        if (used < count)                                                                                              \
            out[used] = sum;                                                                                           \
        *state = (bits)sum;                                                                                            \
        return over;                                                                                                   \
    }
GM_PREFIX_INTEGER(i32, int32_t, uint32_t)
GM_PREFIX_INTEGER(u32, uint32_t, uint32_t)
GM_PREFIX_INTEGER(i64, int64_t, uint64_t)
GM_PREFIX_INTEGER(u64, uint64_t, uint64_t)

/* In f64. A NaN without a payload, because which one it is would depend on the order of operands. */
#define GM_PREFIX_FLOAT(name, type)                                                                                    \
    static inline uint64_t gm_prefix_total_##name(const void *data, uint64_t first, uint64_t count)                    \
    {                                                                                                                  \
        const type *in = (const type *)data + first;                                                                   \
        double s[GM_PREFIX_CHAINS] = {0};                                                                              \
        uint64_t i = 0;                                                                                                \
        for (; i + GM_PREFIX_CHAINS <= count; i += GM_PREFIX_CHAINS)                                                   \
            for (uint32_t k = 0; k < GM_PREFIX_CHAINS; k++)                                                            \
                s[k] += (double)in[i + k];                                                                             \
        for (uint32_t k = 0; i < count; i++, k++)                                                                      \
            s[k] += (double)in[i];                                                                                     \
        return gm_prefix_bits(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));                      \
    }                                                                                                                  \
    static inline bool gm_prefix_piece_##name(uint64_t *state, const type *in, type *out, uint64_t count,              \
                                              uint64_t used, bool exclusive)                                           \
    {                                                                                                                  \
        double sum = gm_prefix_number(*state);                                                                         \
        for (uint64_t i = 0; i < used; i++) {                                                                          \
            const double before = sum;                                                                                 \
            sum += (double)in[i];                                                                                      \
            const double v = exclusive ? before : sum;                                                                 \
            out[i] = v == v ? (type)v : (type)NAN;                                                                     \
        }                                                                                                              \
        if (used < count)                                                                                              \
            out[used] = sum == sum ? (type)sum : (type)NAN;                                                            \
        *state = gm_prefix_bits(sum);                                                                                  \
        return false;                                                                                                  \
    }
GM_PREFIX_FLOAT(f32, float)
GM_PREFIX_FLOAT(f64, double)

#define GM_PREFIX_LEAST(name, bits)                                                                                    \
    static inline void gm_prefix_least_##name(const struct gm_prefix *p, uint64_t *state, const bits *in, bits *out,   \
                                              uint64_t count, uint64_t used)                                           \
    {                                                                                                                  \
        const struct gm_key_rule rule = p->rule;                                                                       \
        const uint32_t dtype = p->dtype;                                                                               \
        bits least = (bits)*state;                                                                                     \
        for (uint64_t i = 0; i < used; i++) {                                                                          \
            const bits before = least, key = gm_key_encode_##name(&rule, in[i]);                                       \
            least = key < before ? key : before;                                                                       \
            out[i] = (bits)gm_key_result(&rule, dtype, p->exclusive ? before : least);                                 \
        }                                                                                                              \
        if (used < count)                                                                                              \
            out[used] = (bits)gm_key_result(&rule, dtype, least);                                                      \
        *state = least;                                                                                                \
    }
GM_PREFIX_LEAST(u32, uint32_t)
GM_PREFIX_LEAST(u64, uint64_t)

static inline struct gm_prefix gm_prefix_make(const struct gm_job *job, enum gm_prefix_op op)
{
    const enum gm_key_order order = op == GM_PREFIX_MAX ? GM_KEY_DESCENDING : GM_KEY_NAN_FIRST;
    return (struct gm_prefix){.rule = gm_key_rule(job->dtype, order),
                              .op = op,
                              .dtype = job->dtype,
                              .exclusive = (job->flags & GM_FLAG_EXCLUSIVE) != 0};
}

/* The state of nothing: 0, +0, or the greatest key, which is that of what min and max of nothing give. */
static inline uint64_t gm_prefix_nothing(const struct gm_prefix *p)
{
    return p->op == GM_PREFIX_SUM ? 0 : gm_dtype_bytes(p->dtype) == 4u ? UINT32_MAX : UINT64_MAX;
}

/* Of what a comes from and then of what b comes from. */
static inline uint64_t gm_prefix_join(const struct gm_prefix *p, uint64_t a, uint64_t b)
{
    if (p->op != GM_PREFIX_SUM)
        return b < a ? b : a;
    return gm_dtype_kind(p->dtype) == 'f' ? gm_prefix_bits(gm_prefix_number(a) + gm_prefix_number(b)) : a + b;
}

static inline uint64_t gm_prefix_total(const struct gm_prefix *p, const void *in, uint64_t first, uint64_t count)
{
    if (p->op != GM_PREFIX_SUM)
        return gm_dtype_bytes(p->dtype) == 4u ? gm_least_u32(&p->rule, (const uint32_t *)in + first, count)
                                              : gm_least_u64(&p->rule, (const uint64_t *)in + first, count);
    switch (p->dtype) {
    case GM_DTYPE_i32:
        return gm_prefix_total_i32(in, first, count);
    case GM_DTYPE_u32:
        return gm_prefix_total_u32(in, first, count);
    case GM_DTYPE_i64:
        return gm_prefix_total_i64(in, first, count);
    case GM_DTYPE_u64:
        return gm_prefix_total_u64(in, first, count);
    case GM_DTYPE_f32:
        return gm_prefix_total_f32(in, first, count);
    default:
        return gm_prefix_total_f64(in, first, count);
    }
}

/* Outputs of count elements from first on; used: see above, count or one less. */
static inline bool gm_prefix_piece(const struct gm_prefix *p, uint64_t *state, const void *in, void *out,
                                   uint64_t first, uint64_t count, uint64_t used)
{
#define PIECE(name, type)                                                                                              \
    case GM_DTYPE_##name:                                                                                              \
        return gm_prefix_piece_##name(state, (const type *)in + first, (type *)out + first, count, used, p->exclusive)
    if (p->op != GM_PREFIX_SUM) {
        if (gm_dtype_bytes(p->dtype) == 4u)
            gm_prefix_least_u32(p, state, (const uint32_t *)in + first, (uint32_t *)out + first, count, used);
        else
            gm_prefix_least_u64(p, state, (const uint64_t *)in + first, (uint64_t *)out + first, count, used);
        return false;
    }
    switch (p->dtype) {
        PIECE(i32, int32_t);
        PIECE(u32, uint32_t);
        PIECE(i64, int64_t);
        PIECE(u64, uint64_t);
        PIECE(f32, float);
        PIECE(f64, double);
    default:
        return false;
    }
#undef PIECE
}

static inline void gm_prefix_share(struct gm_run *run, enum gm_prefix_op op)
{
    const struct gm_prefix p = gm_prefix_make(run->job, op);
    struct gm_prefix_partial *partials = (struct gm_prefix_partial *)(uintptr_t)run->job->workspace;
    const bool writes = run->job->phase + 1u == run->job->phases;
    const void *in = gm_run_buffer(run, 0);
    bool over = false;
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (!writes) {
            partials[tile] = (struct gm_prefix_partial){gm_prefix_total(&p, in, first, count), 0};
            continue;
        }
        uint64_t state = run->job->phases > 1 ? partials[tile].state : gm_prefix_nothing(&p);
        /* No output of an exclusive scan has the last element in it. */
        const bool without = p.exclusive && first + count == run->job->n;
        over |= gm_prefix_piece(&p, &state, in, gm_run_buffer(run, 1), first, count, without ? count - 1u : count);
    }
    if (over)
        gm_run_fail(run, GM_EOVERFLOW);
}

/* What tiles come to becomes what comes before them. */
static inline void gm_prefix_finish(struct gm_run *run, enum gm_prefix_op op)
{
    const struct gm_prefix p = gm_prefix_make(run->job, op);
    struct gm_prefix_partial *partials = (struct gm_prefix_partial *)(uintptr_t)run->job->workspace;
    uint64_t state = gm_prefix_nothing(&p);
    if (run->job->phase + 1u == run->job->phases)
        return;
    for (uint64_t t = 0; t < run->job->tiles; t++) {
        const struct gm_prefix_partial of = partials[t];
        partials[t].state = state;
        state = of.head != 0 ? of.state : gm_prefix_join(&p, state, of.state);
    }
}

#endif
