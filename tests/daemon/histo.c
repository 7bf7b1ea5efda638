/* SPDX-License-Identifier: Apache-2.0
 *
 * The time histogram against an exact sort. Single thread.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "histo.h"

#define SAMPLES 20000u

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void quantiles_are_within_an_eighth_of_the_exact_ones(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 100, 500, 900, 990, 999, 1000};
    static uint64_t samples[SAMPLES];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t random = seed * 7919;
        struct gm_histo histo;
        memset(&histo, 0, sizeof histo);
        const uint32_t count = 1u + (uint32_t)(unit_random(&random) % SAMPLES);
        for (uint32_t i = 0; i < count; i++) {
            /* Every magnitude that the buckets cover. */
            samples[i] = unit_random(&random) >> (28u + unit_random(&random) % 36u);
            gm_histo_add(&histo, samples[i]);
        }
        qsort(samples, count, sizeof samples[0], ascending);
        assert_int_equal(histo.count, count);
        assert_int_equal(histo.max, samples[count - 1]);
        for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
            const uint64_t rank = ((uint64_t)count * ranks[r] + 999u) / 1000u;
            const uint64_t exact = samples[rank == 0 ? 0 : rank - 1], got = gm_histo_quantile(&histo, ranks[r]);
            if (got < exact || got > (exact < 128 ? 127 : exact + exact / 8))
                fail_msg("seed %d: p%u is %llu, exactly %llu", (int)seed, ranks[r], (unsigned long long)got,
                         (unsigned long long)exact);
        }
    }
}

static void every_value_is_at_most_its_bucket_bound(void **state)
{
    (void)state;
    uint64_t random = 99;
    for (uint32_t i = 0; i < 100000; i++) {
        struct gm_histo histo;
        memset(&histo, 0, sizeof histo);
        const uint64_t ns = unit_random(&random) >> (unit_random(&random) % 64u);
        gm_histo_add(&histo, ns);
        uint32_t at = 0;
        while (histo.bucket[at] == 0)
            at++;
        assert_true(ns <= gm_histo_upper(at));
        assert_true(at == 0 || ns > gm_histo_upper(at - 1));
    }
}

static void extremes_have_buckets(void **state)
{
    (void)state;
    struct gm_histo histo;
    memset(&histo, 0, sizeof histo);
    assert_int_equal(gm_histo_quantile(&histo, 500), 0);
    gm_histo_add(&histo, 0);
    assert_int_equal(gm_histo_quantile(&histo, 999), 0);
    gm_histo_add(&histo, UINT64_MAX);
    assert_int_equal(histo.bucket[0], 1);
    assert_int_equal(histo.bucket[GM_HISTO_BUCKETS - 1], 1);
    assert_true(gm_histo_quantile(&histo, 1000) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_an_eighth_of_the_exact_ones),
        cmocka_unit_test(every_value_is_at_most_its_bucket_bound),
        cmocka_unit_test(extremes_have_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
