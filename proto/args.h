/* SPDX-License-Identifier: Apache-2.0
 *
 * Which arguments of a job are good, for whoever asks: the library, the daemon and the device. Says what is wrong,
 * which has an error, a field and a text. For C11 and CUDA C++; pure.
 */
#ifndef GM_PROTO_ARGS_H
#define GM_PROTO_ARGS_H

#include <stdbool.h>

#include "errors.h"
#include "lane.h"
#include "limits.h"
#include "ops.h"

/* C(name, status, field, text, bound): what can be wrong. Put together: field, text, and the bound unless it is 0. */
#define GM_COMPLAINTS(C)                                                                                    \
    C(DTYPE, EDTYPE, "dtype", "is not one that the op takes", 0)                                            \
    C(N, ESIZE, "n", "is more than", GM_ELEMENTS_MAX)                                                  \
    C(EMPTY, EEMPTY, "n", "must not be 0: the result would be undefined", 0)                                \
    C(DESCENDING, EINVAL, "descending", "is not for this op", 0)                                            \
    C(EXCLUSIVE, EINVAL, "exclusive", "is not for this op", 0)                                              \
    C(FLAGS, EINVAL, "flags", "has bits that mean nothing", 0)                                              \
    C(UNUSED, EINVAL, "op", "has arguments that the op does not take", 0)                                   \
    C(BINS, ESIZE, "bins", "must be 1 to", GM_HIST_BINS_MAX)                                           \
    C(LO, EINVAL, "lo", "must be finite", 0)                                                                \
    C(HI, EINVAL, "hi", "must be finite", 0)                                                                \
    C(ORDER, EINVAL, "hi", "must be more than lo", 0)                                                       \
    C(RANGE, EINVAL, "hi", "- lo must be finite", 0)                                                        \
    C(EDGES, ESIZE, "bins", "between edges must be at most", GM_HIST_EDGES_MAX)                            \
    C(BINS_Y, ESIZE, "bins_y", "must be 1 to", gm_arg_count_most(GM_AT_COUNT2))                             \
    C(BINS_XY, ESIZE, "bins_y", "times bins must be at most", GM_HIST_BINS_MAX)                             \
    C(LO_Y, EINVAL, "lo_y", "must be finite", 0)                                                            \
    C(HI_Y, EINVAL, "hi_y", "must be finite", 0)                                                            \
    C(ORDER_Y, EINVAL, "hi_y", "must be more than lo_y", 0)                                                 \
    C(RANGE_Y, EINVAL, "hi_y", "- lo_y must be finite", 0)                                                  \
    C(CHANNELS, ESIZE, "channels", "must be 1 to", GM_CHANNELS_MAX)                                         \
    C(CELLS, ESIZE, "channels", "times bins must be at most", GM_HIST_BINS_MAX)                             \
    C(COMPARE, EINVAL, "compare", "is none", 0)                                                             \
    C(HIGH, EINVAL, "high", "is for between and outside only", 0)                                           \
    C(LENGTH, ESIZE, "length", "must be at most", GM_ELEMENTS_MAX)                                          \
    C(SEGMENTS, ESIZE, "segments", "must be at most", GM_ELEMENTS_MAX)                                      \
    C(WIDTH, ESIZE, "width", "must be at least 1, and n a multiple of it", 0)                               \
    C(TYPE2, EDTYPE, "dtype", "of the output or the indices is not one that the op takes", 0)

enum gm_complaint {
    GM_COMPLAINT_NONE,
#define C(name, status, field, text, bound) GM_COMPLAINT_##name,
    GM_COMPLAINTS(C)
#undef C
};

GM_HD_LARGE int32_t gm_complaint_status(enum gm_complaint complaint)
{
    switch (complaint) {
#define C(name, status, field, text, bound)                                                                 \
    case GM_COMPLAINT_##name:                                                                               \
        return GM_##status;
        GM_COMPLAINTS(C)
#undef C
    default:
        return GM_OK;
    }
}

GM_HD double gm_f64_of(uint64_t bits)
{
    union {
        uint64_t u;
        double f;
    } x;
    x.u = bits;
    return x.f;
}
GM_HD bool gm_is_finite(double v) { return v - v == 0; }

/* The flag of a place that is one. */
GM_HD uint8_t gm_place_flag(uint32_t place)
{
    return place == GM_AT_DESCENDING ? GM_FLAG_DESCENDING : GM_FLAG_EXCLUSIVE;
}

/* Flags that a job of this op may have. */
GM_HD uint32_t gm_args_flags(const struct gm_op_row *row)
{
    return (row->places >> GM_AT_DESCENDING & 1u ? (uint32_t)GM_FLAG_DESCENDING : 0u) |
           (row->places >> GM_AT_EXCLUSIVE & 1u ? (uint32_t)GM_FLAG_EXCLUSIVE : 0u) |
           (row->wide ? (uint32_t)GM_FLAG_WIDE : 0u);
}

/* What the op does not take is zero, so that it can mean something one day. */
GM_HD_LARGE bool gm_args_unused(const struct gm_op_row *row, const struct gm_args *a)
{
    uint64_t used = row->places >> GM_AT_VALUE0 & 1u ? 0 : a->value[0];
    used |= row->places >> GM_AT_VALUE1 & 1u ? 0 : a->value[1];
    used |= row->places >> GM_AT_VALUE2 & 1u ? 0 : a->value[2];
    used |= row->places >> GM_AT_VALUE3 & 1u ? 0 : a->value[3];
    used |= row->places >> GM_AT_COUNT & 1u ? 0 : a->count;
    used |= row->places >> GM_AT_COUNT2 & 1u ? 0 : a->count2;
    used |= row->places >> GM_AT_TYPE2 & 1u ? 0 : a->type2;
    return used == 0;
}

GM_HD bool gm_args_takes(const struct gm_op_row *row, enum gm_arg arg) { return row->args >> arg & 1u; }

/* Comparisons with two operands. */
GM_HD bool gm_compare_takes_high(uint32_t compare)
{
    return compare == GM_COMPARE_between || compare == GM_COMPARE_outside;
}

/* Bounds of bins: lo and hi, or lo_y and hi_y. How many of the complaints from GM_COMPLAINT_LO on it is, or -1. */
GM_HD_LARGE int gm_args_range(double lo, double hi)
{
    if (!gm_is_finite(lo))
        return 0;
    if (!gm_is_finite(hi))
        return 1;
    if (!(lo < hi))
        return 2;
    return gm_is_finite(hi - lo) ? -1 : 3;
}

GM_HD_LARGE enum gm_complaint gm_args_bins(const struct gm_op_row *row, const struct gm_args *a)
{
    if (a->count == 0 || a->count > GM_HIST_BINS_MAX)
        return GM_COMPLAINT_BINS;
    if (row->shape == GM_SHAPE_EDGES && a->count > GM_HIST_EDGES_MAX)
        return GM_COMPLAINT_EDGES;
    if (gm_args_takes(row, GM_A_channels)) {
        if (a->count2 == 0 || a->count2 > GM_CHANNELS_MAX)
            return GM_COMPLAINT_CHANNELS;
        if (a->count * a->count2 > GM_HIST_BINS_MAX)
            return GM_COMPLAINT_CELLS;
    }
    if (gm_args_takes(row, GM_A_bins_y)) {
        if (a->count2 == 0 || a->count2 > gm_arg_count_most(GM_AT_COUNT2))
            return GM_COMPLAINT_BINS_Y;
        if ((uint64_t)a->count * a->count2 > GM_HIST_BINS_MAX)
            return GM_COMPLAINT_BINS_XY;
    }
    if (gm_args_takes(row, GM_A_lo)) {
        const int wrong = gm_args_range(gm_f64_of(a->value[0]), gm_f64_of(a->value[1]));
        if (wrong >= 0)
            return (enum gm_complaint)(GM_COMPLAINT_LO + wrong);
    }
    if (gm_args_takes(row, GM_A_lo_y)) {
        const int wrong = gm_args_range(gm_f64_of(a->value[2]), gm_f64_of(a->value[3]));
        if (wrong >= 0)
            return (enum gm_complaint)(GM_COMPLAINT_LO_Y + wrong);
    }
    return GM_COMPLAINT_NONE;
}

/* Arguments by their names. */
GM_HD_LARGE enum gm_complaint gm_args_named(const struct gm_op_row *row, const struct gm_args *a)
{
    if ((row->places >> GM_AT_TYPE2 & 1u) && (a->type2 >= 32u || !(row->types2 >> a->type2 & 1u)))
        return GM_COMPLAINT_TYPE2;
    if (gm_args_takes(row, GM_A_bins))
        return gm_args_bins(row, a);
    if (gm_args_takes(row, GM_A_compare)) {
        if (a->count >= GM_COMPARE_COUNT)
            return GM_COMPLAINT_COMPARE;
        if (a->value[1] != 0 && !gm_compare_takes_high(a->count))
            return GM_COMPLAINT_HIGH;
    }
    if (gm_args_takes(row, GM_A_length) && a->value[0] > GM_ELEMENTS_MAX)
        return GM_COMPLAINT_LENGTH;
    if (gm_args_takes(row, GM_A_segments) && a->value[0] > GM_ELEMENTS_MAX)
        return GM_COMPLAINT_SEGMENTS;
    if (gm_args_takes(row, GM_A_width) && (a->value[0] == 0 || a->n % a->value[0] != 0))
        return GM_COMPLAINT_WIDTH;
    return GM_COMPLAINT_NONE;
}

/* Everything but where the buffers lie. Ops without elements take nothing at all. */
GM_HD_LARGE enum gm_complaint gm_args_check(const struct gm_op_row *row, const struct gm_args *a)
{
    if (row->types != GM_NO_TYPES && (a->dtype >= 32u || !(row->types >> a->dtype & 1u)))
        return GM_COMPLAINT_DTYPE;
    if (a->n > GM_ELEMENTS_MAX)
        return GM_COMPLAINT_N;
    const uint32_t flags = a->flags & ~gm_args_flags(row);
    if (flags != 0)
        return flags & ~(uint32_t)(GM_FLAG_DESCENDING | GM_FLAG_EXCLUSIVE) ? GM_COMPLAINT_FLAGS
               : flags & (uint32_t)GM_FLAG_DESCENDING                      ? GM_COMPLAINT_DESCENDING
                                                                           : GM_COMPLAINT_EXCLUSIVE;
    if (!gm_args_unused(row, a))
        return GM_COMPLAINT_UNUSED;
    if (row->work == GM_WORK_REDUCE && (row->result == GM_RESULT_SAME || row->result == GM_RESULT_INDEX) && a->n == 0)
        return GM_COMPLAINT_EMPTY;
    if ((row->args & ~(1u << GM_A_descending | 1u << GM_A_exclusive)) == 0)
        return GM_COMPLAINT_NONE;
    return gm_args_named(row, a);
}

/* Into the words of a descriptor: everything but op's number, session and buffers. */
GM_HD_LARGE void gm_args_put(uint32_t *words, const struct gm_op_row *row, const struct gm_args *a)
{
    const uint32_t flags = a->flags | (row->wide ? (uint32_t)GM_FLAG_WIDE : 0u);
    words[GM_W_OP] |= (uint32_t)a->dtype << 16 | flags << 24;
    gm_desc_put64(words, GM_W_N, a->n);
    words[GM_W_COUNT] = a->count;
    words[GM_W_MORE] = a->count2 | (uint32_t)a->type2 << 24;
    if (!row->wide)
        return;
    words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
    gm_desc_put64(words, GM_W_VALUE0, a->value[0]);
    gm_desc_put64(words, GM_W_VALUE1, a->value[1]);
    gm_desc_put64(words, GM_W_VALUE2, a->value[2]);
    gm_desc_put64(words, GM_W_VALUE3, a->value[3]);
}

/* Where buffer i stands: its arena's handle, and behind it the offset. */
GM_HD uint32_t gm_buffer_word(uint32_t i) { return i == 0 ? GM_W_ARENA0 : i == 1 ? GM_W_ARENA1 : GM_W_ARENA2; }

#endif
