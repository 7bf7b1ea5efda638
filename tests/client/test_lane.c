/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs in a lane, with the test as the device: what is written, where, when the doorbell rings, what comes of
 * completions. Nothing here depends on time.
 */
#include "lane_jobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t handle_of_first_arena(void)
{
    return gm_handle(1, 1);
}

static void assert_words(const uint32_t *expected)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    assert_true(fake_take(&p.lane[0], words, &position));
    for (uint32_t i = 0; i < GM_DESC_WORDS; i++)
        if (words[i] != expected[i])
            fail_msg("word %u is 0x%x, not 0x%x", i, words[i], expected[i]);
    fake_answer(&p.lane[0], position, 0, GM_OK, 0);
}

static void descriptor_is_what_the_request_says(void **state)
{
    struct gm_request copy, sort, histogram, fill;
    struct gm_job jobs[5] = {0};
    const uint32_t a = handle_of_first_arena();

    (void)state;
    begin(16);
    copy = gm_request("copy", GM_F32, UINT64_C(1000));
    copy.in[0] = gm_in_arena(arena, 4096, 4000);
    copy.out[0] = gm_in_arena(arena, 8192, 4000);
    sort = gm_request("sort", GM_I64, 8);
    sort.in[0] = sort.out[0] = gm_in_arena(arena, 64, 64);
    sort.descending = 7;
    fill = gm_request("fill", GM_F64, 3);
    fill.out[0] = gm_in_arena(arena, 24, 24);
    fill.value = UINT64_C(0x0123456789abcdef);
    histogram = gm_request("histogram", GM_U8, 100);
    histogram.in[0] = gm_in_arena(arena, 1, 100);
    histogram.out[0] = gm_in_arena(arena, 1024, 80);
    histogram.bins = 10;
    histogram.lo = -1.0;
    histogram.hi = 1.0;
    struct gm_request any = nop();
    submit(&copy, &jobs[0]);
    submit(&sort, &jobs[1]);
    submit(&fill, &jobs[2]);
    submit(&histogram, &jobs[3]);
    submit(&any, &jobs[4]);
    assert_words((uint32_t[GM_DESC_WORDS]){2 | 8 << 16, 0, a, 4096, 0, 1000, 0, a, 8192, 0, 0, 0});
    assert_words((uint32_t[GM_DESC_WORDS]){7 | 5 << 16 | 2 << 24, 0, a, 64, 0, 8, 0, a, 64, 0, 0, 0});
    assert_words((uint32_t[GM_DESC_WORDS]){1 | 9 << 16 | 1 << 24, 0, a, 24, 0, 3, 0, 0, 0, 0, 0, 0, 0xffff, 0x89abcdef,
                                           0x01234567});
    /* -1.0 and 1.0 are bff00000'00000000 and 3ff00000'00000000. */
    assert_words((uint32_t[GM_DESC_WORDS]){6 | 0 << 16 | 1 << 24, 0, a, 1, 0, 100, 0, a, 1024, 0, 10, 0, 0xffff, 0,
                                           0xbff00000, 0, 0x3ff00000});
    assert_words((uint32_t[GM_DESC_WORDS]){0});
    for (int i = 0; i < 5; i++)
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
    assert_int_equal(0, p.submits);
    end();
}

static void offsets_and_sizes_beyond_32_bits_arrive_whole(void **state)
{
    struct gm_request request = gm_request("copy", GM_U8, UINT64_C(0x100000002));
    struct gm_job job = {0};
    struct gm_arena *large;

    (void)state;
    begin(16);
    assert_int_equal(GM_OK, gm_arena_create(client, UINT64_C(1) << 38, GM_MEMORY_DEVICE, 0, in_ms(20000), &large));
    request.in[0] = gm_in_arena(large, UINT64_C(0x300000004), request.n);
    request.out[0] = gm_in_arena(large, UINT64_C(0x1500000006), request.n);
    submit(&request, &job);
    const uint32_t a = gm_handle(2, 1);
    assert_words((uint32_t[GM_DESC_WORDS]){2, 0, a, 4, 3, 2, 1, a, 6, 0x15, 0, 0});
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    end();
}

/* What has data of the caller's cannot go by the lane, and the same calls send it by the socket. */
static void jobs_with_data_of_the_caller_go_by_the_socket(void **state)
{
    static uint64_t data[8], out[8];
    struct gm_request request = gm_request("sum", GM_U64, 8), fill = fill_of(8, 1);
    struct gm_result result;

    (void)state;
    begin(16);
    request.in[0] = gm_in_memory(data, sizeof data);
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), &result));
    assert_int_equal(8, result.value.u64);
    fill.out[0] = gm_in_memory(out, sizeof out);
    struct gm_job job = {0};
    submit(&fill, &job);
    lanes_await(&p.submits, 2);
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;
    assert_false(fake_take(&p.lane[0], words, &position));
    end();
}

static void results_have_the_type_of_the_op(void **state)
{
    static const struct {
        const char *op;
        uint32_t dtype;
        uint64_t bits;
        uint32_t result_dtype;
    } cases[] = {{"sum", GM_I32, (uint64_t)-5, GM_I64},         {"sum", GM_U32, 5, GM_U64},
                 {"sum", GM_F32, 0x4024000000000000, GM_F64},    {"min", GM_F32, 0x3fc00000, GM_F32},
                 {"max", GM_I32, 0xfffffffb, GM_I32},            {"max", GM_F64, 0x3ff8000000000000, GM_F64},
                 {"min", GM_U64, UINT64_C(1) << 63, GM_U64}};
    struct gm_result result;
    struct gm_job job = {0};

    (void)state;
    begin(4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gm_request request = gm_request(cases[i].op, cases[i].dtype, 10);
        request.in[0] = gm_in_arena(arena, 0, 80);
        submit(&request, &job);
        fake_do(&p.lane[0], cases[i].bits);
        assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
        assert_int_equal(GM_OK, gm_job_result(&job, &result));
        assert_int_equal(cases[i].result_dtype, result.dtype);
        assert_true(cases[i].bits == result.value.u64);
        assert_int_equal(0, result.device);
        assert_int_equal(1000, result.run_ns);
    }
    struct gm_request any = nop();
    submit(&any, &job);
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    gm_job_result(&job, &result);
    assert_int_equal(GM_NO_ELEMENT, result.dtype);
    end();
}

static void waited_is_the_time_since_submission_without_the_run(void **state)
{
    const struct gm_request request = nop();
    uint32_t words[GM_DESC_WORDS];
    struct gm_job job = {0};
    struct gm_result result;
    uint64_t position;

    (void)state;
    begin(4);
    const uint64_t before = gm_now_ns();
    submit(&request, &job);
    usleep(2000);
    assert_true(fake_take(&p.lane[0], words, &position));
    fake_answer(&p.lane[0], position, 0, GM_OK, 1000000);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    const uint64_t took = gm_now_ns() - before;
    gm_job_result(&job, &result);
    assert_in_range(result.wait_ns, 1000000, took - 990000);
    /* A device whose clock runs otherwise does not make it negative. */
    submit(&request, &job);
    assert_true(fake_take(&p.lane[0], words, &position));
    fake_answer(&p.lane[0], position, 0, GM_OK, UINT64_C(3600000000000));
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    gm_job_result(&job, &result);
    assert_int_equal(0, result.wait_ns);
    end();
}

static void failed_jobs_have_the_tables_text(void **state)
{
    uint32_t words[GM_DESC_WORDS];
    struct gm_failure failure;
    struct gm_result result;
    struct gm_job job = {0};
    uint64_t position;

    (void)state;
    begin(4);
    const struct gm_request good = sum_of(4);
    for (int status = GM_EINVAL; status > GM_EAGAIN; status--) {
        submit(&good, &job);
        assert_true(fake_take(&p.lane[0], words, &position));
        fake_answer(&p.lane[0], position, 77, status, 5);
        assert_int_equal(status, gm_wait(client, &job, in_ms(20000)));
        gm_job_failure(&job, &failure);
        assert_int_equal(status, failure.status);
        assert_string_equal(gm_strerror(status), failure.text);
        assert_int_equal(status, gm_job_result(&job, &result));
        assert_int_equal(GM_NO_ELEMENT, result.dtype);
    }
    submit(&good, &job);
    fake_do(&p.lane[0], 1);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    gm_job_failure(&job, &failure);
    assert_int_equal(GM_OK, failure.status);
    assert_string_equal("", failure.text);
    end();
}

static void refused_requests_never_reach_the_lane(void **state)
{
    struct gm_request bad = sum_of(4);
    uint32_t words[GM_DESC_WORDS];
    struct gm_failure failure;
    struct gm_job job = {0};
    uint64_t position;

    (void)state;
    begin(4);
    bad = sum_of(8193);
    assert_int_equal(GM_EBOUNDS, gm_submit(client, &bad, &job));
    bad = sum_of(4), bad.in[0].offset = 65536 - 31;
    assert_int_equal(GM_EBOUNDS, gm_submit(client, &bad, &job));
    gm_last_failure(client, &failure);
    assert_string_equal("in[0]", failure.field);
    bad = sum_of(4), bad.in[0].offset = 4;
    assert_int_equal(GM_EALIGN, gm_submit(client, &bad, &job));
    gm_last_failure(client, &failure);
    assert_string_equal("in[0].offset", failure.field);
    bad = gm_request("copy", GM_U8, 100);
    bad.in[0] = gm_in_arena(arena, 0, 100);
    bad.out[0] = gm_in_arena(arena, 99, 100);
    assert_int_equal(GM_EALIAS, gm_submit(client, &bad, &job));
    gm_last_failure(client, &failure);
    assert_string_equal("out[0].offset", failure.field);
    bad = sum_of(4), bad.dtype = GM_I8;
    assert_int_equal(GM_EDTYPE, gm_submit(client, &bad, &job));
    bad = sum_of(4), bad.out[0] = bad.in[0];
    assert_int_equal(GM_EINVAL, gm_submit(client, &bad, &job));
    assert_false(fake_take(&p.lane[0], words, &position));
    end();
}

static void completions_in_any_order_find_their_jobs(void **state)
{
    static const uint32_t order[8] = {5, 0, 7, 2, 1, 6, 4, 3};
    uint32_t words[GM_DESC_WORDS];
    struct gm_job jobs[8], *found[8];
    struct gm_result result;
    uint64_t positions[8];

    (void)state;
    begin(8);
    memset(jobs, 0, sizeof jobs);
    for (uint64_t i = 0; i < 8; i++) {
        const struct gm_request request = sum_of(i);
        submit(&request, &jobs[i]);
    }
    for (int i = 0; i < 8; i++)
        assert_true(fake_take(&p.lane[0], words, &positions[i]));
    assert_int_equal(GM_OK, gm_poll(client));
    assert_null(gm_next(client));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(GM_EAGAIN, gm_job_status(&jobs[order[i]]));
        fake_answer(&p.lane[0], positions[order[i]], 100 + order[i], GM_OK, 1);
        if (i % 2 == 0)
            continue; /* two at a time */
        assert_int_equal(GM_OK, gm_poll(client));
        assert_int_equal(2, gm_next_batch(client, found, 8));
        for (int k = 0; k < 2; k++) {
            const uint32_t which = (uint32_t)(found[k] - jobs);
            assert_true(which == order[i] || which == order[i - 1]);
            gm_job_result(found[k], &result);
            assert_int_equal(100 + which, result.value.u64);
        }
    }
    assert_int_equal(0, gm_next_batch(client, found, 8));
    end();
}

static void cancel_names_lane_and_position(void **state)
{
    const struct gm_request request = nop();
    uint32_t words[GM_DESC_WORDS];
    struct gm_job jobs[3];
    uint64_t position;

    (void)state;
    begin_with(1, 8, 40, false, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 3; i++)
        submit(&request, &jobs[i]);
    assert_int_equal(GM_OK, gm_cancel(client, &jobs[1]));
    lanes_await(&p.cancels, 1);
    assert_int_equal(7, p.cancel_lane);
    assert_true(p.cancel_position == 41);
    assert_int_equal(GM_EAGAIN, gm_job_status(&jobs[1]));
    for (int i = 0; i < 3; i++) {
        assert_true(fake_take(&p.lane[0], words, &position));
        fake_answer(&p.lane[0], position, 0, position == 41 ? GM_ECANCELLED : GM_OK, 0);
    }
    assert_int_equal(GM_ECANCELLED, gm_wait(client, &jobs[1], in_ms(20000)));
    assert_int_equal(GM_OK, gm_wait(client, &jobs[0], in_ms(20000)));
    assert_int_equal(GM_ENOTFOUND, gm_cancel(client, &jobs[1]));
    end();
}

static void options_choose_lanes(void **state)
{
    const uint32_t bad_slots[] = {1, 3, 6, 2048, 1u << 31};
    struct gm_options options = {0};
    struct gm_client *none;
    struct gm_failure failure;

    (void)state;
    lanes_start(&p, 2, 8, 0);
    client = lanes_open(&p, (struct gm_options){.lane_slots = GM_NO_LANE});
    assert_int_equal(0, gm_lanes(client));
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    assert_int_equal(0, p.opens);
    const struct gm_request request = nop();
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), NULL));
    gm_close(client);
    options.socket = p.peer.path;
    for (size_t i = 0; i < sizeof bad_slots / sizeof *bad_slots; i++) {
        options.lane_slots = bad_slots[i];
        assert_int_equal(GM_EINVAL, gm_open(&options, &none, &failure));
        assert_string_equal("lane_slots", failure.field);
    }
    options.lane_slots = 0;
    options.wait = (enum gm_wait_strategy)3;
    assert_int_equal(GM_EINVAL, gm_open(&options, &none, &failure));
    assert_string_equal("wait", failure.field);
    lanes_stop(&p);
}

static void jobs_pending_at_close_are_the_callers_again(void **state)
{
    const struct gm_request request = nop();
    struct gm_job jobs[3];

    (void)state;
    begin(4);
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 3; i++)
        submit(&request, &jobs[i]);
    fake_do(&p.lane[0], 0);
    gm_close(client);
    assert_int_equal(GM_OK, gm_job_status(&jobs[0]));
    assert_int_equal(GM_ECLOSED, gm_job_status(&jobs[1]));
    assert_int_equal(GM_ECLOSED, gm_job_status(&jobs[2]));
    lanes_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptor_is_what_the_request_says),
        cmocka_unit_test(offsets_and_sizes_beyond_32_bits_arrive_whole),
        cmocka_unit_test(jobs_with_data_of_the_caller_go_by_the_socket),
        cmocka_unit_test(results_have_the_type_of_the_op),
        cmocka_unit_test(waited_is_the_time_since_submission_without_the_run),
        cmocka_unit_test(failed_jobs_have_the_tables_text),
        cmocka_unit_test(refused_requests_never_reach_the_lane),
        cmocka_unit_test(completions_in_any_order_find_their_jobs),
        cmocka_unit_test(cancel_names_lane_and_position),
        cmocka_unit_test(options_choose_lanes),
        cmocka_unit_test(jobs_pending_at_close_are_the_callers_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
