/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: a loop for every pair of types. What C leaves open is settled here: a float outside the integer's range stops
 * at its end, and NaN is 0. Casts to the same type, and between integers of the same width, move bits. One thread a
 * share.
 */
#include <math.h>
#include <string.h>

#include "narrow.h"
#include "run.h"

/* Both ends of the range are powers of two, so they are exact, and the compiler makes the loop without branches. */
#define CAST_TO_INTEGER(name, from, to, least, end, limit_low, limit_high)                                             \
    static inline to name(from x)                                                                                      \
    {                                                                                                                  \
        return x >= (least) && x < (end) ? (to)x : x < (least) ? (limit_low) : x >= (end) ? (limit_high) : (to)0;      \
    }
CAST_TO_INTEGER(f32_to_i8, float, int8_t, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX)
CAST_TO_INTEGER(f32_to_u8, float, uint8_t, 0.0f, 0x1p8f, 0, UINT8_MAX)
CAST_TO_INTEGER(f32_to_i32, float, int32_t, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
CAST_TO_INTEGER(f32_to_u32, float, uint32_t, 0.0f, 0x1p32f, 0, UINT32_MAX)
CAST_TO_INTEGER(f32_to_i64, float, int64_t, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)
CAST_TO_INTEGER(f32_to_u64, float, uint64_t, 0.0f, 0x1p64f, 0, UINT64_MAX)
CAST_TO_INTEGER(f64_to_i8, double, int8_t, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX)
CAST_TO_INTEGER(f64_to_u8, double, uint8_t, 0.0, 0x1p8, 0, UINT8_MAX)
CAST_TO_INTEGER(f64_to_i32, double, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
CAST_TO_INTEGER(f64_to_u32, double, uint32_t, 0.0, 0x1p32, 0, UINT32_MAX)
CAST_TO_INTEGER(f64_to_i64, double, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
CAST_TO_INTEGER(f64_to_u64, double, uint64_t, 0.0, 0x1p64, 0, UINT64_MAX)

static inline double f32_to_f64(float x) { return x == x ? (double)x : (double)NAN; }
static inline float f64_to_f32(double x) { return x == x ? (float)x : NAN; }

/* decode: what an element stands for, as the type number. */
#define CAST(from, from_type, number, decode, to, to_type, expression)                                                 \
    static void cast_##from##_##to(const void *in, void *out, uint64_t count)                                          \
    {                                                                                                                  \
        const from_type *a = in;                                                                                       \
        to_type *b = out;                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const number x = decode(a[i]);                                                                             \
            b[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
#define SELF(x) (x)
#define CAST_INTEGER(from, type, odd)                                                                                  \
    CAST(from, type, type, SELF, w8, uint8_t, (uint8_t)x)                                                              \
    CAST(from, type, type, SELF, w32, uint32_t, (uint32_t)x)                                                           \
    CAST(from, type, type, SELF, w64, uint64_t, (uint64_t)x)                                                           \
    CAST(from, type, type, SELF, f16, uint16_t, gm_f16_of_f32(odd(x)))                                                 \
    CAST(from, type, type, SELF, bf16, uint16_t, gm_bf16_of_f32(odd(x)))                                               \
    CAST(from, type, type, SELF, f32, float, (float)x)                                                                 \
    CAST(from, type, type, SELF, f64, double, (double)x)
#define CAST_FLOAT(from, type, number, decode, kind)                                                                   \
    CAST(from, type, number, decode, i8, int8_t, kind##_to_i8(x))                                                      \
    CAST(from, type, number, decode, u8, uint8_t, kind##_to_u8(x))                                                     \
    CAST(from, type, number, decode, i32, int32_t, kind##_to_i32(x))                                                   \
    CAST(from, type, number, decode, u32, uint32_t, kind##_to_u32(x))                                                  \
    CAST(from, type, number, decode, i64, int64_t, kind##_to_i64(x))                                                   \
    CAST(from, type, number, decode, u64, uint64_t, kind##_to_u64(x))
CAST_INTEGER(u8, uint8_t, gm_odd_f32_of_u64)
CAST_INTEGER(i8, int8_t, gm_odd_f32_of_i64)
CAST_INTEGER(u32, uint32_t, gm_odd_f32_of_u64)
CAST_INTEGER(i32, int32_t, gm_odd_f32_of_i64)
CAST_INTEGER(u64, uint64_t, gm_odd_f32_of_u64)
CAST_INTEGER(i64, int64_t, gm_odd_f32_of_i64)
CAST_FLOAT(f16, uint16_t, float, gm_f32_of_f16, f32)
CAST_FLOAT(bf16, uint16_t, float, gm_f32_of_bf16, f32)
CAST_FLOAT(f32, float, float, SELF, f32)
CAST_FLOAT(f64, double, double, SELF, f64)
CAST(w16, uint16_t, uint16_t, SELF, w16, uint16_t, x)
CAST(f16, uint16_t, float, gm_f32_of_f16, bf16, uint16_t, gm_bf16_of_f32(x))
CAST(f16, uint16_t, float, gm_f32_of_f16, f32, float, x)
CAST(f16, uint16_t, float, gm_f32_of_f16, f64, double, f32_to_f64(x))
CAST(bf16, uint16_t, float, gm_f32_of_bf16, f16, uint16_t, gm_f16_of_f32(x))
CAST(bf16, uint16_t, float, gm_f32_of_bf16, f32, float, x)
CAST(bf16, uint16_t, float, gm_f32_of_bf16, f64, double, f32_to_f64(x))
CAST(f32, float, float, SELF, f16, uint16_t, gm_f16_of_f32(x))
CAST(f32, float, float, SELF, bf16, uint16_t, gm_bf16_of_f32(x))
CAST(f32, float, float, SELF, f64, double, f32_to_f64(x))
CAST(f64, double, float, gm_odd_f32_of_f64, f16, uint16_t, gm_f16_of_f32(x))
CAST(f64, double, float, gm_odd_f32_of_f64, bf16, uint16_t, gm_bf16_of_f32(x))
CAST(f64, double, double, SELF, f32, float, f64_to_f32(x))

typedef void cast_loop(const void *in, void *out, uint64_t count);

/* Integers of a width are alike as outputs, and all types of a width where nothing changes. */
#define D(name) [GM_DTYPE_##name]
#define TO_INTEGERS(from)                                                                                              \
    D(u8) = cast_##from##_u8, D(i8) = cast_##from##_i8, D(u32) = cast_##from##_u32, D(i32) = cast_##from##_i32,        \
    D(u64) = cast_##from##_u64, D(i64) = cast_##from##_i64
#define FROM_INTEGER(from)                                                                                             \
    D(from) = {D(u8) = cast_##from##_w8, D(i8) = cast_##from##_w8, D(u32) = cast_##from##_w32,                         \
               D(i32) = cast_##from##_w32, D(u64) = cast_##from##_w64, D(i64) = cast_##from##_w64,                     \
               D(f16) = cast_##from##_f16, D(bf16) = cast_##from##_bf16, D(f32) = cast_##from##_f32,                   \
               D(f64) = cast_##from##_f64}
static cast_loop *const loops[GM_DTYPE_COUNT][GM_DTYPE_COUNT] = {
    FROM_INTEGER(u8),
    FROM_INTEGER(i8),
    FROM_INTEGER(u32),
    FROM_INTEGER(i32),
    FROM_INTEGER(u64),
    FROM_INTEGER(i64),
    D(f16) = {TO_INTEGERS(f16), D(f16) = cast_w16_w16, D(bf16) = cast_f16_bf16, D(f32) = cast_f16_f32,
              D(f64) = cast_f16_f64},
    D(bf16) = {TO_INTEGERS(bf16), D(f16) = cast_bf16_f16, D(bf16) = cast_w16_w16, D(f32) = cast_bf16_f32,
               D(f64) = cast_bf16_f64},
    D(f32) = {TO_INTEGERS(f32), D(f16) = cast_f32_f16, D(bf16) = cast_f32_bf16, D(f32) = cast_u32_w32,
              D(f64) = cast_f32_f64},
    D(f64) = {TO_INTEGERS(f64), D(f16) = cast_f64_f16, D(bf16) = cast_f64_bf16, D(f32) = cast_f64_f32,
              D(f64) = cast_u64_w64},
};
#undef D

void gm_op_cast_share(struct gm_run *run)
{
    const uint64_t from = gm_dtype_bytes(run->job->dtype), to = gm_dtype_bytes(run->job->type2);
    cast_loop *const loop = loops[run->job->dtype][run->job->type2]; /* gm_check knows both types */
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        const uint8_t *in = gm_run_buffer(run, 0);
        uint8_t *out = gm_run_buffer(run, 1);
        loop(in + first * from, out + first * to, count);
    }
}

void gm_op_cast_finish(struct gm_run *run) { (void)run; }
