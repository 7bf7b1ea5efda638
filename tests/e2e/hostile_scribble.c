/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that writes whatever it likes wherever it can, as fast as it can: descriptors that are nearly valid and
 * name memory of others, laps, completion slots, the wait granule, the header; that rings its doorbell to the limit,
 * fills and closes its wake pipe, cuts holes into its memory, cancels without end, and never reads an answer. One
 * thread; it ends by being killed.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES (1u << 20)
#define BURSTS      400u /* with one lane */

enum { KEY_SCRIBBLE = 80 };

struct scribbler {
    struct hostile *h;
    struct rng *rng;
    uint64_t head;
    int pipe; /* the wake pipe, opened for writing */
};

static uint32_t any(struct rng *rng, uint32_t near)
{
    static const uint32_t values[] = {0, 1, 2, 0xffffffffu, 0x80000000u, 0x7fffffffu, 0xffffu, 0xfffeu};

    switch (random_below(rng, 4)) {
    case 0:
        return (uint32_t)random_next(rng);
    case 1:
        return values[random_below(rng, 8)];
    case 2:
        return near ^ 1u << random_below(rng, 32);
    default:
        return near + random_below(rng, 5) - 2u;
    }
}

/* ---- Descriptors ---- */

/* A valid job of its own, or one on an arena that it guesses: the handles of others are small numbers. */
static void describe(struct scribbler *s, uint32_t words[GM_DESC_WORDS])
{
    struct task task;
    uint32_t handle = s->h->arena.handle;

    task_draw(&task, s->rng, 20000, true);
    task.room = (ARENA_BYTES / GM_BUFFERS_MAX - CELL_GUARD) / 64u * 64u;
    if (random_one_in(s->rng, 3))
        handle = gm_handle(random_below(s->rng, 40), random_from(s->rng, 1, 4));
    task_describe(&task, handle, random_one_in(s->rng, 2) ? 0 : random_below(s->rng, 4096) * 8u, words);
    for (uint32_t i = random_below(s->rng, 4); i > 0; i--) {
        const uint32_t w = random_below(s->rng, GM_DESC_WORDS);
        words[w] = any(s->rng, words[w]);
    }
}

static void publish(struct scribbler *s)
{
    const struct raw_lane *const lane = &s->h->lane;
    uint32_t words[GM_DESC_WORDS];

    describe(s, words);
    const bool wide = words[GM_W_OP] >> 24 & GM_FLAG_WIDE;
    if (wide && !random_one_in(s->rng, 8))
        gm_desc_store(lane->sq, lane->log2, s->head + 1u, words, 1);
    gm_desc_store(lane->sq, lane->log2, s->head, words, 0);
    s->head += wide ? 2u : 1u;
    s->h->harm->descriptors++;
}

/* The head may be anywhere when laps were invented: back to where the device can be. */
static void find_head(struct scribbler *s)
{
    if (random_one_in(s->rng, 4))
        s->head += random_below(s->rng, 2u * s->h->lane.slots);
    else if (random_one_in(s->rng, 4))
        s->head -= random_below(s->rng, s->h->lane.slots);
}

static void scribble_granule(struct scribbler *s)
{
    const struct raw_lane *const lane = &s->h->lane;
    const uint32_t lap = gm_lap(s->head, lane->log2) + random_below(s->rng, 3) - 1u;
    const struct gm_granule g = {{any(s->rng, GM_OP_sort), any(s->rng, s->h->arena.handle), any(s->rng, 1000),
                                  random_one_in(s->rng, 8) ? any(s->rng, lap) : lap}};
    gm_store16_sys(&lane->sq[random_below(s->rng, lane->slots)].g[random_below(s->rng, 4)], g);
    s->h->harm->words++;
}

/* Every slot of the ring, a lap ahead of the rules. */
static void fill_ring(struct scribbler *s)
{
    for (uint32_t i = 0; i < s->h->lane.slots; i++)
        publish(s);
}

/* ---- Everything else in the lane ---- */

static void scribble_completion(struct scribbler *s)
{
    const struct raw_lane *const lane = &s->h->lane;
    const uint32_t slot = random_below(s->rng, lane->slots);
    const uint32_t lap = gm_lap(s->head, lane->log2);
    const struct gm_granule g = {{any(s->rng, 0), any(s->rng, 0), any(s->rng, 0), any(s->rng, lap)}};

    gm_store16_sys(&lane->cq[slot], g);
    s->h->harm->words++;
}

static void scribble_wait(struct scribbler *s)
{
    const struct gm_granule g = {{any(s->rng, (uint32_t)s->head), any(s->rng, 0),
                                  random_one_in(s->rng, 4) ? any(s->rng, 1) : 1u, any(s->rng, 0)}};

    gm_store16_sys(&s->h->lane.header->wait, g);
    s->h->harm->words++;
}

static void scribble_header(struct scribbler *s)
{
    uint32_t *const words = (uint32_t *)(void *)s->h->lane.header;
    static const uint32_t known[] = {0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 64, 96, 97, 98, 99};
    const uint32_t at = random_one_in(s->rng, 4) ? random_below(s->rng, 1024) : known[random_below(s->rng, 15)];

    gm_store_relaxed_u32(&words[at], any(s->rng, gm_load_relaxed_u32(&words[at])));
    s->h->harm->words++;
}

/* ---- Descriptors of files ---- */

static void ring(struct scribbler *s)
{
    static const uint64_t counts[] = {1, 2, UINT64_MAX - 1u, UINT64_MAX / 2u};
    const int bell = s->h->lane.bell;
    uint64_t counter;

    if (random_one_in(s->rng, 16))
        fcntl(bell, F_SETFL, random_one_in(s->rng, 2) ? 0 : O_NONBLOCK);
    if ((fcntl(bell, F_GETFL) & O_NONBLOCK) == 0)
        return; /* it would block us, too */
    if (random_one_in(s->rng, 8) && read(bell, &counter, sizeof counter) < 0 && errno != EAGAIN)
        complain(s->h->world, "reading the doorbell");
    raw_ring_anyway(&s->h->lane, counts[random_below(s->rng, 4)]);
    s->h->harm->bells++;
}

static void fill_pipe(struct scribbler *s)
{
    char path[64], bytes[4096] = {0};

    if (s->pipe < 0 && s->h->lane.wake >= 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", s->h->lane.wake);
        s->pipe = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        fcntl(s->h->lane.wake, F_SETPIPE_SZ, 4096);
    }
    while (s->pipe >= 0 && write(s->pipe, bytes, sizeof bytes) > 0)
        ;
    if (!random_one_in(s->rng, 4) || s->h->lane.wake < 0)
        return;
    close(s->h->lane.wake); /* who wakes us now has nobody to read it */
    close(s->pipe);
    s->h->lane.wake = s->pipe = -1;
}

/* What a sealed memory file still lets its holder do. */
static void cut(struct scribbler *s)
{
    const int fd = random_one_in(s->rng, 2) ? s->h->lane.memory : s->h->arena.memory;
    const uint64_t page = random_below(s->rng, 8) * 4096u;

    if (ftruncate(fd, 100) == 0 || ftruncate(fd, 1 << 30) == 0)
        complain(s->h->world, "the daemon's memory can be cut off");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0)
        complain(s->h->world, "the daemon's memory can be sealed by its client");
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page, 4096);
}

/* ---- Bursts ---- */

static void ask_daemon(struct scribbler *s)
{
    struct gm_wire_request request = {.method = GM_METHOD_LANE_CLOSE};
    struct gm_wire_response response;
    struct hostile *const h = s->h;

    for (uint32_t i = 0; i < 8; i++) {
        const int rc = raw_cancel(&h->raw, &h->lane, s->head - random_below(s->rng, 2u * h->lane.slots), WAIT_MS);
        hostile_status(h, rc);
        h->harm->cancels++;
    }
    if (!random_one_in(s->rng, 4))
        return;
    request.u.lane_close.lane = (uint32_t)random_below(s->rng, 300);
    if (request.u.lane_close.lane == h->lane.number)
        return;
    if (raw_call(&h->raw, &request, &response, WAIT_MS) == GM_OK)
        complain(h->world, "a session closed a lane that is not its own");
}

static void burst(struct scribbler *s)
{
    const uint32_t dice = random_below(s->rng, 16), count = random_below(s->rng, 200);

    for (uint32_t i = 0; i < count; i++)
        dice < 5 ? publish(s) : dice < 8 ? scribble_granule(s) : dice < 10 ? scribble_completion(s)
        : dice < 12                      ? scribble_wait(s)
        : dice < 14                      ? scribble_header(s)
                                         : ring(s);
    if (dice == 0)
        fill_ring(s);
    if (dice == 15)
        fill_pipe(s);
    if (dice == 14)
        cut(s);
    if (dice == 13)
        ask_daemon(s);
    if (random_one_in(s->rng, 2))
        ring(s);
    find_head(s);
}

static bool is_closed(const struct hostile *h)
{
    return raw_ended(&h->raw);
}

void scribble_live(struct hostile *h)
{
    static const uint32_t slots[] = {2, 4, 16, 64, 256, 1024};
    struct rng rng = random_of(h->world->plan.seed, KEY_SCRIBBLE, h->number, h->life);

    while (!h->world->over) {
        hostile_open(h, ARENA_BYTES, slots[random_below(&rng, 6)]);
        struct scribbler s = {.h = h, .rng = &rng, .head = h->lane.start, .pipe = -1};
        const uint32_t bursts = random_below(&rng, BURSTS);
        const bool dies = random_one_in(&rng, 4);
        for (uint32_t i = 0; i < bursts && !h->world->over && !is_closed(h); i++)
            burst(&s);
        if (dies)
            kill(getpid(), SIGKILL);
        if (random_one_in(&rng, 2))
            hostile_status(h, raw_lane_close(&h->raw, &h->lane, WAIT_MS));
        if (s.pipe >= 0)
            close(s.pipe);
        hostile_close(h);
    }
    exit(0);
}
