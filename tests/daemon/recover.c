/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery against a simulation of client, dispatcher and workers that is killed at every step: all orders of all steps
 * over rings of 2 and 4 slots, at the start and at the wraps of lap and position; then memory in which anything stands.
 * One thread.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "../brief.h"
#include "recover.h"

/* ---- every order of every step ---- */

/* With a sanitizer, one position less: its accesses are the same. */
#define FEWER ((unsigned)gm_brief())

#define SLOTS_MAX 4
#define POSITIONS_MAX 10

enum kind { NOTHING, HOST, PLAIN, WIDE, HALF, BAD, SKIP }; /* HOST: marked before its ticket; BAD: refused */
enum stage { MARKED = 1, TICKET = 2, ANSWERED = 4, REAPED = 8 };

/* Everything that decides what may happen next. Slots hold position + 1 of what stands there, 0: nothing yet. */
struct world {
    uint8_t kind[POSITIONS_MAX], stage[POSITIONS_MAX];
    uint8_t begun[SLOTS_MAX], whole[SLOTS_MAX], answer[SLOTS_MAX], mark[SLOTS_MAX];
    uint8_t tail, torn; /* client: positions written; steps into the next one */
    uint8_t head, chunk, note;
    uint8_t killed;
};

static unsigned slots, positions, kinds;
static uint64_t base; /* position 0 of the simulation */

static struct world *stack;
static size_t stacked, stack_room, states;
static uint64_t *seen;
static size_t seen_mask;

static bool is_job(enum kind kind)
{
    return kind == HOST || kind == PLAIN || kind == WIDE || kind == BAD;
}

static uint64_t fingerprint(const struct world *w)
{
    const uint8_t *bytes = (const uint8_t *)w;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof *w; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    hash ^= hash >> 29;
    return hash != 0 ? hash : 1;
}

static void visit(const struct world *w)
{
    const uint64_t hash = fingerprint(w);
    size_t at = hash & seen_mask;
    for (; seen[at] != 0; at = (at + 1) & seen_mask)
        if (seen[at] == hash)
            return;
    seen[at] = hash;
    assert_true(++states < seen_mask / 2);
    if (stacked == stack_room) {
        stack_room = stack_room * 2 + 1024;
        stack = realloc(stack, stack_room * sizeof *stack);
        assert_non_null(stack);
    }
    stack[stacked++] = *w;
}

static bool is_taken(const struct world *w, unsigned position);

/* What stood in the slot was read: something behind it is answered. The stores of a turn are a moment apart, and all
 * there long before the client has gone round. */
static bool slot_was_read(const struct world *w, unsigned position)
{
    const unsigned before = position - slots;
    if (!is_taken(w, w->kind[before] == HALF ? before - 1u : before))
        return false;
    for (unsigned at = before + 1; at < position; at++)
        if (is_job(w->kind[at]) && (w->stage[at] & REAPED) != 0)
            return true;
    return false;
}

/* The client may write a job here: it has read the answer to the last one of the slot, and what stands there was read.
 */
static bool slot_is_free(const struct world *w, unsigned position)
{
    if (position >= slots && w->kind[position - slots] == SKIP && !slot_was_read(w, position))
        return false;
    for (unsigned at = position; at >= slots;) {
        at -= slots;
        if (w->kind[at] == HALF)
            return (w->stage[at - 1] & REAPED) != 0;
        if (w->kind[at] != SKIP)
            return (w->stage[at] & REAPED) != 0;
    }
    return true;
}

static void begin(struct world w, enum kind kind)
{
    w.kind[w.tail] = (uint8_t)kind;
    w.torn = 1;
    if (kind == WIDE) {
        w.kind[w.tail + 1] = HALF;
        w.begun[(w.tail + 1u) % slots] = w.whole[(w.tail + 1u) % slots] = (uint8_t)(w.tail + 2);
    } else {
        w.begun[w.tail % slots] = (uint8_t)(w.tail + 1);
    }
    visit(&w);
}

static void client_steps(const struct world *w)
{
    static const enum kind jobs[] = {PLAIN, WIDE, HOST, BAD};
    struct world next = *w;
    for (unsigned p = 0; p < w->tail; p++)
        if ((w->stage[p] & (ANSWERED | REAPED)) == ANSWERED) {
            next.stage[p] |= REAPED;
            visit(&next);
            next = *w;
        }
    if (w->torn != 0) {
        const bool wide = w->kind[w->tail] == WIDE;
        if (wide && w->torn == 1) {
            next.begun[w->tail % slots] = (uint8_t)(w->tail + 1);
            next.torn = 2;
        } else {
            next.whole[w->tail % slots] = (uint8_t)(w->tail + 1);
            next.torn = 0;
            next.tail = (uint8_t)(w->tail + (wide ? 2 : 1));
        }
        visit(&next);
        return;
    }
    if (w->tail == positions)
        return;
    if (!slot_is_free(w, w->tail)) {
        if (slot_was_read(w, w->tail))
            begin(*w, SKIP);
        return;
    }
    for (unsigned i = 0; i < kinds; i++)
        if (jobs[i] != WIDE || (w->tail + 1u < positions && slot_is_free(w, w->tail + 1u)))
            begin(*w, jobs[i]);
}

static void store_answer(struct world *w, unsigned position)
{
    w->stage[position] |= ANSWERED;
    w->answer[position % slots] = (uint8_t)(position + 1);
}

static void store_mark(struct world *w, unsigned position)
{
    w->stage[position] |= MARKED;
    w->mark[position % slots] = (uint8_t)(position + 1);
}

/* Everything that a turn does for this position is done. */
static bool is_taken(const struct world *w, unsigned position)
{
    switch ((enum kind)w->kind[position]) {
    case BAD:
        return (w->stage[position] & ANSWERED) != 0;
    case SKIP:
    case HALF:
        return true;
    default:
        return (w->stage[position] & (MARKED | TICKET)) == (MARKED | TICKET);
    }
}

static void dispatcher_steps(const struct world *w)
{
    struct world next = *w;
    if (w->chunk == 0) {
        if (w->note != w->head) { /* before it looks again */
            next.note = w->head;
            visit(&next);
            return;
        }
        for (unsigned n = 1; n <= slots && w->head + n <= w->tail; n++) {
            const unsigned last = w->head + n - 1u;
            if (w->whole[last % slots] != last + 1u)
                break;
            if (w->kind[last] == WIDE)
                continue;
            next.chunk = (uint8_t)n;
            visit(&next);
        }
        if (slots == 2 && w->head + 2u <= w->tail && w->kind[w->head] == WIDE) {
            next.chunk = 2;
            visit(&next);
        }
        return;
    }
    bool done = true;
    for (unsigned p = w->head; p < w->head + (unsigned)w->chunk; p++) {
        const enum kind kind = w->kind[p];
        const uint8_t stage = w->stage[p];
        done = done && is_taken(w, p);
        next = *w;
        if (is_taken(w, p))
            continue;
        if (kind == BAD) {
            store_answer(&next, p);
            visit(&next);
            continue;
        }
        if ((stage & MARKED) == 0 && (kind == HOST || (stage & TICKET) != 0)) {
            store_mark(&next, p);
            visit(&next);
            next = *w;
        }
        if ((stage & TICKET) == 0 && (kind != HOST || (stage & MARKED) != 0)) {
            next.stage[p] |= TICKET;
            visit(&next);
        }
    }
    if (!done)
        return;
    next = *w;
    next.head = (uint8_t)(w->head + w->chunk), next.chunk = 0;
    visit(&next);
}

static void worker_steps(const struct world *w)
{
    for (unsigned p = 0; p < w->tail; p++)
        if ((w->stage[p] & (TICKET | ANSWERED)) == TICKET) {
            struct world next = *w;
            store_answer(&next, p);
            visit(&next);
        }
}

/* The memory that the world describes. */
static struct gm_desc_slot sq[SLOTS_MAX];
static struct gm_granule cq[SLOTS_MAX];
static uint32_t journal[SLOTS_MAX];

static uint32_t lap_of(unsigned slot, unsigned stands, unsigned log2)
{
    return stands != 0 ? gm_lap(base + stands - 1u, log2) : gm_lap(base + slot, log2) - 1u;
}

static void build_memory(const struct world *w, unsigned log2)
{
    static const uint32_t words[] = {[HOST] = 1,
                                     [PLAIN] = 0,
                                     [WIDE] = (uint32_t)GM_FLAG_WIDE << 24 | 2,
                                     [HALF] = GM_DESC_WIDE_MARK,
                                     [BAD] = 77,
                                     [SKIP] = GM_DESC_SKIP_MARK};
    for (unsigned s = 0; s < slots; s++) {
        sq[s].g[0] = (struct gm_granule){
            {w->begun[s] != 0 ? words[w->kind[w->begun[s] - 1]] : 0, 0, 0, lap_of(s, w->begun[s], log2)}};
        cq[s] = (struct gm_granule){{0, 0, 0, lap_of(s, w->answer[s], log2)}};
        journal[s] = lap_of(s, w->mark[s], log2);
    }
}

static void describe(const struct world *w, const struct gm_recovered *r)
{
    static const char *const names[] = {"-", "host", "plain", "wide", "half", "bad", "skip"};
    for (unsigned p = 0; p < positions; p++)
        print_message("position %u: %s%s%s%s%s\n", p, names[w->kind[p]], w->stage[p] & MARKED ? " marked" : "",
                      w->stage[p] & TICKET ? " ticket" : "", w->stage[p] & ANSWERED ? " answered" : "",
                      w->stage[p] & REAPED ? " reaped" : "");
    print_message("slots %u tail %u torn %u head %u chunk %u note %u killed %u base %llu: start %lld jobs %u lost",
                  slots, w->tail, w->torn, w->head, w->chunk, w->note, w->killed, (unsigned long long)base,
                  (long long)(r->start - base), r->jobs);
    for (uint32_t i = 0; i < r->lost; i++)
        print_message(" %lld", (long long)(r->position[i] - base));
    print_message("\n");
}

#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            describe(w, r);                                                                                            \
            fail_msg("position %u: not %s", p, #what);                                                                 \
        }                                                                                                              \
    } while (0)

static void check(const struct world *w, const struct gm_recovered *r)
{
    const uint64_t start = r->start - base;
    unsigned p = 0, jobs = 0;
    bool lost[POSITIONS_MAX] = {false};
    MUST(r->lost <= slots);
    for (uint32_t i = 0; i < r->lost; i++) {
        const uint64_t at = r->position[i] - base;
        MUST(at < w->tail);
        MUST(!lost[at]);
        lost[at] = true;
    }
    MUST(start >= w->note && start <= w->head + (unsigned)w->chunk);
    for (p = 0; p < w->tail; p++) {
        const bool job = is_job(w->kind[p]), again = p >= start, answered = (w->stage[p] & ANSWERED) != 0;
        jobs += job && p >= w->note && !again;
        if (!job) {
            MUST(!lost[p]);
            MUST(p != start || w->kind[p] == SKIP); /* never between the halves */
            continue;
        }
        MUST(answered + lost[p] + again == 1);
        MUST(!lost[p] || p < w->head + (unsigned)w->chunk);
        MUST(!again || (w->stage[p] & MARKED) == 0);
        MUST(!again || w->kind[p] != HOST || (w->stage[p] & TICKET) == 0);
        MUST(!again || w->whole[p % slots] == p + 1u);
    }
    MUST(r->jobs == jobs);
}

static void restart(const struct world *w, const struct gm_recovered *r)
{
    struct world next = *w;
    for (uint32_t i = 0; i < r->lost; i++)
        store_answer(&next, (unsigned)(r->position[i] - base));
    for (unsigned p = 0; p < w->tail; p++)
        next.stage[p] &= p >= r->start - base ? 0 : (uint8_t)~TICKET;
    next.head = next.note = (uint8_t)(r->start - base);
    next.chunk = 0, next.killed = 1;
    visit(&next);
}

static void kill_and_recover(const struct world *w)
{
    static struct gm_recovered r;
    const unsigned log2 = slots == 2 ? 1 : 2;
    const uint64_t bases[] = {0, (UINT64_C(0xfffffffe) << log2), UINT64_MAX - slots + 1, UINT64_MAX - 1};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        base = bases[i] & ~(uint64_t)(slots - 1u);
        if (bases[i] == UINT64_MAX - 1)
            base = (UINT64_C(0xffffffff) << log2); /* the first slot of the simulation has lap 0 */
        build_memory(w, log2);
        const struct gm_recover_lane lane = {
            .slots_log2 = log2, .head = base + w->note, .journal = journal, .cq = cq, .sq = sq};
        gm_recover(&lane, &r);
        check(w, &r);
    }
    if (w->killed == 0)
        restart(w, &r);
}

static void explore(unsigned of_slots, unsigned of_positions, unsigned of_kinds, size_t room)
{
    struct world w;
    slots = of_slots, positions = of_positions, kinds = of_kinds;
    seen_mask = room - 1, states = 0;
    seen = calloc(room, sizeof *seen);
    assert_non_null(seen);
    memset(&w, 0, sizeof w);
    visit(&w);
    while (stacked != 0) {
        w = stack[--stacked];
        kill_and_recover(&w);
        client_steps(&w);
        dispatcher_steps(&w);
        worker_steps(&w);
    }
    print_message("%u slots, %u positions, %u kinds of jobs: %zu states\n", slots, positions, kinds, states);
    free(seen);
}

static void two_slots_every_kill_answers_each_job_once(void **state)
{
    (void)state;
    explore(2, 6 - FEWER, 4, 1u << 22);
}

static void four_slots_every_kill_answers_each_job_once(void **state)
{
    (void)state;
    explore(4, 7 - FEWER, 2, 1u << 22);
    explore(4, 5 - FEWER, 3, 1u << 22);
}

/* ---- memory in which anything stands ---- */

/* What clients write is the memory of a whole lane, what the device process left is its journal; the function may say
 * nothing that names a slot twice, or a position of another slot, and may not touch anything around them. */
static void said_is_bounded(uint32_t log2, uint64_t head, const struct gm_recovered *r)
{
    static uint8_t named[GM_LANE_SLOTS_MAX];
    const uint32_t count = 1u << log2;
    memset(named, 0, count);
    assert_true(r->lost <= count);
    assert_true(r->start - head <= count + 1u);
    assert_true(r->jobs <= count);
    for (uint32_t i = 0; i < r->lost; i++) {
        const uint32_t slot = (uint32_t)(r->position[i] & (count - 1u));
        assert_int_equal(named[slot], 0);
        named[slot] = 1;
    }
}

static uint32_t some_lap(uint64_t *random, uint32_t lap)
{
    const uint64_t r = unit_random(random);
    return r % 8 == 0 ? (uint32_t)(r >> 32) : lap + (uint32_t)(r >> 8) % 5u - 2u;
}

static void fill_lane(uint64_t *random, uint32_t log2, uint64_t head, struct gm_desc_slot *ring,
                      struct gm_granule *answers, uint32_t *marks)
{
    static const uint32_t ops[] = {0, 1, 77, GM_DESC_WIDE_MARK, GM_DESC_SKIP_MARK, (uint32_t)GM_FLAG_WIDE << 24 | 1};
    for (uint32_t s = 0; s < 1u << log2; s++) {
        const uint32_t lap = gm_lap(head + ((s - head) & ((1u << log2) - 1u)), log2);
        for (uint32_t i = 0; i < 4; i++)
            ring[s].g[i] = (struct gm_granule){{ops[unit_random(random) % 6], 0, 0, some_lap(random, lap)}};
        answers[s].w[3] = some_lap(random, lap);
        marks[s] = some_lap(random, lap);
    }
}

static void anything_in_memory_is_survived(void **state)
{
    (void)state;
    static struct gm_recovered r;
    static const uint32_t logs[] = {1, 2, 3, 5, 10, 12};
    uint64_t random = 20261130;
    for (int round = 0; round < (int)gm_rounds(6000); round++) {
        const uint32_t log2 = logs[unit_random(&random) % (round % 50 == 0 ? 6 : 4)], count = 1u << log2;
        const uint64_t head = unit_random(&random) >> unit_random(&random) % 64;
        struct gm_desc_slot *ring = aligned_alloc(64, count * sizeof *ring); /* of their exact size */
        struct gm_granule *answers = aligned_alloc(16, count * sizeof *answers);
        uint32_t *marks = malloc(count * sizeof *marks);
        assert_true(ring != NULL && answers != NULL && marks != NULL);
        memset(answers, 0, count * sizeof *answers);
        fill_lane(&random, log2, head, ring, answers, marks);
        const struct gm_recover_lane lane = {
            .slots_log2 = log2, .head = head, .journal = marks, .cq = answers, .sq = ring};
        gm_recover(&lane, &r);
        said_is_bounded(log2, head, &r);
        free(ring), free(answers), free(marks);
    }
}

static void mark_that_did_not_come_through_does_not_lose_the_answer(void **state)
{
    (void)state;
    static struct gm_recovered r;
    const uint32_t words[GM_DESC_WORDS] = {0};
    for (uint64_t lap = 0; lap < 3; lap++) {
        struct gm_desc_slot ring[4] = {0};
        struct gm_granule answers[4] = {0};
        uint32_t marks[4] = {0};
        for (uint64_t p = 4 * lap; p < 4 * lap + 2; p++)
            gm_desc_store(ring, 2, p, words, 0);
        for (uint32_t s = 0; s < 4; s++)
            answers[s].w[3] = (uint32_t)lap + (s == 1); /* only the second one is answered */
        const struct gm_recover_lane lane = {
            .slots_log2 = 2, .head = 4 * lap + 2, .journal = marks, .cq = answers, .sq = ring};
        gm_recover(&lane, &r);
        assert_int_equal(r.start, 4 * lap + 2);
        assert_int_equal(r.lost, 1);
        assert_int_equal(r.position[0], 4 * lap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_slots_every_kill_answers_each_job_once),
        cmocka_unit_test(four_slots_every_kill_answers_each_job_once),
        cmocka_unit_test(anything_in_memory_is_survived),
        cmocka_unit_test(mark_that_did_not_come_through_does_not_lose_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
