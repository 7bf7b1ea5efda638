/* SPDX-License-Identifier: Apache-2.0
 *
 * What a measured job of an op is, for bench_ops and for its peers alike: arguments, buffers, how many of them are
 * taken in turn, and the value of every element, all of it from the op's row in ops.def, so that an op which is added
 * is measured without a line here. Pure; values are for C11 and CUDA C++.
 */
#ifndef GM_BENCH_OPS_PLAN_H
#define GM_BENCH_OPS_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "args.h"
#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GM_OPS_BINS 256u
#define GM_OPS_BINS_2D 64u /* in either dimension */
#define GM_OPS_CHANNELS 4u
#define GM_OPS_SEGMENT 1000u  /* elements of a segment, from half to one and a half of it */
#define GM_OPS_RUN_LOG2 2u    /* of the mean length of a run of equals */
#define GM_OPS_BLOCK_LOG2 24u /* random data repeats after so many elements: more than an L2 cache holds */
#define GM_OPS_COUNT 16u      /* of a count that no rule is known for */

#define GM_OPS_BLOCK (UINT64_C(1) << GM_OPS_BLOCK_LOG2)

/* X(log2): the sizes, in elements of the first buffer, smallest first. */
#define GM_OPS_SIZES(X) X(10) X(12) X(14) X(16) X(20) X(24) X(28)

/* What elements are. Of integers with every value, some ops have results that do not fit their type: then less. */
enum gm_ops_data {
    GM_OPS_WIDE,  /* integers: all bits random; floats: uniform from 0 to 1 */
    GM_OPS_SMALL, /* integers: 0 to 7 */
    GM_OPS_ONES,
    GM_OPS_RUNS, /* runs of equals */
    GM_OPS_DATA_COUNT
};

struct gm_ops_plan {
    const char *name;
    struct gm_op_row row;
    struct gm_args args;
    uint32_t log2, data; /* log2: rounded down; data: enum gm_ops_data */
    uint32_t buffers;
    uint64_t places;                /* so many sets of buffers are taken in turn */
    uint64_t bytes[GM_BUFFERS_MAX]; /* of each buffer of one job */
    uint64_t step[GM_BUFFERS_MAX];  /* from one place to the next; 0: the same for all */
};

/* The sizes, ended by 0. */
const uint32_t *gm_ops_sizes(void);
/* The row of an op by its name; false: the catalogue has none. */
bool gm_ops_row(const char *name, struct gm_op_row *row);
/* Element types that an op is measured with when nobody asks for all: a set. */
uint32_t gm_ops_types(const struct gm_op_row *row);
/* What the data of an op is at first. */
enum gm_ops_data gm_ops_first_data(const struct gm_op_row *row);
/* Poorer by one step, for ops whose results do not fit; false: there is none. */
bool gm_ops_poorer(enum gm_ops_data *data);
/* A job whose first buffer has so many elements (fewer, where it is made of pixels and elements are no multiple), with
 * as many bins in every dimension (0: as many as are usual). Arguments and sizes, one place. false: no arguments are
 * known that the op takes, complaint says which it refuses. */
bool gm_ops_plan_sized(struct gm_ops_plan *plan, const char *name, const struct gm_op_row *row, uint32_t dtype,
                       enum gm_ops_data data, uint64_t elements, uint32_t bins, enum gm_complaint *complaint);
/* A job whose first buffer has 2^log2 elements; buffers of so many are taken in turn from rotated_bytes, counted in the
 * first of them. false: as above. */
bool gm_ops_plan_make(struct gm_ops_plan *plan, const char *name, const struct gm_op_row *row, uint32_t dtype,
                      enum gm_ops_data data, uint32_t log2, uint64_t rotated_bytes, enum gm_complaint *complaint);
/* "op_sum_f32_20", with what stands in front and behind. */
void gm_ops_figure_name(char *text, size_t size, const char *before, const struct gm_ops_plan *plan,
                        const char *behind);
/* Memory that buffer i needs for all places. */
uint64_t gm_ops_room(const struct gm_ops_plan *plan, uint32_t i);
/* Bytes that a job reads and writes, when its result is this; where the result says how much was written, so much. */
uint64_t gm_ops_moved(const struct gm_ops_plan *plan, uint64_t result);

/* Where the values of a buffer go: bytes that lie at from in the chunk, or (repeated) in the buffer itself, to a
 * position of the buffer. false ends it. */
typedef bool gm_ops_put(void *context, bool repeated, uint64_t from, uint64_t to, uint64_t bytes);
/* Fills the first bytes of input i, of all places together: values are made in the chunk, of chunk_bytes; what repeats
 * is made once, then doubled. false: put was. */
bool gm_ops_fill(const struct gm_ops_plan *plan, uint32_t i, uint64_t bytes, void *chunk, uint64_t chunk_bytes,
                 gm_ops_put *put, void *context);

#ifdef __cplusplus
}
#endif

/* ---- values ---- */

GM_HD uint64_t gm_ops_hash(uint64_t i)
{
    uint64_t z = (i + 1u) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

GM_HD uint64_t gm_ops_f64_bits(double v)
{
    union {
        double f;
        uint64_t u;
    } x;
    x.f = v;
    return x.u;
}

GM_HD uint64_t gm_ops_f32_bits(float v)
{
    union {
        float f;
        uint32_t u;
    } x;
    x.f = v;
    return x.u;
}

/* Least and largest value of the data, the largest not included; half of it lies below the middle. */
GM_HD double gm_ops_low(uint32_t dtype, uint32_t data)
{
    const double half = (double)(UINT64_C(1) << (gm_dtype_bytes(dtype) * 8u - 1u));
    return gm_dtype_kind(dtype) == 'i' && data != GM_OPS_SMALL && data != GM_OPS_ONES ? -half : 0.0;
}
GM_HD double gm_ops_range(uint32_t dtype, uint32_t data)
{
    if (gm_dtype_kind(dtype) == 'f')
        return 1.0;
    return data == GM_OPS_SMALL  ? 8.0
           : data == GM_OPS_ONES ? 2.0
                                 : 2.0 * (double)(UINT64_C(1) << (gm_dtype_bytes(dtype) * 8u - 1u));
}

/* The element of a number, or the nearest that the type has; floats of 16 bits: the next one towards zero. */
GM_HD uint64_t gm_ops_element(uint32_t dtype, double v)
{
    const uint64_t most = UINT64_MAX >> (64u - gm_dtype_bytes(dtype) * 8u), half = most >> 1;
    if (dtype == GM_DTYPE_f64)
        return gm_ops_f64_bits(v);
    if (dtype == GM_DTYPE_f32)
        return gm_ops_f32_bits((float)v);
    if (dtype == GM_DTYPE_bf16)
        return gm_ops_f32_bits((float)v) >> 16;
    if (dtype == GM_DTYPE_f16) { /* none is negative, or larger than its largest; what is too small is zero */
        const uint64_t bits = gm_ops_f32_bits((float)v), exponent = bits >> 23;
        return exponent < 113u ? 0 : (exponent - 112u) << 10 | (bits >> 13 & 0x3ffu);
    }
    if (gm_dtype_kind(dtype) == 'i')
        return v >= (double)half ? half : (uint64_t)(int64_t)v & most;
    return v >= (double)most ? most : v > 0 ? (uint64_t)v : 0;
}

/* A random element. */
GM_HD uint64_t gm_ops_random(uint32_t dtype, uint32_t data, uint64_t r)
{
    const uint64_t most = UINT64_MAX >> (64u - gm_dtype_bytes(dtype) * 8u);
    if (dtype == GM_DTYPE_f32)
        return gm_ops_f32_bits((float)(r >> 40) * (1.0f / 16777216.0f));
    if (dtype == GM_DTYPE_f64)
        return gm_ops_f64_bits((double)(r >> 11) * (1.0 / 9007199254740992.0));
    if (gm_dtype_kind(dtype) == 'f')
        return gm_ops_element(dtype, (double)(r >> 40) * (1.0 / 16777216.0));
    return data == GM_OPS_SMALL ? r >> 61 : data == GM_OPS_ONES ? 1u : r & most;
}

/* Where the run that position i belongs to began. */
GM_HD uint64_t gm_ops_run_begin(uint64_t i)
{
    while (i != 0 && gm_ops_hash(i + (UINT64_C(1) << 60)) >> (64u - GM_OPS_RUN_LOG2) != 0)
        i--;
    return i;
}

/* Bits of element i of buffer b of all places together. */
GM_HD uint64_t gm_ops_value(const struct gm_ops_plan *plan, uint32_t b, uint64_t i)
{
    const uint32_t content = gm_buffer_content(plan->row.buffer[b]), dtype = plan->args.dtype;
    const uint64_t at = i & (GM_OPS_BLOCK - 1u), n = plan->args.n, length = plan->args.value[0];
    const double low = gm_ops_low(dtype, plan->data), range = gm_ops_range(dtype, plan->data);
    switch (content) {
    case GM_CONTENT_INDEX:
        return length != 0 ? gm_ops_hash(at + (UINT64_C(3) << 60)) % length : 0;
    case GM_CONTENT_OFFSETS:
        return i == 0        ? 0
               : i >= length ? n
                             : i * GM_OPS_SEGMENT + gm_ops_hash(i) % GM_OPS_SEGMENT - GM_OPS_SEGMENT / 2u;
    case GM_CONTENT_EDGES: { /* not evenly: closer at the low end */
        const double x = (double)i / (double)plan->args.count;
        return gm_ops_element(dtype, low + range * x * x);
    }
    case GM_CONTENT_WEIGHTS:
        return gm_ops_element(dtype, gm_dtype_kind(dtype) == 'f' ? 0.25 : 1.0);
    default:
        return gm_ops_random(
            dtype, plan->data,
            gm_ops_hash((plan->data == GM_OPS_RUNS ? gm_ops_run_begin(at) : at) + ((uint64_t)b << 56)));
    }
}

#endif
