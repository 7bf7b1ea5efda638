/* SPDX-License-Identifier: Apache-2.0
 *
 * What the one-dimensional stencils share on the CPU: a loop over a tile for each type, whose ends look no further than
 * the input. One thread a share.
 */
#ifndef GM_OPS_STENCIL_H
#define GM_OPS_STENCIL_H

#include <math.h>
#include <string.h>

#include "run.h"

/* Weights of any type, as bits. */
struct gm_stencil {
    uint64_t left, center, right;
};

/* Makes gm_stencil_<name>(run, weights, first, count); formula: of the elements l, x and r and the weights left, center
 * and right; check: of its value v, what becomes the output. */
#define GM_STENCIL(name, type, formula, check)                                                                         \
    static void gm_stencil_##name(const struct gm_run *run, const struct gm_stencil *weights, uint64_t first,          \
                                  uint64_t count)                                                                      \
    {                                                                                                                  \
        const uint64_t n = run->job->n, end = first + count;                                                           \
        const type *in = gm_run_buffer(run, 0);                                                                        \
        type *out = gm_run_buffer(run, 1), left, center, right;                                                        \
        memcpy(&left, &weights->left, sizeof left);                                                                    \
        memcpy(&center, &weights->center, sizeof center);                                                              \
        memcpy(&right, &weights->right, sizeof right);                                                                 \
        (void)left, (void)center, (void)right;                                                                         \
        const uint64_t inner = first == 0 ? 1u : first, outer = end == n ? n - 1u : end;                               \
        for (uint64_t i = inner; i < outer; i++) {                                                                     \
            const type l = in[i - 1u], x = in[i], r = in[i + 1u], v = (formula);                                       \
            out[i] = (check);                                                                                          \
        }                                                                                                              \
        for (uint32_t side = 0; side < 2; side++) { /* the first and the last element of the input */                  \
            const uint64_t i = side == 0 ? 0 : n - 1u;                                                                 \
            if (i < first || i >= end)                                                                                 \
                continue;                                                                                              \
            const type l = i != 0 ? in[i - 1u] : 0, x = in[i], r = i + 1u != n ? in[i + 1u] : 0, v = (formula);        \
            out[i] = (check);                                                                                          \
        }                                                                                                              \
    }

#define GM_STENCILS(integer, single, whole)                                                                            \
    GM_STENCIL(32, uint32_t, integer, v)                                                                               \
    GM_STENCIL(64, uint64_t, integer, v)                                                                               \
    GM_STENCIL(f32, float, single, v == v ? v : NAN)                                                                   \
    GM_STENCIL(f64, double, whole, v == v ? v : (double)NAN)                                                           \
    static void gm_stencil_share(struct gm_run *run, const struct gm_stencil *weights)                                 \
    {                                                                                                                  \
        uint64_t tile, count;                                                                                          \
        while (gm_run_next_tile(run, &tile)) {                                                                         \
            const uint64_t first = gm_run_tile(run, tile, &count);                                                     \
            if (gm_dtype_kind(run->job->dtype) != 'f')                                                                 \
                (gm_dtype_bytes(run->job->dtype) == 4u ? gm_stencil_32 : gm_stencil_64)(run, weights, first, count);   \
            else                                                                                                       \
                (run->job->dtype == GM_DTYPE_f32 ? gm_stencil_f32 : gm_stencil_f64)(run, weights, first, count);       \
        }                                                                                                              \
    }

#endif
