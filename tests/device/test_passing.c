/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages both ways through lanes of a device that serves: what a client wrote before its descriptor is what the job
 * reads, the descriptor arrives whole, and what the job wrote is there when its completion is. In rings of 2 slots and
 * more, at every fill level from every place in the ring, over the wrap of the laps. Two clients at a time, each a
 * thread with its own lane and memory; a seed repeats what they send. GRIDMILL_PASSING_ROUNDS makes it a soak.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "served.h"

#define CLIENTS    2u
#define SLOTS_LOG2 4u /* of the largest ring */
#define WORDS      16u /* of input, and of output; each has as many behind it that nobody may touch */
#define CELL       (4u * WORDS)
#define POISON     0x5c5c5c5cu
#define LAPS_LEFT  2u /* until the lap word wraps, at the beginning */
#define ROUNDS     600u
#define SESSION    50u

enum kind { KIND_COPY, KIND_SUM, KIND_MAX, KIND_FILL, KIND_ZEROS, KIND_ONES, KINDS };

struct message {
    enum kind kind;
    uint64_t position, value, n;
    uint32_t data; /* 0 and all ones: every word is this; else words follow from it */
};

struct passer {
    struct served_lane lane;
    struct served_arena arena;
    pthread_t thread;
    uint32_t seed, rounds;
    uint64_t messages;
    struct message burst[1u << SLOTS_LOG2];
    bool taken[1u << SLOTS_LOG2];
    uint32_t count;
    char wrong[200]; /* the first thing */
};

static struct served device;

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static uint32_t slots_of(const struct passer *p) { return 1u << p->lane.slots_log2; }

/* ---- A message: its memory, its descriptor, its answer ---- */

static uint32_t *cell_of(const struct passer *p, const struct message *m)
{
    return p->arena.numbers + (m->position & (slots_of(p) - 1u)) * CELL;
}

static uint32_t word_of(const struct message *m, uint32_t i)
{
    if (m->data == 0 || m->data == UINT32_MAX)
        return m->data;
    return (m->data + i) * 2654435761u;
}

static bool is_wide(const struct message *m) { return m->kind == KIND_FILL; }

static void draw(struct passer *p, struct message *m, bool narrow, bool last)
{
    static const uint32_t extremes[] = {0, UINT32_MAX};
    do
        m->kind = next_random(&p->seed) % KINDS;
    /* Ones say that a second half follows: what follows is looked at first. */
    while ((narrow && is_wide(m)) || (last && m->kind == KIND_ONES));
    m->n = next_random(&p->seed) % WORDS + 1u;
    const uint32_t dice = next_random(&p->seed) % 8u;
    m->data = dice < 2u ? extremes[dice] : next_random(&p->seed);
    m->value = dice < 2u ? extremes[dice] | (uint64_t)extremes[dice] << 32
                         : next_random(&p->seed) | (uint64_t)next_random(&p->seed) << 32;
    if (m->kind == KIND_FILL)
        m->n = m->n / 2u + (m->n < 2u); /* of 64 bits */
}

static void describe(const struct passer *p, const struct message *m, uint32_t *words)
{
    static const uint32_t ops[KINDS] = {GM_OP_copy | GM_DTYPE_u32 << 16, GM_OP_sum | GM_DTYPE_u32 << 16,
                                        GM_OP_max | GM_DTYPE_u64 << 16,
                                        GM_OP_fill | GM_DTYPE_u64 << 16 | (uint32_t)GM_FLAG_WIDE << 24, GM_OP_nop, 0};
    const uint64_t in = (uint64_t)(cell_of(p, m) - p->arena.numbers) * 4u, out = in + 2u * WORDS * 4u;
    memset(words, m->kind == KIND_ONES ? 0xff : 0, GM_DESC_WORDS * sizeof *words);
    if (m->kind == KIND_ZEROS || m->kind == KIND_ONES)
        return;
    words[GM_W_OP] = ops[m->kind];
    words[GM_W_ARENA0] = p->arena.handle;
    gm_desc_put64(words, GM_W_N, m->kind == KIND_MAX ? (m->n + 1u) / 2u : m->n);
    gm_desc_put64(words, GM_W_OFFSET0, m->kind == KIND_FILL ? out : in);
    if (m->kind == KIND_COPY) {
        words[GM_W_ARENA1] = p->arena.handle;
        gm_desc_put64(words, GM_W_OFFSET1, out);
    }
    if (is_wide(m)) {
        words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
        gm_desc_put64(words, GM_W_VALUE0, m->value);
    }
}

/* The memory first, then the second half, then the first: as the protocol says. Nobody is rung for. */
static void send_message(struct passer *p, struct message *m)
{
    uint32_t words[GM_DESC_WORDS];
    m->position = p->lane.position;
    uint32_t *cell = cell_of(p, m);
    for (uint32_t i = 0; i < CELL; i++)
        cell[i] = i < WORDS ? word_of(m, i) : POISON;
    describe(p, m, words);
    if (is_wide(m))
        gm_desc_store(p->lane.sq, p->lane.slots_log2, m->position + 1u, words, 1);
    gm_desc_store(p->lane.sq, p->lane.slots_log2, m->position, words, 0);
    p->lane.position += is_wide(m) ? 2u : 1u;
}

static void ring(const struct passer *p)
{
    const uint64_t one = 1;
    gm_fence_sys(); /* the client's half of the doorbell: pairs with the fence in gm_park */
    if (gm_load_relaxed_sys_u32(&p->lane.header->asleep) && write(p->lane.doorbell_fd, &one, sizeof one) < 0)
        assert_int_equal(errno, EAGAIN);
}

static uint64_t result_expected(const struct message *m)
{
    uint64_t sum = 0, most = 0;
    for (uint32_t i = 0; i < m->n; i++)
        sum += word_of(m, i);
    for (uint32_t i = 0; i < (m->n + 1u) / 2u; i++) {
        const uint64_t v = word_of(m, 2u * i) | (uint64_t)word_of(m, 2u * i + 1u) << 32;
        most = v > most ? v : most;
    }
    return m->kind == KIND_SUM ? sum : m->kind == KIND_MAX ? most : 0;
}

static uint32_t output_expected(const struct message *m, uint32_t i)
{
    if (m->kind == KIND_COPY && i < m->n)
        return word_of(m, i);
    if (m->kind == KIND_FILL && i < 2u * m->n)
        return (uint32_t)(m->value >> (i % 2u * 32u));
    return POISON;
}

static void see_answer(struct passer *p, const struct message *m, struct gm_granule c)
{
    const int32_t expected = m->kind == KIND_ONES ? GM_EINVAL : GM_OK;
    const uint32_t *cell = cell_of(p, m);
    const bool has_result = m->kind == KIND_SUM || m->kind == KIND_MAX;
    const char *what = NULL;
    if (gm_completion_status(c) != expected)
        what = "status";
    else if (has_result && gm_completion_result(c) != result_expected(m))
        what = "result";
    for (uint32_t i = 0; i < WORDS && !what; i++)
        if (cell[i] != word_of(m, i) || cell[WORDS + i] != POISON || cell[2u * WORDS + i] != output_expected(m, i) ||
            cell[3u * WORDS + i] != POISON)
            what = "memory";
    p->messages++;
    if (what && p->wrong[0] == '\0')
        snprintf(p->wrong, sizeof p->wrong, "%s of message %llu, kind %d, n %llu, position %llx in %u slots: %d, %llx",
                 what, (unsigned long long)p->messages, (int)m->kind, (unsigned long long)m->n,
                 (unsigned long long)m->position, slots_of(p), (int)gm_completion_status(c),
                 (unsigned long long)gm_completion_result(c));
}

/* ---- Bursts ---- */

/* So many slots are full before any is given back. */
static void send_burst(struct passer *p, uint32_t level)
{
    const bool each = next_random(&p->seed) % 2u;
    for (p->count = 0; level > 0; p->count++) {
        struct message *m = &p->burst[p->count];
        draw(p, m, level == 1u, level <= 2u);
        send_message(p, m);
        level -= is_wide(m) ? 2u : 1u;
        if (each)
            ring(p);
    }
    ring(p);
}

/* Until the next completion, as the contract of lane.h says. */
static void doze(struct passer *p)
{
    const uint64_t reaped = p->lane.reaped;
    struct pollfd fd = {.fd = p->lane.wake_fd, .events = POLLIN};
    struct gm_granule wait = {{(uint32_t)reaped, (uint32_t)(reaped >> 32), 1, 0}}, c;
    bool there = false;
    char bytes[256];
    gm_store16_sys(&p->lane.header->wait, wait);
    gm_fence_sys(); /* the granule before the last look; the dispatcher looks at both again and again */
    for (uint32_t i = 0; i < p->count; i++)
        there = there || (!p->taken[i] && served_answered(&p->lane, p->burst[i].position, &c));
    if (!there && poll(&fd, 1, (int)GM_HARNESS_WAIT_MS) != 1)
        fail_msg("lane %u sleeps after %llu answers and nobody wakes it", p->lane.index, (unsigned long long)reaped);
    while (read(p->lane.wake_fd, bytes, sizeof bytes) > 0) {
    }
    wait.w[2] = 0;
    gm_store16_sys(&p->lane.header->wait, wait);
}

static bool take_if_there(struct passer *p, uint32_t i)
{
    struct gm_granule c;
    if (p->taken[i] || !served_answered(&p->lane, p->burst[i].position, &c))
        return false;
    p->taken[i] = true;
    p->lane.reaped++;
    see_answer(p, &p->burst[i], c);
    return true;
}

/* All that are there, in whatever order they come. A sleeper has taken everything: else it is not woken again. */
static void take_by_sleeping(struct passer *p)
{
    memset(p->taken, 0, sizeof p->taken);
    for (uint32_t left = p->count; left > 0;) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < p->count; i++)
            found += take_if_there(p, i);
        left -= found;
        if (found == 0)
            doze(p);
    }
}

static void take_burst(struct passer *p)
{
    const uint32_t dice = next_random(&p->seed) % 4u;
    if (dice == 1u) {
        take_by_sleeping(p);
        return;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const struct message *m = &p->burst[dice == 0 ? p->count - 1u - i : i];
        see_answer(p, m, served_wait(&p->lane, m->position));
    }
}

static void pass(struct passer *p, uint32_t level)
{
    send_burst(p, level);
    take_burst(p);
}

/* Every level from every place in the ring, then levels at random; now and then long enough for the device to sleep. */
static void *pass_messages(void *arg)
{
    struct passer *p = arg;
    const uint32_t slots = slots_of(p);
    for (uint32_t level = 1; level <= slots; level++)
        for (uint32_t place = 0; place < slots; place++) {
            while ((p->lane.position & (slots - 1u)) != place)
                pass(p, 1);
            pass(p, level);
        }
    for (uint32_t i = 0; i < p->rounds && p->wrong[0] == '\0'; i++) {
        pass(p, next_random(&p->seed) % slots + 1u);
        if (next_random(&p->seed) % 256u == 0)
            usleep(200);
    }
    return NULL;
}

static uint32_t rounds_wanted(void)
{
    const char *text = getenv("GRIDMILL_PASSING_ROUNDS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : ROUNDS;
}

static void pass_in_rings_of(uint32_t slots_log2, uint32_t workers)
{
    static struct passer passer[CLIENTS];
    uint64_t messages = 0;
    served_open(&device, NULL, workers);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct passer *p = &passer[i];
        memset(p, 0, sizeof *p);
        p->seed = 1u + i + slots_log2 * 16u;
        p->rounds = rounds_wanted();
        served_arena_add(&device, &p->arena, gm_handle(i, 1), SESSION + i, CELL << slots_log2);
        served_lane_make(&device, &p->lane, 1u + i, slots_log2, ((UINT64_C(1) << 32) - 1u - LAPS_LEFT) << slots_log2);
        p->lane.session = SESSION + i;
        assert_int_equal(served_lane_add(&p->lane), GM_OK);
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&passer[i].thread, NULL, pass_messages, &passer[i]), 0);
    for (uint32_t i = 0; i < CLIENTS; i++)
        pthread_join(passer[i].thread, NULL);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (passer[i].wrong[0] != '\0')
            fail_msg("client %u: %s", i, passer[i].wrong);
        assert_true(passer[i].lane.position >> slots_log2 > UINT64_C(1) << 32); /* the lap went through 0 */
        messages += passer[i].messages;
        assert_int_equal(served_lane_drop(&passer[i].lane), GM_OK);
        served_lane_free(&passer[i].lane);
        assert_int_equal(served_arena_drop(&device, &passer[i].arena), GM_OK);
    }
    printf("# %u slots, %u workers: %llu messages\n", 1u << slots_log2, workers, (unsigned long long)messages);
    served_close(&device);
}

static void messages_arrive_whole_in_rings_of_two_slots(void **state)
{
    (void)state;
    pass_in_rings_of(1, 1);
    pass_in_rings_of(1, 3);
}

static void messages_arrive_whole_in_rings_of_four_slots(void **state)
{
    (void)state;
    pass_in_rings_of(2, 1);
    pass_in_rings_of(2, 3);
}

static void messages_arrive_whole_in_larger_rings(void **state)
{
    (void)state;
    pass_in_rings_of(3, 2);
    pass_in_rings_of(SLOTS_LOG2, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_whole_in_rings_of_two_slots),
        cmocka_unit_test(messages_arrive_whole_in_rings_of_four_slots),
        cmocka_unit_test(messages_arrive_whole_in_larger_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
