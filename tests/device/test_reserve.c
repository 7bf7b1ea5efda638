/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions of the ticket ring are reserved: each by one publisher, only where there is room, and by a job that has
 * nothing if there is none. What rings have to be for wings to have parts of their own. Threads that publish side by
 * side, on the smallest ring; the rest is one thread.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/draw.h"
#include "rig.h"

#define WORKERS 3u
#define START (UINT64_C(0xfffffffe) << 4)
#define TILE (UINT64_C(16384) / 4u)
#define PART 32u /* entries of a wing */

/* A piece of the pool that a job took goes back when there is no room for its tickets. */
static void a_job_without_room_keeps_nothing(void **state)
{
    (void)state;
    const struct gm_core_shape shape = {.tickets_log2 = 9,
                                        .entries_log2 = 8,
                                        .workers = WORKERS,
                                        .host_shares = WORKERS,
                                        .ticket_start = UINT64_C(0xfffffffd) << 9,
                                        .inbox_start = 1u << 8,
                                        .idle_ns = UINT64_MAX,
                                        .workspace_bytes = 1u << 20};
    for (uint32_t jobs = 1; jobs <= 2u; jobs++) { /* alone, and ahead of another */
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        struct gm_granule g;
        uint32_t words[GM_DESC_WORDS];
        rig_open(&rig, &shape);
        rig_arena_set(&rig, RIG_ARENA, RIG_BASE, RIG_BYTES, RIG_SESSION, 0);
        rig_lane_open(&rig, 1, 4, START);
        const uint64_t published = rig.d->published, floor = rig.d->crew.ack_floor;
        rig.d->crew.apart = 1; /* nobody makes room */
        rig.d->crew.ack_floor = published - (1u << rig.core->tickets_log2);
        rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, 20 * TILE);
        rig_buffer(words, 0, RIG_ARENA, 0);
        rig_buffer(words, 1, RIG_ARENA, RIG_BYTES / 2u);
        const uint64_t p = rig_submit(&rig, 1, words);
        if (jobs == 2u)
            rig_submit_nop(&rig, 1);
        gm_ready_set(rig.d, 1);
        for (uint32_t i = 0; i < 8u; i++)
            rig_turn(&rig);
        assert_int_equal(rig.d->held_lane, 1 + 1);
        assert_int_equal(rig.d->counters.workspace, 0);
        assert_int_equal(rig.d->pieces, 1);
        assert_int_equal(rig.d->published, published);
        rig.d->crew.apart = 0;
        rig.d->crew.ack_floor = floor;
        rig_settle(&rig, w, WORKERS);
        assert_true(rig_answer(&rig, 1, p, &g));
        assert_int_equal(gm_completion_status(g), GM_OK);
        rig_assert_settled(&rig);
        rig_close(&rig);
    }
}

static void rings_that_are_too_small_have_no_wings(void **state)
{
    (void)state;
    static struct gm_core core;
    static struct gm_counters counters;
    static struct gm_disp d;
    struct gm_core_shape s = {
        .tickets_log2 = 7, .entries_log2 = 8, .workers = 16, .workspace_bytes = 1u << 20, .wings = GM_WINGS_MAX};
    assert_int_equal(gm_core_init(&core, &counters, &d, &s), GM_OK);
    assert_int_equal(core.wings, GM_WINGS_MAX); /* 128 tickets: 96 for the wings, a stop ticket and a share each */
    assert_int_equal(d.credit, 16);
    assert_int_equal(d.free_entries, 256 - GM_WINGS_MAX * PART);
    s.workers = 17;
    assert_int_equal(gm_core_init(&core, &counters, &d, &s), GM_OK);
    assert_int_equal(core.wings, 0);
    assert_int_equal(d.credit, 128 - 17);
    assert_int_equal(d.free_entries, 256);
    s.workers = 16, s.entries_log2 = 7;
    assert_int_equal(gm_core_init(&core, &counters, &d, &s), GM_OK);
    assert_int_equal(core.wings, 0); /* a wing could not start what one look brings */
    s.wings = GM_WINGS_MAX + 1u;
    assert_int_equal(gm_core_init(&core, &counters, &d, &s), GM_ESIZE);
}

#define PUBLISHERS 3u
#define EACH 20000u

static struct {
    struct rig rig;
    uint32_t left, wrong, read;
    uint8_t seen[PUBLISHERS * EACH];
} t;

/* Positions one to four at a time; the word of a ticket says which publisher's how many-th it is. */
static void *publish(void *arg)
{
    const uint32_t me = (uint32_t)(uintptr_t)arg;
    uint64_t random = me;
    for (uint32_t done = 0; done < EACH;) {
        uint32_t n = 1u + (uint32_t)rig_random(&random) % 4u;
        uint64_t base;
        n = n < EACH - done ? n : EACH - done;
        if (!gm_reserve(t.rig.core, t.rig.d, n, &base)) {
            sched_yield();
            continue;
        }
        for (uint32_t i = 0; i < n; i++)
            gm_publish_reference(t.rig.core, base + i, me << 16 | (done + i));
        done += n;
    }
    return NULL;
}

static void *read_tickets(void *arg)
{
    (void)arg;
    while (gm_fetch_add_relaxed_u32(&t.left, UINT32_MAX) - 1u < PUBLISHERS * EACH) {
        const uint64_t ticket = gm_draw(t.rig.core);
        struct gm_granule g;
        while (g = gm_load16_gpu(&gm_slot_at(t.rig.core, ticket)->g[0]),
               g.w[3] != gm_lap(ticket, t.rig.core->tickets_log2))
            sched_yield();
        const uint32_t who = g.w[0] >> 16, which = g.w[0] & 0xffffu;
        if (who >= PUBLISHERS || which >= EACH || t.seen[who * EACH + which]++ != 0)
            (void)gm_fetch_add_relaxed_u32(&t.wrong, 1);
        (void)gm_fetch_add_relaxed_u32(&t.read, 1);
        gm_ack(t.rig.core, ticket);
    }
    return NULL;
}

/* In a ring of eight, so that every reservation waits for room, and several for the same. */
static void every_position_is_reserved_once_and_only_where_there_is_room(void **state)
{
    (void)state;
    pthread_t publisher[PUBLISHERS], reader[2];
    const struct gm_core_shape shape = {.tickets_log2 = 3,
                                        .entries_log2 = 2,
                                        .workers = 2,
                                        .host_shares = 2,
                                        .ticket_start = UINT64_C(0xfffffffd) << 3,
                                        .inbox_start = 4,
                                        .workspace_bytes = 1u << 20};
    rig_open(&t.rig, &shape);
    const uint64_t start = t.rig.d->published;
    t.rig.d->crew.apart = 1;
    t.left = PUBLISHERS * EACH;
    for (uint32_t i = 0; i < PUBLISHERS; i++)
        assert_int_equal(pthread_create(&publisher[i], NULL, publish, (void *)(uintptr_t)i), 0);
    for (uint32_t i = 0; i < 2u; i++)
        assert_int_equal(pthread_create(&reader[i], NULL, read_tickets, NULL), 0);
    while (gm_load_relaxed_u32(&t.read) != PUBLISHERS * EACH) {
        gm_back_turn(t.rig.core, t.rig.d);
        sched_yield();
    }
    for (uint32_t i = 0; i < PUBLISHERS; i++)
        pthread_join(publisher[i], NULL);
    for (uint32_t i = 0; i < 2u; i++)
        pthread_join(reader[i], NULL);
    assert_int_equal(t.wrong, 0);
    assert_int_equal(t.rig.d->published - start, PUBLISHERS * EACH);
    for (uint32_t i = 0; i < PUBLISHERS * EACH; i++)
        assert_int_equal(t.seen[i], 1);
    rig_close(&t.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_room_keeps_nothing),
        cmocka_unit_test(rings_that_are_too_small_have_no_wings),
        cmocka_unit_test(every_position_is_reserved_once_and_only_where_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
