/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of the fake device process: taken from its lanes in order, answered or not as the mode says. One thread.
 */
#include "fake_device.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    struct fake_lane *lane;
    uint64_t position;
} held[GM_LANE0_SLOTS];
static uint64_t held_count; /* jobs that are not answered */

static struct gm_lane_note *note_of(const struct fake_lane *lane)
{
    return (struct gm_lane_note *)(void *)(fake_region + gm_region_notes_offset()) + lane->index;
}

static struct gm_granule *slot_of(const struct fake_lane *lane, uint64_t position)
{
    return (struct gm_granule *)(void *)(lane->memory + gm_lane_cq_offset(1u << lane->log2)) +
           (position & ((1u << lane->log2) - 1u));
}

/* A real dispatcher writes its counters now and then. */
static bool lags(void)
{
    return is("lag") && fake_jobs > 2;
}

static void count(uint64_t *counter)
{
    if (lags())
        return;
    gm_store_relaxed_u64(counter, *counter + 1u);
}

static void complete(struct fake_lane *lane, uint64_t position, uint64_t result, int status)
{
    gm_store16_sys(slot_of(lane, position), gm_completion(result, status, 1000, gm_lap(position, lane->log2)));
    lane->completed++;
    gm_fence_sys();
    const struct gm_granule wait = gm_load16_sys(&header_of(lane)->wait);
    const uint64_t seen = wait.w[0] | (uint64_t)wait.w[1] << 32, one = 1;
    if (wait.w[2] != 0 && lane->completed > seen && write(lane->wake, &one, lane->index == 0 ? sizeof one : 1) < 0 &&
        errno != EAGAIN && errno != EPIPE)
        _exit(2);
    if (lane->index != 0) {
        count(status == GM_OK           ? &fake_counters->lane_done
              : status == GM_ECANCELLED ? &fake_counters->lane_cancelled
              : lane->refused != 0      ? &fake_counters->lane_rejected
                                        : &fake_counters->lane_failed);
        if (!lags())
            gm_store_relaxed_sys_u64(&note_of(lane)->answered, lane->completed);
    }
}

static void start(const struct fake_lane *lane, uint64_t position)
{
    uint32_t *journal = (uint32_t *)(void *)(fake_region + gm_region_journal_offset(lane->index));
    gm_store_release_sys_u32(&journal[position & ((1u << lane->log2) - 1u)], gm_lap(position, lane->log2));
    count(&fake_counters->started);
}

static void hold(struct fake_lane *lane, uint64_t position)
{
    held[held_count].lane = lane;
    held[held_count++].position = position;
}

static void die(const struct fake_lane *lane, uint64_t position)
{
    struct gm_granule *word = (struct gm_granule *)(void *)(fake_region + gm_region_workers_offset());
    gm_store16_sys(word, (struct gm_granule){{0, 0, lane->index + 1u, (uint32_t)position}});
    _exit(9);
}

static void refuse(struct fake_lane *lane, uint64_t position)
{
    lane->refused++;
    complete(lane, position, 0, GM_EOP);
    if (is("abuse") && lane->refused == 5) {
        gm_store_release_sys_u32((uint32_t *)(void *)&note_of(lane)->closed, (uint32_t)GM_EOP);
        lane->shut = true;
    }
}

/* Of the arena that buffer 0 names, as far as a test can tell. */
static int check(uint32_t op, uint32_t handle)
{
    const struct gm_control_arena *row = &fake_arenas[gm_handle_index(handle) % GM_ARENAS_MAX];
    if (op == GM_OP_nop || (handle != 0 && row->handle == handle))
        return op != GM_OP_nop && (row->flags & GM_ARENA_GONE) ? GM_EDEVICELOST : GM_OK;
    return GM_EARENA;
}

static void take(struct fake_lane *lane, uint64_t position, uint32_t op, uint32_t arena, uint64_t n)
{
    fake_jobs++;
    if (is("hang")) {
        hold(lane, position);
        return;
    }
    if (lane->index != 0)
        count(&fake_counters->lane_submitted);
    if (op >= GM_OP_COUNT) {
        refuse(lane, position);
        return;
    }
    if (check(op, arena) != GM_OK) {
        lane->refused++;
        complete(lane, position, 0, check(op, arena));
        return;
    }
    lane->refused = 0;
    if (is("hold") || (is("deaf") && fake_jobs > 1) || (is("first") && fake_jobs == 1)) {
        if (is("hold"))
            start(lane, position);
        hold(lane, position);
        return;
    }
    start(lane, position);
    if (is("slow"))
        usleep(2000);
    if ((is("die") && fake_jobs == 3) || (is("lag") && fake_jobs == 9))
        die(lane, position);
    if (is("garbage") && fake_jobs == 3 && send(GM_DEVICE_FD_CONTROL, "?", 1, MSG_NOSIGNAL) == 1) {
        hold(lane, position);
        return;
    }
    if (lane->index != 0)
        count(&fake_counters->op_done[op]);
    complete(lane, position, n, GM_OK);
    if (is("last") && fake_jobs == 3)
        _exit(9);
}

static bool poll_lane(struct fake_lane *lane)
{
    const struct gm_desc_slot *sq = (const struct gm_desc_slot *)(const void *)(lane->memory + gm_lane_sq_offset());
    const uint64_t mask = (UINT64_C(1) << lane->log2) - 1u;
    bool any = false;
    while (!lane->shut && held_count < sizeof held / sizeof held[0]) {
        uint32_t words[3 * 4];
        const uint32_t lap = gm_lap(lane->head, lane->log2);
        for (uint32_t i = 0; i < 4; i++) {
            const struct gm_granule g = gm_load16_sys(&sq[lane->head & mask].g[i]);
            if (g.w[3] != lap)
                return any;
            memcpy(&words[3 * i], g.w, 12);
        }
        const uint64_t position = lane->head;
        const uint32_t op = words[GM_W_OP] & 0xffffu;
        const bool skip = op == GM_DESC_SKIP_MARK;
        const bool wide = !skip && (words[GM_W_OP] >> 24 & GM_FLAG_WIDE) != 0;
        if (wide && gm_load16_sys(&sq[(position + 1) & mask].g[3]).w[3] != gm_lap(position + 1, lane->log2))
            return any;
        lane->head += wide ? 2 : 1;
        any = any || !skip;
        if (!skip)
            take(lane, position, op, words[GM_W_ARENA0], gm_desc_get64(words, GM_W_N));
        lane->taken += !skip;
        if (!is("hang"))
            gm_store16_sys((struct gm_granule *)(void *)note_of(lane),
                           (struct gm_granule){{(uint32_t)lane->head, (uint32_t)(lane->head >> 32),
                                                (uint32_t)lane->taken, (uint32_t)(lane->taken >> 32)}});
    }
    return any;
}

bool fake_poll_lanes(void)
{
    bool any = false;
    for (uint32_t i = 0; i < GM_LANE_TABLE; i++)
        if (fake_lanes[i].memory != NULL)
            any |= poll_lane(&fake_lanes[i]);
    return any;
}

bool fake_cancel(struct fake_lane *lane, uint64_t position, bool all)
{
    bool found = false;
    for (uint64_t i = held_count; i-- != 0;)
        if (held[i].lane == lane && (all || held[i].position == position)) {
            const uint64_t at = held[i].position;
            held[i] = held[--held_count];
            complete(lane, at, 0, GM_ECANCELLED);
            found = true;
        }
    return found;
}
