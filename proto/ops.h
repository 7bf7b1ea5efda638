/* SPDX-License-Identifier: Apache-2.0
 *
 * Enums and constant tables made from ops.def and dtypes.def, for C11 and CUDA C++. Tables are functions with a
 * switch rather than arrays, so that device code needs no constant memory and the compiler folds them.
 */
#ifndef GM_PROTO_OPS_H
#define GM_PROTO_OPS_H

#include <stdint.h>

#include "limits.h"

#ifdef __CUDACC__
#define GM_HD static __host__ __device__ __forceinline__
/* Larger, or rare: on a host the compiler may call it. */
#define GM_HD_LARGE static __host__ __device__ __forceinline__
#else
#define GM_HD static inline __attribute__((always_inline, unused))
#define GM_HD_LARGE static inline __attribute__((unused))
#endif

enum gm_dtype {
#define D(name, id, bytes, kind) GM_DTYPE_##name = (id),
#include "dtypes.def"
#undef D
    GM_DTYPE_COUNT
};

#define GM_TYPE(name) (1u << GM_DTYPE_##name)
#define GM_NO_TYPES 0u
#define GM_NUMBER_TYPES                                                                                     \
    (GM_TYPE(i32) | GM_TYPE(u32) | GM_TYPE(i64) | GM_TYPE(u64) | GM_TYPE(f32) | GM_TYPE(f64))
#define GM_WORD_TYPES  (GM_NUMBER_TYPES | GM_TYPE(u8))
#define GM_HALF_TYPES  (GM_TYPE(f16) | GM_TYPE(bf16))
#define GM_REAL_TYPES  (GM_NUMBER_TYPES | GM_HALF_TYPES)
#define GM_ANY_TYPES   (GM_WORD_TYPES | GM_HALF_TYPES)
#define GM_FLOAT_TYPES (GM_HALF_TYPES | GM_TYPE(f32) | GM_TYPE(f64))
#define GM_DOT_TYPES   (GM_TYPE(i32) | GM_TYPE(u32) | GM_FLOAT_TYPES)
#define GM_ALL_TYPES   (GM_ANY_TYPES | GM_TYPE(i8))

#define GM_INDEX_TYPES (GM_TYPE(i32) | GM_TYPE(u32) | GM_TYPE(i64) | GM_TYPE(u64))

/* Where an argument stands in a descriptor (lane.h) and in gm_args. */
enum gm_arg_place {
    GM_AT_VALUE0,
    GM_AT_VALUE1,
    GM_AT_VALUE2,
    GM_AT_VALUE3,
    GM_AT_COUNT,  /* 32 bits */
    GM_AT_COUNT2, /* 24 bits */
    GM_AT_TYPE2,
    GM_AT_DESCENDING, /* flags */
    GM_AT_EXCLUSIVE
};
#define GM_ARG_VALUES    4u

/* The largest number that a place of a count holds. */
GM_HD uint32_t gm_arg_count_most(uint32_t place) { return place == GM_AT_COUNT2 ? (1u << 24) - 1u : UINT32_MAX; }

/* What an argument is, by its name. */
enum gm_arg_type {
    GM_ARG_ELEMENT, /* bits of an element of the job's type */
    GM_ARG_F64,     /* bits of an f64 */
    GM_ARG_COUNT,   /* a whole number of 32 bits */
    GM_ARG_SIZE,    /* a whole number of 64 bits */
    GM_ARG_FLAG,
    GM_ARG_TYPE,   /* the name of an element type of types2 */
    GM_ARG_COMPARE /* the name of a comparison */
};

/* X(name): comparisons of an element with value, and high. Append only. */
#define GM_COMPARES(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(between) X(outside)
enum gm_compare {
#define X(name) GM_COMPARE_##name,
    GM_COMPARES(X)
#undef X
    GM_COMPARE_COUNT
};

enum gm_arg {
#define ARG(name, type, place, help) GM_A_##name,
#include "ops.def"
#undef ARG
    GM_ARGS
};

/* Elements of a buffer. */
enum gm_extent {
    GM_EXTENT_N,
    GM_EXTENT_RESULT,  /* n, of which the result says how many were written */
    GM_EXTENT_COUNT,   /* bins */
    GM_EXTENT_COUNT1,  /* bins + 1 */
    GM_EXTENT_CELLS,   /* bins * channels, or bins * bins_y */
    GM_EXTENT_PIXELS,  /* n * channels */
    GM_EXTENT_LENGTH,  /* length, or segments */
    GM_EXTENT_LENGTH1, /* segments + 1 */
    GM_EXTENT_FIVE
};
/* What they are. */
enum gm_content {
    GM_CONTENT_T,       /* elements of the job's type */
    GM_CONTENT_EDGES,   /* the same, rising */
    GM_CONTENT_WEIGHTS, /* the same: center, west, east, north, south */
    GM_CONTENT_U64,     /* counts */
    GM_CONTENT_TO,      /* elements of the second type; from here on */
    GM_CONTENT_INDEX,   /* the same: 0 to length - 1 */
    GM_CONTENT_OFFSETS  /* the same, not falling, from 0 to n */
};
#define GM_BUFFER(extent, content) (1u + GM_EXTENT_##extent * 16u + GM_CONTENT_##content)
GM_HD uint32_t gm_buffer_extent(uint32_t buffer) { return (buffer - 1u) >> 4; }
GM_HD uint32_t gm_buffer_content(uint32_t buffer) { return (buffer - 1u) & 15u; }

enum gm_alias { GM_ALIAS_APART, GM_ALIAS_SAME };

enum gm_shape {
#define SHAPE(name, inputs, outputs, args, types2, alias, buffer0, buffer1, buffer2) GM_SHAPE_##name,
#include "ops.def"
#undef SHAPE
    GM_SHAPE_COUNT
};
#define SHAPE(name, inputs, outputs, args, types2, alias, buffer0, buffer1, buffer2)                        \
    static_assert((inputs) + (outputs) <= GM_BUFFERS_MAX && (outputs) <= GM_OUTPUTS_MAX, #name ": too many buffers");
#include "ops.def"
#undef SHAPE

enum gm_result_kind { GM_RESULT_NONE, GM_RESULT_SAME, GM_RESULT_WIDE, GM_RESULT_COUNT, GM_RESULT_INDEX };
enum gm_work {
    GM_WORK_ONE,
    GM_WORK_GRID,
    GM_WORK_REDUCE,
    GM_WORK_HISTOGRAM,
    GM_WORK_SORT,
    GM_WORK_SCAN,
    GM_WORK_SCATTER,
    GM_WORK_SEGMENTED
};
enum gm_tolerance { GM_TOLERANCE_EXACT, GM_TOLERANCE_SUM };

enum gm_op {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help) GM_OP_##name = (id),
#include "ops.def"
#undef OP
    GM_OP_COUNT
};

struct gm_op_row {
    uint32_t types, types2;
    uint32_t args;   /* set of gm_arg */
    uint32_t places; /* set of gm_arg_place: of these */
    uint32_t tile_bytes;
    uint8_t shape, result, work, tolerance;
    uint8_t inputs, outputs, wide, known; /* wide: the descriptor has its second half */
    uint8_t alias, buffer[GM_BUFFERS_MAX]; /* gm_buffer_extent, gm_buffer_content; 0: none */
};

/* The arguments of a job as descriptors have them; what the op does not take is zero. */
struct gm_args {
    uint64_t n;
    uint64_t value[GM_ARG_VALUES];
    uint32_t count, count2;
    uint8_t dtype, type2, flags;
};

/* 0 for an unknown dtype. Four bits a type in one constant: a shift instead of a branch. */
GM_HD uint32_t gm_dtype_bytes(uint32_t dtype)
{
#define D(name, id, bytes, kind) | (uint64_t)(bytes) << ((id)*4)
    const uint64_t sizes = 0
#include "dtypes.def"
        ;
#undef D
    return dtype < 16u ? (uint32_t)(sizes >> dtype * 4u) & 15u : 0u;
}

/* 'u', 'i' or 'f'; 0 for an unknown dtype. */
GM_HD char gm_dtype_kind(uint32_t dtype)
{
    enum { u = 'u', i = 'i', f = 'f' };
    switch (dtype) {
#define D(name, id, bytes, kind)                                                                            \
    case id:                                                                                                \
        return (char)(kind);
#include "dtypes.def"
#undef D
    default:
        return 0;
    }
}

/* Places of a set of arguments. */
GM_HD uint32_t gm_args_places(uint32_t args)
{
#define ARG(name, type, place, help) | (args >> GM_A_##name & 1u) << GM_AT_##place
    return 0
#include "ops.def"
        ;
#undef ARG
}

GM_HD_LARGE void gm_shape_fill(uint32_t shape, struct gm_op_row *row)
{
#define A(name)            (1u << GM_A_##name)
#define B(extent, content) GM_BUFFER(extent, content)
    switch (shape) {
#define SHAPE(name, n_inputs, n_outputs, s_args, s_types2, s_alias, buffer0, buffer1, buffer2)              \
    case GM_SHAPE_##name:                                                                                   \
        row->inputs = (n_inputs), row->outputs = (n_outputs), row->args = (s_args);                         \
        row->types2 = GM_##s_types2, row->alias = GM_ALIAS_##s_alias;                                       \
        row->buffer[0] = (buffer0), row->buffer[1] = (buffer1), row->buffer[2] = (buffer2);                 \
        break;
#include "ops.def"
#undef SHAPE
    default:
        break;
    }
#undef A
#undef B
    row->places = gm_args_places(row->args);
    row->wide = (row->places & ((1u << GM_ARG_VALUES) - 1u)) != 0 || row->inputs + row->outputs > 2;
}

/* The row of an op; known is 0 for an op that does not exist. */
GM_HD_LARGE struct gm_op_row gm_op_row(uint32_t op)
{
    struct gm_op_row row = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0}};
    switch (op) {
#define OP(id, name, op_shape, op_types, op_result, op_work, op_tile_bytes, op_tolerance, help)             \
    case id:                                                                                                \
        row.types = GM_##op_types;                                                                          \
        row.tile_bytes = (op_tile_bytes);                                                                   \
        row.shape = GM_SHAPE_##op_shape;                                                                    \
        row.result = GM_RESULT_##op_result;                                                                 \
        row.work = GM_WORK_##op_work;                                                                       \
        row.tolerance = GM_TOLERANCE_##op_tolerance;                                                        \
        row.known = 1;                                                                                      \
        break;
#include "ops.def"
#undef OP
    default:
        break;
    }
    gm_shape_fill(row.shape, &row);
    return row;
}

/* Element type of the result of an op on elements of this type; only for ops that have a result. */
GM_HD uint32_t gm_result_dtype(uint32_t result_kind, uint32_t dtype)
{
    if (result_kind == GM_RESULT_COUNT || result_kind == GM_RESULT_INDEX)
        return GM_DTYPE_u64;
    if (result_kind == GM_RESULT_SAME)
        return dtype;
    switch (gm_dtype_kind(dtype)) {
    case 'u':
        return GM_DTYPE_u64;
    case 'i':
        return GM_DTYPE_i64;
    default:
        return GM_DTYPE_f64;
    }
}

/* Bytes of an element of a buffer. */
GM_HD uint32_t gm_buffer_element(const struct gm_op_row *row, uint32_t i, const struct gm_args *args)
{
    const uint32_t content = gm_buffer_content(row->buffer[i]);
    return content == GM_CONTENT_U64 ? 8u : gm_dtype_bytes(content < GM_CONTENT_TO ? args->dtype : args->type2);
}

/* Elements of a buffer. The arguments have passed gm_args_check, so nothing overflows. */
GM_HD_LARGE uint64_t gm_buffer_count(const struct gm_op_row *row, uint32_t i, const struct gm_args *args)
{
    const uint32_t extent = gm_buffer_extent(row->buffer[i]);
    if (extent <= GM_EXTENT_RESULT)
        return args->n;
    switch (extent) {
    case GM_EXTENT_COUNT:
        return args->count;
    case GM_EXTENT_COUNT1:
        return args->count + UINT64_C(1);
    case GM_EXTENT_CELLS:
        return (uint64_t)args->count * args->count2;
    case GM_EXTENT_PIXELS:
        return args->n * args->count2;
    case GM_EXTENT_LENGTH:
        return args->value[0];
    case GM_EXTENT_LENGTH1:
        return args->value[0] + 1u;
    default:
        return 5u;
    }
}

GM_HD uint64_t gm_buffer_bytes(const struct gm_op_row *row, uint32_t i, const struct gm_args *args)
{
    return gm_buffer_count(row, i, args) * gm_buffer_element(row, i, args);
}

#endif
