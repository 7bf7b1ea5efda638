/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals from end to end: each names the field, and the session goes on as if nothing had happened. Raw requests,
 * because the client library would not send most of them.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fd;

static int setup(void **state)
{
    daemon_setup(state);
    fd = raw_session(*state);
    return 0;
}

static int teardown(void **state)
{
    close(fd);
    return daemon_teardown(state);
}

static uint32_t next_id = 100;

/* params of submit from pairs of a key and a msgpack value in hexadecimal, up to NULL. */
static struct gm_wire_response submit(const char *const *pairs)
{
    struct gm_wire_response response;
    uint8_t bytes[4096];
    struct gm_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
    uint32_t count = 0;

    while (pairs[2 * count] != NULL)
        count++;
    const size_t start = gm_wire_begin(&out);
    gm_wire_put_array(&out, 4);
    gm_wire_put_u64(&out, 0);
    gm_wire_put_u64(&out, ++next_id);
    gm_wire_put_str(&out, "submit");
    gm_wire_put_map(&out, count);
    for (uint32_t i = 0; i < count; i++) {
        const char *hex = pairs[2 * i + 1];
        gm_wire_put_str(&out, pairs[2 * i]);
        for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2)
            out.bytes[out.size++] = (uint8_t)byte;
    }
    assert_int_equal(GM_OK, gm_wire_end(&out, start));
    raw_send(fd, out.bytes, out.size);
    assert_true(raw_receive(fd, 20000, &response));
    assert_int_equal(next_id, response.id);
    return response;
}

static void assert_refused(const char *const *pairs, int code, const char *field)
{
    const struct gm_wire_response response = submit(pairs);

    if (!response.failed)
        fail_msg("not refused: %s", field);
    if (response.problem.code != code || strcmp(response.problem.field, field) != 0)
        fail_msg("%s: refused with %s, field \"%s\": %s", field, gm_error_name(response.problem.code),
                 response.problem.field, response.problem.text);
    assert_true(response.problem.text[0] != '\0');
    /* The session goes on: the next job is done. */
    struct gm_wire_response sum;
    const struct frame frame = raw_sum(++next_id);
    raw_send(fd, frame.bytes, frame.size);
    free(frame.bytes);
    assert_true(raw_receive(fd, 20000, &sum));
    assert_int_equal(next_id, sum.id);
    assert_false(sum.failed);
}

#define SUM      "a373756d"
#define FILL     "a466696c6c"
#define HIST     "a9686973746f6772616d"
#define U32      "a3753332"
#define U8       "a27538"
#define IN_1     "91c40401000000"
#define NIL      "91c0"
#define P(...)   ((const char *const[]){__VA_ARGS__, NULL, NULL})

static void refusals_name_the_field(void **state)
{
    (void)state;
    assert_refused(P("op", "a46e6f6e65"), GM_EOP, "op");
    assert_refused(P("op", "c0"), GM_EINVAL, "op");
    assert_refused(P("dtype", U32, "n", "01"), GM_EINVAL, "op");
    assert_refused(P("op", SUM, "n", "01", "in", IN_1), GM_EINVAL, "dtype");
    assert_refused(P("op", SUM, "dtype", "a26938", "n", "04", "in", IN_1), GM_EDTYPE, "dtype"); /* i8 */
    assert_refused(P("op", SUM, "dtype", U32, "in", IN_1), GM_EINVAL, "n");
    assert_refused(P("op", SUM, "dtype", U32, "n", "ff", "in", IN_1), GM_EINVAL, "n");
    assert_refused(P("op", SUM, "dtype", U32, "n", "cfffffffffffffffff", "in", IN_1), GM_ESIZE, "n");
    assert_refused(P("op", SUM, "dtype", U32, "n", "02", "in", IN_1), GM_ESIZE, "in[0]");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", "90"), GM_EINVAL, "in");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", "91c0"), GM_EINVAL, "in[0]");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_1, "out", NIL), GM_EINVAL, "out");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_1, "colour", "01"), GM_EINVAL, "colour");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "n", "01", "in", IN_1), GM_EINVAL, "n");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_1, "device", "09"), GM_ENODEVICE, "device");
    assert_refused(P("op", FILL, "dtype", U8, "n", "01", "value", "cd0100", "out", NIL), GM_EINVAL, "value");
    assert_refused(P("op", HIST, "dtype", U32, "n", "01", "in", IN_1, "out", NIL, "bins", "00", "lo", "00", "hi", "01"),
                   GM_ESIZE, "bins");
    assert_refused(P("op", HIST, "dtype", U32, "n", "01", "in", IN_1, "out", NIL, "bins", "01", "lo", "01", "hi", "01"),
                   GM_EINVAL, "hi");
}

#define IN_ARENA(arena, offset) "9182a56172656e61" arena "a66f6666736574" offset

static void places_in_arenas_are_checked(void **state)
{
    (void)state;
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_ARENA("01", "00")), GM_EARENA, "in[0].arena");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_ARENA("ceffffffff", "00")), GM_EARENA, "in[0].arena");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_ARENA("01", "02")), GM_EALIGN, "in[0].offset");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_ARENA("01", "cffffffffffffffffc")), GM_EBOUNDS,
                   "in[0].offset");
    assert_refused(P("op", SUM, "dtype", U32, "n", "01", "in", IN_ARENA("ff", "00")), GM_EINVAL, "in[0].arena");
}

static void check_run(struct gm_client *client, const struct gm_request *request, int status, const char *field)
{
    struct gm_failure failure;

    assert_int_equal(status, gm_run(client, request, in_ms(20000), NULL));
    gm_last_failure(client, &failure);
    assert_string_equal(field, failure.field);
}

static void arenas_of_others_and_freed_ones_are_refused(void **state)
{
    struct gm_client *const client = daemon_open(*state), *const other = daemon_open(*state);
    struct gm_request request = gm_request("sum", GM_U64, 4), moved;
    struct gm_arena *arena, *others;

    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    assert_int_equal(GM_OK, gm_arena_create(other, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &others));
    request.in[0] = gm_in_arena(arena, 4064, 32);
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), NULL));
    moved = request;
    moved.in[0].offset = 4068;
    check_run(client, &moved, GM_EBOUNDS, "in[0]");
    moved.in[0].offset = UINT64_MAX - 8;
    check_run(client, &moved, GM_EBOUNDS, "in[0]");
    moved.in[0].offset = 4;
    check_run(client, &moved, GM_EALIGN, "in[0].offset");
    moved.in[0] = gm_in_arena(others, 0, 32);
    check_run(client, &moved, GM_EARENA, "in[0]");
    request = gm_request("copy", GM_U8, 100);
    request.in[0] = gm_in_arena(arena, 0, 100);
    request.out[0] = gm_in_arena(arena, 50, 100);
    assert_int_equal(GM_EALIAS, gm_run(client, &request, in_ms(20000), NULL));
    request.out[0].offset = 0;
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), NULL));
    assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
    gm_close(other);
    gm_close(client);
}

static void results_that_are_errors_arrive_as_such(void **state)
{
    struct gm_client *const client = daemon_open(*state);
    const int64_t large[2] = {INT64_MAX, 1};
    struct gm_request request = gm_request("sum", GM_I64, 2);

    request.in[0] = gm_in_memory(large, sizeof large);
    check_run(client, &request, GM_EOVERFLOW, "");
    request = gm_request("max", GM_F32, 0);
    check_run(client, &request, GM_EEMPTY, "n");
    assert_int_equal(GM_EPERM, gm_drain(client, in_ms(20000)));
    assert_int_equal(0, stat_of(client, "daemon.draining"));
    gm_close(client);
}

/* Only the device sees what a buffer holds; the answer names that buffer on both ways. */
static void bad_data_is_refused_by_the_name_of_its_buffer(void **state)
{
    static const uint32_t five[] = {0, 2, 1, 4, 9}; /* of 4 elements: they fall, and leave 0 to 4 */
    static const float falls[] = {0, 2, 1};
    static float elements[8];
    static uint64_t counts[8];
    struct gm_client *const client = daemon_open(*state);
    struct gm_request bad[] = {gm_request("gather", GM_F32, 5), gm_request("segmented_scan_sum", GM_F32, 4),
                               gm_request("histogram_edges", GM_F32, 4)};
    struct gm_arena *arena;

    bad[0].length = 4, bad[0].index = GM_U32;
    bad[1].segments = 4, bad[1].index = GM_U32;
    bad[2].bins = 2;
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    uint8_t *const memory = gm_arena_data(arena);
    for (size_t i = 0; i < 3; i++) {
        const void *const second = i == 2 ? (const void *)falls : (const void *)five;
        const size_t bytes = i == 2 ? sizeof falls : sizeof five;
        bad[i].in[0] = gm_in_memory(elements, sizeof elements);
        bad[i].in[1] = gm_in_memory(second, bytes);
        bad[i].out[0] = gm_in_memory(counts, sizeof counts);
        check_run(client, &bad[i], i == 2 ? GM_EINVAL : GM_EBOUNDS, "in[1]");
        memcpy(memory + 1024, second, bytes);
        bad[i].in[0] = gm_in_arena(arena, 0, sizeof elements);
        bad[i].in[1] = gm_in_arena(arena, 1024, bytes);
        bad[i].out[0] = gm_in_arena(arena, 2048, sizeof counts);
        check_run(client, &bad[i], i == 2 ? GM_EINVAL : GM_EBOUNDS, "in[1]");
    }
    gm_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_field),
        cmocka_unit_test(places_in_arenas_are_checked),
        cmocka_unit_test(arenas_of_others_and_freed_ones_are_refused),
        cmocka_unit_test(results_that_are_errors_arrive_as_such),
        cmocka_unit_test(bad_data_is_refused_by_the_name_of_its_buffer),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
