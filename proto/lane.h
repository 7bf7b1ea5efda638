/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout of a lane: one piece of shared memory between one client and one device, holding a header page, a
 * submission ring and a completion ring with the same number of slots. Layout only; who may write what:
 *
 *   header.identity   gridmilld, before anybody else maps it
 *   header.state      gridmilld; clients read
 *   header.asleep     the dispatcher; the client reads it after publishing (store-load fence) and then rings
 *   header.wait       the client, as one granule; the dispatcher reads
 *   submission slots  the client; the dispatcher reads each granule once
 *   completion slots  workers and the dispatcher; the client reads
 *
 * A position is a free-running 64-bit number; slot = position mod slots; lap = position / slots + 1 (32 bits,
 * wrapping). Every granule carries its lap, so memory of zeros is empty, no payload value is special, and nobody
 * clears a slot. A client reuses a slot only after it has read that slot's completion.
 */
#ifndef GM_PROTO_LANE_H
#define GM_PROTO_LANE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"
#include "limits.h"

#define GM_LANE_MAGIC 0x4c4d4721u /* "!GML" */

enum gm_lane_state {
    GM_LANE_OPEN = 1,
    GM_LANE_RECOVERING = 2, /* the device process is being replaced; queued jobs wait */
    GM_LANE_LOST = 3,       /* the device is out of service */
    GM_LANE_CLOSED = 4,     /* closed by the daemon; reason says why */
};

/* Words of a descriptor. The first half has 12 payload words, three to a granule; a wide descriptor takes the next
 * slot too (its completion slot stays unused) and has 12 more. Unused words are zero. 64-bit values: low word first. */
enum gm_desc_word {
    GM_W_OP = 0,       /* op | dtype << 16 | flags << 24 */
    GM_W_SESSION = 1,  /* lane 0 only: the session whose arenas the job may touch; zero elsewhere */
    GM_W_ARENA0 = 2,   /* buffer 0: arena handle */
    GM_W_OFFSET0 = 3,  /* and 4: byte offset */
    GM_W_N = 5,        /* and 6: elements */
    GM_W_ARENA1 = 7,   /* buffer 1 */
    GM_W_OFFSET1 = 8,  /* and 9 */
    GM_W_COUNT = 10,   /* an argument of 32 bits: bins of a histogram */
    GM_W_MORE = 11,    /* an argument of 24 bits, and above it the second element type */
    GM_W_WIDE = 12,    /* GM_DESC_WIDE_MARK in the op field */
    GM_W_VALUE0 = 13,  /* and 14: an argument of 64 bits, as ops.def says: bits of an element or an f64, or a number */
    GM_W_VALUE1 = 15,  /* and 16 */
    GM_W_ARENA2 = 17,  /* buffer 2 */
    GM_W_OFFSET2 = 18, /* and 19 */
    GM_W_VALUE2 = 20,  /* and 21 */
    GM_W_VALUE3 = 22,  /* and 23 */
    GM_DESC_WORDS = 24
};

#define GM_DESC_WIDE_MARK 0xffffu

/* In the op field: a slot that carries no job and gets no completion. The client writes it where the last job of the
 * slot is not answered yet, so that one long job does not hold up everything a lap behind it; the completion slot stays
 * that job's. Only on devices that say GM_HELLO_SKIP, and never over a descriptor that was not read yet. */
#define GM_DESC_SKIP_MARK 0xfffeu

enum gm_desc_flag {
    GM_FLAG_WIDE = 1,       /* the next slot belongs to this descriptor */
    GM_FLAG_DESCENDING = 2, /* sort */
    GM_FLAG_EXCLUSIVE = 4,  /* scan */
    GM_FLAGS_KNOWN = 7
};

struct gm_desc_slot {
    struct gm_granule g[4];
};
static_assert(sizeof(struct gm_granule) == 16, "one access");
static_assert(sizeof(struct gm_desc_slot) == 64, "one PCIe read of a cache line");

/* Completion granule: w[0], w[1] result bits; w[2] status as 16-bit two's complement | run time code << 16
 * (gm_time_decode); w[3] lap. */
static_assert(GM_LANE_SLOTS_MAX * 16u % 4096u == 0, "completion rings end on a page");

struct gm_lane_header {
    /* line 0: identity, constant after creation */
    uint32_t magic, version;
    uint32_t slots, slots_log2;
    uint64_t generation;
    uint64_t start; /* first position */
    uint8_t identity_pad[96];
    /* line 1: state */
    uint32_t state;
    int32_t reason; /* an error number when closed or lost */
    uint8_t state_pad[120];
    /* line 2: the dispatcher's word */
    uint32_t asleep;
    uint8_t asleep_pad[124];
    /* line 3: the client's granule: w[0], w[1] completions reaped so far (low word first), w[2] 1 while it sleeps and
     * wants to be woken when more than that are complete */
    struct gm_granule wait;
    uint8_t wait_pad[112];
    uint8_t page_pad[4096 - 4 * 128];
};
static_assert(offsetof(struct gm_lane_header, state) == 128, "writers on lines of their own");
static_assert(offsetof(struct gm_lane_header, asleep) == 256, "writers on lines of their own");
static_assert(offsetof(struct gm_lane_header, wait) == 384, "writers on lines of their own");
static_assert(sizeof(struct gm_lane_header) == 4096, "rings start on a page");

GM_HD uint64_t gm_lane_sq_offset(void) { return sizeof(struct gm_lane_header); }
GM_HD uint64_t gm_lane_cq_offset(uint32_t slots)
{
    return (gm_lane_sq_offset() + (uint64_t)slots * sizeof(struct gm_desc_slot) + 4095u) & ~(uint64_t)4095u;
}
GM_HD uint64_t gm_lane_bytes(uint32_t slots)
{
    return (gm_lane_cq_offset(slots) + (uint64_t)slots * sizeof(struct gm_granule) + 4095u) & ~(uint64_t)4095u;
}
GM_HD uint32_t gm_lap(uint64_t position, uint32_t slots_log2) { return (uint32_t)(position >> slots_log2) + 1u; }

/* Arena handle: index | generation << 16. Generation 0 is never used, so handle 0 names nothing. */
GM_HD uint32_t gm_handle(uint32_t index, uint32_t generation) { return index | generation << 16; }
GM_HD uint32_t gm_handle_index(uint32_t handle) { return handle & 0xffffu; }
GM_HD uint32_t gm_handle_generation(uint32_t handle) { return handle >> 16; }
static_assert(GM_ARENAS_MAX <= 65536, "an index has 16 bits");

/* 16-bit code of a time in nanoseconds: exact below 1024, then 6 bits of exponent and 10 of fraction (0.1 %). */
GM_HD uint32_t gm_time_encode(uint64_t ns)
{
#ifdef __CUDA_ARCH__
    const uint32_t bits = 64u - (uint32_t)__clzll((long long)(ns | 1u));
#else
    const uint32_t bits = 64u - (uint32_t)__builtin_clzll(ns | 1u);
#endif
    const uint32_t e = bits > 11u ? bits - 11u : 0; /* ns >> e has eleven bits, of which the first is implied */
    return ns < 1024u ? (uint32_t)ns : (e + 1u) << 10 | ((uint32_t)(ns >> e) & 1023u);
}
GM_HD uint64_t gm_time_decode(uint32_t code)
{
    const uint32_t e = code >> 10;
    return e == 0 ? code : (uint64_t)(1024u + (code & 1023u)) << (e - 1u);
}

GM_HD struct gm_granule gm_completion(uint64_t result, int32_t status, uint64_t run_ns, uint32_t lap)
{
    const struct gm_granule g = {{(uint32_t)result, (uint32_t)(result >> 32),
                                  ((uint32_t)status & 0xffffu) | gm_time_encode(run_ns) << 16, lap}};
    return g;
}
GM_HD uint64_t gm_completion_result(struct gm_granule g) { return g.w[0] | (uint64_t)g.w[1] << 32; }
GM_HD int32_t gm_completion_status(struct gm_granule g) { return (int16_t)(uint16_t)(g.w[2] & 0xffffu); }
GM_HD uint64_t gm_completion_run_ns(struct gm_granule g) { return gm_time_decode(g.w[2] >> 16); }

GM_HD void gm_desc_put64(uint32_t *words, uint32_t at, uint64_t v)
{
    words[at] = (uint32_t)v, words[at + 1] = (uint32_t)(v >> 32);
}
GM_HD uint64_t gm_desc_get64(const uint32_t *words, uint32_t at)
{
    return words[at] | (uint64_t)words[at + 1] << 32;
}

/* Writes the descriptor at a position, payload and laps together, granule by granule. The caller owns the slot (it
 * has read the completion of the lap before). half 1 is the second slot of a wide descriptor. */
GM_HD void gm_desc_store(struct gm_desc_slot *ring, uint32_t slots_log2, uint64_t position, const uint32_t *words,
                         uint32_t half)
{
    struct gm_desc_slot *slot = &ring[position & ((UINT64_C(1) << slots_log2) - 1u)];
    const uint32_t lap = gm_lap(position, slots_log2);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t *w = &words[half * 12u + i * 3u];
        const struct gm_granule g = {{w[0], w[1], w[2], lap}};
        gm_store16_sys(&slot->g[i], g);
    }
}

#endif
