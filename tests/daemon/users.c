/* SPDX-License-Identifier: Apache-2.0
 *
 * What one user may have of the tables that all users share, in the real daemon: jobs, lanes, arenas; who is refused,
 * who is not, and what stats say of it. Test thread and a child daemon with the fake device; the other user is a
 * process of its own, which only root can make.
 */
#include "lane_client.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Small enough to be filled in no time, and less than a session may have. */
#define JOBS 12
#define LANES 3
#define ARENAS 6
static const char *const args[] = {"--user-jobs", "12", "--user-lanes", "3", "--user-arenas", "6", NULL};

/* A refusal that may be tried again, and says which bound was met. */
static void refused(const struct gm_wire_response *response, int code, const char *text)
{
    assert_int_equal(code_of(response), code);
    assert_true(gm_error_is_retriable(response->problem.code));
    assert_string_equal(response->problem.text, text);
}

/* A device that takes nothing cannot be drained. */
static void end_daemon(void)
{
    daemon_kill(&child);
}

/* ---- jobs ---- */

static int has_jobs_of_his_own(void)
{
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    client_send_nops(c, JOBS + 1);
    if (!client_receive(c, &r) || code_of(&r) != GM_EBUSY) /* the last one */
        return 1;
    snapshot(c, &r);
    if (response_u64(&r, "users.0.uid") != OTHER_UID || response_u64(&r, "users.0.inflight") != JOBS)
        return 2;
    return response_u64(&r, "devices.0.queue_depth") == 2 * JOBS ? 0 : 3;
}

static void jobs_of_a_user_are_bounded_over_all_its_sessions(void **state)
{
    (void)state;
    struct gm_wire_response r;
    daemon_start(&child, "hang", args);
    struct client *c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = client_open(&child, false);
        client_send_nops(c[i], JOBS / 3);
    }
    stats_wait(&child, "devices.0.queue_depth", JOBS);
    assert_int_equal(client_code(c[2], request_nop(), &r), GM_EBUSY);
    refused(&r, GM_EBUSY, "busy: the user has 12 of 12 jobs in flight (--user-jobs)");
    snapshot(c[2], &r);
    assert_int_equal(response_u64(&r, "users.0.uid"), geteuid());
    assert_int_equal(response_u64(&r, "users.0.inflight"), JOBS);
    assert_int_equal(response_u64(&r, "limits.inflight_per_user"), JOBS);
    assert_int_equal(response_u64(&r, "daemon.rejected_busy"), 1);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_jobs_of_his_own), 0);
    client_close(c[0]); /* with its jobs */
    stats_wait(&child, "users.0.inflight", JOBS - JOBS / 3);
    client_send_nops(c[1], JOBS / 3);
    stats_wait(&child, "users.0.inflight", JOBS);
    client_close(c[1]), client_close(c[2]);
    end_daemon();
}

static void answered_jobs_are_counted_no_more(void **state)
{
    (void)state;
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 5; i++) { /* with errors and without */
        struct gm_wire_request bad = request_of(GM_METHOD_SUBMIT);
        struct gm_wire_response r;
        bad.u.submit.op = GM_OP_sum, bad.u.submit.args.dtype = GM_DTYPE_f32, bad.u.submit.args.n = 1;
        bad.u.submit.buffers = 1;
        bad.u.submit.buffer[0] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = 1};
        client_send_nops(c, JOBS);
        assert_int_equal(client_receive_done(c, JOBS, 0), JOBS);
        assert_int_equal(client_code(c, bad, &r), GM_EARENA);
        assert_int_equal(stats_u64(&child, "users.0.inflight"), 0);
    }
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- lanes ---- */

static int has_lanes_of_his_own(void)
{
    struct lane lane;
    for (int i = 0; i <= LANES; i++)
        if (lane_open(client_open(&child, false), 0, 0, &lane) != (i < LANES ? GM_OK : GM_EQUOTA))
            return 1 + i;
    return stats_u64(&child, "devices.0.lanes") == 2 * LANES ? 0 : 100;
}

static void lanes_of_a_user_are_bounded_on_each_device(void **state)
{
    (void)state;
    static const char *const two[] = {"--device", "cpu", "--device", "cpu", "--user-lanes", "3", NULL};
    struct gm_wire_request open = request_of(GM_METHOD_LANE_OPEN);
    struct gm_wire_response r;
    struct client *c[LANES + 1];
    struct lane lane[LANES], other;
    daemon_start(&child, "normal", two);
    for (int i = 0; i <= LANES; i++)
        c[i] = client_open(&child, false);
    for (int i = 0; i < LANES; i++)
        assert_int_equal(lane_open(c[i], 0, 0, &lane[i]), GM_OK);
    open.u.lane_open.has_device = true;
    client_call(c[LANES], &open, &r);
    refused(&r, GM_EQUOTA, "the user has 3 of 3 lanes on the device (--user-lanes)");
    assert_int_equal(lane_open(c[LANES], 1, 0, &other), GM_OK); /* its places are others */
    snapshot(c[0], &r);
    assert_int_equal(response_u64(&r, "users.0.lanes"), LANES + 1);
    assert_int_equal(response_u64(&r, "users.0.lanes_most"), LANES);
    assert_int_equal(response_u64(&r, "limits.lanes_per_user"), LANES);
    assert_int_equal(response_u64(&r, "daemon.rejected_quota"), 1);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_lanes_of_his_own), 0);
    lane_unmap(&lane[0]), lane_unmap(&other);
    assert_int_equal(lane_close(c[0], &lane[0]), GM_OK);
    assert_int_equal(lane_close(c[LANES], &other), GM_OK);
    assert_int_equal(lane_open(c[LANES], 0, 0, &other), GM_OK);
    lane_unmap(&other);
    for (int i = 0; i <= LANES; i++) {
        if (i != 0 && i < LANES)
            lane_unmap(&lane[i]);
        client_close(c[i]);
    }
    struct client *last = client_open(&child, false);
    stats_wait(&child, "users.0.lanes", 0); /* they went with their clients */
    client_close(last);
    assert_int_equal(daemon_stop(&child), 0);
}

static int opens_a_lane_on_the_other_device(void)
{
    struct lane lane;
    for (int i = 0; i < 2; i++)
        if (lane_open(client_open(&child, false), 0, 0, &lane) != GM_OK)
            return 1 + i;
    /* Device 1 has more lanes, but not his. */
    for (int i = 0; i < 2; i++)
        if (lane_open(client_open(&child, false), -1, 0, &lane) != GM_OK || lane.device != 1)
            return 3 + i;
    return lane_open(client_open(&child, false), -1, 0, &lane) == GM_EQUOTA ? 0 : 5;
}

static void a_lane_leads_where_its_user_may_have_one(void **state)
{
    (void)state;
    static const char *const two[] = {"--device", "cpu", "--device", "cpu", "--user-lanes", "2", NULL};
    struct client *c[2];
    struct lane lane;
    needs_root();
    daemon_start(&child, "normal", two);
    for (int i = 0; i < 2; i++) {
        c[i] = client_open(&child, false);
        assert_int_equal(lane_open(c[i], 1, 0, &lane), GM_OK);
        lane_unmap(&lane);
    }
    assert_int_equal(as_another_user(opens_a_lane_on_the_other_device), 0);
    client_close(c[0]), client_close(c[1]);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- arenas ---- */

static int has_arenas_of_his_own(void)
{
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    for (int i = 0; i < ARENAS; i++)
        if (client_code(c, request_create("", 4096, true), &r) != GM_OK)
            return 1 + i;
    return client_code(c, request_create("", 4096, true), &r) == GM_EQUOTA ? 0 : 100;
}

static void arenas_of_a_user_are_bounded_and_a_name_counts_beside_its_handles(void **state)
{
    (void)state;
    const struct gm_wire_request one = request_create("", 4096, true);
    const struct gm_wire_request attach = request_by_name(GM_METHOD_ARENA_ATTACH, "w");
    struct gm_wire_response r;
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(client_code(c, request_create("w", 4096, true), &r), GM_OK); /* two */
    assert_int_equal(client_code(c, one, &r), GM_OK);
    assert_int_equal(client_code(d, attach, &r), GM_OK);
    assert_int_equal(client_code(d, one, &r), GM_OK);
    assert_int_equal(stats_u64(&child, "users.0.arenas"), ARENAS - 1);
    assert_int_equal(client_code(d, request_create("v", 4096, true), &r), GM_EQUOTA); /* would be two more */
    refused(&r, GM_EQUOTA, "the user has 5 of 6 arenas (--user-arenas)");
    assert_int_equal(client_code(d, one, &r), GM_OK);
    assert_int_equal(client_code(d, one, &r), GM_EQUOTA);
    refused(&r, GM_EQUOTA, "the user has 6 of 6 arenas (--user-arenas)");
    assert_int_equal(client_code(c, attach, &r), GM_EQUOTA);
    assert_int_equal(stats_u64(&child, "limits.arenas_per_user"), ARENAS);
    assert_int_equal(stats_u64(&child, "daemon.rejected_quota"), 3);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_arenas_of_his_own), 0);
    client_close(d); /* three of them */
    stats_wait(&child, "users.0.arenas", ARENAS - 3);
    assert_int_equal(client_code(c, attach, &r), GM_OK);
    client_close(c);
    stats_wait(&child, "users.0.arenas", 1); /* the name */
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_creation_that_fails_counts_for_nothing(void **state)
{
    (void)state;
    struct gm_wire_response r;
    daemon_start(&child, "refuse", args);
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 3 * ARENAS; i++) {
        assert_int_equal(client_code(c, request_create(i % 3 == 0 ? "w" : "", 4096, i % 2 != 0), &r), GM_ENOMEM);
        stats_wait(&child, "users.0.arenas", 0);
    }
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- who sees what ---- */

static struct client *opened_by_root; /* on the admin socket */

static int sees_himself_only(void)
{
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    if (client_code(c, request_create("", 8192, true), &r) != GM_OK)
        return 1;
    snapshot(c, &r);
    if (response_count(&r, "users") != 1 || response_u64(&r, "users.0.uid") != OTHER_UID ||
        response_u64(&r, "users.0.sessions") != 1 || response_u64(&r, "users.0.arena_bytes") != 8192)
        return 2;
    snapshot(opened_by_root, &r);
    return response_count(&r, "users") == 2 && response_u64(&r, "users.1.arenas") == 1 ? 0 : 3;
}

static void what_others_have_is_shown_to_root_and_on_the_admin_socket(void **state)
{
    (void)state;
    struct gm_wire_response r;
    needs_root();
    daemon_start(&child, "normal", NULL);
    opened_by_root = client_open(&child, true);
    struct client *c = client_open(&child, false);
    assert_int_equal(as_another_user(sees_himself_only), 0);
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        snapshot(c, &r); /* a user that is gone has no row */
        if (response_count(&r, "users") == 1)
            break;
    }
    assert_int_equal(response_count(&r, "users"), 1);
    assert_int_equal(response_u64(&r, "users.0.sessions"), 2);
    client_close(c), client_close(opened_by_root);
    assert_int_equal(daemon_stop(&child), 0);
}

static void no_user_alone_can_take_a_table_unless_told_so(void **state)
{
    (void)state;
    struct gm_wire_response r;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    snapshot(c, &r);
    assert_int_equal(response_u64(&r, "limits.inflight_per_user"), response_u64(&r, "limits.inflight") * 3 / 4);
    assert_int_equal(response_u64(&r, "limits.lanes_per_user"), response_u64(&r, "limits.lanes") * 3 / 4);
    assert_int_equal(response_u64(&r, "limits.sessions_per_user"), response_u64(&r, "limits.sessions") / 2);
    assert_int_equal(response_u64(&r, "limits.shared_bytes_per_user"),
                     response_u64(&r, "limits.arena_bytes_all") * 3 / 4);
    assert_true(response_u64(&r, "limits.arenas_per_user") <= response_u64(&r, "limits.arenas") * 3 / 4);
    assert_true(response_u64(&r, "limits.arenas_per_user") >= 700);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(jobs_of_a_user_are_bounded_over_all_its_sessions),
        T(answered_jobs_are_counted_no_more),
        T(lanes_of_a_user_are_bounded_on_each_device),
        T(a_lane_leads_where_its_user_may_have_one),
        T(arenas_of_a_user_are_bounded_and_a_name_counts_beside_its_handles),
        T(a_creation_that_fails_counts_for_nothing),
        T(what_others_have_is_shown_to_root_and_on_the_admin_socket),
        T(no_user_alone_can_take_a_table_unless_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
