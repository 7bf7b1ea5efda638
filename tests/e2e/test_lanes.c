/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of the real daemon: filled to every level while the device stands still, figures while all of them are full,
 * memory that no client can cut short, and arenas that a lane must not reach. One thread; every wait is bounded.
 */
#include "chaos_lane.h"
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALL_MS  60000u
#define ELEMENTS 64u

/* A device process that gets no processor for seconds is given up on: it is asked again. */
static bool again(int status, uint64_t end_ms)
{
    return status == GM_ETIMEDOUT && now_ms() < end_ms;
}

static struct gm_client *open_with_slots(const struct daemon *d, uint32_t slots)
{
    const struct gm_options options = {
        .socket = d->socket, .deadline_ns = in_ms(CALL_MS), .lane_slots = slots, .lane_only = 1};
    const uint64_t end_ms = now_ms() + CALL_MS;
    struct gm_client *client;
    struct gm_failure failure;

    for (;;) {
        if (gm_open(&options, &client, &failure) != GM_OK)
            fail_msg("gm_open: %s", failure.text);
        if (gm_lanes(client) == 1)
            return client;
        gm_last_failure(client, &failure);
        if (!again(failure.status, end_ms))
            fail_msg("no lane: %s", failure.text);
        gm_close(client);
    }
}

static struct gm_arena *create_arena(struct gm_client *client)
{
    const uint64_t end_ms = now_ms() + CALL_MS;
    struct gm_arena *arena;
    int status;

    do
        status = gm_arena_create(client, 65536, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(CALL_MS), &arena);
    while (again(status, end_ms));
    assert_int_equal(GM_OK, status);
    return arena;
}

/* ---- Every fill level ---- */

#define SLOTS_MOST 8u

struct sent {
    struct gm_job job;
    bool wide;
    uint32_t seed;
};

static uint32_t word_of(const struct sent *s, uint32_t i)
{
    return (s->seed + i) * 2654435761u;
}

/* A copy takes one slot, a fill two; each has its own part of the arena. */
static int send_one(struct gm_client *client, struct gm_arena *arena, struct sent *s, uint32_t place)
{
    const uint64_t at = (uint64_t)place * ELEMENTS * 8u;
    uint32_t *const in = (uint32_t *)gm_arena_data(arena) + at / 4u;
    struct gm_request request = gm_request(s->wide ? "fill" : "copy", GM_U32, ELEMENTS);

    for (uint32_t i = 0; i < ELEMENTS; i++)
        in[i] = word_of(s, i), in[ELEMENTS + i] = 0;
    request.value = s->seed;
    if (!s->wide)
        request.in[0] = gm_in_arena(arena, at, ELEMENTS * 4u);
    request.out[0] = gm_in_arena(arena, at + ELEMENTS * 4u, ELEMENTS * 4u);
    memset(&s->job, 0, sizeof s->job);
    return gm_submit(client, &request, &s->job);
}

static void see_one(struct gm_client *client, struct gm_arena *arena, struct sent *s, uint32_t place)
{
    const uint32_t *const in = (const uint32_t *)gm_arena_data(arena) + (size_t)place * ELEMENTS * 2u;

    assert_int_equal(GM_OK, gm_wait(client, &s->job, in_ms(CALL_MS)));
    for (uint32_t i = 0; i < ELEMENTS; i++)
        if (in[ELEMENTS + i] != (s->wide ? s->seed : word_of(s, i)))
            fail_msg("job %u, element %u: %x", place, i, in[ELEMENTS + i]);
}

/* The device stands still, so the lane is as full as it is said to be. */
static void fill_to(struct gm_client *client, struct gm_arena *arena, struct gm_client *watcher, uint32_t level,
                    uint32_t slots, uint32_t *seed)
{
    struct sent sent[SLOTS_MOST + 1u];
    const pid_t device = device_pid(watcher);
    uint32_t count = 0;

    freeze_device(watcher, device);
    for (uint32_t left = level; left > 0; count++) {
        sent[count].seed = ++*seed * 2654435761u;
        sent[count].wide = left >= 2u && *seed % 3u == 0;
        assert_int_equal(GM_OK, send_one(client, arena, &sent[count], count));
        left -= sent[count].wide ? 2u : 1u;
    }
    sent[count].wide = false;
    if (level == slots)
        assert_int_equal(GM_EBUSY, send_one(client, arena, &sent[count], count));
    thaw(device);
    for (uint32_t i = 0; i < count; i++)
        see_one(client, arena, &sent[i], i);
}

static void small_lanes_take_and_give_back_every_level(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const watcher = daemon_open_without_lanes(d);
    uint32_t seed = 1;

    for (uint32_t slots = 2; slots <= SLOTS_MOST; slots *= 2) {
        struct gm_client *const client = open_with_slots(d, slots);
        struct gm_arena *const arena = create_arena(client);
        for (uint32_t lap = 0; lap < 3; lap++)
            for (uint32_t level = 1; level <= slots; level++)
                fill_to(client, arena, watcher, level, slots, &seed);
        wait_for_stat(watcher, "devices.0.queue_depth", 0, CALL_MS);
        gm_close(client);
    }
    wait_for_stat(watcher, "devices.0.lanes", 0, CALL_MS);
    gm_close(watcher);
}

/* ---- Everything full ---- */

enum { CLIENTS = 6, LANE_SLOTS = 64 };

static void stats_answer_while_every_lane_is_full(void **state)
{
    static struct gm_job jobs[CLIENTS][LANE_SLOTS + 1];
    struct daemon *const d = *state;
    struct gm_client *const watcher = daemon_open_without_lanes(d);
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const pid_t device = device_pid(watcher);
    struct gm_client *client[CLIENTS];

    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < CLIENTS; i++)
        client[i] = open_with_slots(d, LANE_SLOTS);
    wait_for_stat(watcher, "devices.0.lanes", CLIENTS, CALL_MS); /* of who was here before, none is left */
    freeze_device(watcher, device);
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < LANE_SLOTS; k++)
            assert_int_equal(GM_OK, gm_submit(client[i], &nop, &jobs[i][k]));
        assert_int_equal(GM_EBUSY, gm_submit(client[i], &nop, &jobs[i][LANE_SLOTS]));
    }
    /* A machine may be busy for a while; a daemon that waits for a device is so for ever. */
    const uint64_t end_ms = now_ms() + 20000;
    uint64_t took_ms = UINT64_MAX;
    while (took_ms >= 100 && now_ms() < end_ms) {
        const uint64_t start_ms = now_ms();
        assert_int_equal(CLIENTS, stat_of(watcher, "devices.0.lanes"));
        took_ms = now_ms() - start_ms;
    }
    thaw(device);
    assert_true(took_ms < 100);
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < LANE_SLOTS; k++)
            assert_int_equal(GM_OK, gm_wait(client[i], &jobs[i][k], in_ms(CALL_MS)));
    for (int i = 0; i < CLIENTS; i++)
        gm_close(client[i]);
    wait_for_stat(watcher, "devices.0.lanes", 0, CALL_MS);
    wait_for_stat(watcher, "devices.0.queue_depth", 0, CALL_MS);
    gm_close(watcher);
}

/* ---- What a lane must not reach ---- */

struct lane_client {
    struct raw raw;
    struct raw_lane lane;
    struct raw_arena arena;
    uint64_t position;
};

static void lane_client_open(struct lane_client *c, const struct daemon *d)
{
    const uint64_t end_ms = now_ms() + CALL_MS;
    int status;

    assert_int_equal(GM_OK, raw_open(&c->raw, d->socket, CALL_MS));
    do
        status = raw_arena_create(&c->raw, 65536, &c->arena, CALL_MS);
    while (again(status, end_ms));
    assert_int_equal(GM_OK, status);
    do
        status = raw_lane_open(&c->raw, 0, 4, &c->lane, CALL_MS);
    while (again(status, end_ms));
    assert_int_equal(GM_OK, status);
    c->position = c->lane.start;
}

static void lane_client_close(struct lane_client *c)
{
    raw_lane_unmap(&c->lane);
    raw_arena_unmap(&c->arena);
    raw_close(&c->raw);
}

/* The answer to a sum of some words of an arena. */
static int sum_status(struct lane_client *c, uint32_t handle, uint64_t offset, uint64_t n)
{
    const uint64_t end_ms = now_ms() + CALL_MS, p = c->position++;
    uint32_t words[GM_DESC_WORDS] = {GM_OP_sum | GM_DTYPE_u32 << 16};
    struct gm_granule g;

    words[GM_W_ARENA0] = handle;
    gm_desc_put64(words, GM_W_OFFSET0, offset);
    gm_desc_put64(words, GM_W_N, n);
    gm_desc_store(c->lane.sq, c->lane.log2, p, words, 0);
    raw_ring(&c->lane);
    do {
        g = gm_load16_sys(&c->lane.cq[p & (c->lane.slots - 1u)]);
        if (now_ms() > end_ms)
            fail_msg("no answer");
        sleep_ms(1);
    } while (g.w[3] != gm_lap(p, c->lane.log2));
    return gm_completion_status(g);
}

static void arena_free(struct lane_client *c)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_FREE, .u.arena_free.arena = c->arena.handle};
    struct gm_wire_response response;

    const int status = raw_call(&c->raw, &request, &response, CALL_MS);
    assert_true(status == GM_OK || status == GM_ETIMEDOUT);
}

static void lane_reaches_its_own_arenas_and_no_byte_more(void **state)
{
    static const uint64_t far[] = {65536,           65540,          UINT64_C(1) << 32,
                                   UINT32_MAX - 3u, INT64_MAX - 3u, UINT64_C(1) << 63,
                                   UINT64_MAX - 65535u, UINT64_MAX - 3u};
    struct daemon *const d = *state;
    struct lane_client own, other;

    lane_client_open(&own, d);
    lane_client_open(&other, d);
    assert_int_not_equal(own.arena.handle, other.arena.handle);
    assert_int_equal(GM_OK, sum_status(&own, own.arena.handle, 0, 16384));
    assert_int_equal(GM_OK, sum_status(&own, own.arena.handle, 65532, 1));
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        assert_int_equal(GM_EBOUNDS, sum_status(&own, own.arena.handle, far[i], 1));
    assert_int_equal(GM_EBOUNDS, sum_status(&own, own.arena.handle, 65532, 2));
    assert_int_equal(GM_EBOUNDS, sum_status(&own, own.arena.handle, 4, 16384));
    assert_int_equal(GM_EARENA, sum_status(&own, other.arena.handle, 0, 1));
    assert_int_equal(GM_EARENA, sum_status(&own, 0, 0, 1));
    assert_int_equal(GM_EARENA, sum_status(&own, UINT32_MAX, 0, 1));
    /* The other one notices nothing of it. */
    assert_int_equal(GM_OK, sum_status(&other, other.arena.handle, 0, 16384));
    arena_free(&other);
    assert_int_not_equal(GM_OK, sum_status(&other, other.arena.handle, 0, 1));
    assert_int_not_equal(GM_OK, sum_status(&own, other.arena.handle, 0, 1));
    lane_client_close(&other);
    assert_int_equal(GM_OK, sum_status(&own, own.arena.handle, 0, 16384));
    lane_client_close(&own);
}

static void memory_of_lanes_and_arenas_cannot_be_cut_short(void **state)
{
    struct daemon *const d = *state;
    struct lane_client c;

    lane_client_open(&c, d);
    const int fds[] = {c.lane.memory, c.arena.memory};
    for (size_t i = 0; i < 2; i++) {
        const int seals = fcntl(fds[i], F_GET_SEALS);
        assert_true(seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW));
        assert_int_equal(-1, ftruncate(fds[i], 0));
        assert_int_equal(-1, ftruncate(fds[i], 4096));
        assert_int_equal(-1, ftruncate(fds[i], 1 << 30));
    }
    assert_int_equal(GM_OK, sum_status(&c, c.arena.handle, 0, 16384));
    lane_client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_lanes_take_and_give_back_every_level, daemon_setup_to_freeze,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(stats_answer_while_every_lane_is_full, daemon_setup_to_freeze,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(lane_reaches_its_own_arenas_and_no_byte_more, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(memory_of_lanes_and_arenas_cannot_be_cut_short, daemon_setup, daemon_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
