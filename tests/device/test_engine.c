/* SPDX-License-Identifier: Apache-2.0
 *
 * Large copies between host and device memory on a device that has a copy engine, through the whole backend: their
 * data, and what happens in the middle of one: other jobs, a cancel, a pause, the end of a lane and of an arena, more
 * copies than there are places. In the middle means that the engine of a CPU device waits at a gate before a piece; on
 * a GPU those tests are skipped. One thread plays clients and gridmilld.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "case.h"
#include "harness.h"

#define LARGE UINT64_C(65536)
#define PIECE UINT64_C(32768)
#define START UINT32_C(0xfffffffe)

static struct gm_harness device;
static struct gm_harness_lane lane;
static struct gm_harness_arena host, memory;
static int gate[2]; /* ours, the engine's */

/* gated: each piece waits until piece_goes, or open_gate for all. */
static void open_device(uint64_t bytes, bool gated)
{
    struct gm_device_config config = {
        .idle_ns = UINT64_MAX, .copy_bytes = LARGE, .copy_piece = PIECE, .copy_start = START};
    if (gated && gm_harness_is_cuda())
        skip();
    gate[0] = gate[1] = -1;
    if (gated) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate), 0);
        config.copy_gate_fd = gate[1];
    }
    gm_harness_open(&device, &config);
    assert_int_equal(device.hello.engine_bytes, LARGE);
    gm_harness_lane_open(&device, &lane, 1, 6, UINT64_C(0xfffffffd) << 6);
    gm_harness_arena_open(&device, &host, bytes, false);
    gm_harness_arena_open(&device, &memory, bytes, true);
}

/* The next piece stands at the gate: it was looked at, and cannot be cancelled any more. */
static void piece_comes(void)
{
    char byte;
    struct pollfd p = {.fd = gate[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, GM_HARNESS_WAIT_MS), 1);
    assert_int_equal(recv(gate[0], &byte, 1, 0), 1);
}
static void piece_goes(void)
{
    assert_int_equal(send(gate[0], "", 1, MSG_NOSIGNAL), 1);
}

static void open_gate(void)
{
    if (gate[0] >= 0)
        close(gate[0]);
    gate[0] = -1;
}

static void close_device(void)
{
    open_gate();
    gm_harness_close(&device);
    if (gate[1] >= 0)
        close(gate[1]);
}

static uint64_t submit(const struct gm_harness_arena *from, uint64_t from_offset, const struct gm_harness_arena *to,
                       uint64_t to_offset, uint64_t bytes)
{
    uint32_t words[GM_DESC_WORDS] = {GM_OP_copy | GM_DTYPE_u8 << 16};
    words[GM_W_ARENA0] = from->handle;
    words[GM_W_ARENA1] = to->handle;
    gm_desc_put64(words, GM_W_N, bytes);
    gm_desc_put64(words, GM_W_OFFSET0, from_offset);
    gm_desc_put64(words, GM_W_OFFSET1, to_offset);
    return gm_harness_submit(&lane, words);
}

static int32_t wait_for(uint64_t position)
{
    return gm_completion_status(gm_harness_wait(&lane, position));
}

static bool answered(uint64_t position)
{
    struct gm_granule g;
    return gm_harness_answered(&lane, position, &g);
}

static void run_nop(void)
{
    const uint32_t words[GM_DESC_WORDS] = {GM_OP_nop};
    assert_int_equal(wait_for(gm_harness_submit(&lane, words)), GM_OK);
}

static void assert_copies(uint64_t engine, uint64_t full)
{
    const struct gm_device_counters counters = gm_harness_idle(&device);
    assert_int_equal(counters.engine_copies, engine);
    assert_int_equal(counters.engine_full, full);
}

/* Up, along the device, and down again, at offsets that agree in nothing; what lies beside it stays. */
static void data_arrives_whole(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {LARGE, LARGE + 1u, PIECE * 4u - 1u, PIECE * 5u, PIECE * 7u + 4097u};
    const uint64_t room = PIECE * 8u + 8192u, bytes = 3u * room;
    uint64_t seed = 0x5eed;
    open_device(bytes, false);
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const uint64_t n = sizes[i], from = gm_random(&seed) % 4096u, to = 2u * room + gm_random(&seed) % 4096u;
        const uint64_t there = gm_random(&seed) % 4096u;
        gm_pattern_fill(host.data, bytes, GM_DTYPE_u8, GM_PATTERN_RANDOM, seed);
        memset(host.data + to - 1u, 0xee, n + 2u);
        assert_int_equal(wait_for(submit(&host, from, &memory, there, n)), GM_OK);
        assert_int_equal(wait_for(submit(&memory, there, &memory, room + there + 1u, n)), GM_OK);
        assert_int_equal(wait_for(submit(&memory, room + there + 1u, &host, to, n)), GM_OK);
        assert_memory_equal(host.data + to, host.data + from, n);
        assert_int_equal(host.data[to - 1u], 0xee);
        assert_int_equal(host.data[to + n], 0xee);
    }
    assert_copies(2u * sizeof sizes / sizeof sizes[0], 0);
    close_device();
}

/* Several at once in both directions, among them jobs of workers; more than there are places. */
static void many_go_at_once(void **state)
{
    (void)state;
    const uint32_t count = 24u, rounds = 3u;
    const uint64_t room = LARGE + 4096u;
    uint64_t engine = 0;
    open_device(count * room * 2u, false);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t p[2u * 24u];
        gm_pattern_fill(host.data, count * room, GM_DTYPE_u8, GM_PATTERN_RANDOM, 77u + round);
        for (uint32_t i = 0; i < count; i++)
            p[i] = submit(&host, i * room, &memory, (count - 1u - i) * room + round, LARGE + i);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(wait_for(p[i]), GM_OK);
        for (uint32_t i = 0; i < count; i++) {
            p[2u * i] = submit(&memory, (count - 1u - i) * room + round, &host, (count + i) * room, LARGE + i);
            p[2u * i + 1u] = submit(&host, i * room, &memory, (count + i) * room, i % 2u ? LARGE : 100u);
        }
        for (uint32_t i = 0; i < 2u * count; i++)
            assert_int_equal(wait_for(p[i]), GM_OK);
        for (uint32_t i = 0; i < count; i++)
            assert_memory_equal(host.data + (count + i) * room, host.data + i * room, LARGE + i);
        engine += 2u * count + count / 2u;
    }
    const struct gm_device_counters counters = gm_harness_idle(&device);
    assert_int_equal(counters.engine_copies + counters.engine_full, engine);
    assert_true(counters.engine_copies >= engine / 2u); /* of those in one direction all find a place */
    close_device();
}

static void others_go_on_beside_a_copy(void **state)
{
    (void)state;
    open_device(5u * PIECE, true);
    memset(host.data, 0x5a, 4u * PIECE);
    const uint64_t p = submit(&host, 0, &memory, 0, 4u * PIECE);
    piece_comes();
    for (uint32_t i = 0; i < 50u; i++)
        run_nop();
    assert_int_equal(wait_for(submit(&host, 0, &memory, 4u * PIECE, 1000)), GM_OK); /* not the engine's */
    assert_false(answered(p));
    open_gate();
    assert_int_equal(wait_for(p), GM_OK);
    assert_copies(1, 0);
    close_device();
}

static void cancelled_copy_stops_and_is_answered_then(void **state)
{
    (void)state;
    open_device(8u * PIECE, true);
    memset(host.data, 0xa5, 4u * PIECE);
    const uint64_t p = submit(&host, 0, &memory, 0, 4u * PIECE);
    piece_comes();
    piece_goes();
    piece_comes();
    assert_int_equal(gm_admin_cancel(&device.admin, 1, p), GM_OK);
    run_nop();
    assert_false(answered(p)); /* the second piece is under way */
    piece_goes();
    assert_int_equal(wait_for(p), GM_ECANCELLED);
    open_gate();
    assert_int_equal(wait_for(submit(&memory, 0, &host, 4u * PIECE, 4u * PIECE)), GM_OK);
    assert_memory_equal(host.data + 4u * PIECE, host.data, 2u * PIECE);
    for (uint64_t i = 6u * PIECE; i < 8u * PIECE; i++)
        assert_int_equal(host.data[i], 0); /* device memory begins as zeros; the rest was not begun */
    close_device();
}

/* A stop of the workers, and their next start, in the middle of a copy; the end of one while nobody is there. */
static void pause_waits_for_no_copy(void **state)
{
    (void)state;
    open_device(4u * PIECE, true);
    memset(host.data, 0x77, 2u * PIECE);
    for (uint32_t ends_meanwhile = 0; ends_meanwhile < 2u; ends_meanwhile++) {
        const uint64_t p = submit(&host, 0, &memory, ends_meanwhile * 2u * PIECE, 2u * PIECE);
        piece_comes();
        piece_goes();
        piece_comes();
        run_nop();
        assert_int_equal(gm_admin_stop(&device.admin, device.text), GM_OK);
        if (ends_meanwhile)
            piece_goes();
        assert_false(answered(p));
        assert_int_equal(device.backend->start(device.device, device.text), GM_OK);
        run_nop();
        if (!ends_meanwhile) {
            assert_false(answered(p));
            piece_goes();
        }
        assert_int_equal(wait_for(p), GM_OK);
    }
    assert_copies(2, 0);
    close_device();
}

static void memory_and_lanes_stay_until_the_copy_has_ended(void **state)
{
    (void)state;
    int32_t status;
    open_device(4u * PIECE, true);
    submit(&host, 0, &memory, 0, 4u * PIECE);
    piece_comes();
    for (uint32_t i = 0; i < 10u; i++) {
        assert_int_equal(gm_admin_arena_clear(&device.admin, host.handle), GM_EBUSY);
        assert_int_equal(gm_admin_arena_clear(&device.admin, memory.handle), GM_EBUSY);
        assert_int_equal(gm_admin_lane_close(&device.admin, 1), GM_EBUSY);
    }
    piece_goes(); /* what was under way; the lane's end has cancelled the rest */
    while ((status = gm_admin_lane_close(&device.admin, 1)) == GM_EBUSY)
        usleep(100);
    assert_int_equal(status, GM_OK);
    assert_int_equal(gm_admin_arena_clear(&device.admin, host.handle), GM_OK);
    assert_int_equal(gm_admin_arena_clear(&device.admin, memory.handle), GM_OK);
    close_device();
}

static void without_a_free_place_workers_do_it(void **state)
{
    (void)state;
    uint64_t p[GM_COPIES_MAX + 1u];
    open_device(4u * PIECE, true);
    memset(host.data, 0x3c, 2u * PIECE);
    for (uint32_t i = 0; i <= GM_COPIES_MAX; i++)
        p[i] = submit(&host, 0, &memory, i < GM_COPIES_MAX ? 0 : LARGE, LARGE);
    piece_comes(); /* of the first one, and no other goes before it has gone */
    assert_int_equal(wait_for(p[GM_COPIES_MAX]), GM_OK);
    assert_int_equal(gm_admin_cancel(&device.admin, 1, p[3]), GM_OK);
    open_gate();
    for (uint32_t i = 0; i < GM_COPIES_MAX; i++)
        assert_int_equal(wait_for(p[i]), i == 3u ? GM_ECANCELLED : GM_OK);
    assert_copies(GM_COPIES_MAX, 1);
    close_device();
}

/* What the self-test's size is, and everything else on a device that has none: no thread, no marks, no copies. */
static void cpu_has_no_engine_by_itself(void **state)
{
    (void)state;
    const struct gm_device_config config = {.idle_ns = UINT64_MAX};
    if (gm_harness_is_cuda())
        skip();
    gm_harness_open(&device, &config);
    assert_int_equal(device.hello.engine_bytes, 0);
    gm_harness_lane_open(&device, &lane, 1, 6, 0);
    gm_harness_arena_open(&device, &host, 4u * LARGE, false);
    gm_harness_arena_open(&device, &memory, 4u * LARGE, true);
    assert_int_equal(wait_for(submit(&host, 0, &memory, 0, 4u * LARGE)), GM_OK);
    assert_copies(0, 0);
    gm_harness_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_arrives_whole),
        cmocka_unit_test(many_go_at_once),
        cmocka_unit_test(others_go_on_beside_a_copy),
        cmocka_unit_test(cancelled_copy_stops_and_is_answered_then),
        cmocka_unit_test(pause_waits_for_no_copy),
        cmocka_unit_test(memory_and_lanes_stay_until_the_copy_has_ended),
        cmocka_unit_test(without_a_free_place_workers_do_it),
        cmocka_unit_test(cpu_has_no_engine_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
