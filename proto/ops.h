/* SPDX-License-Identifier: Apache-2.0
 *
 * Enums and constant tables made from ops.def and dtypes.def, for C11 and CUDA C++. Tables are functions with a
 * switch rather than arrays, so that device code needs no constant memory and the compiler folds them.
 */
#ifndef GM_PROTO_OPS_H
#define GM_PROTO_OPS_H

#include <stdint.h>

#ifdef __CUDACC__
#define GM_HD static __host__ __device__ __forceinline__
#else
#define GM_HD static inline __attribute__((always_inline, unused))
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
#define GM_WORD_TYPES (GM_NUMBER_TYPES | GM_TYPE(u8))

enum gm_shape {
#define SHAPE(name, inputs, outputs, wide) GM_SHAPE_##name,
#include "ops.def"
#undef SHAPE
    GM_SHAPE_COUNT
};

enum gm_result_kind { GM_RESULT_NONE, GM_RESULT_SAME, GM_RESULT_WIDE, GM_RESULT_COUNT };
enum gm_work { GM_WORK_ONE, GM_WORK_GRID, GM_WORK_REDUCE, GM_WORK_HISTOGRAM, GM_WORK_SORT };
enum gm_tolerance { GM_TOLERANCE_EXACT, GM_TOLERANCE_SUM };

enum gm_op {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help) GM_OP_##name = (id),
#include "ops.def"
#undef OP
    GM_OP_COUNT
};

struct gm_op_row {
    uint32_t types;
    uint32_t tile_bytes;
    uint8_t shape, result, work, tolerance;
    uint8_t inputs, outputs, wide, known;
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

GM_HD void gm_shape_buffers(uint32_t shape, struct gm_op_row *row)
{
    switch (shape) {
#define SHAPE(name, n_inputs, n_outputs, is_wide)                                                           \
    case GM_SHAPE_##name:                                                                                   \
        row->inputs = (n_inputs), row->outputs = (n_outputs), row->wide = (is_wide);                        \
        break;
#include "ops.def"
#undef SHAPE
    default:
        break;
    }
}

/* The row of an op; known is 0 for an op that does not exist. */
GM_HD struct gm_op_row gm_op_row(uint32_t op)
{
    struct gm_op_row row = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
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
    gm_shape_buffers(row.shape, &row);
    return row;
}

/* Element type of the result of an op on elements of this type; only for ops that have a result. */
GM_HD uint32_t gm_result_dtype(uint32_t result_kind, uint32_t dtype)
{
    if (result_kind == GM_RESULT_COUNT)
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

/* Bytes that output buffer 0 needs for n input elements. */
GM_HD uint64_t gm_output_bytes(uint32_t shape, uint64_t n, uint64_t bins, uint32_t dtype)
{
    return shape == GM_SHAPE_HISTOGRAM ? bins * 8u : n * gm_dtype_bytes(dtype);
}

#endif
