/* SPDX-License-Identifier: Apache-2.0
 *
 * See rig.h. The worker half follows device/cpu/worker.c step by step and checks on the way that every share of a phase
 * runs once.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/arrive.h"

#define RIG_TURNS_MAX 100000u

static void *zeroed(size_t align, size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, align, bytes), 0);
    memset(p, 0, bytes);
    return p;
}

/* What a dispatcher does first, and after a sleep. */
static void rig_begin(struct rig *rig)
{
    gm_turn_begin(rig->core, rig->d, &rig->fetch);
    for (uint32_t w = 0; w < rig->core->wings; w++)
        gm_wing_init(rig->d, w, &rig->look[w]);
}

void rig_open(struct rig *rig, const struct gm_core_shape *shape)
{
    memset(rig, 0, sizeof *rig);
    struct gm_core *core = zeroed(128, sizeof *core);
    rig->shared = zeroed(128, sizeof *rig->shared);
    rig->d = zeroed(128, sizeof *rig->d);
    assert_int_equal(gm_core_init(core, rig->shared, rig->d, shape), GM_OK);
    core->counters = rig->shared;
    core->saved = rig->d;
    const size_t tickets = (size_t)1 << shape->tickets_log2, entries = (size_t)1 << shape->entries_log2;
    core->slots = zeroed(128, tickets * sizeof *core->slots);
    gm_slots_init(core->slots, shape);
    core->acks = zeroed(64, tickets * sizeof *core->acks);
    core->inbox = zeroed(64, entries * sizeof *core->inbox);
    core->entries = zeroed(128, entries * sizeof *core->entries);
    core->scratch = zeroed(64, entries * GM_ENTRY_SCRATCH);
    core->workspace = (uint8_t *)(uintptr_t)UINT64_C(0x100000000000); /* the rig's workers never touch it */
    core->workers_words = zeroed(64, shape->workers * sizeof *core->workers_words);
    core->device_counters = &rig->counters;
    core->copies = zeroed(128, sizeof *core->copies);
    core->lane_notes = rig->notes;
    core->admin_header = rig->admin_header = zeroed(4096, sizeof *rig->admin_header);
    core->admin_sq = rig->admin_sq = zeroed(64, GM_ADMIN_SLOTS * sizeof *rig->admin_sq);
    core->admin_cq = zeroed(64, GM_ADMIN_SLOTS * sizeof *core->admin_cq);
    rig->core = core;
    rig->seen = zeroed(64, entries * GM_SHARES_MAX);
    rig_begin(rig);
}

void rig_close(struct rig *rig)
{
    struct gm_core *core = rig->core;
    for (uint32_t i = 0; i < RIG_LANES; i++) {
        free(rig->lane[i].memory);
        free(rig->lane[i].journal);
    }
    free(core->slots);
    free(core->acks);
    free(core->inbox);
    free(core->entries);
    free(core->scratch);
    free(core->workers_words);
    free(core->copies);
    free(rig->admin_header);
    free(rig->admin_sq);
    free(core->admin_cq);
    free(core);
    free(rig->shared);
    free(rig->d);
    free(rig->seen);
}

enum gm_turn_result rig_turn(struct rig *rig)
{
    return gm_turn(rig->core, rig->d, &rig->fetch);
}

bool rig_wing(struct rig *rig, uint32_t wing)
{
    return gm_wing_turn(rig->core, rig->d, wing, &rig->look[wing]);
}

void rig_wake(struct rig *rig)
{
    gm_park_flag(rig->core, rig->d, 0);
    rig_begin(rig);
}

int32_t rig_admin(struct rig *rig, uint32_t op, uint32_t index, const uint32_t words[GM_DESC_WORDS], uint64_t *result)
{
    uint32_t w[GM_DESC_WORDS] = {0};
    if (words)
        memcpy(w, words, sizeof w);
    w[GM_A_OP] = op;
    w[GM_A_INDEX] = index;
    const uint64_t position = rig->admin_position++;
    gm_desc_store(rig->admin_sq, GM_ADMIN_SLOTS_LOG2, position, w, 0);
    rig_turn(rig);
    rig_turn(rig);
    const struct gm_granule g = gm_load16_sys(&rig->core->admin_cq[position & (GM_ADMIN_SLOTS - 1u)]);
    assert_int_equal(g.w[3], gm_lap(position, GM_ADMIN_SLOTS_LOG2));
    if (result)
        *result = gm_completion_result(g);
    return gm_completion_status(g);
}

void rig_lane_open(struct rig *rig, uint32_t index, uint32_t slots_log2, uint64_t start)
{
    struct rig_lane *lane = &rig->lane[index];
    const uint32_t slots = 1u << slots_log2;
    uint32_t words[GM_DESC_WORDS] = {0};
    assert_true(index < RIG_LANES);
    lane->memory = zeroed(4096, gm_lane_bytes(slots));
    lane->journal = zeroed(64, slots * sizeof *lane->journal);
    lane->header = (struct gm_lane_header *)(void *)lane->memory;
    lane->sq = (struct gm_desc_slot *)(void *)(lane->memory + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(void *)(lane->memory + gm_lane_cq_offset(slots));
    lane->index = index;
    lane->slots_log2 = slots_log2;
    lane->position = start;
    words[GM_A_SESSION] = RIG_SESSION;
    gm_desc_put64(words, GM_A_ADDRESS, (uint64_t)(uintptr_t)lane->memory);
    gm_desc_put64(words, GM_A_BYTES, start);
    words[GM_A_FLAGS] = slots_log2;
    gm_desc_put64(words, GM_A_POSITION, (uint64_t)(uintptr_t)lane->journal);
    assert_int_equal(rig_admin(rig, GM_ADMIN_LANE_OPEN, index, words, NULL), GM_OK);
}

int32_t rig_cancel(struct rig *rig, uint32_t lane, uint64_t position)
{
    uint32_t words[GM_DESC_WORDS] = {0};
    gm_desc_put64(words, GM_A_POSITION, position);
    return rig_admin(rig, GM_ADMIN_CANCEL, lane, words, NULL);
}

void rig_arena_set(struct rig *rig, uint32_t handle, uint64_t address, uint64_t bytes, uint32_t session,
                   uint32_t flags)
{
    uint32_t words[GM_DESC_WORDS] = {0};
    words[GM_A_SESSION] = session;
    gm_desc_put64(words, GM_A_ADDRESS, address);
    gm_desc_put64(words, GM_A_BYTES, bytes);
    words[GM_A_FLAGS] = flags;
    assert_int_equal(rig_admin(rig, GM_ADMIN_ARENA_SET, handle, words, NULL), GM_OK);
}

void rig_words(uint32_t *words, uint32_t op, uint32_t dtype, uint32_t flags, uint64_t n)
{
    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    words[GM_W_OP] = op | dtype << 16 | flags << 24;
    gm_desc_put64(words, GM_W_N, n);
    if (flags & GM_FLAG_WIDE)
        words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
}

void rig_buffer(uint32_t *words, uint32_t buffer, uint32_t handle, uint64_t offset)
{
    static const uint32_t at[] = {GM_W_ARENA0, GM_W_ARENA1, GM_W_ARENA2};
    static const uint32_t at_offset[] = {GM_W_OFFSET0, GM_W_OFFSET1, GM_W_OFFSET2};
    words[at[buffer]] = handle;
    gm_desc_put64(words, at_offset[buffer], offset);
}

uint64_t rig_submit(struct rig *rig, uint32_t lane_index, const uint32_t *words)
{
    struct rig_lane *lane = &rig->lane[lane_index];
    const uint64_t position = lane->position;
    const bool wide = (words[GM_W_OP] >> 24 & GM_FLAG_WIDE) != 0;
    if (wide)
        gm_desc_store(lane->sq, lane->slots_log2, position + 1u, words, 1);
    gm_desc_store(lane->sq, lane->slots_log2, position, words, 0);
    lane->position += wide ? 2u : 1u;
    return position;
}

uint64_t rig_submit_nop(struct rig *rig, uint32_t lane)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_nop, 0, 0, 0);
    return rig_submit(rig, lane, words);
}

bool rig_answer(const struct rig *rig, uint32_t lane_index, uint64_t position, struct gm_granule *completion)
{
    const struct rig_lane *lane = &rig->lane[lane_index];
    const uint64_t slot = position & ((UINT64_C(1) << lane->slots_log2) - 1u);
    *completion = gm_load16_sys(&lane->cq[slot]);
    return completion->w[3] == gm_lap(position, lane->slots_log2);
}

bool rig_take(struct rig *rig, struct rig_worker *worker, struct gm_drawn *drawn)
{
    if (worker->stopped)
        return false;
    if (!worker->holding) {
        worker->ticket = gm_draw(rig->core);
        worker->holding = true;
    }
    if (!gm_draw_try(rig->core, worker->ticket, drawn))
        return false;
    gm_ack(rig->core, worker->ticket);
    worker->holding = false;
    return true;
}

/* The job of a ticket, from where it lies. */
static struct gm_job job_of(const struct gm_core *core, const struct gm_drawn *drawn)
{
    const uint32_t index = gm_ticket_entry(drawn->word);
    const struct gm_entry *entry = gm_entry_at(core, index);
    const struct gm_job job = gm_ticket_inline(drawn->word) ? gm_drawn_job(core, drawn) : entry->job;
    assert_true(index < core->entries_count);
    assert_int_equal(job.entry, index);
    if (!gm_ticket_inline(drawn->word))
        assert_int_equal(entry->generation & 0xffu, gm_ticket_generation(drawn->word));
    return job;
}

static int32_t verdict(struct gm_entry *entry, uint32_t word)
{
    if (gm_ticket_inline(word))
        return gm_ticket_share(word) == GM_SHARE_ABORTED ? GM_ECANCELLED : GM_OK;
    return gm_load_relaxed_u32(&entry->abort) != 0 ? GM_ECANCELLED
                                                   : (int32_t)gm_load_relaxed_u32((uint32_t *)&entry->status);
}

void rig_run(struct rig *rig, const struct gm_drawn *drawn)
{
    struct gm_core *core = rig->core;
    const uint32_t index = gm_ticket_entry(drawn->word);
    const uint32_t share = gm_ticket_inline(drawn->word) ? 0 : gm_ticket_share(drawn->word);
    const struct gm_job job = job_of(core, drawn);
    struct gm_entry *entry = gm_entry_at(core, index);
    assert_true(share < job.shares && job.phase < job.phases);
    uint8_t *seen = &rig->seen[(size_t)index * GM_SHARES_MAX + share];
    assert_int_equal(*seen, job.phase); /* once in each phase, and in no phase before its turn */
    *seen = (uint8_t)(job.phase + 1u);
    rig->shares_run++;
    if (!gm_arrive(entry, &job))
        return;
    for (uint32_t s = 0; s < job.shares; s++)
        assert_int_equal(rig->seen[(size_t)index * GM_SHARES_MAX + s], job.phase + 1u); /* the last one is the last */
    const int32_t status = verdict(entry, drawn->word);
    if (status == GM_OK && job.phase + 1u < job.phases) {
        gm_arrive_next_phase(core, entry, &job);
        return;
    }
    memset(&rig->seen[(size_t)index * GM_SHARES_MAX], 0, GM_SHARES_MAX);
    gm_complete(&job, RIG_RESULT, status);
    rig->answered++;
    gm_inbox_push(core, gm_inbox_word(gm_inbox_answered(status), &job));
}

bool rig_work(struct rig *rig, struct rig_worker *worker)
{
    struct gm_drawn drawn;
    if (!rig_take(rig, worker, &drawn))
        return false;
    if (gm_ticket_entry(drawn.word) == GM_STOP_ENTRY)
        worker->stopped = true;
    else
        rig_run(rig, &drawn);
    return true;
}

void rig_settle(struct rig *rig, struct rig_worker *workers, uint32_t count)
{
    uint32_t quiet = 0;
    for (uint32_t turn = 0; quiet < 2u * GM_STRIKE_GAP; turn++) {
        assert_true(turn < RIG_TURNS_MAX);
        bool moved = rig_turn(rig) == GM_TURN_WORKED;
        for (uint32_t i = 0; i < rig->core->wings; i++)
            moved = rig_wing(rig, i) || moved;
        for (uint32_t i = 0; i < count; i++)
            while (rig_work(rig, &workers[i]))
                moved = true;
        quiet = moved ? 0 : quiet + 1u;
    }
}

uint64_t rig_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void rig_open_shape(struct rig *rig, const struct gm_core_shape *shape)
{
    rig_open(rig, shape);
    rig_arena_set(rig, RIG_ARENA, RIG_BASE, RIG_BYTES, RIG_SESSION, 0);
    rig_lane_open(rig, 0, 4, 0);
    rig_lane_open(rig, 1, 4, UINT64_C(0xfffffffd) << 4);
}

void rig_open_small(struct rig *rig)
{
    const struct gm_core_shape shape = {.tickets_log2 = 3, .entries_log2 = 2, .workers = RIG_WORKERS,
                                        .host_shares = RIG_WORKERS, .ticket_start = UINT64_C(0xfffffffd) << 3,
                                        .inbox_start = UINT64_C(0xfffffffd) << 2,
                                        .idle_ns = UINT64_MAX, .workspace_bytes = 1u << 20};
    rig_open_shape(rig, &shape);
}

void rig_assert_settled(struct rig *rig)
{
    const struct gm_device_counters *c = &rig->d->counters;
    const uint32_t own = gm_front_entries(rig->core), wings = rig->core->entries_count - own;
    assert_int_equal(rig->d->free_entries, own);
    assert_int_equal(rig->d->credit, (1u << rig->core->tickets_log2) - rig->core->workers - wings);
    assert_int_equal(rig->d->leased, 0);
    assert_int_equal(c->workspace, 0);
    assert_int_equal(c->entries, 0);
    assert_int_equal(rig->d->pieces, 1);
    assert_int_equal(c->started, c->completed);
    assert_int_equal(c->polled, c->started + c->refused);
    assert_int_equal(c->completed, rig->answered);
    assert_int_equal(c->tickets, rig->shares_run);
    assert_int_equal(rig->d->cancels, 0);
    assert_int_equal(rig->d->held_lane, 0);
    uint64_t completed = 0;
    for (uint32_t i = 0; i < rig->d->lane_top; i++)
        completed += rig->d->lane[i].completed;
    assert_int_equal(completed, c->completed + c->refused);
    bool seen[GM_ENTRIES_MAX] = {false};
    for (uint32_t i = 0; i < own; i++) { /* each free entry is in its owner's list once */
        assert_int_equal(gm_entry_owner(rig->core, rig->d->free_entry[i]), 0);
        assert_false(seen[rig->d->free_entry[i]]);
        seen[rig->d->free_entry[i]] = true;
    }
    for (uint32_t i = 0; i < wings; i++) {
        const uint32_t w = i / gm_wing_entries(rig->core);
        const struct gm_wing *wing = &rig->d->wing[w];
        const uint32_t entry = wing->free[(wing->taken + i % gm_wing_entries(rig->core)) % GM_WING_ENTRIES_MAX];
        assert_int_equal(wing->freed - wing->taken, gm_wing_entries(rig->core));
        assert_int_equal(gm_entry_owner(rig->core, entry), w + 1u);
        assert_false(seen[entry]);
        seen[entry] = true;
    }
}
