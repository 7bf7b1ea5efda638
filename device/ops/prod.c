/* SPDX-License-Identifier: Apache-2.0
 *
 * prod: each tile's product goes to its own place in the workspace, finish multiplies the places in order. One thread a
 * share. Floats are multiplied in a fixed number of chains, so the order depends on n alone. See prod.h.
 */
#include "half.h"
#include "prod.h"
#include "run.h"
#include "core/plan.h"

#define PROD_CHAINS 8u
#define PROD_BLOCK  512u /* elements at a time: of a chain 64, whose fractions' product is below 2^64 */

static_assert(sizeof(struct gm_prod) == GM_PARTIAL_BYTES, "plan.h reserves this much a tile");

static void prod_times(struct gm_prod *p, uint64_t magnitude)
{
    const unsigned __int128 product = (unsigned __int128)p->value * magnitude;
    p->value = (uint64_t)product;
    p->notes |= product >> 64 != 0 ? GM_PROD_LARGE : 0;
}

/* Once it is too large only a zero can change the answer; a zero ends it. */
#define PROD_OF(name, type)                                                                                            \
    static struct gm_prod prod_of_##name(const void *data, uint64_t count)                                             \
    {                                                                                                                  \
        const type *in = data;                                                                                         \
        struct gm_prod p = {1, 0};                                                                                     \
        for (uint64_t i = 0; i < count && (p.notes & GM_PROD_ZERO) == 0; i++) {                                        \
            const type v = in[i];                                                                                      \
            const bool negative = v < (type)1 && v != 0;                                                               \
            if (v == 0)                                                                                                \
                p.notes |= GM_PROD_ZERO;                                                                               \
            else if ((p.notes & GM_PROD_LARGE) == 0)                                                                   \
                prod_times(&p, negative ? (uint64_t)0 - (uint64_t)v : (uint64_t)v);                                    \
            p.notes ^= negative ? GM_PROD_NEGATIVE : 0;                                                                \
        }                                                                                                              \
        return p;                                                                                                      \
    }
PROD_OF(i32, int32_t)
PROD_OF(u32, uint32_t)
PROD_OF(i64, int64_t)
PROD_OF(u64, uint64_t)

/* Elements of any floating-point type, from a private copy. Where all are ordinary the loops have no branch; else what
 * is not is replaced there, so that the order is the same. */
static struct gm_prod prod_block(double *v, uint64_t count)
{
    double chain[PROD_CHAINS] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t exponent = 0;
    uint32_t notes = 0;
    uint64_t special = 0;
    for (uint64_t i = 0; i < count; i++) { /* neither 0 nor 2047 */
        const uint64_t raised = (gm_prod_bits(v[i]) & 0x7fffffffffffffffu) + (UINT64_C(1) << 52);
        special |= raised >> 63 | (raised >> 53 == 0);
    }
    if (special != 0) {
        for (uint64_t i = 0; i < count; i++)
            v[i] = gm_prod_element(v[i], &exponent, &notes);
    } else {
        uint64_t signs = 0, exponents = 0;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t bits = gm_prod_bits(v[i]);
            signs ^= bits;
            exponents += bits >> 52 & 2047u;
            v[i] = gm_prod_double((bits & 0x000fffffffffffffu) | GM_PROD_ONE_BITS);
        }
        notes = (uint32_t)(signs >> 63);
        exponent = (int64_t)exponents - (int64_t)(count * 1023u);
    }
    for (uint64_t i = 0; i < count; i++)
        chain[i % PROD_CHAINS] *= v[i];
    for (uint32_t k = 0; k < PROD_CHAINS; k++)
        exponent += gm_prod_split(&chain[k]);
    const double first = (chain[0] * chain[1]) * (chain[2] * chain[3]);
    return gm_prod_float(first * ((chain[4] * chain[5]) * (chain[6] * chain[7])), exponent, notes);
}

#define PROD_FLOATS(name, type, number)                                                                                \
    static struct gm_prod prod_of_##name(const void *data, uint64_t count)                                             \
    {                                                                                                                  \
        const type *in = data;                                                                                         \
        struct gm_prod p = {GM_PROD_ONE_BITS, 0};                                                                      \
        double v[PROD_BLOCK];                                                                                          \
        for (uint64_t i = 0; i < count; i += PROD_BLOCK) {                                                             \
            const uint64_t some = count - i < PROD_BLOCK ? count - i : PROD_BLOCK;                                     \
            for (uint64_t k = 0; k < some; k++)                                                                        \
                v[k] = (double)number(in[i + k]);                                                                      \
            p = gm_prod_join(p, prod_block(v, some));                                                                  \
        }                                                                                                              \
        return p;                                                                                                      \
    }
PROD_FLOATS(f16, uint16_t, gm_f16_float)
PROD_FLOATS(bf16, uint16_t, gm_bf16_float)
PROD_FLOATS(f32, float, )
PROD_FLOATS(f64, double, )

static struct gm_prod prod_tile(uint32_t dtype, const void *in, uint64_t count)
{
    switch (dtype) {
    case GM_DTYPE_i32:
        return prod_of_i32(in, count);
    case GM_DTYPE_u32:
        return prod_of_u32(in, count);
    case GM_DTYPE_i64:
        return prod_of_i64(in, count);
    case GM_DTYPE_u64:
        return prod_of_u64(in, count);
    case GM_DTYPE_f16:
        return prod_of_f16(in, count);
    case GM_DTYPE_bf16:
        return prod_of_bf16(in, count);
    case GM_DTYPE_f32:
        return prod_of_f32(in, count);
    default:
        return prod_of_f64(in, count);
    }
}

void gm_op_prod_share(struct gm_run *run)
{
    struct gm_prod *partials = (struct gm_prod *)(uintptr_t)run->job->workspace;
    const uint64_t bytes = gm_dtype_bytes(run->job->dtype);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * bytes;
        partials[tile] = prod_tile(run->job->dtype, (const uint8_t *)gm_run_buffer(run, 0) + first, count);
    }
}

void gm_op_prod_finish(struct gm_run *run)
{
    const struct gm_prod *partials = (const struct gm_prod *)(uintptr_t)run->job->workspace;
    const char kind = gm_dtype_kind(run->job->dtype);
    struct gm_prod p = {kind == 'f' ? GM_PROD_ONE_BITS : 1, 0};
    for (uint64_t t = 0; t < run->job->tiles; t++) {
        const struct gm_prod next = partials[t];
        if (kind == 'f') {
            p = gm_prod_join(p, next);
            continue;
        }
        prod_times(&p, next.value);
        p.notes = gm_prod_notes(p.notes, next.notes);
    }
    run->result = kind == 'f' ? gm_prod_answer(p) : gm_prod_integer(p, kind == 'i', &run->status);
}
