/* SPDX-License-Identifier: Apache-2.0
 *
 * The staging allocator against a map of owners: random sizes, random order, everything comes back. Single thread.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "staging.h"

#define BLOCKS_MAX 4096u
#define UNIT (1u << GM_STAGING_BLOCK_LOG2)

static struct gm_staging staging;
static uint16_t owner[GM_STAGING_BLOCKS];

static struct {
    uint32_t offset, bytes;
} held[BLOCKS_MAX];

static void mark(uint32_t offset, uint32_t bytes, uint16_t from, uint16_t to)
{
    for (uint32_t unit = offset / UNIT; unit < (offset + bytes + UNIT - 1) / UNIT; unit++) {
        assert_int_equal(owner[unit], from);
        owner[unit] = to;
    }
}

static void blocks_never_overlap_and_all_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint64_t random = seed;
        uint32_t count = 0;
        gm_staging_init(&staging);
        memset(owner, 0, sizeof owner);
        for (uint32_t step = 0; step < 40000; step++) {
            if (count < BLOCKS_MAX && unit_random(&random) % 5u < 3u) {
                const uint32_t bytes = 1u + (uint32_t)(unit_random(&random) % (1u << (unit_random(&random) % 22u)));
                const uint32_t offset = gm_staging_alloc(&staging, bytes);
                if (offset == GM_STAGING_NONE)
                    continue;
                assert_int_equal(offset % 64u, 0);
                assert_true((uint64_t)offset + bytes <= GM_STAGING_BYTES);
                mark(offset, bytes, 0, 1);
                held[count].offset = offset, held[count++].bytes = bytes;
            } else if (count != 0) {
                const uint32_t i = (uint32_t)(unit_random(&random) % count);
                mark(held[i].offset, held[i].bytes, 1, 0);
                gm_staging_free(&staging, held[i].offset);
                held[i] = held[--count];
            }
        }
        while (count != 0)
            gm_staging_free(&staging, held[--count].offset);
        assert_int_equal(staging.used, 0);
        assert_int_equal(gm_staging_alloc(&staging, GM_STAGING_BYTES), 0); /* one piece again */
    }
}

static void full_arena_says_so_and_recovers(void **state)
{
    (void)state;
    gm_staging_init(&staging);
    uint32_t count = 0;
    while (gm_staging_alloc(&staging, 1) != GM_STAGING_NONE)
        count++;
    assert_int_equal(count, GM_STAGING_BLOCKS);
    assert_int_equal(gm_staging_alloc(&staging, 1), GM_STAGING_NONE);
    gm_staging_free(&staging, 5 * UNIT);
    assert_int_equal(gm_staging_alloc(&staging, UNIT), 5 * UNIT);
    assert_int_equal(staging.used, GM_STAGING_BYTES);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    gm_staging_init(&staging);
    assert_int_equal(gm_staging_alloc(&staging, (uint64_t)GM_STAGING_BYTES + 1), GM_STAGING_NONE);
    assert_int_equal(gm_staging_alloc(&staging, UINT64_MAX), GM_STAGING_NONE);
    assert_int_equal(gm_staging_charge(UINT64_MAX), 0);
    assert_int_equal(gm_staging_charge(1), UNIT);
    assert_int_equal(gm_staging_charge(UNIT + 1), 2 * UNIT);
    assert_int_equal(gm_staging_charge(GM_STAGING_BYTES), GM_STAGING_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_never_overlap_and_all_come_back),
        cmocka_unit_test(full_arena_says_so_and_recovers),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
