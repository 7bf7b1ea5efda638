/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas as gridmilld announces and drops them on a device that serves: memory that is gone, several handles of one
 * piece of device memory, and drops under jobs. Jobs that try them come over lanes of clients.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "served.h"

#define NUMBERS 1024u

static struct served device;

/* Its rows are told to a new process so that handles stay good for an answer. */
static void arena_that_is_gone_says_so(void **state)
{
    (void)state;
    struct served_lane lane;
    uint32_t words[GM_DESC_WORDS];
    const struct served_arena gone = {.handle = gm_handle(6, 3), .count = NUMBERS};
    struct gm_control add = {.type = GM_CONTROL_ARENA_ADD}, drop = {.type = GM_CONTROL_ARENA_DROP};
    served_open(&device, NULL, 0);
    add.u.arena = (struct gm_control_arena){.handle = gone.handle, .kind = GM_ARENA_DEVICE, .flags = GM_ARENA_GONE,
                                            .session = GM_HARNESS_SESSION, .bytes = NUMBERS * 4u};
    assert_int_equal(served_request(&device, &add, NULL, 0), GM_OK);
    served_lane_make(&device, &lane, 4, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    served_sum_words(words, &gone, NUMBERS);
    assert_int_equal(gm_completion_status(served_wait(&lane, served_submit(&lane, words))), GM_EDEVICELOST);
    drop.u.arena.handle = gone.handle;
    assert_int_equal(served_request(&device, &drop, NULL, 0), GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

static int32_t alias_add(uint32_t handle, uint32_t of, uint32_t session, uint32_t flags, uint64_t bytes)
{
    struct gm_control m = {.type = GM_CONTROL_ARENA_ADD, .value = of};
    m.u.arena = (struct gm_control_arena){.handle = handle, .kind = GM_ARENA_DEVICE, .flags = flags | GM_ARENA_ALIAS,
                                          .session = session, .bytes = bytes};
    return served_request(&device, &m, NULL, 0);
}

static int32_t drop(uint32_t handle)
{
    struct gm_control m = {.type = GM_CONTROL_ARENA_DROP};
    m.u.arena.handle = handle;
    return served_request(&device, &m, NULL, 0);
}

static int32_t run(struct served_lane *lane, uint32_t op, const struct served_arena *arena, uint32_t output,
                   uint64_t *result)
{
    uint32_t words[GM_DESC_WORDS];
    served_sum_words(words, arena, arena->count);
    words[GM_W_OP] = op | GM_DTYPE_u32 << 16;
    words[GM_W_ARENA1] = output;
    const struct gm_granule c = served_wait(lane, served_submit(lane, words));
    *result = gm_completion_result(c);
    return gm_completion_status(c);
}

/* As a named arena has them: one that writes, and one of another session that reads. */
static void other_handles_reach_the_same_device_memory(void **state)
{
    (void)state;
    const uint32_t base = gm_handle(10, 1), writer = gm_handle(11, 4), reader = gm_handle(12, 7);
    const uint64_t bytes = NUMBERS * sizeof(uint32_t);
    const struct served_arena read = {.handle = reader, .count = NUMBERS};
    struct served_arena numbers, foreign;
    struct served_lane one, two;
    struct gm_control add = {.type = GM_CONTROL_ARENA_ADD};
    uint64_t result;
    served_open(&device, NULL, 0);
    add.u.arena = (struct gm_control_arena){.handle = base, .kind = GM_ARENA_DEVICE, .bytes = bytes};
    assert_int_equal(served_request(&device, &add, NULL, 0), GM_OK);
    assert_int_equal(alias_add(writer, base, 1, 0, bytes), GM_OK);
    assert_int_equal(alias_add(reader, base, 2, GM_ARENA_READONLY, bytes), GM_OK);
    served_arena_add(&device, &numbers, gm_handle(1, 1), 1, NUMBERS);
    served_arena_add(&device, &foreign, gm_handle(2, 1), 2, NUMBERS);
    assert_int_equal(alias_add(gm_handle(13, 1), writer, 1, 0, bytes), GM_EINVAL);       /* of an alias */
    assert_int_equal(alias_add(gm_handle(13, 1), numbers.handle, 1, 0, bytes), GM_EINVAL); /* of shared memory */
    assert_int_equal(alias_add(gm_handle(13, 1), gm_handle(10, 2), 1, 0, bytes), GM_EINVAL);
    assert_int_equal(alias_add(gm_handle(13, 1), base, 1, 0, bytes + 4096u), GM_EINVAL);
    served_lane_make(&device, &one, 1, 3, 0);
    served_lane_make(&device, &two, 2, 3, 0);
    one.session = 1, two.session = 2;
    assert_int_equal(served_lane_add(&one), GM_OK);
    assert_int_equal(served_lane_add(&two), GM_OK);
    assert_int_equal(run(&one, GM_OP_copy, &numbers, writer, &result), GM_OK);
    assert_int_equal(run(&two, GM_OP_sum, &read, 0, &result), GM_OK);
    assert_true(result == served_sum_expected(NUMBERS));
    assert_int_equal(run(&two, GM_OP_copy, &foreign, reader, &result), GM_EREADONLY);
    assert_int_equal(run(&two, GM_OP_copy, &foreign, writer, &result), GM_EARENA);
    assert_int_equal(run(&one, GM_OP_copy, &numbers, base, &result), GM_EARENA);
    struct gm_control last = {.type = GM_CONTROL_ARENA_DROP};
    last.u.arena.handle = base;
    const uint32_t sequence = served_send(&device, &last, NULL, 0); /* waits for the other two */
    assert_int_equal(drop(writer), GM_OK);
    assert_int_equal(run(&two, GM_OP_sum, &read, 0, &result), GM_OK);
    assert_true(result == served_sum_expected(NUMBERS));
    assert_int_equal(drop(reader), GM_OK);
    assert_int_equal(served_reply(&device, sequence).status, GM_OK);
    assert_int_equal(drop(base), GM_EARENA);
    assert_int_equal(served_arena_drop(&device, &numbers), GM_OK);
    assert_int_equal(served_arena_drop(&device, &foreign), GM_OK);
    assert_int_equal(served_lane_drop(&one), GM_OK);
    assert_int_equal(served_lane_drop(&two), GM_OK);
    served_lane_free(&one);
    served_lane_free(&two);
    served_close(&device);
}

/* gridmilld knows nothing of the jobs of a lane, so a client may free an arena under them. */
static void arena_under_jobs_in_flight_is_let_go_of_after_them(void **state)
{
    (void)state;
    struct served_lane lane;
    struct served_arena arena;
    uint32_t words[GM_DESC_WORDS], summed = 0;
    served_open(&device, NULL, 2);
    served_lane_make(&device, &lane, 4, 5, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    for (uint32_t round = 1; round <= 20u; round++) {
        served_arena_add(&device, &arena, gm_handle(5, round), GM_HARNESS_SESSION, UINT64_C(1) << 18);
        const uint64_t expected = served_sum_expected(arena.count), first = lane.position;
        served_sum_words(words, &arena, arena.count);
        for (uint32_t i = 0; i < 32u; i++)
            served_submit(&lane, words);
        assert_int_equal(served_arena_drop(&device, &arena), GM_OK);
        for (uint64_t p = first; p < first + 32u; p++) {
            const struct gm_granule c = served_wait(&lane, p);
            if (gm_completion_status(c) == GM_EARENA)
                continue;
            assert_int_equal(gm_completion_status(c), GM_OK);
            assert_true(gm_completion_result(c) == expected);
            summed++;
        }
    }
    printf("# %u of %u jobs were started before their arena went\n", summed, 20u * 32u);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

static struct gm_control device_memory(uint32_t handle, uint64_t bytes)
{
    struct gm_control add = {.type = GM_CONTROL_ARENA_ADD};
    add.u.arena = (struct gm_control_arena){.handle = handle, .kind = GM_ARENA_DEVICE, .session = GM_HARNESS_SESSION,
                                            .bytes = bytes};
    return add;
}

static uint32_t drop_later(uint32_t handle)
{
    struct gm_control m = {.type = GM_CONTROL_ARENA_DROP};
    m.u.arena.handle = handle;
    return served_send(&device, &m, NULL, 0);
}

static void has_no_reply(uint32_t sequence)
{
    assert_int_not_equal(device.reply[sequence % SERVED_REQUESTS].sequence, sequence);
}

/* The copy engine stands before a piece of a copy: the device pauses as it likes, whatever waits for the end of that
 * copy, and lets go of the memory of both sides behind it. strict: as a GPU, which unregisters memory in a pause. */
static void memory_of_a_copy_goes_behind_its_end(bool strict)
{
    const uint32_t target = gm_handle(6, 1);
    struct gm_backend backend = gm_backend_cpu;
    struct gm_device_config config = {.idle_ns = UINT64_C(50000000), .copy_bytes = 4096, .copy_piece = 4096};
    struct gm_control pause = {.type = GM_CONTROL_PAUSE}, ping = {.type = GM_CONTROL_PING};
    struct served_lane lane;
    struct served_arena from, other;
    uint32_t words[GM_DESC_WORDS];
    int gate[2];
    char byte;
    if (gm_harness_is_cuda())
        skip();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate), 0);
    config.copy_gate_fd = gate[1];
    backend.unmap_needs_stop = strict;
    served_open_with(&device, &backend, &config);
    served_lane_make(&device, &lane, 3, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    served_arena_add(&device, &from, gm_handle(5, 1), GM_HARNESS_SESSION, 4u * NUMBERS);
    served_arena_add(&device, &other, gm_handle(7, 1), GM_HARNESS_SESSION, NUMBERS);
    struct gm_control add = device_memory(target, 4u * NUMBERS * sizeof(uint32_t));
    assert_int_equal(served_request(&device, &add, NULL, 0), GM_OK);
    served_sum_words(words, &from, from.count);
    words[GM_W_OP] = GM_OP_copy | GM_DTYPE_u32 << 16;
    words[GM_W_ARENA1] = target;
    const uint64_t p = served_submit(&lane, words);
    assert_int_equal(recv(gate[0], &byte, 1, 0), 1); /* a piece stands at the gate */
    const uint32_t drops[] = {drop_later(from.handle), drop_later(target)};
    assert_int_equal(served_request(&device, &pause, NULL, 0), GM_OK);
    assert_int_equal(served_arena_drop(&device, &other), GM_OK); /* of no copy: strict, it takes a pause of its own */
    assert_int_equal(served_request(&device, &ping, NULL, 0), GM_OK);
    struct gm_granule completion;
    assert_false(served_answered(&lane, p, &completion));
    has_no_reply(drops[0]);
    has_no_reply(drops[1]);
    close(gate[0]);
    assert_int_equal(gm_completion_status(served_wait(&lane, p)), GM_OK);
    assert_int_equal(served_reply(&device, drops[0]).status, GM_OK);
    assert_int_equal(served_reply(&device, drops[1]).status, GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
    close(gate[1]);
}
static void cpu_lets_go_of_memory_behind_a_copy(void **state)
{
    (void)state;
    memory_of_a_copy_goes_behind_its_end(false);
}
static void pause_does_not_wait_for_a_copy_but_memory_does(void **state)
{
    (void)state;
    memory_of_a_copy_goes_behind_its_end(true);
}

/* What it had begun is left where it is. */
static void stop_leaves_a_copy_where_it_is(void **state)
{
    (void)state;
    const struct gm_device_config config = {.idle_ns = UINT64_C(50000000), .copy_bytes = 4096};
    struct served_lane lane;
    struct served_arena from;
    uint32_t words[GM_DESC_WORDS];
    served_open_with(&device, NULL, &config);
    served_lane_make(&device, &lane, 3, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    served_arena_add(&device, &from, gm_handle(5, 1), GM_HARNESS_SESSION, UINT64_C(1) << 20);
    struct gm_control add = device_memory(gm_handle(6, 1), from.count * sizeof(uint32_t));
    assert_int_equal(served_request(&device, &add, NULL, 0), GM_OK);
    served_sum_words(words, &from, from.count);
    words[GM_W_OP] = GM_OP_copy | GM_DTYPE_u32 << 16;
    words[GM_W_ARENA1] = gm_handle(6, 1);
    for (uint32_t i = 0; i < 8u; i++)
        (void)served_submit(&lane, words);
    served_close(&device); /* it may have come to any of them */
    munmap(from.numbers, from.count * sizeof(uint32_t));
    served_lane_free(&lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_that_is_gone_says_so),
        cmocka_unit_test(arena_under_jobs_in_flight_is_let_go_of_after_them),
        cmocka_unit_test(other_handles_reach_the_same_device_memory),
        cmocka_unit_test(cpu_lets_go_of_memory_behind_a_copy),
        cmocka_unit_test(pause_does_not_wait_for_a_copy_but_memory_does),
        cmocka_unit_test(stop_leaves_a_copy_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
