/* SPDX-License-Identifier: Apache-2.0
 *
 * The workspace pool against a bitmap that says which units are taken. One thread; pools of up to 4096 units.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define UNITS_MAX 4096u

struct pool {
    struct gm_disp *d;
    uint32_t units;
    uint8_t taken[UNITS_MAX];
    struct {
        uint64_t offset, bytes;
    } held[GM_WORKSPACE_PIECES];
    uint32_t holding;
};

static void pool_open(struct pool *pool, uint64_t bytes)
{
    memset(pool, 0, sizeof *pool);
    pool->d = calloc(1, sizeof *pool->d);
    assert_non_null(pool->d);
    pool->units = (uint32_t)(bytes / GM_WORKSPACE_ALIGN);
    gm_workspace_init(pool->d, bytes);
}

/* The list says what the bitmap says: sorted, in pieces that do not touch, not empty. */
static void assert_list_is_the_bitmap(const struct pool *pool)
{
    uint32_t at = 0, reserved = 0;
    for (uint32_t i = 0; i < pool->d->pieces; i++) {
        const struct gm_piece p = pool->d->piece[i];
        assert_true(p.count > 0 && p.start >= at && p.start + p.count <= pool->units);
        assert_true(i == 0 || p.start > at);
        for (; at < p.start; at++)
            assert_true(pool->taken[at]);
        for (; at < p.start + p.count; at++)
            assert_false(pool->taken[at]);
    }
    for (; at < pool->units; at++)
        assert_true(pool->taken[at]);
    for (uint32_t i = 0; i < pool->units; i++)
        reserved += pool->taken[i];
    assert_int_equal(pool->d->counters.workspace, (uint64_t)reserved * GM_WORKSPACE_ALIGN);
    assert_int_equal(pool->d->pieces_out, pool->holding);
}

/* Where the first run of free units is that is long enough; units when there is none. */
static uint32_t first_fit(const struct pool *pool, uint32_t need)
{
    for (uint32_t at = 0, run = 0; at < pool->units; at++) {
        run = pool->taken[at] ? 0 : run + 1u;
        if (run == need)
            return at + 1u - need;
    }
    return pool->units;
}

static bool take(struct pool *pool, uint64_t bytes)
{
    const uint32_t need = gm_workspace_units(bytes), expected = first_fit(pool, need);
    const bool full = pool->holding + 1u >= GM_WORKSPACE_PIECES;
    uint64_t offset = UINT64_MAX;
    const bool got = gm_workspace_take(pool->d, bytes, &offset);
    assert_int_equal(got, expected < pool->units && !full);
    if (!got)
        return false;
    assert_int_equal(offset, (uint64_t)expected * GM_WORKSPACE_ALIGN);
    memset(&pool->taken[expected], 1, need);
    pool->held[pool->holding].offset = offset;
    pool->held[pool->holding++].bytes = bytes;
    return true;
}

static void give(struct pool *pool, uint32_t which)
{
    const uint64_t offset = pool->held[which].offset, bytes = pool->held[which].bytes;
    memset(&pool->taken[offset / GM_WORKSPACE_ALIGN], 0, gm_workspace_units(bytes));
    pool->held[which] = pool->held[--pool->holding];
    gm_workspace_give(pool->d, offset, bytes);
}

static void pool_agrees_with_a_bitmap(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static struct pool pool;
        uint64_t random = seed;
        pool_open(&pool, (1u + rig_random(&random) % 500u) * GM_WORKSPACE_ALIGN + rig_random(&random) % 4096u);
        for (uint32_t step = 0; step < 2000; step++) {
            const uint64_t bytes = 1u + rig_random(&random) % ((1u + rig_random(&random) % 40u) * GM_WORKSPACE_ALIGN);
            if (pool.holding != 0 && (rig_random(&random) % 5u < 2u || !take(&pool, bytes)))
                give(&pool, (uint32_t)(rig_random(&random) % pool.holding));
            else if (pool.holding == 0)
                take(&pool, bytes);
            assert_list_is_the_bitmap(&pool);
        }
        while (pool.holding != 0)
            give(&pool, (uint32_t)(rig_random(&random) % pool.holding));
        assert_list_is_the_bitmap(&pool);
        assert_int_equal(pool.d->pieces, 1);
        free(pool.d);
    }
}

static void list_never_overflows(void **state)
{
    (void)state;
    static struct pool pool;
    pool_open(&pool, (uint64_t)UNITS_MAX * GM_WORKSPACE_ALIGN);
    while (take(&pool, 1)) {
    }
    assert_int_equal(pool.holding, GM_WORKSPACE_PIECES - 1u); /* memory is left, places in the list are not */
    /* Every second one back: as many free pieces as there can be. */
    for (uint32_t unit = 0; unit < GM_WORKSPACE_PIECES - 1u; unit += 2)
        for (uint32_t i = 0; i < pool.holding; i++)
            if (pool.held[i].offset == (uint64_t)unit * GM_WORKSPACE_ALIGN) {
                give(&pool, i);
                assert_list_is_the_bitmap(&pool);
                break;
            }
    assert_true(pool.d->pieces <= GM_WORKSPACE_PIECES && pool.d->pieces == GM_WORKSPACE_PIECES / 2u);
    while (pool.holding != 0)
        give(&pool, 0);
    assert_int_equal(pool.d->pieces, 1);
    assert_int_equal(pool.d->counters.workspace, 0);
    free(pool.d);
}

static void pool_smaller_than_a_unit_is_empty(void **state)
{
    (void)state;
    static struct pool pool;
    uint64_t offset;
    pool_open(&pool, GM_WORKSPACE_ALIGN - 1u);
    assert_int_equal(pool.d->pieces, 0);
    assert_false(gm_workspace_take(pool.d, 1, &offset));
    free(pool.d);
}

/* check compares with workspace_bytes; what it lets through has to fit the empty pool, or its lane waits for ever. */
static void what_check_lets_through_fits_the_empty_pool(void **state)
{
    (void)state;
    for (uint64_t bytes = 3u * GM_WORKSPACE_ALIGN - 2u; bytes <= 3u * GM_WORKSPACE_ALIGN + 2u; bytes++) {
        const struct gm_core_shape shape = {
            .tickets_log2 = 4, .entries_log2 = 2, .workers = 2, .workspace_bytes = bytes};
        struct rig rig;
        uint64_t offset;
        rig_open(&rig, &shape);
        assert_true(rig.core->workspace_bytes <= bytes);
        assert_true(gm_workspace_take(rig.d, rig.core->workspace_bytes, &offset));
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_agrees_with_a_bitmap),
        cmocka_unit_test(list_never_overflows),
        cmocka_unit_test(pool_smaller_than_a_unit_is_empty),
        cmocka_unit_test(what_check_lets_through_fits_the_empty_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
