/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise of the header: after gm_open nothing allocates on the way of a job. Linked with the archive, whose calls
 * of the allocator come here; what other threads and the C library do is not counted.
 */
#include "lane_peer.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

static _Thread_local uint64_t calls;

void *__wrap_malloc(size_t size)
{
    calls++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    calls++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    calls++;
    return __real_realloc(memory, size);
}

void __wrap_free(void *memory)
{
    calls++;
    __real_free(memory);
}

static void way_of_a_job_allocates_nothing(void **state)
{
    static uint8_t in[GM_INLINE_BYTES], out[GM_INLINE_BYTES];
    static struct gm_job jobs[200];
    struct gm_request copy = gm_request("copy", GM_U8, sizeof in), sum = gm_request("sum", GM_U64, 8);
    struct gm_request bad = gm_request("none", GM_U64, 8);
    struct gm_job refused = {0};
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    struct gm_client *const client = peer_open(&peer);
    copy.in[0] = gm_in_memory(in, sizeof in);
    copy.out[0] = gm_in_memory(out, sizeof out);
    sum.in[0] = gm_in_memory(in, 64);
    calls = 0;
    assert_int_equal(GM_OK, gm_run(client, &copy, in_ms(20000), NULL));
    for (int i = 0; i < 200; i++)
        assert_int_equal(GM_OK, gm_submit(client, &sum, &jobs[i]));
    assert_int_equal(GM_EOP, gm_submit(client, &bad, &refused));
    assert_int_equal(GM_ETIMEDOUT, gm_run(client, &copy, 0, NULL));
    for (int i = 0; i < 100; i++)
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
    for (int i = 0; i < 100;) {
        assert_int_equal(GM_OK, gm_poll(client));
        i += gm_next(client) != NULL;
    }
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    assert_int_equal(0, calls);
    gm_close(client);
    assert_int_equal(0, calls);
    peer_stop(&peer);
    assert_true(calls > 0); /* the count counts */
}

static void way_of_a_job_in_a_lane_allocates_nothing(void **state)
{
    static struct lane_peer p;
    static struct gm_job jobs[40], *found[40];
    struct gm_request sum = gm_request("sum", GM_U64, 8), fill = gm_request("fill", GM_U64, 8);
    struct gm_arena *arena;

    (void)state;
    lanes_start(&p, 1, 16, 0);
    struct gm_client *const client = lanes_open(&p, (struct gm_options){.wait = GM_WAIT_EVENT});
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, 0, in_ms(20000), &arena));
    sum.in[0] = fill.out[0] = gm_in_arena(arena, 0, 4096);
    calls = 0;
    struct pollfd fd = {.fd = gm_fd(client), .events = POLLIN};
    for (int i = 0; i < 40; i += 4) {
        assert_int_equal(GM_OK, gm_submit(client, &sum, &jobs[i]));
        for (int k = 1; k < 4; k++)
            assert_int_equal(GM_OK, gm_submit(client, &fill, &jobs[i + k]));
        assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &jobs[i], in_ms(1)));
        for (int k = 0; k < 4; k++)
            fake_do(&p.lane[0], 1);
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
        assert_int_equal(1, poll(&fd, 1, 20000));
        assert_int_equal(GM_OK, gm_poll(client));
        assert_int_equal(3, gm_next_batch(client, found, 40));
    }
    assert_int_equal(GM_ETIMEDOUT, gm_run(client, &sum, in_ms(1), NULL));
    assert_int_equal(0, calls);
    gm_close(client);
    lanes_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(way_of_a_job_allocates_nothing),
        cmocka_unit_test(way_of_a_job_in_a_lane_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
