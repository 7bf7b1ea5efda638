/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections whose owner says when they are read, and for how long: frames wait, in order, and none is lost. Single
 * thread; the peer is the test itself.
 */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "errors.h"

#define CONNS 3u
#define A_TURN 2u /* frames */

static uv_loop_t loop;
static struct gm_conn_io io;
static struct gm_conn conn[CONNS];
static int peer[CONNS];
static bool its_turn[CONNS], gone[CONNS];
static uint32_t frames[CONNS], until[CONNS];

static uint32_t index_of(const struct gm_conn *c)
{
    return (uint32_t)(c - conn);
}

/* A frame has one byte: its number. */
static bool on_frame(struct gm_conn *c, const uint8_t *body, size_t size)
{
    assert_int_equal(size, 1);
    assert_int_equal(*body, frames[index_of(c)]++);
    return true;
}

static bool may_read(struct gm_conn *c)
{
    const uint32_t i = index_of(c);
    until[i] = its_turn[i] ? frames[i] + A_TURN : until[i];
    return its_turn[i];
}

static bool may_go_on(const struct gm_conn *c)
{
    return frames[index_of(c)] < until[index_of(c)];
}

static bool is_busy(const struct gm_conn *c)
{
    (void)c;
    return false;
}

static void on_gone(struct gm_conn *c, const char *reason)
{
    (void)reason;
    gone[index_of(c)] = true;
}

static void on_closed(struct gm_conn *c)
{
    (void)c;
}

static int set_up(void **state)
{
    (void)state;
    if (uv_loop_init(&loop) != 0)
        return -1;
    io = (struct gm_conn_io){.loop = &loop,
                             .on_frame = on_frame,
                             .may_read = may_read,
                             .may_go_on = may_go_on,
                             .is_busy = is_busy,
                             .on_gone = on_gone,
                             .on_closed = on_closed};
    for (uint32_t i = 0; i < CONNS; i++) {
        int pair[2];
        its_turn[i] = gone[i] = false, frames[i] = until[i] = 0;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0 ||
            gm_conn_open(&conn[i], &io, pair[0]) != GM_OK)
            return -1;
        peer[i] = pair[1];
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CONNS; i++) {
        gm_conn_close(&conn[i], "test");
        if (peer[i] >= 0)
            close(peer[i]);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    gm_conn_flush_all(&io);
    assert_false(gm_conn_resume_all(&io));
}

static void send_frames(uint32_t i, uint8_t from, uint8_t to)
{
    for (uint8_t number = from; number < to; number++) {
        const uint8_t frame[5] = {0, 0, 0, 1, number};
        assert_int_equal(send(peer[i], frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    }
}

static void frames_wait_for_their_turn_and_none_is_lost(void **state)
{
    (void)state;
    send_frames(0, 0, 8);
    turn(), turn();
    assert_false(gm_conn_later(&io)); /* nothing was read */
    assert_int_equal(frames[0], 0);
    its_turn[0] = true;
    turn(); /* all of it is read, and some handled */
    for (uint32_t seen = A_TURN; seen < 8; seen += A_TURN) {
        assert_int_equal(frames[0], seen);
        assert_true(conn[0].held);
        its_turn[0] = false;
        gm_conn_resume(&conn[0]); /* as when output was sent, which is no reason to go on */
        turn();
        assert_false(gm_conn_later(&io));
        its_turn[0] = true;
        assert_true(gm_conn_later(&io));
        turn();
    }
    assert_int_equal(frames[0], 8);
    assert_false(conn[0].held);
    assert_null(io.later);
    send_frames(0, 8, 9); /* it is read as before */
    turn();
    assert_int_equal(frames[0], 9);
}

static void they_wait_in_order_and_may_leave(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CONNS; i++) {
        its_turn[i] = true;
        send_frames(i, 0, 10);
        turn();
        its_turn[i] = false;
    }
    assert_ptr_equal(io.later, &conn[0]);
    assert_ptr_equal(io.later_last, &conn[CONNS - 1]);
    its_turn[1] = true;
    assert_true(gm_conn_later(&io)); /* the others are put off again, and the second once more */
    assert_int_equal(frames[1], 2 * A_TURN);
    assert_ptr_equal(io.later, &conn[0]);
    gm_conn_close(&conn[2], "the last one leaves");
    assert_ptr_equal(io.later_last, &conn[1]);
    close(peer[0]), peer[0] = -1; /* and the first one */
    turn();
    assert_true(gone[0]);
    assert_ptr_equal(io.later, &conn[1]);
    assert_ptr_equal(io.later_last, &conn[1]);
    while (frames[1] != 10)
        assert_true(gm_conn_later(&io));
    assert_false(gm_conn_later(&io));
    assert_null(io.later);
}

static void what_waits_in_connections_is_in_the_account_of_their_owner(void **state)
{
    (void)state;
    static const uint8_t part[] = {0, 0, 0, 200, 1, 2, 3};
    struct gm_conn_account account = {0, 0};
    struct gm_problem problem;
    io.account_in_max = 2 * sizeof part + 2;
    for (uint32_t i = 0; i < CONNS; i++)
        conn[i].account = &account, its_turn[i] = true;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(send(peer[i], part, sizeof part, MSG_NOSIGNAL), sizeof part);
    turn();
    assert_int_equal(account.in, 2 * sizeof part);
    assert_int_equal(send(peer[2], part, 2, MSG_NOSIGNAL), 2);
    turn();
    assert_int_equal(account.in, 2 * sizeof part + 2);
    send_frames(1, 9, 10); /* more of a frame of 200 bytes, and there is no room for it */
    turn(), turn();
    assert_true(gone[1] && !gone[0] && !gone[2]);
    assert_int_equal(account.in, sizeof part + 2);
    struct gm_wire_out out;
    gm_problem_set(&problem, GM_EBUSY, "", "any answer");
    assert_true(gm_conn_reserve(&conn[0], 512, &out));
    assert_int_equal(gm_wire_encode_error(&out, 1, true, &problem), GM_OK);
    gm_conn_commit(&conn[0], &out, -1);
    assert_int_equal(account.out, out.size);
    turn();
    assert_int_equal(account.out, 0); /* it is the peer's now */
    for (uint32_t i = 0; i < CONNS; i++)
        gm_conn_close(&conn[i], "the end");
    assert_true(account.in == 0 && account.out == 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(frames_wait_for_their_turn_and_none_is_lost),
        CASE(they_wait_in_order_and_may_leave),
        CASE(what_waits_in_connections_is_in_the_account_of_their_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
