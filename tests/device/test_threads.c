/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler with real threads on the smallest rings, every counter near its wrap: a dispatcher (with THREADS_APART
 * its front, back and scout in threads of their own, as a GPU has them, and with THREADS_WINGS its wings, for which the
 * rings are larger and the lanes full of no-ops), workers, clients on lanes of their own, cancellations, a lane that
 * comes and goes, and pauses from the main thread. The ops are replaced by plain reads and writes that are right only
 * when every share runs once and after the phase before it; under the thread sanitizer that is checked access by
 * access. Ends after a number of pauses, not before every counter went through its wrap and the wings have had their
 * leases: how long that takes is the machine's business. Checks that fail are collected and reported by the main
 * thread.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/arrive.h"
#include "core/draw.h"
#include "rig.h"

#define WORKERS    3u
#define CLIENTS    2u
#define SPARE      (CLIENTS + 1u) /* a lane that is opened and closed while everything runs */
#ifdef THREADS_WINGS
#define THREADS_APART
#define WINGS        2u
#define SLOTS_LOG2   6u
#define TICKETS_LOG2 9u
#define ENTRIES_LOG2 8u
#define KINDS        400u /* of so many jobs all but three are no-ops */
#define BURST        SLOTS /* of the first client; the front has what the other sends */
#define WORKSPACE    (1u << 23)
#define CANCEL_US    5000u /* no lane is leased while a cancel waits for its job */
#else
#define WINGS        0
#define SLOTS_LOG2   3u
#define TICKETS_LOG2 3u
#define ENTRIES_LOG2 2u
#define KINDS        4u
#define BURST        1u
#define WORKSPACE    (1u << 19) /* one sort at a time */
#define CANCEL_US    500u
#endif
#define SLOTS      (1u << SLOTS_LOG2)
#define ARENA      (1u | 1u << 16)
#define PAUSES     6u
#define LEASES     30u /* that wings have had, where there are any */
#define PAUSE_US   250000u
#define NEAR_WRAP  UINT64_C(0xffffffe0)
#define WRAPPED    (UINT64_C(0x100000000) - NEAR_WRAP) /* laps until a 32-bit lap is zero again */

/* What the shares of one job write, in place of its data. */
struct page {
    uint64_t position;
    uint32_t words[GM_PHASES_MAX][WORKERS];
};

struct client {
    pthread_t thread;
    struct rig *rig;
    uint32_t lane, waits[SLOTS], wide[SLOTS]; /* waits: the slot's job is not answered */
    uint64_t submitted, answered, cancelled, random;
    uint64_t newest; /* position, for the main thread's cancellations */
};

static struct {
    struct rig rig;
    struct page *pages; /* the arena: one for each slot of each client's lane */
    pthread_t dispatcher, back, scout, wing[GM_WINGS_MAX], worker[WORKERS];
    struct client client[CLIENTS];
    uint32_t ending, broken;
    uint64_t answers; /* by workers */
    char what[128];
} t;

/* Any thread. The first failure's text is kept. */
static void check_that(bool holds, const char *what)
{
    if (!holds && __atomic_fetch_add(&t.broken, 1, __ATOMIC_RELAXED) == 0)
        snprintf(t.what, sizeof t.what, "%s", what);
}

static void *dispatch(void *arg)
{
    const struct gm_core *core = t.rig.core;
    (void)arg;
    gm_turn_begin(core, t.rig.d, &t.rig.fetch);
    for (;;) {
        const enum gm_turn_result result = gm_turn(core, t.rig.d, &t.rig.fetch);
        if (result == GM_TURN_STOP)
            return NULL;
        if (result == GM_TURN_EMPTY)
            sched_yield();
        check_that(result != GM_TURN_PARK, "parked although it never should");
    }
}

#ifdef THREADS_APART
/* Back and scout as a GPU has them: beside the front. */
static void *back(void *arg)
{
    (void)arg;
    while (gm_load_acquire_block_u32(&t.rig.d->crew.leave) == 0) {
        gm_back_turn(t.rig.core, t.rig.d);
        sched_yield();
    }
    return NULL;
}

static void *scout(void *arg)
{
    (void)arg;
    while (gm_load_acquire_block_u32(&t.rig.d->crew.leave) == 0) {
        if (!gm_scout_waits(t.rig.d))
            gm_scout_turn(t.rig.core, t.rig.d);
        sched_yield();
    }
    return NULL;
}

static void *wing(void *arg)
{
    const uint32_t w = (uint32_t)(uintptr_t)arg;
    struct gm_wing_look look;
    gm_wing_init(t.rig.d, w, &look);
    while (gm_load_acquire_block_u32(&t.rig.d->crew.leave) == 0) {
        (void)gm_wing_turn(t.rig.core, t.rig.d, w, &look);
        sched_yield();
    }
    return NULL;
}

static void crew_start(void)
{
    t.rig.d->crew.apart = 1;
    t.rig.d->crew.leave = 0;
    assert_int_equal(pthread_create(&t.back, NULL, back, NULL), 0);
    assert_int_equal(pthread_create(&t.scout, NULL, scout, NULL), 0);
    for (uintptr_t w = 0; w < t.rig.core->wings; w++)
        assert_int_equal(pthread_create(&t.wing[w], NULL, wing, (void *)w), 0);
}

static void crew_stop(void)
{
    gm_store_release_block_u32(&t.rig.d->crew.leave, 1);
    pthread_join(t.back, NULL);
    pthread_join(t.scout, NULL);
    for (uint32_t w = 0; w < t.rig.core->wings; w++)
        pthread_join(t.wing[w], NULL);
    t.rig.d->crew.apart = 0;
}
#else
static void crew_start(void) {}
static void crew_stop(void) {}
#endif

/* In place of the op: this share's word, after all words of the phase before. */
static void touch(const struct gm_job *job, uint32_t share)
{
    struct page *page = (struct page *)(uintptr_t)job->address[0];
    if (job->op == GM_OP_nop)
        return;
    for (uint32_t s = 0; job->phase > 0 && s < job->shares; s++)
        check_that(page->words[job->phase - 1u][s] == job->phase * 100u + s, "a phase began before the last one ended");
    check_that(page->words[job->phase][share] == 0, "a share ran twice");
    page->words[job->phase][share] = (job->phase + 1u) * 100u + share;
}

static void share_of(const struct gm_drawn *drawn)
{
    const uint32_t index = gm_ticket_entry(drawn->word);
    const bool in_slot = gm_ticket_inline(drawn->word);
    struct gm_entry *entry = gm_entry_at(t.rig.core, index);
    const struct gm_job job = in_slot ? gm_drawn_job(t.rig.core, drawn) : entry->job;
    check_that(job.entry == index, "a ticket names another entry");
    check_that(in_slot || (entry->generation & 0xffu) == gm_ticket_generation(drawn->word),
               "a ticket names another job");
    touch(&job, in_slot ? 0 : gm_ticket_share(drawn->word));
    if (!gm_arrive(entry, &job))
        return;
    const bool aborted = in_slot ? gm_ticket_share(drawn->word) == GM_SHARE_ABORTED
                                 : gm_load_relaxed_u32(&entry->abort) != 0;
    const int32_t status = aborted ? GM_ECANCELLED : GM_OK;
    if (status == GM_OK && job.phase + 1u < job.phases) {
        gm_arrive_next_phase(t.rig.core, entry, &job);
        return;
    }
    __atomic_fetch_add(&t.answers, 1, __ATOMIC_RELAXED);
    gm_complete(&job, job.position, status);
    gm_inbox_push(t.rig.core, gm_inbox_word(gm_inbox_answered(status), &job));
}

static void *work(void *arg)
{
    (void)arg;
    for (;;) {
        const uint64_t ticket = gm_draw(t.rig.core);
        struct gm_drawn drawn;
        while (!gm_draw_try(t.rig.core, ticket, &drawn))
            sched_yield();
        gm_ack(t.rig.core, ticket);
        if (gm_ticket_entry(drawn.word) == GM_STOP_ENTRY)
            return NULL;
        share_of(&drawn);
    }
}

static void submit_one(struct client *c, uint32_t kind)
{
    struct rig_lane *lane = &t.rig.lane[c->lane];
    const uint32_t slot = (uint32_t)lane->position & (SLOTS - 1u);
    const uint64_t offset = ((uint64_t)(c->lane - 1u) * SLOTS + slot) * sizeof(struct page);
    uint32_t words[GM_DESC_WORDS];
    memset(&t.pages[(c->lane - 1u) * SLOTS + slot], 0, sizeof *t.pages);
    if (kind == 0) {
        rig_words(words, GM_OP_nop, 0, 0, 0);
    } else if (kind == 1) {
        rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 16);
        rig_buffer(words, 0, ARENA, offset);
    } else if (kind == 2) {
        rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, UINT64_C(1) << 20); /* one phase, all workers */
        rig_buffer(words, 0, ARENA, offset);
    } else {
        rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, UINT64_C(1) << 16); /* eight phases, workspace from the pool */
        rig_buffer(words, 0, ARENA, offset);
        rig_buffer(words, 1, ARENA, UINT64_C(1) << 30);
    }
    c->waits[slot] = 1;
    c->wide[slot] = kind == 1;
    c->submitted++;
    __atomic_store_n(&c->newest, rig_submit(&t.rig, c->lane, words), __ATOMIC_RELAXED);
}

/* Takes the answer of a slot's job when it is there. */
static void reap_one(struct client *c, uint64_t position)
{
    const uint32_t slot = (uint32_t)position & (SLOTS - 1u);
    const struct page *page = &t.pages[(c->lane - 1u) * SLOTS + slot];
    struct gm_granule g;
    if (!c->waits[slot] || !rig_answer(&t.rig, c->lane, position, &g))
        return;
    const int32_t status = gm_completion_status(g);
    check_that(status == GM_OK || status == GM_ECANCELLED, "an answer that is neither a result nor a cancellation");
    check_that(status != GM_OK || gm_completion_result(g) == position, "the answer of another job");
    if (status == GM_OK && page->words[0][0] != 0 && page->words[1][0] != 0) /* a sort: its last phase is there */
        for (uint32_t s = 0; s < WORKERS; s++)
            check_that(page->words[7][s] == 800u + s, "an answer before the work was done");
    c->waits[slot] = 0;
    c->answered++;
    c->cancelled += status == GM_ECANCELLED;
}

/* One job of any kind, if there is room for it. */
static bool submit_any(struct client *c, uint64_t oldest)
{
    const uint64_t position = t.rig.lane[c->lane].position;
    const uint32_t one = (uint32_t)(rig_random(&c->random) % KINDS), kind = one < 4u ? one : 0;
    if (position - oldest + (kind == 1 ? 2u : 1u) > SLOTS)
        return false;
    if (kind == 1) /* the slot in the middle of a wide job has no answer of its own */
        c->waits[(position + 1u) & (SLOTS - 1u)] = 0;
    submit_one(c, kind);
    return true;
}

/* Keeps its lane as full as a seed says. A slot is written again only after its answer was read; a wide job's second
 * slot belongs to it as long. */
static void *submit_and_reap(void *arg)
{
    struct client *c = arg;
    struct rig_lane *lane = &t.rig.lane[c->lane];
    uint64_t oldest = lane->position;
    for (;;) {
        const bool ending = __atomic_load_n(&t.ending, __ATOMIC_ACQUIRE) != 0;
        for (uint64_t p = oldest; p != lane->position; p++)
            reap_one(c, p);
        while (oldest != lane->position && !c->waits[oldest & (SLOTS - 1u)])
            oldest += 1u + c->wide[oldest & (SLOTS - 1u)];
        if (oldest == lane->position && ending)
            return NULL;
        uint32_t submitted = 0;
        while (!ending && submitted < (c->lane == 1u ? BURST : 1u) && submit_any(c, oldest))
            submitted++;
        if (submitted == 0)
            sched_yield();
    }
}

static void start_threads(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&t.worker[i], NULL, work, NULL), 0);
    crew_start();
    assert_int_equal(pthread_create(&t.dispatcher, NULL, dispatch, NULL), 0);
}

/* An admin descriptor while the dispatcher's thread runs; words has all but its op and index. */
static int32_t admin_words(uint32_t op, uint32_t index, uint32_t *words)
{
    const uint64_t at = t.rig.admin_position++;
    words[GM_A_OP] = op;
    words[GM_A_INDEX] = index;
    gm_desc_store(t.rig.admin_sq, GM_ADMIN_SLOTS_LOG2, at, words, 0);
    for (;;) {
        const struct gm_granule g = gm_load16_sys(&t.rig.core->admin_cq[at & (GM_ADMIN_SLOTS - 1u)]);
        if (g.w[3] == gm_lap(at, GM_ADMIN_SLOTS_LOG2))
            return gm_completion_status(g);
        sched_yield();
    }
}

static int32_t admin(uint32_t op, uint32_t index, uint64_t position)
{
    uint32_t words[GM_DESC_WORDS] = {0};
    gm_desc_put64(words, GM_A_POSITION, position);
    return admin_words(op, index, words);
}

/* Closes the spare lane, writes over its memory as if it were another's now, and opens it again. */
static void spare_comes_and_goes(void)
{
    const struct rig_lane *lane = &t.rig.lane[SPARE];
    uint32_t words[GM_DESC_WORDS] = {0};
    while (admin(GM_ADMIN_LANE_CLOSE, SPARE, 0) == GM_EBUSY) {
    }
    memset(lane->memory, 0xff, gm_lane_bytes(SLOTS));
    memset(lane->memory, 0, gm_lane_bytes(SLOTS));
    words[GM_A_SESSION] = RIG_SESSION;
    gm_desc_put64(words, GM_A_ADDRESS, (uint64_t)(uintptr_t)lane->memory);
    gm_desc_put64(words, GM_A_BYTES, NEAR_WRAP << SLOTS_LOG2);
    words[GM_A_FLAGS] = SLOTS_LOG2;
    gm_desc_put64(words, GM_A_POSITION, (uint64_t)(uintptr_t)lane->journal);
    assert_int_equal(admin_words(GM_ADMIN_LANE_OPEN, SPARE, words), GM_OK);
}

static void pause_and_join(void)
{
    assert_int_equal(admin(GM_ADMIN_STOP, 0, 0), GM_OK);
    pthread_join(t.dispatcher, NULL);
    crew_stop();
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(t.worker[i], NULL);
    assert_int_equal(t.rig.shared->ticket, t.rig.d->published); /* each left with its own stop ticket, none is lost */
}

static void cancel_for(uint64_t us)
{
    uint64_t random = us;
    for (const uint64_t end = gm_now_ns() + us * 1000u; gm_now_ns() < end;) {
        const struct client *c = &t.client[rig_random(&random) % CLIENTS];
        const uint64_t position = __atomic_load_n(&c->newest, __ATOMIC_RELAXED) + rig_random(&random) % 3u - 1u;
        const int32_t status = admin(GM_ADMIN_CANCEL, c->lane, position);
        assert_true(status == GM_OK || status == GM_ENOTFOUND);
        spare_comes_and_goes();
        usleep(CANCEL_US);
    }
}

/* Main thread, while nothing else runs: whether tickets and every lane's positions went through zero. */
static bool everything_wrapped(void)
{
    bool wrapped = t.rig.d->counters.tickets > WRAPPED << TICKETS_LOG2;
    for (uint32_t i = 0; i < CLIENTS; i++)
        wrapped = wrapped &&
                  __atomic_load_n(&t.client[i].newest, __ATOMIC_RELAXED) > UINT64_C(0x100000000) << SLOTS_LOG2;
    return wrapped;
}

/* The same: whether wings have had their part in it. */
static bool leased_enough(void)
{
    return t.rig.core->wings == 0 || t.rig.d->counters.leases >= LEASES;
}

static void every_job_is_answered_exactly_once(void **state)
{
    (void)state;
    const struct gm_core_shape shape = {.tickets_log2 = TICKETS_LOG2,
                                        .entries_log2 = ENTRIES_LOG2,
                                        .workers = WORKERS,
                                        .host_shares = WORKERS,
                                        .ticket_start = NEAR_WRAP << TICKETS_LOG2,
                                        .inbox_start = NEAR_WRAP << ENTRIES_LOG2,
                                        .idle_ns = UINT64_MAX,
                                        .workspace_bytes = WORKSPACE,
                                        .wings = WINGS};
    rig_open(&t.rig, &shape);
    t.pages = calloc(CLIENTS * SLOTS, sizeof *t.pages);
    assert_non_null(t.pages);
    rig_arena_set(&t.rig, ARENA, (uint64_t)(uintptr_t)t.pages, UINT64_C(1) << 40, RIG_SESSION, 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct client *c = &t.client[i];
        rig_lane_open(&t.rig, i + 1u, SLOTS_LOG2, NEAR_WRAP << SLOTS_LOG2);
        c->lane = i + 1u;
        c->random = i;
        c->newest = t.rig.lane[c->lane].position;
    }
    rig_lane_open(&t.rig, SPARE, SLOTS_LOG2, NEAR_WRAP << SLOTS_LOG2);
    start_threads();
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&t.client[i].thread, NULL, submit_and_reap, &t.client[i]), 0);
    bool enough = false; /* asked between a join and the next start */
    for (uint32_t i = 0; i < PAUSES || !enough; i++) {
        cancel_for(PAUSE_US);
        pause_and_join();
        enough = everything_wrapped() && leased_enough();
        start_threads();
    }
    __atomic_store_n(&t.ending, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < CLIENTS; i++)
        pthread_join(t.client[i].thread, NULL);
    pause_and_join();

    if (t.broken)
        print_error("%u checks failed, first: %s\n", t.broken, t.what);
    assert_int_equal(t.broken, 0);
    uint64_t submitted = 0, answered = 0, cancelled = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        submitted += t.client[i].submitted;
        answered += t.client[i].answered;
        cancelled += t.client[i].cancelled;
    }
    const struct gm_device_counters *n = &t.rig.d->counters;
    print_message("%lu jobs, %lu cancelled, %lu tickets, %lu leases\n", (unsigned long)submitted,
                  (unsigned long)cancelled, (unsigned long)n->tickets, (unsigned long)n->leases);
    assert_int_equal(t.rig.d->leased, 0);
    assert_int_equal(answered, submitted);
    assert_int_equal(n->polled, submitted);
    assert_int_equal(n->started, t.answers);
    assert_int_equal(n->refused, submitted - t.answers); /* cancelled before they started */
    assert_true(everything_wrapped());
    rig_close(&t.rig);
    free(t.pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_job_is_answered_exactly_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
