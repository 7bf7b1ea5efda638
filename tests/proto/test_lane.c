/* SPDX-License-Identifier: Apache-2.0
 *
 * The lane's layout: laps and slots across the wrap of 32 bits, descriptors of both widths, completions of every
 * error, and times within a thousandth. One thread, private memory.
 */
#include "message.h"

#include "lane.h"

static void laps_wrap_and_never_skip(void **state)
{
    (void)state;
    for (uint32_t log2 = 1; log2 <= 12; log2++) {
        const uint64_t slots = UINT64_C(1) << log2;
        assert_int_equal(gm_lap(0, log2), 1);
        assert_int_equal(gm_lap(slots - 1, log2), 1);
        assert_int_equal(gm_lap(slots, log2), 2);
        /* The last lap before the wrap, the lap that is zero, and the first after it. */
        const uint64_t zero = UINT64_C(0xffffffff) << log2;
        assert_int_equal(gm_lap(zero - 1, log2), UINT32_MAX);
        assert_int_equal(gm_lap(zero, log2), 0);
        assert_int_equal(gm_lap(zero + slots - 1, log2), 0);
        assert_int_equal(gm_lap(zero + slots, log2), 1);
        /* One slot sees a new lap each time it comes round. */
        for (uint64_t position = zero - 3 * slots + 1; position < zero + 3 * slots; position += slots)
            assert_int_equal(gm_lap(position + slots, log2) - gm_lap(position, log2), 1);
    }
    assert_int_equal(gm_lap(UINT64_MAX, 12), (uint32_t)(UINT64_MAX >> 12) + 1u);
}

static void fill_words(uint32_t *words, uint64_t seed)
{
    for (uint32_t i = 0; i < GM_DESC_WORDS; i++)
        words[i] = (uint32_t)((seed + i) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static void expect_half(const struct gm_desc_slot *slot, const uint32_t *words, uint32_t lap)
{
    for (uint32_t i = 0; i < 4; i++) {
        const struct gm_granule g = gm_load16_sys(&slot->g[i]);
        assert_int_equal(g.w[3], lap);
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(g.w[k], words[3 * i + k]);
    }
}

static void a_wide_descriptor_may_lie_across_the_edge(void **state)
{
    (void)state;
    static const uint64_t bases[] = {0, UINT64_C(0xffffffff) << 2, UINT64_C(0xfffffffe) << 2};
    _Alignas(64) struct gm_desc_slot ring[4];
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++) {
        for (uint64_t position = bases[b]; position < bases[b] + 8; position++) {
            uint32_t words[GM_DESC_WORDS];
            memset(ring, 0xff, sizeof ring);
            fill_words(words, position);
            gm_desc_store(ring, 2, position, words, 0);
            gm_desc_store(ring, 2, position + 1, words, 1);
            expect_half(&ring[position % 4], words, gm_lap(position, 2));
            expect_half(&ring[(position + 1) % 4], words + 12, gm_lap(position + 1, 2));
            for (uint32_t other = 2; other < 4; other++) {
                static const uint8_t untouched[64] = {[0 ... 63] = 0xff};
                assert_memory_equal(&ring[(position + other) % 4], untouched, 64);
            }
        }
    }
}

static void zeros_and_ones_are_payload_like_any_other(void **state)
{
    (void)state;
    _Alignas(64) struct gm_desc_slot ring[2];
    uint32_t words[GM_DESC_WORDS];
    for (uint32_t ones = 0; ones < 2; ones++) {
        memset(ring, 0, sizeof ring);
        memset(words, ones ? 0xff : 0, sizeof words);
        for (uint64_t position = 0; position < 6; position++) {
            const uint32_t before = gm_load16_sys(&ring[position & 1].g[0]).w[3];
            assert_int_not_equal(before, gm_lap(position, 1)); /* empty: another lap */
            gm_desc_store(ring, 1, position, words, 0);
            expect_half(&ring[position & 1], words, gm_lap(position, 1));
        }
    }
}

static void words_of_64_bits_have_the_low_half_first(void **state)
{
    (void)state;
    uint32_t words[GM_DESC_WORDS] = {0};
    gm_desc_put64(words, GM_W_N, UINT64_C(0x1122334455667788));
    assert_int_equal(words[GM_W_N], 0x55667788u);
    assert_int_equal(words[GM_W_N + 1], 0x11223344u);
    assert_true(gm_desc_get64(words, GM_W_N) == UINT64_C(0x1122334455667788));
    assert_true(GM_W_N + 1 < GM_W_ARENA1 && GM_W_OFFSET0 + 1 < GM_W_N && GM_W_OFFSET1 + 1 < GM_W_COUNT);
    assert_true(GM_W_WIDE == 12 && GM_W_VALUE0 + 1 < GM_W_VALUE1 && GM_W_VALUE1 + 1 < GM_W_ARENA2);
}

static void a_completion_carries_every_error(void **state)
{
    (void)state;
    static const uint64_t results[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(0x00000000ffffffff)};
    static const uint64_t times[] = {0, 1023, 1024, 123456789, UINT64_MAX};
    for (int status = 0; status > -GM_ERRORS_MAX; status--) {
        for (size_t r = 0; r < sizeof results / sizeof results[0]; r++) {
            for (size_t t = 0; t < sizeof times / sizeof times[0]; t++) {
                const struct gm_granule g = gm_completion(results[r], status, times[t], 0xdeadbeefu);
                assert_int_equal(gm_completion_status(g), status);
                assert_true(gm_completion_result(g) == results[r]);
                assert_true(gm_completion_run_ns(g) == gm_time_decode(gm_time_encode(times[t])));
                assert_int_equal(g.w[3], 0xdeadbeefu);
            }
        }
    }
}

static void expect_time(uint64_t ns)
{
    const uint32_t code = gm_time_encode(ns);
    const uint64_t back = gm_time_decode(code);
    assert_true(code <= 0xffffu);
    assert_true(back <= ns);
    assert_true(ns < 1024 ? back == ns : (ns - back) < ns / 1000);
}

static void times_are_right_to_a_thousandth(void **state)
{
    (void)state;
    uint32_t previous = 0;
    for (uint64_t ns = 0; ns < 5000; ns++) {
        expect_time(ns);
        assert_true(gm_time_encode(ns) >= previous);
        previous = gm_time_encode(ns);
    }
    for (uint32_t bit = 10; bit < 64; bit++) {
        const uint64_t power = UINT64_C(1) << bit;
        uint64_t random = power;
        assert_true(gm_time_decode(gm_time_encode(power)) == power);
        for (uint32_t i = 0; i < 1000; i++) {
            expect_time(power - 1 - i % 7);
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            expect_time(power | (random & (power - 1)));
        }
    }
    expect_time(UINT64_MAX);
    for (uint32_t code = 0; code < 55u << 10; code++) /* every code that encode can give */
        assert_int_equal(gm_time_encode(gm_time_decode(code)), code);
}

static void rings_begin_and_end_on_pages(void **state)
{
    (void)state;
    for (uint32_t slots = GM_LANE_SLOTS_MIN; slots <= GM_LANE_SLOTS_MAX; slots *= 2) {
        assert_int_equal(gm_lane_sq_offset(), 4096);
        assert_int_equal(gm_lane_cq_offset(slots) % 4096, 0);
        assert_int_equal(gm_lane_bytes(slots) % 4096, 0);
        assert_true(gm_lane_cq_offset(slots) >= gm_lane_sq_offset() + slots * sizeof(struct gm_desc_slot));
        assert_true(gm_lane_bytes(slots) >= gm_lane_cq_offset(slots) + slots * sizeof(struct gm_granule));
    }
    assert_int_equal(gm_lane_bytes(2), 3 * 4096);
    assert_int_equal(gm_lane_bytes(4096), 4096 + 4096 * 64 + 4096 * 16);
}

static void handles_split_and_join(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i += 257) {
        const uint32_t handle = gm_handle(i, 65535 - i);
        assert_int_equal(gm_handle_index(handle), i);
        assert_int_equal(gm_handle_generation(handle), 65535 - i);
    }
    assert_int_equal(gm_handle(0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(laps_wrap_and_never_skip),
        cmocka_unit_test(a_wide_descriptor_may_lie_across_the_edge),
        cmocka_unit_test(zeros_and_ones_are_payload_like_any_other),
        cmocka_unit_test(words_of_64_bits_have_the_low_half_first),
        cmocka_unit_test(a_completion_carries_every_error),
        cmocka_unit_test(times_are_right_to_a_thousandth),
        cmocka_unit_test(rings_begin_and_end_on_pages),
        cmocka_unit_test(handles_split_and_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
