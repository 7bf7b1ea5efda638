/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes what a client can write into its lane: the input is the payload of up to 32 descriptor slots. Whatever they
 * say, each is answered or started, and a started job names only memory of its own client's arenas. The dispatcher runs
 * in this thread, without workers; a fresh scheduler for every input.
 */
#include "fuzz.h"

#include "core/draw.h"
#include "core/init.h"
#include "core/turn.h"

#define LANE       1u
#define SESSION    7u
#define SLOTS_LOG2 5u
#define SLOTS      (1u << SLOTS_LOG2)
#define SLOT_BYTES 48u
#define TICKETS    10u
#define ENTRIES    6u
#define WORKERS    4u
#define HOST       5u /* row of the arena in host memory */
#define ENGINE_BYTES 4096u

static const struct gm_arena_row arenas[] = {
    /* address, bytes, session, generation, flags */
    {UINT64_C(0x7f0000000000), 0, SESSION, 1, 0}, /* row 0: empty */
    {UINT64_C(0x7f0000000000), 1u << 20, SESSION, 1, 0},
    {UINT64_C(0x7f0000200000), 1u << 20, SESSION, 2, GM_ARENA_READONLY},
    {UINT64_C(0x7f0000400000), 1u << 20, SESSION + 1u, 1, 0},
    {UINT64_C(0x7f0000600000), 1u << 20, 0, 1, GM_ARENA_STAGING},
    {UINT64_C(0x7f0000800000), UINT64_C(1) << 40, SESSION, 0xffff, GM_ARENA_HOST},
    {UINT64_MAX - 4095u, 4095, SESSION, 1, 0}, /* its end is the end of all addresses */
    {UINT64_C(0x7f0000a00000), 1u << 20, SESSION, 1, GM_ARENA_GONE},
};
#define ARENAS (sizeof arenas / sizeof *arenas)

static struct {
    struct gm_core core;
    struct gm_counters counters;
    struct gm_disp d;
    struct gm_fetch fetch;
    struct gm_device_counters out;
    struct gm_copies copies;
    _Alignas(64) struct gm_lane_note notes[GM_LANE_TABLE];
    _Alignas(4096) uint8_t lane[8192 + 4096];
    _Alignas(4096) struct gm_lane_header admin;
    _Alignas(64) struct gm_desc_slot admin_sq[GM_ADMIN_SLOTS];
    _Alignas(64) struct gm_granule admin_cq[GM_ADMIN_SLOTS];
    struct gm_slot slots[1u << TICKETS];
    uint64_t inbox[1u << ENTRIES];
    uint32_t acks[1u << TICKETS], journal[SLOTS];
    _Alignas(128) struct gm_entry entries[1u << ENTRIES];
} m;
static uint8_t scratch[(size_t)GM_ENTRY_SCRATCH << ENTRIES]; /* handed out, never touched */

static void open_all(void)
{
    const struct gm_core_shape shape = {.tickets_log2 = TICKETS, .entries_log2 = ENTRIES, .workers = WORKERS,
                                        .host_shares = 2, .idle_ns = UINT64_MAX, .workspace_bytes = 1u << 24,
                                        .copy_bytes = ENGINE_BYTES};
    must(gm_lane_bytes(SLOTS) <= sizeof m.lane);
    memset(&m, 0, sizeof m);
    must(gm_core_init(&m.core, &m.counters, &m.d, &shape) == GM_OK);
    m.core.counters = &m.counters;
    m.core.device_counters = &m.out;
    m.core.lane_notes = m.notes;
    m.core.slots = m.slots;
    m.core.acks = m.acks;
    m.core.inbox = m.inbox;
    m.core.entries = m.entries;
    m.core.scratch = scratch;
    m.core.admin_header = &m.admin;
    m.core.admin_sq = m.admin_sq;
    m.core.admin_cq = m.admin_cq;
    m.core.saved = &m.d;
    m.core.copies = &m.copies;
    for (size_t i = 0; i < ARENAS; i++)
        m.d.arena[i] = arenas[i];
    struct gm_lane_row *lane = &m.d.lane[LANE];
    lane->header = (struct gm_lane_header *)(void *)m.lane;
    lane->sq = (const struct gm_desc_slot *)(const void *)(m.lane + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(void *)(m.lane + gm_lane_cq_offset(SLOTS));
    lane->journal = m.journal;
    lane->slots_log2 = SLOTS_LOG2;
    lane->session = SESSION;
    lane->width = GM_POLL_NARROW;
    m.d.lane_top = LANE + 1u;
}

static uint32_t fill_lane(const uint8_t *data, size_t size)
{
    const uint32_t count = size / SLOT_BYTES < SLOTS ? (uint32_t)(size / SLOT_BYTES) : SLOTS;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t words[GM_DESC_WORDS] = {0};
        memcpy(words, data + (size_t)i * SLOT_BYTES, SLOT_BYTES);
        gm_desc_store((struct gm_desc_slot *)(void *)(m.lane + gm_lane_sq_offset()), SLOTS_LOG2, i, words, 0);
    }
    return count;
}

/* One buffer lies whole in an arena that this session may use this way. */
static bool lies_inside(uint64_t address, unsigned __int128 bytes, bool written)
{
    for (size_t i = 0; i < ARENAS; i++) {
        const struct gm_arena_row *a = &arenas[i];
        const bool ours = a->session == SESSION && !(a->flags & (GM_ARENA_STAGING | GM_ARENA_GONE));
        if (ours && !(written && (a->flags & GM_ARENA_READONLY)) && address >= a->address &&
            (unsigned __int128)address + bytes <= (unsigned __int128)a->address + a->bytes)
            return true;
    }
    return false;
}

/* Elements of a buffer, by what the job says. count2: bins and channels, or of the second input, make job->bins. */
static unsigned __int128 elements_of(const struct gm_op_row *row, const struct gm_job *job, uint32_t count2, uint32_t i)
{
    switch (gm_buffer_extent(row->buffer[i])) {
    case GM_EXTENT_COUNT:
    case GM_EXTENT_CELLS:
        return job->bins;
    case GM_EXTENT_COUNT1:
        return job->bins + UINT64_C(1);
    case GM_EXTENT_PIXELS:
        return (unsigned __int128)job->n * count2;
    case GM_EXTENT_LENGTH:
        return job->value[0];
    case GM_EXTENT_LENGTH1:
        return (unsigned __int128)job->value[0] + 1u;
    case GM_EXTENT_FIVE:
        return 5;
    default:
        return job->n;
    }
}

static uint32_t element_of(const struct gm_op_row *row, const struct gm_job *job, uint32_t i)
{
    const uint32_t content = gm_buffer_content(row->buffer[i]);
    if (content == GM_CONTENT_U64)
        return 8;
    return gm_dtype_bytes(content >= GM_CONTENT_TO ? job->type2 : job->dtype);
}

static void must_stay_inside(const struct gm_job *job)
{
    const struct gm_op_row row = gm_op_row(job->op);
    const uint32_t count2 = job->marks & GM_MARK_MORE ? m.entries[job->entry].count2 : 0;
    unsigned __int128 bytes[GM_BUFFERS_MAX] = {0};
    must(row.known && job->n <= GM_ELEMENTS_MAX && job->bins <= GM_HIST_BINS_MAX);
    must(row.shape == GM_SHAPE_NONE || (row.types >> job->dtype & 1u));
    must(!(row.places >> GM_AT_COUNT2 & 1u) || (count2 != 0 && job->bins % count2 == 0));
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        bytes[i] = elements_of(&row, job, count2, i) * element_of(&row, job, i);
        must(lies_inside(job->address[i], bytes[i], i >= row.inputs));
        must(job->address[i] % element_of(&row, job, i) == 0);
        for (uint32_t k = 0; k < i && i >= row.inputs; k++)
            must(bytes[i] == 0 || bytes[k] == 0 || job->address[i] + bytes[i] <= job->address[k] ||
                 job->address[k] + bytes[k] <= job->address[i] ||
                 (row.alias == GM_ALIAS_SAME && k < row.inputs && job->address[i] == job->address[k]));
    }
    must(job->shares >= 1 && job->shares <= WORKERS && job->phases <= GM_PHASES_MAX);
    must(job->workspace_bytes <= m.core.workspace_bytes);
}

/* What the copy engine was asked for is a job that the workers were not. Returns how many. */
static uint32_t requests_are_jobs(void)
{
    const uint32_t out = m.d.crew.copies_put ^ m.d.crew.copies_done;
    uint32_t count = 0;
    for (uint32_t at = 0; at < GM_COPIES_MAX; at++) {
        uint32_t words[GM_COPY_WORDS];
        for (uint32_t i = 0; i < GM_COPY_GRANULES; i++)
            memcpy(&words[3u * i], m.copies.place[at].request[i].w, 3u * sizeof *words);
        if (!(out >> at & 1u))
            continue;
        const uint32_t entry = m.d.copy_entry[at];
        const struct gm_job *job = &m.entries[entry].job;
        const bool down = (job->marks & GM_MARK_HOST_OUT) != 0;
        must(m.d.note[entry].lane == LANE && m.d.note[entry].copy == at + 1u && job->op == GM_OP_copy);
        must(gm_desc_get64(words, GM_C_SOURCE) == job->address[0]);
        must(gm_desc_get64(words, GM_C_TARGET) == job->address[1]);
        must(gm_desc_get64(words, GM_C_BYTES) == job->n * gm_dtype_bytes(job->dtype));
        must(gm_desc_get64(words, GM_C_BYTES) >= ENGINE_BYTES);
        must(words[GM_C_DIRECTION] == (down ? GM_COPY_DOWN : GM_COPY_UP));
        must(down != ((job->marks & GM_MARK_HOST_IN) != 0));
        must(job->address[down] - gm_desc_get64(words, GM_C_OFFSET) == arenas[HOST].address);
        count++;
    }
    return count;
}

/* A job that was started and that nobody has drawn, from its slot or its entry. */
static struct gm_job job_of(uint32_t entry)
{
    struct gm_drawn drawn;
    if (!(m.d.note[entry].lane & GM_LANE_INLINE))
        return m.entries[entry].job;
    must(gm_draw_try(&m.core, m.d.entry_ticket[entry], &drawn));
    must(drawn.word == gm_ticket_make(m.d.note[entry].generation, entry, GM_SHARE_INLINE));
    const struct gm_job job = gm_drawn_job(&m.core, &drawn), *noted = &m.entries[entry].job;
    must(job.entry == entry && job.position == noted->position);
    for (uint32_t k = 0; k < GM_BUFFERS_MAX; k++)
        must(job.address[k] == noted->address[k]);
    return job;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t started = 0, answered = 0;
    open_all();
    const uint32_t count = fill_lane(data, size);
    gm_turn_begin(&m.core, &m.d, &m.fetch);
    for (uint32_t turn = 0; turn < 4u * SLOTS; turn++)
        must(gm_turn(&m.core, &m.d, &m.fetch) <= GM_TURN_EMPTY);
    for (uint32_t i = 0; i < 1u << ENTRIES; i++)
        if (m.d.note[i].lane != GM_LANE_NONE) {
            const struct gm_job job = job_of(i);
            must(gm_entry_lane(m.d.note[i].lane) == LANE);
            must_stay_inside(&job);
            started++;
        }
    must(requests_are_jobs() == m.d.counters.engine_copies && m.d.counters.engine_full == 0);
    const struct gm_lane_row *lane = &m.d.lane[LANE];
    for (uint32_t i = 0; i < count; i++) {
        const bool has = lane->cq[i].w[3] == 1u;
        must(!has || gm_completion_status(lane->cq[i]) < 0);
        must(!has || m.journal[i] == 0); /* an answer or a start, not both */
        answered += has;
    }
    must(started == m.d.counters.started && answered == m.d.counters.refused);
    must(m.d.counters.polled == (uint64_t)started + answered && lane->completed == answered);
    /* All were taken, but for a first half at the end, or jobs that wait for workspace because nobody works here. */
    must(lane->head == count || lane->head + 1u == count || m.d.held_lane == LANE + 1u || m.d.counters.workspace != 0);
    return 0;
}
