/* SPDX-License-Identifier: Apache-2.0
 *
 * A client whose jobs are valid and whose second thread flips what they work on while they run: data between the
 * phases of jobs, the indices and offsets that they go by, and words of descriptors that were published. It keeps the
 * rules of the ring, so that its jobs are taken. Two threads; it ends by being killed.
 */
#include "hostile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES (4u << 20)
#define CELL_ROOM   ((ARENA_BYTES / GM_BUFFERS_MAX - CELL_GUARD) / 64u * 64u)
#define SLOTS       64u
#define PATIENCE_MS 200u /* an answer that was flipped away does not come */

enum { KEY_FLIP = 60, KEY_JOBS };

static _Atomic(struct raw_lane *) flipped_lane;
static _Atomic bool flipping;
static _Atomic bool paused;

/* ---- The second thread ---- */

static void flip_data(struct hostile *h, struct rng *rng)
{
    const uint64_t at = random_below(rng, (uint32_t)(h->arena.bytes / 4u));
    uint32_t *const word = (uint32_t *)(void *)h->arena.data + at;

    for (uint32_t i = 0; i < 64 && at + i < h->arena.bytes / 4u; i++)
        gm_store_relaxed_u32(word + i, (uint32_t)random_next(rng));
    h->harm->flips++;
}

/* A payload word, never a lap: the descriptor stays one that is taken. */
static void flip_argument(struct hostile *h, const struct raw_lane *lane, struct rng *rng)
{
    static const uint32_t values[] = {0, 1, 0xffffffffu, 0x80000000u, 0x7fffffffu, 65536};
    struct gm_granule *const g = &lane->sq[random_below(rng, lane->slots)].g[random_below(rng, 4)];
    const uint32_t w = random_below(rng, 3);
    const uint32_t old = gm_load_relaxed_u32(&g->w[w]);

    gm_store_relaxed_u32(&g->w[w], random_one_in(rng, 2) ? values[random_below(rng, 6)]
                                                         : old ^ 1u << random_below(rng, 32));
    if (random_one_in(rng, 2))
        gm_store_relaxed_u32(&g->w[w], old);
    h->harm->flips++;
}

static void *flip(void *argument)
{
    struct hostile *const h = argument;
    struct rng rng = random_of(h->world->plan.seed, KEY_FLIP, h->number, h->life);

    while (!h->world->over) {
        /* The first thread maps and unmaps: it waits until nobody is in here. */
        flipping = true;
        const struct raw_lane *const lane = paused ? NULL : flipped_lane;
        if (lane != NULL) {
            for (uint32_t i = 0; i < 16; i++)
                flip_data(h, &rng);
            if (random_one_in(&rng, 8))
                flip_argument(h, lane, &rng);
        }
        flipping = false;
        if (lane == NULL)
            sleep_ms(1);
    }
    return NULL;
}

static void stop_flipping(void)
{
    paused = true;
    flipped_lane = NULL;
    while (flipping)
        sleep_ms(0);
}

/* ---- The first thread ---- */

/* Ops with phases, between which data may change, and those that go where data says. */
static bool is_worth_it(const struct task *task)
{
    const struct gm_op_row row = task_row(task);
    bool goes = row.work != GM_WORK_ONE && row.work != GM_WORK_GRID;

    for (uint32_t i = 0; i < row.inputs; i++)
        goes |= gm_buffer_content(row.buffer[i]) != GM_CONTENT_T;
    return goes;
}

static void describe(struct hostile *h, struct rng *rng, uint32_t words[GM_DESC_WORDS])
{
    struct task task;

    do
        task_draw(&task, rng, random_one_in(rng, 4) ? 60000u : 3000u, false);
    while (!is_worth_it(&task));
    task.room = CELL_ROOM;
    task.c.same_buffer = false;
    if (random_one_in(rng, 2)) /* else what is there, flipped */
        task_fill(&task, h->arena.data);
    task_describe(&task, h->arena.handle, 0, words);
}

/* Waits for the completion at a position. False: it does not come. */
static bool await(struct hostile *h, uint64_t position)
{
    const uint64_t end_ms = now_ms() + PATIENCE_MS;
    const uint32_t slot = (uint32_t)position & (h->lane.slots - 1u);

    for (;;) {
        const struct gm_granule g = gm_load16_sys(&h->lane.cq[slot]);
        if (g.w[3] == gm_lap(position, h->lane.log2)) {
            hostile_status(h, gm_completion_status(g));
            h->harm->answers++;
            return true;
        }
        const uint32_t state = gm_load_acquire_u32(&h->lane.header->state);
        if (now_ms() > end_ms || (state != GM_LANE_OPEN && state != GM_LANE_RECOVERING))
            return false;
        raw_ring(&h->lane);
        sleep_ms(0);
    }
}

/* Batches of jobs that work on the same memory at the same time, until an answer is missing. */
static void use_lane(struct hostile *h, struct rng *rng)
{
    uint64_t head = h->lane.start, jobs[SLOTS / 2u];
    uint32_t words[GM_DESC_WORDS];

    for (uint32_t turns = 0; turns < 2000 && !h->world->over; turns++) {
        const uint32_t count = random_from(rng, 1, SLOTS / 4u);
        for (uint32_t i = 0; i < count; i++) {
            describe(h, rng, words);
            const bool wide = words[GM_W_OP] >> 24 & GM_FLAG_WIDE;
            jobs[i] = head;
            if (wide)
                gm_desc_store(h->lane.sq, h->lane.log2, head + 1u, words, 1);
            gm_desc_store(h->lane.sq, h->lane.log2, head, words, 0);
            head += wide ? 2u : 1u;
            h->harm->jobs++;
        }
        raw_ring(&h->lane);
        for (uint32_t i = 0; i < count; i++)
            if (!await(h, jobs[i]))
                return;
    }
}

void flip_live(struct hostile *h)
{
    pthread_t thread;
    struct rng rng = random_of(h->world->plan.seed, KEY_JOBS, h->number, h->life);

    if (pthread_create(&thread, NULL, flip, h) != 0)
        complain(h->world, "no thread");
    while (!h->world->over) {
        hostile_open(h, ARENA_BYTES, SLOTS);
        flipped_lane = &h->lane;
        paused = false;
        use_lane(h, &rng);
        if (gm_load_acquire_u32(&h->lane.header->state) == GM_LANE_CLOSED)
            h->harm->closed++;
        stop_flipping();
        hostile_close(h);
    }
    pthread_join(thread, NULL);
    exit(0);
}
