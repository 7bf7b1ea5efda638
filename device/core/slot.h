/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a slot of the ticket ring: one line of eight granules, each with the lap of its ticket. A job of one
 * share, one tile and no host memory lies there itself, so that a worker has it with the look that finds the ticket,
 * and nothing has to be fenced before it: a granule says by its lap that it is there. Every other ticket is a
 * reference, in the first granule alone, to a job in its entry.
 */
#ifndef GM_CORE_SLOT_H
#define GM_CORE_SLOT_H

#include "core.h"

/* Ticket word: generation << 24 | entry << 12 | share. */
#define GM_STOP_ENTRY 0xfffu
#define GM_SHARE_INLINE  0xfffu /* no share: the job lies in the slot */
#define GM_SHARE_ABORTED 0xffeu /* the same, and it was cancelled since */
static_assert(GM_ENTRIES_MAX <= GM_STOP_ENTRY, "the stop entry is no entry");
static_assert(GM_SHARES_MAX <= GM_SHARE_ABORTED, "a job in the slot is no share");

GM_HD uint32_t gm_ticket_make(uint32_t generation, uint32_t entry, uint32_t share)
{
    return (generation & 0xffu) << 24 | entry << 12 | share;
}
GM_HD uint32_t gm_ticket_generation(uint32_t word) { return word >> 24; }
GM_HD uint32_t gm_ticket_entry(uint32_t word) { return word >> 12 & 0xfffu; }
GM_HD uint32_t gm_ticket_share(uint32_t word) { return word & 0xfffu; }
GM_HD bool gm_ticket_inline(uint32_t word)
{
    return gm_ticket_entry(word) != GM_STOP_ENTRY && gm_ticket_share(word) >= GM_SHARE_ABORTED;
}

/* Payload words of a job in its slot, three to a granule. What is not here follows from the job's being there. */
enum gm_slot_word {
    GM_S_TICKET = 0,
    GM_S_POSITION = 1, /* and 2; in the first granule, so that it can be written again when the job is cancelled */
    GM_S_OP = 3,       /* as in gm_job: op, dtype, flags */
    GM_S_LANE = 4,     /* lane, entry */
    GM_S_MARKS = 5,    /* marks, slots_log2; tiles | type2 << 1 */
    GM_S_N = 6,
    GM_S_ADDRESS = 7, /* to 12 */
    GM_S_VALUE = 13,  /* to 16 */
    GM_S_START = 17,  /* and 18 */
    GM_S_COMPLETION = 19, /* and 20 */
    GM_S_BINS = 21,
    GM_S_TILE = 22,      /* elements of a tile */
    GM_S_WORKSPACE = 23, /* bytes */
    GM_SLOT_WORDS = 24,
    /* Where else a word of gm_job comes from. */
    GM_S_ZERO = GM_SLOT_WORDS,
    GM_S_ONE,
    GM_S_PHASES,
    GM_S_TILES,
    GM_S_SCRATCH_LOW,
    GM_S_SCRATCH_HIGH
};
static_assert(GM_SLOT_WORDS == GM_SLOT_GRANULES * 3u, "three words to a granule");

#define GM_JOB_WORDS (sizeof(struct gm_job) / 4u)
#define GM_JOB_WORD(field) (offsetof(struct gm_job, field) / 4u)

/* Of a ticket's slot in the ring, and of what else there is one of for each. */
GM_DEV uint64_t gm_slot_index(const struct gm_core *core, uint64_t ticket)
{
    return ticket & (((uint64_t)1 << core->tickets_log2) - 1u);
}
GM_DEV struct gm_slot *gm_slot_at(const struct gm_core *core, uint64_t ticket)
{
    return &core->slots[gm_slot_index(core, ticket)];
}

/* Whether a job fits its slot. What it still needs an entry for is private to the dispatcher. */
GM_HD bool gm_slot_fits(const struct gm_job *job)
{
    return job->shares == 1u && job->phases == 1u && job->tiles <= 1u &&
           (job->marks & (GM_MARK_HOST | GM_MARK_MORE)) == 0 && job->workspace_bytes <= GM_ENTRY_SCRATCH &&
           (job->n | job->tile_elements) >> 32 == 0;
}

GM_HD struct gm_granule gm_slot_pack(uint32_t lap, uint32_t a, uint32_t b, uint32_t c)
{
    const struct gm_granule g = {{a, b, c, lap}};
    return g;
}
GM_HD uint32_t gm_low(uint64_t v) { return (uint32_t)v; }
GM_HD uint32_t gm_high(uint64_t v) { return (uint32_t)(v >> 32); }

/* One granule of a job in its slot; i is a constant wherever this is called. */
GM_HD struct gm_granule gm_slot_granule(const struct gm_job *job, uint32_t word, uint32_t lap, uint32_t i)
{
    switch (i) {
    case 0:
        return gm_slot_pack(lap, word, gm_low(job->position), gm_high(job->position));
    case 1:
        return gm_slot_pack(lap, job->op | (uint32_t)job->dtype << 16 | (uint32_t)job->flags << 24,
                            job->lane | (uint32_t)job->entry << 16,
                            job->marks | (uint32_t)job->slots_log2 << 16 |
                                ((uint32_t)job->tiles | (uint32_t)job->type2 << 1) << 24);
    case 2:
        return gm_slot_pack(lap, gm_low(job->n), gm_low(job->address[0]), gm_high(job->address[0]));
    case 3:
        return gm_slot_pack(lap, gm_low(job->address[1]), gm_high(job->address[1]), gm_low(job->address[2]));
    case 4:
        return gm_slot_pack(lap, gm_high(job->address[2]), gm_low(job->value[0]), gm_high(job->value[0]));
    case 5:
        return gm_slot_pack(lap, gm_low(job->value[1]), gm_high(job->value[1]), gm_low(job->start_ns));
    case 6:
        return gm_slot_pack(lap, gm_high(job->start_ns), gm_low(job->completion), gm_high(job->completion));
    default:
        return gm_slot_pack(lap, job->bins, (uint32_t)job->tile_elements, (uint32_t)job->workspace_bytes);
    }
}

/* Which payload word is a word of gm_job, or where else it comes from. */
GM_HD uint32_t gm_slot_source(uint32_t job_word)
{
    switch (job_word) {
    case GM_JOB_WORD(op):
        return GM_S_OP;
    case GM_JOB_WORD(lane):
        return GM_S_LANE;
    case GM_JOB_WORD(n):
        return GM_S_N;
    case GM_JOB_WORD(position):
    case GM_JOB_WORD(position) + 1u:
        return GM_S_POSITION + job_word - GM_JOB_WORD(position);
    case GM_JOB_WORD(workspace):
        return GM_S_SCRATCH_LOW;
    case GM_JOB_WORD(workspace) + 1u:
        return GM_S_SCRATCH_HIGH;
    case GM_JOB_WORD(workspace_bytes):
        return GM_S_WORKSPACE;
    case GM_JOB_WORD(start_ns):
    case GM_JOB_WORD(start_ns) + 1u:
        return GM_S_START + job_word - GM_JOB_WORD(start_ns);
    case GM_JOB_WORD(completion):
    case GM_JOB_WORD(completion) + 1u:
        return GM_S_COMPLETION + job_word - GM_JOB_WORD(completion);
    case GM_JOB_WORD(bins):
        return GM_S_BINS;
    case GM_JOB_WORD(marks):
        return GM_S_MARKS;
    case GM_JOB_WORD(phase):
        return GM_S_PHASES;
    case GM_JOB_WORD(shares):
        return GM_S_ONE;
    case GM_JOB_WORD(tiles):
        return GM_S_TILES;
    case GM_JOB_WORD(tile_elements):
        return GM_S_TILE;
    default:
        if (job_word - GM_JOB_WORD(address) < 2u * GM_BUFFERS_MAX)
            return GM_S_ADDRESS + job_word - GM_JOB_WORD(address);
        if (job_word - GM_JOB_WORD(value) < 4u)
            return GM_S_VALUE + job_word - GM_JOB_WORD(value);
        return GM_S_ZERO; /* upper halves */
    }
}

/* What one look at a slot brought: on a GPU a granule for each SIMT lane (the eight repeat), else all. */
#define GM_DRAWN_ROUNDS (GM_WARP > 1u ? 1u : GM_SLOT_GRANULES)
struct gm_drawn {
    struct gm_granule g[GM_DRAWN_ROUNDS];
    uint32_t word; /* the ticket */
};

/* A word of the job that lies in the slot, where it is no word of the slot. byte: what lies above its marks. */
GM_DEV uint32_t gm_drawn_other(const struct gm_core *core, uint32_t ticket_word, uint32_t source, uint32_t byte)
{
    const uint64_t scratch = (uint64_t)(uintptr_t)core->scratch +
                             (uint64_t)gm_ticket_entry(ticket_word) * GM_ENTRY_SCRATCH;
    /* Selected, not branched to: on a GPU every SIMT lane has another source. */
    uint32_t word = source == GM_S_ONE ? 1u : source == GM_S_PHASES ? 1u << 8 | byte >> 1 << 16 : 0u;
    word = source == GM_S_TILES ? byte & 1u : word;
    word = source == GM_S_SCRATCH_LOW ? gm_low(scratch) : word;
    return source == GM_S_SCRATCH_HIGH ? gm_high(scratch) : word;
}
static_assert(offsetof(struct gm_job, phases) == offsetof(struct gm_job, phase) + 1u &&
                  offsetof(struct gm_job, type2) == offsetof(struct gm_job, phase) + 2u && GM_DTYPE_COUNT <= 128,
              "the first of one phase, and the type: what GM_S_PHASES sets");

#ifdef __CUDACC__
/* Which words of gm_job a SIMT lane of a GPU writes from what it has of a slot: the first eight the words of their
 * granule, others one that is not in the slot. */
struct gm_slot_way {
    uint32_t to[3];  /* word of gm_job, or GM_JOB_WORDS: none */
    uint32_t source; /* of the word of a lane without a granule: gm_slot_source */
};
GM_DEV struct gm_slot_way gm_slot_way(uint32_t lane)
{
    struct gm_slot_way way = {{GM_JOB_WORDS, GM_JOB_WORDS, GM_JOB_WORDS}, GM_S_ZERO};
    uint32_t next = GM_SLOT_GRANULES;
    for (uint32_t word = 0; word < GM_JOB_WORDS; word++) {
        const uint32_t source = gm_slot_source(word);
        for (uint32_t k = 0; k < 3u; k++)
            if (source < GM_SLOT_WORDS && source == lane * 3u + k)
                way.to[k] = word;
        if (source >= GM_SLOT_WORDS && next++ == lane) {
            way.to[0] = word;
            way.source = source;
        }
    }
    return way;
}

/* Writes the job that lies in the slot. Whole warp. */
GM_DEV void gm_drawn_store(const struct gm_core *core, const struct gm_drawn *drawn, struct gm_slot_way way,
                           uint32_t *job)
{
    const struct gm_granule g = drawn->g[0];
    const uint32_t marks = gm_shfl_u32(g.w[GM_S_MARKS % 3u], GM_S_MARKS / 3u);
    const bool granule = gm_lane_id() < GM_SLOT_GRANULES;
    const uint32_t other = gm_drawn_other(core, drawn->word, way.source, marks >> 24);
    if (way.to[0] < GM_JOB_WORDS)
        job[way.to[0]] = granule ? g.w[0] : other;
    if (way.to[1] < GM_JOB_WORDS)
        job[way.to[1]] = g.w[1];
    if (way.to[2] < GM_JOB_WORDS)
        job[way.to[2]] = g.w[2];
}
static_assert(GM_WARP - GM_SLOT_GRANULES >= GM_JOB_WORDS - (GM_SLOT_WORDS - 1u), "a lane for each other word");
#else
/* The job that lies in the slot. */
GM_DEV struct gm_job gm_drawn_job(const struct gm_core *core, const struct gm_drawn *drawn)
{
    union {
        struct gm_job job;
        uint32_t word[GM_JOB_WORDS];
    } u;
    const uint32_t byte = drawn->g[GM_S_MARKS / 3u].w[GM_S_MARKS % 3u] >> 24;
    for (uint32_t i = 0; i < GM_JOB_WORDS; i++) {
        const uint32_t source = gm_slot_source(i);
        u.word[i] = source < GM_SLOT_WORDS ? drawn->g[source / 3u].w[source % 3u]
                                           : gm_drawn_other(core, drawn->word, source, byte);
    }
    return u.job;
}
#endif

#endif
