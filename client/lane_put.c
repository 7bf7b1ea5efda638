/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs into a lane: which one, where in it, the descriptor, the doorbell. Any thread, under the client's lock; no
 * system call but the doorbell of a device that sleeps. A search for room is bounded by the slots.
 */
#include "client.h"

#include <unistd.h>

/* The line of a descriptor is fetched, for writing, so many descriptors before it is written: the device has read it a
 * lap ago, and the misses of many cost as much as one. Beyond what a device reads that finds little to do. */
#define AHEAD 16u

#if defined(__x86_64__)
/* For any x86-64, __builtin_prefetch would fetch to read only. A processor that cannot do it does nothing instead. */
#define FETCHES_TO_WRITE __attribute__((target("prfchw")))
#else
#define FETCHES_TO_WRITE
#endif

/* A lane whose device is being replaced comes behind all others. */
static uint32_t burden(const struct gm_lane *lane, uint32_t state)
{
    return lane->pending + (state == GM_LANE_OPEN ? 0 : GM_CLIENT_LANE_SLOTS_MAX);
}

/* The lane of a device, or of the device with the fewest of our jobs. NULL: none is open. */
struct gm_lane *gm__lane_pick(struct gm_client *client, int32_t device)
{
    struct gm_lane *best = NULL;
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < client->lane_count; i++) {
        struct gm_lane *const lane = &client->lanes[i];
        if (!lane->open || (device != GM_DEVICE_ANY && lane->device != (uint32_t)device))
            continue;
        const uint32_t state = gm_load_relaxed_sys_u32(&lane->header->state);
        if (state != GM_LANE_OPEN && state != GM_LANE_RECOVERING) {
            gm__lane_reap(client, lane); /* and there it ends */
            continue;
        }
        const uint32_t b = burden(lane, state);
        if (b < least) {
            least = b;
            best = lane;
        }
    }
    return best;
}

GM_HOT bool is_free(const struct gm_lane *lane, uint64_t position)
{
    return lane->job[position & lane->mask] == NULL;
}

/* Completion slots of second halves and of skips stay as they were, so one may hold this very lap from 2^32 laps
 * ago, or lap 0 from the beginning: it would answer at once. */
GM_HOT bool is_answered(const struct gm_lane *lane, uint64_t position)
{
    return gm_load_relaxed_sys_u32(&lane->cq[position & lane->mask].w[3]) == gm_lap(position, lane->slots_log2);
}

GM_HOT bool is_room(const struct gm_lane *lane, uint32_t slots, uint64_t p)
{
    return is_free(lane, p) && (slots == 1 || is_free(lane, p + 1)) && !is_answered(lane, p);
}

/* Where a descriptor of so many slots can stand: its completion slots are free, and what stood there a lap ago was
 * read. That was read which lies before an answered job, since a device reads in order; so a slot whose job still
 * runs may be stepped over when a later one was answered. Slots are only stepped over in front of a job, which will
 * be answered: otherwise nobody could tell any more when the skips were read. */
static GM_RARE bool find_room_behind(const struct gm_lane *lane, uint32_t slots, uint64_t *at)
{
    const uint64_t end = lane->read + lane->mask + 1u;

    for (uint64_t p = lane->head; (int64_t)(end - p) >= (int64_t)slots; p++) {
        if (is_room(lane, slots, p)) {
            *at = p;
            return true;
        }
        if (!lane->skip)
            return false;
    }
    return false;
}

/* Mostly the next slot. */
GM_HOT bool find_room(const struct gm_lane *lane, uint32_t slots, uint64_t *at)
{
    const uint64_t end = lane->read + lane->mask + 1u;

    *at = lane->head;
    return ((int64_t)(end - *at) >= (int64_t)slots && is_room(lane, slots, *at)) || find_room_behind(lane, slots, at);
}

static GM_RARE void skip_until(struct gm_lane *lane, uint64_t position)
{
    static const uint32_t skip[GM_DESC_WORDS] = {GM_DESC_SKIP_MARK};

    for (; lane->head != position; lane->head++)
        gm_desc_store(lane->sq, lane->slots_log2, lane->head, skip, 0);
}

static uint32_t low(uint64_t v)
{
    return (uint32_t)v;
}

static uint32_t high(uint64_t v)
{
    return (uint32_t)(v >> 32);
}

static_assert(GM_W_OP == 0 && GM_W_SESSION == 1 && GM_W_ARENA0 == 2, "granule 0");
static_assert(GM_W_OFFSET0 == 3 && GM_W_N == 5, "granule 1, and one word of granule 2");
static_assert(GM_W_ARENA1 == 7 && GM_W_OFFSET1 == 8, "granule 2, and one word of granule 3");
static_assert(GM_W_COUNT == 10 && GM_W_MORE == 11, "granule 3");

/* The buffers of a job, inputs before outputs, as the descriptor has them. */
struct buffers {
    uint32_t arena[GM_BUFFERS_MAX]; /* 0: none */
    uint64_t offset[GM_BUFFERS_MAX];
};

GM_HOT struct buffers buffers_of(const struct gm_request *request, const struct gm_op_row *row)
{
    struct buffers b = {{0}, {0}};

    for (uint32_t i = 0; i < row->inputs; i++)
        b.arena[i] = request->in[i].arena->handle, b.offset[i] = request->in[i].offset;
    for (uint32_t i = 0; i < row->outputs; i++)
        b.arena[row->inputs + i] = request->out[i].arena->handle, b.offset[row->inputs + i] = request->out[i].offset;
    return b;
}

static GM_RARE void write_second_half(const struct gm_lane *lane, uint64_t position, const struct gm_args *args,
                                      const struct buffers *b)
{
    uint32_t words[GM_DESC_WORDS] = {0};

    words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
    gm_desc_put64(words, GM_W_VALUE0, args->value[0]);
    gm_desc_put64(words, GM_W_VALUE1, args->value[1]);
    gm_desc_put64(words, GM_W_VALUE2, args->value[2]);
    gm_desc_put64(words, GM_W_VALUE3, args->value[3]);
    words[GM_W_ARENA2] = b->arena[2];
    gm_desc_put64(words, GM_W_OFFSET2, b->offset[2]);
    gm_desc_store(lane->sq, lane->slots_log2, position, words, 1);
}

GM_HOT void write_first_half(struct gm_lane *lane, uint64_t position, const struct gm_checked *checked,
                             const struct buffers *b)
{
    const struct gm_op_row *const row = checked->row;
    const struct gm_args *const args = &checked->args;
    struct gm_desc_slot *const slot = &lane->sq[position & lane->mask];
    const uint32_t lap = gm_lap(position, lane->slots_log2);
    const uint64_t n = args->n, first = b->offset[0], second = b->offset[1];
    uint32_t flags = 0, count = 0, more = 0;

    if (row->args != 0) {
        flags = args->flags;
        count = args->count;
        more = args->count2 | (uint32_t)args->type2 << 24;
    }
    flags |= row->wide ? GM_FLAG_WIDE : 0u;
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        lane->arena[position & lane->mask][i] = b->arena[i];
    gm_store16_sys(&slot->g[0], (struct gm_granule){{checked->op | (uint32_t)args->dtype << 16 | flags << 24, 0,
                                                     b->arena[0], lap}});
    gm_store16_sys(&slot->g[1], (struct gm_granule){{low(first), high(first), low(n), lap}});
    gm_store16_sys(&slot->g[2], (struct gm_granule){{high(n), b->arena[1], low(second), lap}});
    gm_store16_sys(&slot->g[3], (struct gm_granule){{high(second), count, more, lap}});
}

GM_HOT void begin_job(struct gm_client *client, struct gm_lane *lane, uint64_t position,
                      const struct gm_checked *checked, struct gm_job_inside *job, uint64_t now_ns)
{
    atomic_store_explicit(&job->pending.status, GM_EAGAIN, memory_order_relaxed);
    job->pending.slot = NO_SLOT;
    job->pending.waiter = NULL;
    job->client = client;
    job->lane = lane;
    job->position = position;
    job->op = checked->op;
    job->result.dtype = client->result_dtype[checked->op][checked->dtype];
    job->result.device = lane->device;
    job->result.wait_ns = now_ns;
}

/* Whoever is driven by events is told of completions by the descriptor, so it takes them itself. */
static GM_RARE int make_room(struct gm_client *client, struct gm_lane *lane, uint32_t slots, uint64_t *at)
{
    if (client->event_driven || gm__lane_reap(client, lane) == 0)
        return GM_EBUSY;
    if (!lane->open)
        return GM_ENODEVICE;
    return find_room(lane, slots, at) ? GM_OK : GM_EBUSY;
}

FETCHES_TO_WRITE
int gm__lane_put(struct gm_client *client, struct gm_lane *lane, const struct gm_request *request,
                 const struct gm_checked *checked, struct gm_job_inside *job, uint64_t now_ns)
{
    const uint32_t slots = checked->row->wide ? 2 : 1;
    uint64_t position;

    __builtin_prefetch(&lane->sq[(lane->head + AHEAD) & lane->mask], 1);
    if (!find_room(lane, slots, &position)) {
        const int rc = make_room(client, lane, slots, &position);
        if (rc != GM_OK)
            return rc;
    }
    if (lane->head != position)
        skip_until(lane, position);
    begin_job(client, lane, position, checked, job, now_ns);
    lane->job[position & lane->mask] = job;
    lane->flight[lane->pending++] = position;
    lane->head = position + slots;
    /* The second half first: the first granule that a device looks at then tells of a whole descriptor. */
    const struct buffers b = buffers_of(request, checked->row);
    if (slots == 2) {
        static const struct gm_args none;
        lane->job[(position + 1) & lane->mask] = &gm__lane_half;
        write_second_half(lane, position + 1, checked->row->args != 0 ? &checked->args : &none, &b);
    }
    write_first_half(lane, position, checked, &b);
    client->rings |= 1u << (lane - client->lanes);
    return GM_OK;
}

/* After the last descriptor of a call. */
void gm__lanes_ring(struct gm_client *client)
{
    const uint32_t rings = client->rings;
    const uint64_t one = 1;

    client->rings = 0;
    /* Nothing was pending where nothing is armed, so there is no completion to look for: the device looks at the wait
     * granule when it wakes, or before it sleeps. */
    if (client->event_driven)
        for (uint32_t left = rings; left != 0; left &= left - 1u) {
            struct gm_lane *const lane = &client->lanes[__builtin_ctz(left)];
            if (lane->open && !lane->armed)
                gm__lane_wait_store(lane, true);
        }
    /* Store-load: pairs with the dispatcher's fence between setting asleep and its last look at the lane. */
    gm_fence_sys();
    for (uint32_t left = rings; left != 0; left &= left - 1u) {
        const struct gm_lane *const lane = &client->lanes[__builtin_ctz(left)];
        /* The counter can only be full when the device was rung for often and has not looked: it will. */
        if (lane->open && gm_load_relaxed_sys_u32(&lane->header->asleep) != 0 &&
            write(lane->doorbell_fd, &one, sizeof one) < 0)
            continue;
    }
}
