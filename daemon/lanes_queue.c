/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits in clients' lanes, and which run times their completions carry: looks at rings that the daemon maps, about
 * once a second and before stats. Loop thread; a look costs a line or two of a lane where nothing happened, what is new
 * of the others, and of completions GM_LOOK_SAMPLES slots a device.
 *
 * Clients can write whatever they like into their rings. What is found here is bounded, is shown to people, and decides
 * nothing.
 */
#include "daemon.h"

#define GM_LOOK_SAMPLES 4096u /* slots; the next look begins with the lane where this one stopped */
static_assert(GM_LOOK_SAMPLES >= GM_CLIENT_LANE_SLOTS_MAX, "every look sees the completions of one lane at least");

struct gm_lane_totals gm_lanes_totals(const struct gm_device *v)
{
    const struct gm_device_counters *past = &v->past;
    struct gm_lane_totals t = {.submitted = past->lane_submitted,
                               .done = past->lane_done,
                               .failed = past->lane_failed,
                               .rejected = past->lane_rejected,
                               .cancelled = past->lane_cancelled};
    if (v->region != NULL) {
        const struct gm_device_counters *c = &((const struct gm_region_header *)(const void *)v->region)->counters;
        /* The dispatcher stores them one by one: what was answered is read first and was submitted at least, so that
         * every snapshot adds up. */
        t.done += gm_load_acquire_u64(&c->lane_done);
        t.failed += gm_load_acquire_u64(&c->lane_failed);
        t.rejected += gm_load_acquire_u64(&c->lane_rejected);
        t.cancelled += gm_load_acquire_u64(&c->lane_cancelled);
        t.submitted += gm_load_relaxed_u64(&c->lane_submitted);
    }
    const uint64_t answered = t.done + t.failed + t.rejected + t.cancelled;
    t.submitted = t.submitted > answered ? t.submitted : answered;
    return t;
}

uint64_t gm_lanes_depth(const struct gm_device *v, const struct gm_lane_totals *t)
{
    return v->depth + t->submitted - t->done - t->failed - t->rejected - t->cancelled + v->waiting;
}

const char *gm_lane_state_name(const struct gm_lane *lane)
{
    switch (lane->phase) {
    case GM_LANE_ADDING:
        return "opening";
    case GM_LANE_TAPPED:
        return lane->draining ? "draining" : gm_device_live(lane->device) ? "open" : "recovering";
    case GM_LANE_SHUT:
        return lane->device->state == GM_DEVICE_LOST ? "lost" : "closed";
    default:
        return "closing";
    }
}

void gm_lane_count(const struct gm_lane *lane, uint64_t *submitted, uint64_t *answered)
{
    if (!lane->noted || lane->device->region == NULL)
        return;
    const struct gm_lane_note *note = gm_region_note(lane->device, lane->index);
    const uint64_t done = gm_load_acquire_u64(&note->answered), taken = gm_load_relaxed_u64(&note->taken);
    *submitted += taken > done ? taken : done; /* what was answered was taken */
    *answered += done;
}

/* Half a descriptor is there when all of its granules carry the lap. word: its first one. */
static bool gm_half_is_whole(const struct gm_lane *lane, uint64_t position, uint32_t *word)
{
    const struct gm_desc_slot *sq = (const struct gm_desc_slot *)(const void *)(lane->memory + gm_lane_sq_offset());
    const uint32_t slot = (uint32_t)(position & ((UINT64_C(1) << lane->slots_log2) - 1u));
    const uint32_t lap = gm_lap(position, lane->slots_log2);
    for (uint32_t i = 0; i < 4; i++) {
        const struct gm_granule g = gm_load16_sys(&sq[slot].g[i]);
        if (g.w[3] != lap)
            return false;
        *word = i == 0 ? g.w[0] : *word;
    }
    return true;
}

uint64_t gm_lane_published(const struct gm_lane *lane, uint64_t from, uint64_t end, uint32_t *jobs)
{
    uint64_t position = from;
    uint32_t word = 0, second = 0;
    *jobs = 0;
    while (position != end && gm_half_is_whole(lane, position, &word)) {
        const bool skip = (word & 0xffffu) == GM_DESC_SKIP_MARK;
        const bool wide = !skip && (word >> 24 & GM_FLAG_WIDE) != 0;
        if (wide && (position + 1u == end || !gm_half_is_whole(lane, position + 1u, &second)))
            break;
        position += wide ? 2u : 1u;
        *jobs += !skip;
    }
    return position;
}

/* What was seen waiting stays until it is taken, and the note says how much that was: only what is new is read. The age
 * of what waits is that of the sight of it: nothing in a descriptor says when it was written. */
static void gm_lane_look(struct gm_lane *lane, uint64_t now)
{
    const struct gm_granule note = gm_load16_sys((const void *)gm_region_note(lane->device, lane->index));
    const uint64_t head = note.w[0] | (uint64_t)note.w[1] << 32, taken = note.w[2] | (uint64_t)note.w[3] << 32;
    const bool some = (int64_t)(lane->seen_end - head) > 0, waits = some && lane->seen_head == head;
    const uint64_t gone = taken - lane->seen_taken;
    const uint32_t old = some && gone <= lane->waiting ? lane->waiting - (uint32_t)gone : 0;
    uint32_t new;
    lane->seen_end =
        gm_lane_published(lane, some ? lane->seen_end : head, head + (UINT64_C(1) << lane->slots_log2), &new);
    lane->waiting = old + new;
    if (!waits)
        lane->seen_ns = now;
    lane->seen_head = head, lane->seen_taken = taken;
}

/* ---- run times ---- */

/* The answered job at a position, when its descriptor still stands there: nothing else says which op it was. */
static bool gm_lane_sample(const struct gm_lane *lane, uint64_t position)
{
    const uint32_t slots = 1u << lane->slots_log2, slot = (uint32_t)(position & (slots - 1u));
    const uint32_t lap = gm_lap(position, lane->slots_log2);
    const struct gm_desc_slot *sq = (const struct gm_desc_slot *)(const void *)(lane->memory + gm_lane_sq_offset());
    const struct gm_granule *cq = (const struct gm_granule *)(const void *)(lane->memory + gm_lane_cq_offset(slots));
    const struct gm_granule answer = gm_load16_sys(&cq[slot]);
    if (answer.w[3] != lap)
        return false;
    const struct gm_granule word = gm_load16_sys(&sq[slot].g[0]);
    const uint32_t op = word.w[0] & 0xffffu;
    if (word.w[3] == lap && op < GM_OP_COUNT && gm_completion_status(answer) == GM_OK)
        gm_histo_add(&lane->device->daemon->counters.op[op].lane_run, gm_completion_run_ns(answer));
    return true;
}

/* Completions that no look found yet, of the last positions that were taken. How many slots were looked at. */
static uint32_t gm_lane_samples(struct gm_lane *lane)
{
    const struct gm_lane_note *note = gm_region_note(lane->device, lane->index);
    const uint64_t answered = gm_load_relaxed_sys_u64(&note->answered), head = lane->seen_head;
    const uint64_t slots = UINT64_C(1) << lane->slots_log2;
    if (head == lane->sampled_to && answered == lane->sampled_answered)
        return 0;
    const uint64_t from = head - lane->first < slots ? lane->first : head - slots;
    for (uint64_t p = from; p != head; p++) {
        const uint64_t slot = p & (slots - 1u), bit = UINT64_C(1) << (slot % 64u);
        uint64_t *word = &lane->sampled[slot / 64u];
        if ((int64_t)(p - lane->sampled_to) >= 0)
            *word &= ~bit; /* another job than the one that this slot had at the last look */
        if ((*word & bit) == 0 && gm_lane_sample(lane, p))
            *word |= bit;
    }
    lane->sampled_to = head, lane->sampled_answered = answered;
    return (uint32_t)(head - from);
}

static void gm_device_samples(struct gm_device *v)
{
    uint32_t looked = 0;
    for (uint32_t i = 0; i < GM_LANES_MAX && looked + GM_CLIENT_LANE_SLOTS_MAX <= GM_LOOK_SAMPLES; i++) {
        struct gm_lane *lane = &v->client[1u + v->sample_next];
        v->sample_next = (v->sample_next + 1u) % GM_LANES_MAX;
        if (lane->phase == GM_LANE_TAPPED)
            looked += gm_lane_samples(lane);
    }
}

void gm_lanes_look_now(struct gm_device *v, uint64_t now)
{
    v->waiting = 0, v->waiting_ns = v->looked_ns = now;
    if (v->region == NULL)
        return;
    uint32_t left = v->clients;
    for (uint32_t i = 1; i <= GM_LANES_MAX && left != 0; i++) {
        struct gm_lane *lane = &v->client[i];
        left -= lane->phase != GM_LANE_UNUSED;
        if (lane->phase != GM_LANE_TAPPED)
            continue;
        gm_lane_look(lane, now);
        v->waiting += lane->waiting;
        if (lane->waiting != 0 && lane->seen_ns < v->waiting_ns)
            v->waiting_ns = lane->seen_ns;
    }
    if (v->clients != 0)
        gm_device_samples(v);
    const struct gm_lane_totals totals = gm_lanes_totals(v);
    const uint64_t depth = gm_lanes_depth(v, &totals);
    v->depth_high = depth > v->depth_high ? depth : v->depth_high;
}
