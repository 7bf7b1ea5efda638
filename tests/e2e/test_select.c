/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops whose result says how much of their outputs was written, from end to end, with data in messages and in arenas:
 * only that much comes back, and the rest of the caller's memory stays as it was. What the ops do in every corner is
 * the matrix test's business.
 */
#include "harness.h"

#include <string.h>

enum { N = 20000, UNTOUCHED = 0xee };

static struct gm_client *client;
static struct gm_arena *arena;
static uint32_t in[N], values[N];
static uint64_t lengths[N];

static int setup(void **state)
{
    daemon_setup(state);
    client = daemon_open(*state);
    assert_int_equal(GM_OK, gm_arena_create(client, 1u << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
    gm_close(client);
    return daemon_teardown(state);
}

static void assert_untouched(const void *memory, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        assert_int_equal(UNTOUCHED, ((const uint8_t *)memory)[i]);
}

/* Runs of 1, 2, 3 and so on; each output in the message, or in the arena. */
static void runs_come_back_wherever_they_go(void **state)
{
    enum { LENGTHS_AT = 512 * 1024 };
    uint8_t *const memory = gm_arena_data(arena);
    uint32_t runs = 0;

    (void)state;
    for (uint32_t i = 0, length = 1; i < N; length++, runs++)
        for (uint32_t k = 0; k < length && i < N; k++, i++)
            in[i] = length * 7u;
    for (uint32_t which = 0; which < 4; which++) {
        struct gm_request request = gm_request("run_length", GM_U32, N);
        struct gm_result result;
        memset(values, UNTOUCHED, sizeof values);
        memset(lengths, UNTOUCHED, sizeof lengths);
        memset(memory, UNTOUCHED, 1u << 20);
        request.in[0] = gm_in_memory(in, sizeof in);
        request.out[0] = which & 1u ? gm_in_memory(values, sizeof values) : gm_in_arena(arena, 0, sizeof values);
        request.out[1] =
            which & 2u ? gm_in_memory(lengths, sizeof lengths) : gm_in_arena(arena, LENGTHS_AT, sizeof lengths);
        const int rc = gm_run(client, &request, in_ms(60000), &result);
        if (rc != GM_OK)
            fail_msg("outputs %u: %s", which, gm_status_name(rc));
        assert_int_equal(runs, result.value.u64);
        if ((which & 1u) == 0)
            memcpy(values, memory, sizeof values);
        if ((which & 2u) == 0)
            memcpy(lengths, memory + LENGTHS_AT, sizeof lengths);
        for (uint32_t i = 0, at = 0; i < runs; at += i + 1, i++) {
            assert_int_equal((i + 1) * 7, values[i]);
            assert_int_equal(at + i + 1 < N ? i + 1 : N - at, lengths[i]);
        }
        assert_untouched(values, runs * 4u, sizeof values);
        assert_untouched(lengths, runs * 8u, sizeof lengths);
    }
}

static void what_is_selected_comes_back_and_no_more(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= N; n = n * 3 + 1) {
        struct gm_request request = gm_request("select_if", GM_U32, n);
        struct gm_result result;
        uint32_t selected = 0;
        for (uint32_t i = 0; i < n; i++)
            in[i] = i * 2654435761u;
        memset(values, UNTOUCHED, sizeof values);
        request.compare = GM_BETWEEN;
        request.value = 1u << 28;
        request.high = 1u << 29;
        request.in[0] = gm_in_memory(in, sizeof in);
        request.out[0] = gm_in_memory(values, sizeof values);
        assert_int_equal(GM_OK, gm_run(client, &request, in_ms(60000), &result));
        for (uint32_t i = 0; i < n; i++)
            if (in[i] >= 1u << 28 && in[i] <= 1u << 29)
                assert_int_equal(in[i], values[selected++]);
        assert_int_equal(selected, result.value.u64);
        assert_untouched(values, selected * 4u, sizeof values);
    }
}

/* Each of them fits a message, both do not. */
static void outputs_that_are_too_much_together_are_refused(void **state)
{
    static uint8_t bytes[GM_INLINE_BYTES];
    static uint64_t counts[GM_INLINE_BYTES / 8];
    struct gm_request request = gm_request("run_length", GM_U8, GM_INLINE_BYTES / 8);
    struct gm_failure failure;

    (void)state;
    request.in[0] = gm_in_memory(bytes, sizeof bytes);
    request.out[0] = gm_in_memory(bytes, sizeof bytes);
    request.out[1] = gm_in_memory(counts, sizeof counts);
    assert_int_equal(GM_ESIZE, gm_run(client, &request, in_ms(60000), NULL));
    gm_last_failure(client, &failure);
    assert_string_equal("out[1]", failure.field);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_come_back_wherever_they_go),
        cmocka_unit_test(what_is_selected_comes_back_and_no_more),
        cmocka_unit_test(outputs_that_are_too_much_together_are_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
