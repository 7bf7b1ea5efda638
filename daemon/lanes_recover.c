/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients' lanes while the process of their device is replaced: jobs that it had taken are answered, the others stay in
 * their slots for the next one. Loop thread; once a loss, at most the slots of all lanes.
 */
#include <inttypes.h>

#include "daemon.h"
#include "recover.h"

void gm_lanes_look(const struct gm_device *v, uint32_t index, const uint8_t *memory, uint32_t slots_log2,
                   struct gm_recovered *recovered)
{
    const struct gm_recover_lane lane = {
        .slots_log2 = slots_log2,
        .head = gm_load_relaxed_sys_u64(&gm_region_note(v, index)->head),
        .journal = gm_region_journal(v, index),
        .cq = (const struct gm_granule *)(const void *)(memory + gm_lane_cq_offset(1u << slots_log2)),
        .sq = (const struct gm_desc_slot *)(const void *)(memory + gm_lane_sq_offset())};
    gm_recover(&lane, recovered);
}

void gm_lanes_fall(struct gm_device *v)
{
    for (uint32_t i = 1; i <= GM_LANES_MAX; i++)
        if (v->client[i].phase == GM_LANE_TAPPED || v->client[i].phase == GM_LANE_ADDING)
            gm_store_release_sys_u32(&gm_lane_header(&v->client[i])->state, GM_LANE_RECOVERING);
}

/* The op of the job at a position. The slot may carry another job by now, which its client wrote after it had read the
 * answer; that one's op is as good a guess as there is. */
static uint32_t gm_lane_op(const struct gm_lane *lane, uint64_t position)
{
    const struct gm_desc_slot *sq = (const struct gm_desc_slot *)(const void *)(lane->memory + gm_lane_sq_offset());
    return gm_load16_sys(&sq[position & ((UINT64_C(1) << lane->slots_log2) - 1u)].g[0]).w[0] & 0xffffu;
}

/* The dispatcher's counters lag behind its rings: they go out every few turns. Counts the last so many jobs that it
 * answered, below the position where polling goes on. Clients can write what is read here: whoever does falsifies these
 * few counts. */
static void gm_lane_count_late(struct gm_device *v, const struct gm_lane *lane, uint64_t end, uint64_t count)
{
    struct gm_device_counters *c = &((struct gm_region_header *)(void *)v->region)->counters;
    const uint64_t slots = UINT64_C(1) << lane->slots_log2;
    const struct gm_granule *cq = (const struct gm_granule *)(const void *)(lane->memory + gm_lane_cq_offset(slots));
    uint32_t last = GM_OP_nop;
    for (uint64_t p = end; count != 0 && p != lane->first && end - p != slots;) {
        const struct gm_granule answer = gm_load16_sys(&cq[--p & (slots - 1u)]);
        if (answer.w[3] != gm_lap(p, lane->slots_log2))
            continue;
        const uint32_t op = gm_lane_op(lane, p);
        last = op < GM_OP_COUNT ? op : last;
        if (gm_completion_status(answer) == GM_OK)
            c->op_done[last]++, c->lane_done++;
        else if (op < GM_OP_COUNT)
            c->op_failed[op]++, c->lane_failed++;
        else
            c->lane_rejected++;
        count--;
    }
    c->op_done[last] += count, c->lane_done += count;
}

static void gm_lane_answer(struct gm_device *v, const struct gm_lane *lane, const struct gm_recovered *r)
{
    struct gm_device_counters *c = &((struct gm_region_header *)(void *)v->region)->counters;
    const uint32_t slots = 1u << lane->slots_log2;
    const struct gm_desc_slot *sq = (const struct gm_desc_slot *)(const void *)(lane->memory + gm_lane_sq_offset());
    struct gm_granule *cq = (struct gm_granule *)(void *)(lane->memory + gm_lane_cq_offset(slots));
    for (uint32_t i = 0; i < r->lost; i++) {
        const uint32_t slot = (uint32_t)(r->position[i] & (slots - 1u));
        const uint32_t lap = gm_lap(r->position[i], lane->slots_log2);
        const struct gm_granule word = gm_load16_sys(&sq[slot].g[0]);
        if (word.w[3] == lap && (word.w[0] & 0xffffu) < GM_OP_COUNT)
            c->op_failed[word.w[0] & 0xffffu]++;
        gm_store16_sys(&cq[slot], gm_completion(0, GM_EDEVICELOST, 0, lap));
    }
}

/* Afterwards nothing of a lane is in flight, and the books say so. Should there still be more submitted than answered,
 * a lane was closed meanwhile whose last answers were not counted: of no op that is known. */
static void gm_lanes_settle_books(struct gm_device *v, uint64_t lost, uint64_t gone)
{
    struct gm_device_counters *c = &((struct gm_region_header *)(void *)v->region)->counters;
    c->lane_failed += lost, c->lane_cancelled += gone;
    const uint64_t all = c->lane_done + c->lane_failed + c->lane_rejected + c->lane_cancelled;
    if (c->lane_submitted < all)
        c->lane_submitted = all;
    c->lane_done += c->lane_submitted - all;
}

/* Jobs of a lane that were answered and are in no count: what was taken, less what the note says and what was lost. */
static uint64_t gm_lane_late(const struct gm_device *v, const struct gm_lane *lane, const struct gm_recovered *r)
{
    const struct gm_lane_note *note = gm_region_note(v, lane->index);
    const int64_t late = (int64_t)(note->taken + r->jobs - r->lost - note->answered);
    return late < 0 ? 0 : (uint64_t)late;
}

uint64_t gm_lanes_recover(struct gm_device *v)
{
    static struct gm_recovered r;
    uint64_t lost = 0, gone = 0;
    for (uint32_t i = 1; i <= GM_LANES_MAX; i++) {
        struct gm_lane *lane = &v->client[i];
        if (lane->phase == GM_LANE_UNUSED || lane->phase == GM_LANE_ADDING || !lane->held)
            continue;
        gm_lanes_look(v, i, lane->memory, lane->slots_log2, &r);
        gm_lane_count_late(v, lane, r.start, gm_lane_late(v, lane, &r));
        if (lane->phase != GM_LANE_TAPPED) {
            gone += r.lost;
            continue;
        }
        gm_lane_answer(v, lane, &r);
        struct gm_lane_note *note = gm_region_note(v, i);
        lane->start = note->head = r.start;
        /* Everything below start is answered now, and a client that sleeps counts from there. */
        lane->answered = note->taken = note->answered = note->taken + r.jobs;
        lost += r.lost;
        gm_lane_wake(lane);
        if (r.lost != 0)
            gm_log(GM_LOG_WARN, "lane_recovered",
                   "device=%" PRIu32 " lane=%" PRIu32 " session=%" PRIu32 " lost=%" PRIu32 " start=%" PRIu64, v->index,
                   i, lane->session->id, r.lost, r.start);
    }
    gm_lanes_settle_books(v, lost, gone);
    return lost;
}

void gm_lanes_reaped(struct gm_device *v)
{
    for (uint32_t i = 1; i <= GM_LANES_MAX; i++) {
        struct gm_lane *lane = &v->client[i];
        lane->held = false;
        if (lane->phase == GM_LANE_DROPPING)
            gm_lane_let_go(lane);
    }
}

uint32_t gm_lanes_refill(struct gm_device *v)
{
    uint32_t asked = 0;
    for (uint32_t i = 1; i <= GM_LANES_MAX; i++) {
        struct gm_lane *lane = &v->client[i];
        if ((lane->phase == GM_LANE_TAPPED || lane->phase == GM_LANE_ADDING) && gm_lane_add(lane, 1) == GM_OK)
            asked++;
    }
    return asked;
}

void gm_lanes_lost(struct gm_device *v)
{
    for (uint32_t i = 1; i <= GM_LANES_MAX; i++) {
        struct gm_lane *lane = &v->client[i];
        if (lane->phase == GM_LANE_ADDING) {
            gm_lane_refuse(lane, GM_EDEVICELOST, "the device is out of service");
        } else if (lane->phase == GM_LANE_TAPPED) {
            struct gm_lane_header *header = gm_lane_header(lane);
            gm_store_relaxed_sys_u32((uint32_t *)(void *)&header->reason, (uint32_t)GM_EDEVICELOST);
            gm_store_release_sys_u32(&header->state,
                                     GM_LANE_LOST); /* release: the reason, and every answer before it */
            lane->phase = GM_LANE_SHUT;
            gm_lane_wake(lane);
        }
    }
}
