/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op gives the right answer from end to end, with its data in messages, in a shared arena, and in device memory,
 * to and from which large inputs and outputs go by the device's copy engine and small ones by its workers.
 * What the ops do in every corner is the matrix test's business; here is the way of the data.
 */
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum place { IN_MESSAGE, IN_SHARED, ON_DEVICE, PLACES };

#define N_MAX 300000u
#define OFFSET 256u /* of everything in an arena, so that offsets matter */
#define OUT_AT ((uint64_t)4 << 20)
#define ARENA_BYTES ((uint64_t)8 << 20)
#define ENGINE_BYTES ((uint64_t)256 << 10)

static struct gm_client *client;
static struct gm_arena *shared, *device;
static uint64_t engine_copies; /* so far */
static uint8_t in[N_MAX * 8], out[N_MAX * 8], expected[N_MAX * 8];

static int setup(void **state)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, ENGINE_BYTES);
    setenv("GRIDMILL_ENGINE_BYTES", text, 1);
    daemon_setup(state);
    client = daemon_open(*state);
    assert_int_equal(GM_OK,
                     gm_arena_create(client, ARENA_BYTES, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &shared));
    assert_int_equal(GM_OK, gm_arena_create(client, ARENA_BYTES, GM_MEMORY_DEVICE, 0, in_ms(20000), &device));
    assert_true(gm_arena_bytes(shared) >= ARENA_BYTES);
    assert_null(gm_arena_data(device));
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(GM_OK, gm_arena_free(device, in_ms(20000)));
    assert_int_equal(GM_OK, gm_arena_free(shared, in_ms(20000)));
    gm_close(client);
    return daemon_teardown(state);
}

static void copy(const struct gm_arena *from, const struct gm_arena *to, uint64_t offset, uint64_t bytes)
{
    struct gm_request request = gm_request("copy", GM_U8, bytes);

    request.in[0] = gm_in_arena(from, offset, bytes);
    request.out[0] = gm_in_arena(to, offset, bytes);
    engine_copies += bytes >= ENGINE_BYTES;
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(60000), NULL));
}

/* Runs the job with in[] as input and out[] as output, wherever they lie in between. */
static int run(enum place place, struct gm_request *request, uint64_t in_bytes, uint64_t out_bytes,
               struct gm_result *result)
{
    uint8_t *const memory = gm_arena_data(shared);

    memset(out, 0xee, sizeof out);
    if (place == IN_MESSAGE) {
        if (in_bytes > 0 || request->n == 0)
            request->in[0] = gm_in_memory(in, in_bytes);
        if (out_bytes > 0 || request->n == 0)
            request->out[0] = gm_in_memory(out, out_bytes);
    } else {
        const struct gm_arena *const arena = place == ON_DEVICE ? device : shared;
        memcpy(memory + OFFSET, in, in_bytes);
        memset(memory + OUT_AT + OFFSET, 0xee, out_bytes + 64);
        if (place == ON_DEVICE)
            copy(shared, device, OFFSET, in_bytes);
        request->in[0] = gm_in_arena(arena, OFFSET, in_bytes);
        request->out[0] = gm_in_arena(arena, OUT_AT + OFFSET, out_bytes);
    }
    if (strcmp(request->op, "fill") == 0)
        request->in[0] = gm_in_memory(NULL, 0);
    else if (strcmp(request->op, "sum") == 0 || strcmp(request->op, "min") == 0 || strcmp(request->op, "max") == 0)
        request->out[0] = gm_in_memory(NULL, 0);
    const int rc = gm_run(client, request, in_ms(60000), result);
    if (place != IN_MESSAGE) {
        if (place == ON_DEVICE)
            copy(device, shared, OUT_AT + OFFSET, out_bytes);
        memcpy(out, memory + OUT_AT + OFFSET, out_bytes);
        for (int i = 0; i < 64; i++)
            assert_int_equal(0xee, memory[OUT_AT + OFFSET + out_bytes + (unsigned)i]);
    }
    return rc;
}

static const uint32_t sizes[] = {0, 1, 33, 5000, N_MAX};
#define SIZES (sizeof sizes / sizeof *sizes)

static bool fits(enum place place, uint64_t bytes)
{
    return place != IN_MESSAGE || bytes <= GM_INLINE_BYTES;
}

/* Small integers in every type, so that sums are exact. */
static void make_input(uint32_t dtype, uint32_t n)
{
    uint64_t x = 88172645463325252u + n;

    for (uint32_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const int v = (int)(x % 2001) - (dtype == GM_U32 || dtype == GM_U64 ? 0 : 1000);
        switch (dtype) {
        case GM_I32:
        case GM_U32:
            ((int32_t *)in)[i] = v;
            break;
        case GM_I64:
        case GM_U64:
            ((int64_t *)in)[i] = v;
            break;
        case GM_F32:
            ((float *)in)[i] = (float)v;
            break;
        default:
            ((double *)in)[i] = (double)v;
        }
    }
}

static double element(const void *array, uint32_t dtype, uint32_t i)
{
    switch (dtype) {
    case GM_I32:
    case GM_U32:
        return ((const int32_t *)array)[i];
    case GM_I64:
    case GM_U64:
        return (double)((const int64_t *)array)[i];
    case GM_F32:
        return (double)((const float *)array)[i];
    default:
        return ((const double *)array)[i];
    }
}

static double value_of(const struct gm_result *result)
{
    switch (result->dtype) {
    case GM_I32:
        return result->value.i32;
    case GM_U32:
        return result->value.u32;
    case GM_I64:
        return (double)result->value.i64;
    case GM_U64:
        return (double)result->value.u64;
    case GM_F32:
        return (double)result->value.f32;
    case GM_F64:
        return result->value.f64;
    default:
        fail_msg("no result");
        return 0;
    }
}

static const uint32_t dtypes[] = {GM_I32, GM_U32, GM_I64, GM_U64, GM_F32, GM_F64};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

static void check_reduce(enum place place, const char *op, uint32_t dtype, uint32_t n)
{
    struct gm_request request = gm_request(op, dtype, n);
    struct gm_result result;
    double want = n > 0 && op[0] != 's' ? element(in, dtype, 0) : 0;

    for (uint32_t i = 0; i < n; i++) {
        const double v = element(in, dtype, i);
        want = op[0] == 's' ? want + v : op[1] == 'i' ? fmin(want, v) : fmax(want, v);
    }
    const int rc = run(place, &request, n * gm_element_bytes(dtype), 0, &result);
    if (n == 0 && op[0] != 's') {
        assert_int_equal(GM_EEMPTY, rc);
        return;
    }
    if (rc != GM_OK)
        fail_msg("%s of %u %s at place %d: %s", op, n, gm_element_name(dtype), (int)place, gm_status_name(rc));
    if (value_of(&result) != want)
        fail_msg("%s of %u %s at place %d: %.17g instead of %.17g", op, n, gm_element_name(dtype), (int)place,
                 value_of(&result), want);
}

static void reductions_are_right_everywhere(void **state)
{
    (void)state;
    for (size_t d = 0; d < DTYPES; d++)
        for (size_t s = 0; s < SIZES; s++) {
            make_input(dtypes[d], sizes[s]);
            for (enum place place = 0; place < PLACES; place++) {
                if (!fits(place, sizes[s] * gm_element_bytes(dtypes[d])))
                    continue;
                check_reduce(place, "sum", dtypes[d], sizes[s]);
                check_reduce(place, "min", dtypes[d], sizes[s]);
                check_reduce(place, "max", dtypes[d], sizes[s]);
            }
        }
}

static uint32_t sort_dtype;

static int compare(const void *a, const void *b)
{
    const double x = element(a, sort_dtype, 0), y = element(b, sort_dtype, 0);

    return (x > y) - (x < y);
}

static void check_sort(enum place place, uint32_t dtype, uint32_t n, bool descending)
{
    const size_t size = gm_element_bytes(dtype);
    struct gm_request request = gm_request("sort", dtype, n);

    request.descending = descending;
    memcpy(expected, in, n * size);
    sort_dtype = dtype;
    qsort(expected, n, size, compare);
    assert_int_equal(GM_OK, run(place, &request, n * size, n * size, NULL));
    for (uint32_t i = 0; i < n; i++)
        if (element(out, dtype, i) != element(expected, dtype, descending ? n - 1 - i : i))
            fail_msg("sort of %u %s at place %d: wrong at %u", n, gm_element_name(dtype), (int)place, i);
}

static void sorts_are_right_everywhere(void **state)
{
    (void)state;
    for (size_t d = 0; d < DTYPES; d++)
        for (size_t s = 0; s < SIZES; s++) {
            const uint32_t n = sizes[s] < 200000 ? sizes[s] : 200000; /* two arrays in the arena */
            make_input(dtypes[d], n);
            for (enum place place = 0; place < PLACES; place++)
                if (fits(place, n * gm_element_bytes(dtypes[d])))
                    check_sort(place, dtypes[d], n, (d + s + place) % 2 == 0);
        }
}

static void fill_and_copy_are_right_everywhere(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES; s++)
        for (enum place place = 0; place < PLACES; place++) {
            const uint32_t n = sizes[s];
            struct gm_request request = gm_request("fill", GM_F32, n);
            if (!fits(place, n * 4u))
                continue;
            request.value = gm_bits_f32(1.5f);
            assert_int_equal(GM_OK, run(place, &request, 0, n * 4u, NULL));
            for (uint32_t i = 0; i < n; i++)
                assert_true(((float *)out)[i] == 1.5f);
            make_input(GM_U32, n);
            request = gm_request("copy", GM_U32, n);
            assert_int_equal(GM_OK, run(place, &request, n * 4u, n * 4u, NULL));
            assert_memory_equal(in, out, n * 4u);
        }
}

static void histograms_are_right_everywhere(void **state)
{
    enum { BINS = 77 };
    struct gm_result result;

    (void)state;
    for (size_t s = 0; s < SIZES; s++)
        for (enum place place = 0; place < PLACES; place++) {
            const uint32_t n = sizes[s];
            uint64_t want[BINS] = {0}, counted = 0;
            struct gm_request request = gm_request("histogram", GM_F64, n);
            if (!fits(place, n * 8u))
                continue;
            make_input(GM_F64, n);
            request.bins = BINS;
            request.lo = -900.25;
            request.hi = 901.5;
            for (uint32_t i = 0; i < n; i++) {
                const double v = ((double *)in)[i], width = (request.hi - request.lo) / BINS;
                uint32_t bin = BINS;
                while (bin > 0 && v < request.lo + (bin - 1) * width)
                    bin--;
                if (bin == 0 || v > request.hi)
                    continue;
                want[bin - 1]++;
                counted++;
            }
            assert_int_equal(GM_OK, run(place, &request, n * 8u, BINS * 8u, &result));
            assert_memory_equal(want, out, sizeof want);
            assert_int_equal(GM_U64, result.dtype);
            assert_int_equal(counted, result.value.u64);
        }
}

static void nop_has_no_result_and_says_how_long_it_took(void **state)
{
    const struct gm_request request = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_result result;

    (void)state;
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), &result));
    assert_int_equal(GM_NO_ELEMENT, result.dtype);
    assert_int_equal(0, result.device);
    assert_true(result.wait_ns < 20000000000u && result.run_ns < 20000000000u);
}

/* A thousand jobs at once, through gm_submit_batch and gm_next, each with its own answer. */
static void pipelined_jobs_each_get_their_own_answer(void **state)
{
    enum { JOBS = 1000 };
    static struct gm_request requests[JOBS];
    static struct gm_job jobs[JOBS], *pointers[JOBS];
    struct gm_job *job;
    size_t accepted, seen = 0;

    (void)state;
    memset(jobs, 0, sizeof jobs);
    make_input(GM_U32, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        requests[i] = gm_request("sum", GM_U32, 1);
        requests[i].in[0] = gm_in_memory(in + 4 * i, 4);
        jobs[i].user = (void *)(uintptr_t)i;
        pointers[i] = &jobs[i];
    }
    for (int round = 0; round < 5; round++) {
        assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, JOBS, &accepted));
        for (seen = 0; seen < JOBS; seen++) {
            while ((job = gm_next(client)) == NULL)
                assert_int_equal(GM_OK, gm_poll(client));
            struct gm_result result;
            assert_int_equal(GM_OK, gm_job_result(job, &result));
            assert_int_equal(((uint32_t *)in)[(uintptr_t)job->user], result.value.u64);
        }
    }
}

/* Of all tests so far. */
static void stats_say_who_copied(void **state)
{
    (void)state;
    assert_int_equal(ENGINE_BYTES, stat_of(client, "devices.0.engine_bytes"));
    copy(shared, device, 0, ENGINE_BYTES - 1);
    copy(shared, device, 0, ENGINE_BYTES);
    copy(device, shared, 1, ENGINE_BYTES);
    assert_true(engine_copies > 2);
    wait_for_stat(client, "devices.0.engine_copies", engine_copies, 20000);
    assert_int_equal(0, stat_of(client, "devices.0.engine_full"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nop_has_no_result_and_says_how_long_it_took),
        cmocka_unit_test(reductions_are_right_everywhere),
        cmocka_unit_test(fill_and_copy_are_right_everywhere),
        cmocka_unit_test(histograms_are_right_everywhere),
        cmocka_unit_test(sorts_are_right_everywhere),
        cmocka_unit_test(pipelined_jobs_each_get_their_own_answer),
        cmocka_unit_test(stats_say_who_copied),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
