/* SPDX-License-Identifier: Apache-2.0
 *
 * See bulk.h. The word of an mbarrier: parity of the phase, arrivals of a phase, arrivals that this one still lacks,
 * bytes that it still lacks.
 */
#include "bulk.h"

#include <string.h>

#include "collectives.h"

#define COPIES 64u
#define SPOILT 0xdb

struct bar {
    uint64_t parity : 1, count : 15, pending : 15, bytes : 33;
};
static_assert(sizeof(struct bar) == sizeof(uint64_t), "one word");

static struct {
    uint8_t *to;
    const uint8_t *from;
    uint32_t bytes;
    uint64_t *bar;
} copies[COPIES];
static uint32_t count_of_copies;

static struct bar read_bar(const uint64_t *word)
{
    struct bar b;
    if ((uintptr_t)word % 8u != 0)
        gm_simt_fail("an mbarrier is not aligned");
    memcpy(&b, word, sizeof b);
    return b;
}

/* A phase that lacks nothing is over, and the next one begins. */
static void write_bar(uint64_t *word, struct bar b)
{
    if (b.pending == 0 && b.bytes == 0) {
        b.parity ^= 1u;
        b.pending = b.count;
    }
    memcpy(word, &b, sizeof b);
}

void gm_simt_mbarrier_init(uint64_t *word, uint32_t count)
{
    const struct bar b = {0, count, count, 0};
    memcpy(word, &b, sizeof b);
}

uint64_t gm_simt_mbarrier_arrive(uint64_t *word, uint32_t expect)
{
    const uint64_t before = *word;
    struct bar b = read_bar(word);
    if (b.pending == 0)
        gm_simt_fail("arrives at an mbarrier where %u have arrived, which is all", (unsigned)b.count);
    b.pending--;
    b.bytes += expect;
    write_bar(word, b);
    return before;
}

static void make_copies(const uint64_t *word)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_of_copies; i++) {
        if (copies[i].bar != word) {
            copies[kept++] = copies[i];
            continue;
        }
        struct bar b = read_bar(word);
        gm_simt_copy(copies[i].to, copies[i].from, copies[i].bytes);
        if (b.bytes < copies[i].bytes)
            gm_simt_fail("a bulk copy of %u bytes completes on an mbarrier that expects %llu", copies[i].bytes,
                         (unsigned long long)b.bytes);
        b.bytes -= copies[i].bytes;
        write_bar(copies[i].bar, b);
    }
    count_of_copies = kept;
}

bool gm_simt_mbarrier_try_wait(uint64_t *word, uint32_t parity)
{
    if (read_bar(word).parity != (parity & 1u))
        return true;
    gm_simt_poll();
    if (read_bar(word).parity == (parity & 1u))
        make_copies(word);
    return read_bar(word).parity != (parity & 1u);
}

/* Whole granules; the first and the last may hold bytes that are nobody's beside some that are wanted. */
static void look_at(const uint8_t *from, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += 16u) {
        bool any = false, all = true;
        for (uint32_t i = 0; i < 16u; i++) {
            const bool good = gm_simt_readable(from + at + i, 1);
            any = any || good;
            all = all && good;
        }
        if (!any || (!all && at != 0 && at + 16u != bytes))
            gm_simt_bad_access(from + at, 16, "lies outside, in a bulk copy");
    }
}

void gm_simt_bulk_copy(void *to, const void *from, uint32_t bytes, uint64_t *bar)
{
    if (bytes == 0 || bytes % 16u != 0 || (uintptr_t)to % 16u != 0 || (uintptr_t)from % 16u != 0)
        gm_simt_fail("a bulk copy of %u bytes from %p to %p is not in whole granules", bytes, from, to);
    if (count_of_copies == COPIES)
        gm_simt_fail("more than %u bulk copies are in flight", COPIES);
    look_at((const uint8_t *)from, bytes);
    memset(to, SPOILT, bytes);
    copies[count_of_copies].to = (uint8_t *)to;
    copies[count_of_copies].from = (const uint8_t *)from;
    copies[count_of_copies].bytes = bytes;
    copies[count_of_copies++].bar = bar;
}

uint32_t gm_simt_bulk_left(void)
{
    const uint32_t left = count_of_copies;
    count_of_copies = 0;
    return left;
}
