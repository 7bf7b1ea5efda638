/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests in, results out: what the library refuses itself and with which field, results of every type, batches,
 * bounds, cancel, and jobs that are taken by gm_next.
 */
#include "peer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gm_client *client;
static struct peer peer;

static int start(void **state)
{
    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    client = peer_open(&peer);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    gm_close(client);
    peer_stop(&peer);
    return 0;
}

static void assert_refused(const struct gm_request *request, int status, const char *field)
{
    struct gm_failure failure;
    struct gm_job job = {0};

    assert_int_equal(status, gm_submit(client, request, &job));
    gm_last_failure(client, &failure);
    assert_int_equal(status, failure.status);
    assert_string_equal(field, failure.field);
    assert_true(failure.text[0] != '\0');
    /* A refused job is the caller's: the same memory may be used again at once. */
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    assert_int_equal(GM_OK, gm_submit(client, &nop, &job));
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(10000)));
}

static void bad_requests_are_refused_by_field(void **state)
{
    static float data[4];
    struct gm_request good = gm_request("sum", GM_F32, 4), bad;

    (void)state;
    good.in[0] = gm_in_memory(data, sizeof data);
    assert_int_equal(GM_OK, gm_run(client, &good, in_ms(10000), NULL));
    bad = good, bad.op = "sums";
    assert_refused(&bad, GM_EOP, "op");
    bad = good, bad.op = NULL;
    assert_refused(&bad, GM_EOP, "op");
    bad = good, bad.dtype = GM_I8;
    assert_refused(&bad, GM_EDTYPE, "dtype");
    bad = good, bad.dtype = GM_NO_ELEMENT;
    assert_refused(&bad, GM_EDTYPE, "dtype");
    bad = good, bad.n = UINT64_MAX;
    assert_refused(&bad, GM_ESIZE, "n");
    bad = good, bad.n = 5;
    assert_refused(&bad, GM_EBOUNDS, "in[0]");
    bad = good, bad.in[0].data = NULL;
    assert_refused(&bad, GM_EINVAL, "in[0]");
    bad = good, bad.in[1] = good.in[0];
    assert_refused(&bad, GM_EINVAL, "in[1]");
    bad = good, bad.out[0] = good.in[0];
    assert_refused(&bad, GM_EINVAL, "out[0]");
    bad = good, bad.descending = 1;
    assert_refused(&bad, GM_EINVAL, "descending");
    bad = good, bad.device = 1000;
    assert_refused(&bad, GM_ENODEVICE, "device");
    bad = good, bad.device = -2;
    assert_refused(&bad, GM_ENODEVICE, "device");
    bad = good, bad.n = GM_INLINE_BYTES;
    assert_refused(&bad, GM_EBOUNDS, "in[0]");
    bad = good, bad.n = GM_INLINE_BYTES / 4 + 1;
    bad.in[0].bytes = bad.n * 4;
    assert_refused(&bad, GM_ESIZE, "in[0]");
    bad = good, bad.in[0].offset = 4; /* which memory does not have */
    assert_refused(&bad, GM_EINVAL, "in[0].offset");
    bad = good, bad.pad = 1;
    assert_refused(&bad, GM_EINVAL, "reserved");
    for (size_t i = 0; i < sizeof bad.reserved / sizeof *bad.reserved; i++) {
        bad = good, bad.reserved[i] = 1;
        assert_refused(&bad, GM_EINVAL, "reserved");
    }
    bad = good, bad.op = "cast", bad.to = GM_F64 + 1;
    assert_refused(&bad, GM_EDTYPE, "to");
    bad = good, bad.op = "gather", bad.index = GM_F32;
    assert_refused(&bad, GM_EDTYPE, "index");
    /* Each output fits a message, both do not. */
    static uint8_t memory[GM_INLINE_BYTES];
    bad = gm_request("run_length", GM_U8, GM_INLINE_BYTES / 8);
    bad.in[0] = bad.out[0] = bad.out[1] = gm_in_memory(memory, sizeof memory);
    assert_refused(&bad, GM_ESIZE, "out[1]");
}

static void bad_histograms_are_refused_by_field(void **state)
{
    static const struct {
        uint32_t bins;
        double lo, hi;
        int status;
        const char *field;
    } cases[] = {{0, 0, 1, GM_ESIZE, "bins"},
                 {GM_HIST_BINS_MAX + 1, 0, 1, GM_ESIZE, "bins"},
                 {1, NAN, 1, GM_EINVAL, "lo"},
                 {1, -INFINITY, 1, GM_EINVAL, "lo"},
                 {1, 0, NAN, GM_EINVAL, "hi"},
                 {1, 0, INFINITY, GM_EINVAL, "hi"},
                 {1, 1, 1, GM_EINVAL, "hi"},
                 {1, 2, 1, GM_EINVAL, "hi"},
                 {1, -1.7e308, 1.7e308, GM_EINVAL, "hi"}};
    static uint8_t in[4];
    static uint64_t out[1];
    struct gm_request request = gm_request("histogram", GM_U8, 4);

    (void)state;
    request.in[0] = gm_in_memory(in, sizeof in);
    request.out[0] = gm_in_memory(out, sizeof out);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request.bins = cases[i].bins, request.lo = cases[i].lo, request.hi = cases[i].hi;
        assert_refused(&request, cases[i].status, cases[i].field);
    }
}

static void inline_output_of_every_size_arrives(void **state)
{
    static uint8_t in[GM_INLINE_BYTES], out[GM_INLINE_BYTES + 1];
    const size_t sizes[] = {0, 1, 31, 4096, 65535, 65536, 65537, GM_INLINE_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * 131 + (i >> 8));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct gm_request request = gm_request("copy", GM_U8, sizes[i]);
        request.in[0] = gm_in_memory(in, sizeof in);
        request.out[0] = gm_in_memory(out, sizeof out);
        memset(out, 0, sizeof out);
        assert_int_equal(GM_OK, gm_run(client, &request, in_ms(10000), NULL));
        assert_memory_equal(in, out, sizes[i]);
        assert_int_equal(0, out[sizes[i]]);
    }
}

/* What the peer says to a run_length of u8. */
static struct {
    uint64_t result, size[2];
    uint32_t outputs;
} runs_reply;

static void serve_runs(struct peer *p, int fd)
{
    static const uint8_t bytes[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct gm_wire_request request;

    peer_hello(p, fd);
    while (peer_next(p, fd, &request)) {
        struct gm_wire_done done = {.result_dtype = GM_DTYPE_u64, .result = runs_reply.result};
        done.outputs = runs_reply.outputs;
        for (uint32_t i = 0; i < done.outputs; i++)
            done.out[i] = (struct gm_wire_output){bytes, runs_reply.size[i]};
        if (gm_wire_encode_done(&p->out, request.id, &done) != GM_OK)
            abort();
        peer_flush(p, fd);
    }
}

/* Exactly what the result says, or nothing is written. */
static void outputs_have_as_many_elements_as_the_result_says(void **state)
{
    static const struct {
        uint64_t result, size[2];
        uint32_t outputs;
        bool right;
    } cases[] = {
        {3, {3, 24}, 2, true},  {0, {0, 0}, 2, true},
        {5, {5, 40}, 2, true},  {0, {0, 0}, 0, true},
        {3, {3, 16}, 2, false}, {3, {5, 40}, 2, false},
        {6, {6, 48}, 2, false}, {3, {3, 0}, 1, false},
        {5, {0, 0}, 0, false},  {UINT64_MAX / 8, {5, 40}, 2, false},
        {3, {24, 3}, 2, false},
    };
    struct gm_failure failure;

    (void)state;
    peer_start(&peer, serve_runs, NULL);
    client = peer_open(&peer);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t in[5] = {0}, values[9];
        uint64_t lengths[9];
        struct gm_request request = gm_request("run_length", GM_U8, sizeof in);
        memset(values, 0xee, sizeof values);
        memset(lengths, 0xee, sizeof lengths);
        memcpy(&runs_reply.size, cases[i].size, sizeof runs_reply.size);
        runs_reply.result = cases[i].result, runs_reply.outputs = cases[i].outputs;
        request.in[0] = gm_in_memory(in, sizeof in);
        request.out[0] = gm_in_memory(values, sizeof values);
        request.out[1] = gm_in_memory(lengths, sizeof lengths);
        const int rc = gm_run(client, &request, in_ms(10000), NULL);
        gm_last_failure(client, &failure);
        if (rc != (cases[i].right ? GM_OK : GM_EPROTO))
            fail_msg("case %zu: %s", i, gm_status_name(rc));
        if (rc != GM_OK)
            assert_string_equal(failure.field, "out");
        for (uint64_t k = 0; k < 9; k++) {
            const bool written = cases[i].right && k < cases[i].result;
            assert_int_equal(values[k], written ? k + 1 : 0xee);
            assert_true((lengths[k] == UINT64_C(0xeeeeeeeeeeeeeeee)) == !written);
        }
    }
    gm_close(client);
    peer_stop(&peer);
}

static void batch_is_accepted_in_order_up_to_the_first_bad_one(void **state)
{
    static const uint64_t zeroes[8];
    struct gm_request requests[5];
    struct gm_job jobs[5] = {0}, *pointers[5];
    struct gm_result result;
    size_t accepted = 99;

    (void)state;
    for (uint64_t i = 0; i < 5; i++) {
        requests[i] = gm_request(i == 3 ? "none" : "sum", GM_U64, i);
        requests[i].in[0] = gm_in_memory(zeroes, sizeof zeroes);
        pointers[i] = &jobs[i];
    }
    assert_int_equal(GM_EOP, gm_submit_batch(client, requests, pointers, 5, &accepted));
    assert_int_equal(3, accepted);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(10000)));
        assert_int_equal(GM_OK, gm_job_result(&jobs[i], &result));
        assert_int_equal(i, result.value.u64);
    }
    assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, 0, &accepted));
    assert_int_equal(0, accepted);
}

static void next_gives_every_job_once(void **state)
{
    static struct gm_job jobs[100];
    static const uint64_t zeroes[100];
    struct gm_request request = gm_request("sum", GM_U64, 0);
    struct gm_result result;
    uint64_t seen = 0;

    (void)state;
    request.in[0] = gm_in_memory(zeroes, sizeof zeroes);
    for (uint64_t i = 0; i < 100; i++) {
        jobs[i].user = (void *)(uintptr_t)(i + 1);
        request.n = i;
        assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[i]));
    }
    while (seen < 100) {
        struct gm_job *job;
        assert_int_equal(GM_OK, gm_poll(client));
        while ((job = gm_next(client)) != NULL) {
            assert_int_equal(GM_OK, gm_job_result(job, &result));
            assert_int_equal((uintptr_t)job->user - 1, result.value.u64);
            assert_ptr_equal(&jobs[result.value.u64], job);
            seen++;
        }
    }
    assert_null(gm_next(client));
    assert_int_equal(GM_EINVAL, gm_wait(client, &jobs[0], 0));
}

static void serve_hold(struct peer *p, int fd)
{
    struct gm_wire_request request, held[4];
    size_t count = 0;

    peer_hello(p, fd);
    while (peer_next(p, fd, &request)) {
        if (request.method == GM_METHOD_CANCEL) {
            for (size_t i = 0; i < count; i++)
                if (held[i].id == request.u.cancel.id)
                    peer_put_error(p, held[i].id, true, GM_ECANCELLED, "", "cancelled");
            peer_put_result(p, request.id, NULL, 0);
        } else if (request.method == GM_METHOD_PING) {
            peer_put_result(p, request.id, NULL, 0);
        } else if (count < 4) {
            held[count++] = request;
        }
        peer_flush(p, fd);
    }
}

static void cancelled_job_completes_as_cancelled(void **state)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_job jobs[2] = {0};
    struct gm_failure failure;
    struct peer holding;

    (void)state;
    peer_start(&holding, serve_hold, NULL);
    struct gm_client *const c = peer_open(&holding);
    assert_int_equal(GM_ENOTFOUND, gm_cancel(c, &jobs[0]));
    assert_int_equal(GM_OK, gm_submit(c, &nop, &jobs[0]));
    assert_int_equal(GM_OK, gm_submit(c, &nop, &jobs[1]));
    assert_int_equal(GM_OK, gm_cancel(c, &jobs[0]));
    assert_int_equal(GM_ECANCELLED, gm_wait(c, &jobs[0], in_ms(10000)));
    gm_job_failure(&jobs[0], &failure);
    assert_int_equal(GM_ECANCELLED, failure.status);
    assert_int_equal(GM_ENOTFOUND, gm_cancel(c, &jobs[0]));
    assert_int_equal(GM_EAGAIN, gm_job_status(&jobs[1]));
    gm_close(c);
    assert_int_equal(GM_ECLOSED, gm_job_status(&jobs[1]));
    peer_stop(&holding);
}

static void more_than_the_bound_of_jobs_is_busy(void **state)
{
    static struct gm_job jobs[GM_PENDING_JOBS + 1];
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_failure failure;
    struct peer holding;

    (void)state;
    memset(jobs, 0, sizeof jobs);
    peer_start(&holding, serve_hold, NULL);
    struct gm_client *const c = peer_open(&holding);
    for (uint32_t i = 0; i < GM_PENDING_JOBS; i++)
        assert_int_equal(GM_OK, gm_submit(c, &nop, &jobs[i]));
    assert_int_equal(GM_EBUSY, gm_submit(c, &nop, &jobs[GM_PENDING_JOBS]));
    gm_last_failure(c, &failure);
    assert_string_equal("1024 jobs are pending", failure.text);
    assert_true(gm_retriable(GM_EBUSY));
    /* Calls still have room beside the jobs. */
    assert_int_equal(GM_OK, gm_ping(c, in_ms(10000)));
    gm_close(c);
    peer_stop(&holding);
}

static void arenas_of_other_clients_and_bad_offsets_are_refused(void **state)
{
    struct gm_request request = gm_request("sum", GM_U64, 4);

    (void)state;
    /* No arena can be made here, so one that is not ours is pretended; only its address is looked at before refusal. */
    static uint64_t not_ours[64];
    request.in[0] = gm_in_arena((const struct gm_arena *)(const void *)not_ours, 0, 32);
    assert_refused(&request, GM_EARENA, "in[0]");
    request.in[0].bytes = 31;
    assert_refused(&request, GM_EBOUNDS, "in[0]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_requests_are_refused_by_field, start, stop),
        cmocka_unit_test_setup_teardown(bad_histograms_are_refused_by_field, start, stop),
        cmocka_unit_test_setup_teardown(inline_output_of_every_size_arrives, start, stop),
        cmocka_unit_test(outputs_have_as_many_elements_as_the_result_says),
        cmocka_unit_test_setup_teardown(batch_is_accepted_in_order_up_to_the_first_bad_one, start, stop),
        cmocka_unit_test_setup_teardown(next_gives_every_job_once, start, stop),
        cmocka_unit_test(cancelled_job_completes_as_cancelled),
        cmocka_unit_test(more_than_the_bound_of_jobs_is_busy),
        cmocka_unit_test_setup_teardown(arenas_of_other_clients_and_bad_offsets_are_refused, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
