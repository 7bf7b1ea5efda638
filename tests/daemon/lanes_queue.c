/* SPDX-License-Identifier: Apache-2.0
 *
 * The looks at clients' lanes, against a model that remembers every job: random steps of a client that writes, a device
 * that takes and answers, and looks in between, from starts near the wraps of positions and laps. One thread.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon.h"

#define LOG2 3u
#define SLOTS (1u << LOG2)
#define STEPS 20000
#define RUN_NS 700u

enum kind { JOB, WIDE, SKIP };

/* What stands in the ring, by slot: the last position that was written there. */
static struct {
    uint64_t position;
    enum kind kind;
    bool half; /* the second one of a wide job */
    bool taken, answered, sampled, there;
} cell[SLOTS];

static struct gm_daemon *d;
static struct gm_device *v;
static struct gm_lane *lane;
static uint64_t written, taken, jobs_taken, jobs_answered; /* written, taken: positions */

static uint64_t roll(uint64_t *seed, uint64_t below)
{
    return (unit_random(seed) >> 16) % below;
}

static struct gm_desc_slot *ring_of(uint8_t *memory)
{
    return (struct gm_desc_slot *)(void *)(memory + gm_lane_sq_offset());
}

static struct gm_lane_note *note(void)
{
    return gm_region_note(v, 1);
}

static void note_taken(void)
{
    gm_store16_sys((void *)note(), (struct gm_granule){{(uint32_t)taken, (uint32_t)(taken >> 32), (uint32_t)jobs_taken,
                                                        (uint32_t)(jobs_taken >> 32)}});
}

static void begin(uint64_t start)
{
    d = calloc(1, sizeof *d);
    assert_non_null(d);
    v = &d->devices.device[0];
    d->devices.count = 1, v->daemon = d, v->clients = 1;
    v->region = calloc(1, gm_region_bytes());
    assert_non_null(v->region);
    lane = &v->client[1];
    lane->device = v, lane->phase = GM_LANE_TAPPED, lane->index = 1, lane->slots_log2 = LOG2;
    lane->memory = aligned_alloc(4096, gm_lane_bytes(SLOTS));
    assert_non_null(lane->memory);
    memset(lane->memory, 0, gm_lane_bytes(SLOTS));
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)start);
    setenv("GRIDMILL_LANE_START", text, 1);
    gm_region_lane(v, 1, lane->memory, SLOTS);
    lane->start = lane->first = lane->sampled_to = lane->seen_head = lane->seen_end = start;
    written = taken = start, jobs_taken = jobs_answered = 0;
    memset(cell, 0, sizeof cell);
}

static void end(void)
{
    unsetenv("GRIDMILL_LANE_START");
    free(lane->memory), free(v->region), free(d);
}

static bool is_free(uint64_t position)
{
    const uint32_t i = (uint32_t)(position & (SLOTS - 1u));
    return !cell[i].there || (cell[i].half || cell[i].kind == SKIP ? cell[i].taken : cell[i].answered);
}

static void write_half(uint32_t first, enum kind kind, bool half)
{
    const uint32_t i = (uint32_t)(written & (SLOTS - 1u)), words[GM_DESC_WORDS] = {first};
    gm_desc_store(ring_of(lane->memory), LOG2, written, words, 0);
    cell[i].position = written++, cell[i].kind = kind, cell[i].half = half, cell[i].there = true;
    cell[i].taken = cell[i].answered = cell[i].sampled = false;
}

static void client_writes(enum kind kind)
{
    if (!is_free(written) || (kind == WIDE && !is_free(written + 1)))
        return;
    if (kind == WIDE) {
        write_half(GM_OP_nop | (uint32_t)GM_FLAG_WIDE << 24, WIDE, false);
        write_half(GM_DESC_WIDE_MARK, WIDE, true);
    } else {
        write_half(kind == SKIP ? GM_DESC_SKIP_MARK : GM_OP_nop, kind, false);
    }
}

static void device_takes(void)
{
    if (taken == written)
        return;
    const uint32_t i = (uint32_t)(taken & (SLOTS - 1u));
    cell[i].taken = true, taken++;
    if (cell[i].kind == WIDE)
        cell[taken++ & (SLOTS - 1u)].taken = true;
    jobs_taken += cell[i].kind != SKIP;
    note_taken();
}

static void device_answers(uint32_t i)
{
    struct gm_granule *cq = (struct gm_granule *)(void *)(lane->memory + gm_lane_cq_offset(SLOTS));
    if (!cell[i].taken || cell[i].answered || cell[i].kind == SKIP || cell[i].half)
        return;
    gm_store16_sys(&cq[i], gm_completion(0, GM_OK, RUN_NS, gm_lap(cell[i].position, LOG2)));
    cell[i].answered = true;
    note()->answered = ++jobs_answered;
}

/* What a look must find: jobs that wait now, and how many answers it sees for the first time. */
static uint32_t model_look(uint64_t *samples)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (!cell[i].there || cell[i].half || cell[i].kind == SKIP)
            continue;
        waiting += !cell[i].taken;
        if (cell[i].answered && !cell[i].sampled)
            cell[i].sampled = true, ++*samples;
    }
    return waiting;
}

static void looks_find_what_waits_and_every_answer_once(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 5, UINT64_MAX - 100, (UINT64_C(1) << 35) - 20, UINT64_C(1) << 63};
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        uint64_t seed = s + 1, samples = 0;
        begin(starts[s]);
        for (int step = 0; step < STEPS; step++) {
            const uint64_t what = roll(&seed, 8);
            if (what < 3)
                client_writes(what == 0 ? WIDE : what == 1 && roll(&seed, 2) ? SKIP : JOB);
            else if (what < 5)
                device_takes();
            else if (what < 7)
                device_answers((uint32_t)roll(&seed, SLOTS));
            else if (roll(&seed, 3) == 0) {
                const uint32_t waiting = model_look(&samples);
                gm_lanes_look_now(v, (uint64_t)step);
                assert_int_equal(v->waiting, waiting);
                assert_int_equal(lane->waiting, waiting);
                assert_int_equal(d->counters.op[GM_OP_nop].lane_run.count, samples);
            }
        }
        assert_true(samples > 100 && samples < jobs_answered);
        assert_int_equal(d->counters.op[GM_OP_nop].lane_run.max, RUN_NS);
        end();
    }
}

/* The job at the head of the lane decides the age, not those behind it. */
static void the_age_is_that_of_the_first_that_waits(void **state)
{
    (void)state;
    begin(7);
    gm_lanes_look_now(v, 100);
    assert_int_equal(v->waiting_ns, 100); /* nothing: as old as now */
    client_writes(JOB);
    gm_lanes_look_now(v, 200);
    client_writes(JOB);
    gm_lanes_look_now(v, 300);
    assert_int_equal(v->waiting, 2);
    assert_int_equal(v->waiting_ns, 200);
    device_takes();
    gm_lanes_look_now(v, 400);
    assert_int_equal(v->waiting, 1);
    assert_int_equal(v->waiting_ns, 400);
    gm_lanes_look_now(v, 500);
    assert_int_equal(v->waiting_ns, 400);
    device_takes();
    client_writes(JOB);
    gm_lanes_look_now(v, 600);
    assert_int_equal(v->waiting_ns, 600);
    end();
}

/* What was counted as waiting may be changed by its client before it is taken. */
static void a_lane_that_lies_is_bounded_by_its_slots(void **state)
{
    (void)state;
    uint64_t seed = 1;
    begin(0);
    for (int step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t position = taken + roll(&seed, 2 * SLOTS) - SLOTS / 2;
            const bool skip = roll(&seed, 3) == 0;
            const uint32_t words[GM_DESC_WORDS] = {skip ? GM_DESC_SKIP_MARK : (uint32_t)roll(&seed, 1u << 26)};
            gm_desc_store(ring_of(lane->memory), LOG2, position, words, 0);
        }
        taken += roll(&seed, 4), jobs_taken += roll(&seed, 4), note()->answered += roll(&seed, 3);
        note_taken();
        gm_lanes_look_now(v, (uint64_t)step);
        assert_true(lane->waiting <= SLOTS);
        assert_true(lane->seen_end - taken <= SLOTS);
    }
    end();
}

/* With more lanes than a look has samples for, each has its turn. */
static void samples_are_bounded_a_look_and_every_lane_has_its_turn(void **state)
{
    (void)state;
    enum { LANES = 12, BIG = GM_CLIENT_LANE_SLOTS_MAX };
    struct gm_lane *first;
    begin(0);
    first = lane;
    uint8_t *const memory = aligned_alloc(4096, gm_lane_bytes(BIG));
    assert_non_null(memory);
    unsetenv("GRIDMILL_LANE_START");
    gm_region_lane(v, 2, memory, BIG);
    memset(memory, 0, gm_lane_bytes(BIG));
    const uint32_t words[GM_DESC_WORDS] = {GM_OP_nop};
    for (uint64_t p = 0; p < BIG; p++) {
        gm_desc_store(ring_of(memory), 10, p, words, 0);
        gm_store16_sys((struct gm_granule *)(void *)(memory + gm_lane_cq_offset(BIG)) + p,
                       gm_completion(0, GM_OK, RUN_NS, gm_lap(p, 10)));
    }
    for (uint32_t i = 2; i < 2 + LANES; i++) { /* all of them see the same memory */
        v->client[i] = *first;
        v->client[i].index = i, v->client[i].slots_log2 = 10, v->client[i].memory = memory;
        *gm_region_note(v, i) = (struct gm_lane_note){.head = BIG, .taken = BIG, .answered = BIG};
    }
    v->clients = 1 + LANES;
    const struct gm_histo *histo = &d->counters.op[GM_OP_nop].lane_run;
    gm_lanes_look_now(v, 1);
    assert_int_equal(histo->count, 4 * BIG);
    for (uint64_t look = 2; look < 40; look++)
        gm_lanes_look_now(v, look);
    assert_int_equal(histo->count, LANES * BIG);
    free(memory);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_find_what_waits_and_every_answer_once),
        cmocka_unit_test(the_age_is_that_of_the_first_that_waits),
        cmocka_unit_test(a_lane_that_lies_is_bounded_by_its_slots),
        cmocka_unit_test(samples_are_bounded_a_look_and_every_lane_has_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
