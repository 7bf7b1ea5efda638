/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that ride in answers: how many there are and what is in them, with a device that answers every job with its
 * number of elements and writes nothing.
 */
#include "harness.h"

#include <string.h>

enum { ROOM = 1u << 20, N = 30000 };
static uint8_t secret[ROOM];

static struct gm_wire_request job_of(enum gm_op op, uint32_t dtype, uint64_t n)
{
    const struct gm_op_row row = gm_op_row(op);
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    struct gm_wire_submit *s = &request.u.submit;
    s->op = op, s->args.dtype = (uint8_t)dtype, s->args.n = n, s->buffers = (uint32_t)row.inputs + row.outputs;
    for (uint32_t i = 0; i < s->buffers; i++)
        s->buffer[i] = (struct gm_wire_buffer){.place = GM_PLACE_INLINE};
    if (row.inputs != 0)
        s->buffer[0].bytes = secret, s->buffer[0].size = n * gm_dtype_bytes(dtype);
    return request;
}

static void done_of(struct client *c, struct gm_wire_request *request, struct gm_wire_done *done)
{
    struct gm_wire_response response;
    struct gm_problem problem;
    client_call(c, request, &response);
    if (response.failed)
        fail_msg("%s: %s", response.problem.field, response.problem.text);
    assert_int_equal(gm_wire_decode_done(&response, done, &problem), GM_OK);
}

static void assert_zeros(const struct gm_wire_output *out, uint64_t size)
{
    assert_non_null(out->bytes);
    assert_int_equal(out->size, size);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(out->bytes[i], 0);
}

static void what_a_job_did_not_write_shows_nothing_of_others(void **state)
{
    (void)state;
    struct gm_wire_done done;
    memset(secret, 0xa7, sizeof secret);
    daemon_start(&child, "normal", NULL);
    struct client *a = client_open(&child, false), *b = client_open(&child, false);
    for (uint32_t size = 100; size <= ROOM; size *= 3) {
        /* The data of one, and then outputs in the same place: of another client, and its own. */
        struct gm_wire_request put = job_of(GM_OP_copy, GM_DTYPE_u8, size),
                               fill = job_of(GM_OP_fill, GM_DTYPE_u8, size);
        done_of(a, &put, &done);
        assert_zeros(&done.out[0], size);
        done_of(b, &fill, &done);
        assert_int_equal(done.outputs, 1);
        assert_zeros(&done.out[0], size);
    }
    struct gm_wire_request put = job_of(GM_OP_copy, GM_DTYPE_u8, ROOM);
    struct gm_wire_request runs = job_of(GM_OP_run_length, GM_DTYPE_u32, N);
    done_of(a, &put, &done);
    done_of(b, &runs, &done);
    assert_int_equal(done.outputs, 2);
    assert_zeros(&done.out[0], N * 4u);
    assert_zeros(&done.out[1], N * 8u);
    client_close(a), client_close(b);
    assert_int_equal(daemon_stop(&child), 0);
}

/* nil stands for an output in an arena; no array where there is one output, and nothing where none rides. */
static void outputs_come_in_their_places(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_problem problem;
    struct gm_wire_done done;
    uint64_t arena = 0;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    struct gm_wire_request create = request_create("", 1u << 20, false);
    client_call(c, &create, &response);
    assert_int_equal(gm_wire_result_u64(&response, "arena", &arena, &problem), GM_OK);
    for (uint32_t which = 0; which < 4; which++) {
        struct gm_wire_request runs = job_of(GM_OP_run_length, GM_DTYPE_u8, 1000);
        for (uint32_t i = 0; i < 2; i++)
            if ((which >> i & 1u) == 0)
                runs.u.submit.buffer[1 + i] =
                    (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = (uint32_t)arena, .offset = i * 8192u};
        done_of(c, &runs, &done);
        assert_int_equal(done.result, 1000);
        assert_int_equal(done.outputs, which != 0 ? 2 : 0);
        assert_int_equal(done.out[0].size, which & 1u ? 1000 : 0);
        assert_int_equal(done.out[1].size, which & 2u ? 8000 : 0);
        assert_int_equal(done.out[0].bytes != NULL, which & 1u);
        assert_int_equal(done.out[1].bytes != NULL, which >> 1);
    }
    struct gm_wire_request nothing = job_of(GM_OP_run_length, GM_DTYPE_f64, 0);
    done_of(c, &nothing, &done);
    assert_int_equal(done.outputs, 2);
    assert_true(done.out[0].bytes != NULL && done.out[1].bytes != NULL && done.out[0].size + done.out[1].size == 0);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

/* One answer has room for so much: what is more is refused before the job runs. */
static void more_outputs_than_an_answer_holds_are_refused(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_wire_done done;
    const uint64_t fits = GM_INLINE_BYTES_MAX / 9u; /* u8 and u64 */
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    struct gm_wire_request runs = job_of(GM_OP_run_length, GM_DTYPE_u8, fits);
    done_of(c, &runs, &done);
    assert_int_equal(done.out[0].size + done.out[1].size, fits * 9u);
    runs = job_of(GM_OP_run_length, GM_DTYPE_u8, fits + 1u);
    client_call(c, &runs, &response);
    assert_int_equal(code_of(&response), GM_ESIZE);
    assert_string_equal(response.problem.field, "out[1]");
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_job_did_not_write_shows_nothing_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outputs_come_in_their_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_outputs_than_an_answer_holds_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
