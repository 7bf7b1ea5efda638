/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: a loop for every pair of types. What C leaves open is settled here: a float outside the integer's range stops
 * at its end, and NaN is 0. Casts to the same type, and between integers of the same width, move bits. One thread a
 * share.
 */
#include <math.h>
#include <string.h>

#include "run.h"

/* Both ends of the range are powers of two, so they are exact, and the compiler makes the loop without branches. */
#define CAST_TO_INTEGER(name, from, to, least, end, limit_low, limit_high)                                             \
    static inline to name(from x)                                                                                      \
    {                                                                                                                  \
        return x >= (least) && x < (end) ? (to)x : x < (least) ? (limit_low) : x >= (end) ? (limit_high) : (to)0;      \
    }
CAST_TO_INTEGER(f32_to_i32, float, int32_t, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
CAST_TO_INTEGER(f32_to_u32, float, uint32_t, 0.0f, 0x1p32f, 0, UINT32_MAX)
CAST_TO_INTEGER(f32_to_i64, float, int64_t, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)
CAST_TO_INTEGER(f32_to_u64, float, uint64_t, 0.0f, 0x1p64f, 0, UINT64_MAX)
CAST_TO_INTEGER(f64_to_i32, double, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
CAST_TO_INTEGER(f64_to_u32, double, uint32_t, 0.0, 0x1p32, 0, UINT32_MAX)
CAST_TO_INTEGER(f64_to_i64, double, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
CAST_TO_INTEGER(f64_to_u64, double, uint64_t, 0.0, 0x1p64, 0, UINT64_MAX)

static inline double f32_to_f64(float x) { return x == x ? (double)x : (double)NAN; }
static inline float f64_to_f32(double x) { return x == x ? (float)x : NAN; }

#define CAST(from, from_type, to, to_type, expression)                                                                 \
    static void cast_##from##_##to(const void *in, void *out, uint64_t count)                                          \
    {                                                                                                                  \
        const from_type *a = in;                                                                                       \
        to_type *b = out;                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const from_type x = a[i];                                                                                  \
            b[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
#define CAST_INTEGER(from, type)                                                                                       \
    CAST(from, type, f32, float, (float)x)                                                                             \
    CAST(from, type, f64, double, (double)x)
#define CAST_FLOAT(from, type)                                                                                         \
    CAST(from, type, i32, int32_t, from##_to_i32(x))                                                                   \
    CAST(from, type, u32, uint32_t, from##_to_u32(x))                                                                  \
    CAST(from, type, i64, int64_t, from##_to_i64(x))                                                                   \
    CAST(from, type, u64, uint64_t, from##_to_u64(x))
CAST_INTEGER(i32, int32_t)
CAST_INTEGER(u32, uint32_t)
CAST_INTEGER(i64, int64_t)
CAST_INTEGER(u64, uint64_t)
CAST(u32, uint32_t, w32, uint32_t, x)
CAST(u64, uint64_t, w32, uint32_t, (uint32_t)x)
CAST(i32, int32_t, w64, uint64_t, (uint64_t)(int64_t)x)
CAST(u32, uint32_t, w64, uint64_t, x)
CAST(u64, uint64_t, w64, uint64_t, x)
CAST_FLOAT(f32, float)
CAST_FLOAT(f64, double)
CAST(f32, float, f64, double, f32_to_f64(x))
CAST(f64, double, f32, float, f64_to_f32(x))

typedef void cast_loop(const void *in, void *out, uint64_t count);

/* Integers of a width are alike as outputs, and so are all types of a width where nothing changes. */
#define D(name) [GM_DTYPE_##name]
static cast_loop *const loops[GM_DTYPE_COUNT][GM_DTYPE_COUNT] = {
    D(i32) = {D(i32) = cast_u32_w32, D(u32) = cast_u32_w32, D(i64) = cast_i32_w64, D(u64) = cast_i32_w64,
              D(f32) = cast_i32_f32, D(f64) = cast_i32_f64},
    D(u32) = {D(i32) = cast_u32_w32, D(u32) = cast_u32_w32, D(i64) = cast_u32_w64, D(u64) = cast_u32_w64,
              D(f32) = cast_u32_f32, D(f64) = cast_u32_f64},
    D(i64) = {D(i32) = cast_u64_w32, D(u32) = cast_u64_w32, D(i64) = cast_u64_w64, D(u64) = cast_u64_w64,
              D(f32) = cast_i64_f32, D(f64) = cast_i64_f64},
    D(u64) = {D(i32) = cast_u64_w32, D(u32) = cast_u64_w32, D(i64) = cast_u64_w64, D(u64) = cast_u64_w64,
              D(f32) = cast_u64_f32, D(f64) = cast_u64_f64},
    D(f32) = {D(i32) = cast_f32_i32, D(u32) = cast_f32_u32, D(i64) = cast_f32_i64, D(u64) = cast_f32_u64,
              D(f32) = cast_u32_w32, D(f64) = cast_f32_f64},
    D(f64) = {D(i32) = cast_f64_i32, D(u32) = cast_f64_u32, D(i64) = cast_f64_i64, D(u64) = cast_f64_u64,
              D(f32) = cast_f64_f32, D(f64) = cast_u64_w64},
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
