/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane that was right and does wrong: granules, statuses and states that cannot be, memory that is taken back or
 * scribbled over. What failed is said clearly; nothing crashes or hangs.
 */
#include "lane_peer.h"

#include <fcntl.h>
#include <string.h>

static struct lane_peer p;
static struct gm_client *client;

static void begin(void)
{
    lanes_start(&p, 1, 8, 0);
    client = lanes_open(&p, (struct gm_options){.lane_only = 1});
    assert_int_equal(1, gm_lanes(client));
}

static void end(void)
{
    gm_close(client);
    lanes_stop(&p);
}

static void granules_of_other_laps_answer_nothing(void **state)
{
    const struct gm_request request = nop();
    struct gm_job jobs[2] = {0};
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    (void)state;
    begin();
    assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[0]));
    assert_true(fake_take(&p.lane[0], words, &position));
    for (uint64_t lap = 0; lap < 40; lap++) {
        if (lap != 1)
            fake_answer(&p.lane[0], position + 8 * (lap - 1), 0, GM_OK, 1);
        assert_int_equal(GM_OK, gm_poll(client));
        assert_int_equal(GM_EAGAIN, gm_job_status(&jobs[0]));
    }
    for (uint32_t bit = 0; bit < 32; bit++) {
        const uint32_t lap = 1u ^ 1u << bit;
        fake_answer(&p.lane[0], position + 8 * ((uint64_t)lap - 1), 0, GM_OK, 1);
        assert_int_equal(GM_OK, gm_poll(client));
        assert_int_equal(GM_EAGAIN, gm_job_status(&jobs[0]));
    }
    fake_answer(&p.lane[0], position, 0, GM_OK, 1);
    assert_int_equal(GM_OK, gm_wait(client, &jobs[0], in_ms(20000)));
    end();
}

static void answers_to_jobs_that_are_not_pending_are_ignored(void **state)
{
    const struct gm_request request = nop();
    struct gm_job job = {0};
    struct gm_result result;

    (void)state;
    begin();
    for (uint64_t i = 0; i < 8; i++)
        fake_answer(&p.lane[0], i + 8 * 7, 666, GM_OK, 1);
    assert_int_equal(GM_OK, gm_poll(client));
    assert_null(gm_next(client));
    assert_int_equal(GM_OK, gm_submit(client, &request, &job));
    fake_do(&p.lane[0], 1);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    /* Twice, and once more with other words. */
    fake_answer(&p.lane[0], 0, 666, GM_EINVAL, 1);
    assert_int_equal(GM_OK, gm_poll(client));
    assert_null(gm_next(client));
    assert_int_equal(GM_OK, gm_job_result(&job, &result));
    end();
}

static void statuses_that_do_not_exist_are_failures(void **state)
{
    static const int32_t statuses[] = {GM_EAGAIN, 1, 32767, -1000, -32768};
    const struct gm_request request = nop();
    uint32_t words[GM_DESC_WORDS];
    struct gm_failure failure;
    struct gm_job job = {0};
    uint64_t position;

    (void)state;
    begin();
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        assert_int_equal(GM_OK, gm_submit(client, &request, &job));
        assert_true(fake_take(&p.lane[0], words, &position));
        fake_answer(&p.lane[0], position, 0, statuses[i], 1);
        const int rc = gm_wait(client, &job, in_ms(20000));
        assert_int_equal(i < 3 ? GM_EPROTO : statuses[i], rc);
        gm_job_failure(&job, &failure);
        assert_int_equal(rc, failure.status);
        assert_true(failure.text[0] != '\0');
    }
    end();
}

static void states_that_do_not_exist_end_the_lane(void **state)
{
    static const uint32_t states[] = {0, 5, UINT32_MAX};
    const struct gm_request request = nop();
    struct gm_failure failure;

    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        struct gm_job job = {0};
        begin();
        assert_int_equal(GM_OK, gm_submit(client, &request, &job));
        fake_state(&p.lane[0], (enum gm_lane_state)states[i], 77);
        assert_int_equal(GM_ECLOSED, gm_wait(client, &job, in_ms(20000)));
        gm_job_failure(&job, &failure);
        assert_string_equal("the daemon took the lane back", failure.text);
        assert_int_equal(0, gm_lanes(client));
        end();
    }
}

/* The daemon gives the pages of a lane back when it ends the session: all zeroes, whatever lap is expected. */
static void memory_that_was_taken_back_answers_nothing(void **state)
{
    const uint64_t start = ((UINT64_C(1) << 32) - 2) * 8;
    const struct gm_request request = nop();
    struct gm_job jobs[16], *found[16];

    (void)state;
    lanes_start(&p, 1, 8, start);
    client = lanes_open(&p, (struct gm_options){.lane_only = 1});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[i]));
        if (i < 8)
            fake_do(&p.lane[0], 0);
        assert_int_equal(GM_OK, gm_poll(client));
    }
    assert_int_equal(8, gm_next_batch(client, found, 16));
    /* Those of lap 0 are pending. */
    assert_int_equal(0, fallocate(p.lane[0].memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                  (off_t)gm_lane_bytes(8)));
    for (int i = 8; i < 16; i++)
        assert_int_equal(GM_ECLOSED, gm_wait(client, &jobs[i], in_ms(20000)));
    end();
}

/* The other side scribbles over everything that it can write, for as long as it takes. */
static void scribbled_lane_harms_nobody(void **state)
{
    const struct gm_request request = nop();
    static struct gm_job jobs[8];
    uint32_t random = 88172645u;

    (void)state;
    for (int round = 0; round < 60; round++) {
        begin();
        memset(jobs, 0, sizeof jobs);
        for (int i = 0; i < 8; i++)
            assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[i]));
        for (int i = 0; i < 2000; i++) {
            random ^= random << 13, random ^= random >> 17, random ^= random << 5;
            const uint64_t cell = random % (8 * 4 + 8 * 16 + 64);
            uint32_t *const words = (uint32_t *)(void *)p.lane[0].header;
            const uint64_t word = cell < 32    ? gm_lane_cq_offset(8) / 4 + cell
                                  : cell < 160 ? gm_lane_sq_offset() / 4 + cell - 32
                                  : round < 40 ? gm_lane_cq_offset(8) / 4 + cell % 32
                                               : cell - 160 + 64;
            __atomic_store_n(&words[word], random % 3 == 0 ? 1 : random >> 3, __ATOMIC_RELAXED);
            assert_int_equal(GM_OK, gm_poll(client));
            struct gm_job *const job = gm_next(client);
            if (job != NULL && gm_lanes(client) == 1)
                (void)gm_submit(client, &request, job);
        }
        end();
        for (int i = 0; i < 8; i++)
            assert_true(gm_job_status(&jobs[i]) != GM_EAGAIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granules_of_other_laps_answer_nothing),
        cmocka_unit_test(answers_to_jobs_that_are_not_pending_are_ignored),
        cmocka_unit_test(statuses_that_do_not_exist_are_failures),
        cmocka_unit_test(states_that_do_not_exist_end_the_lane),
        cmocka_unit_test(memory_that_was_taken_back_answers_nothing),
        cmocka_unit_test(scribbled_lane_harms_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
