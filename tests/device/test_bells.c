/* SPDX-License-Identifier: Apache-2.0
 *
 * Doorbells and wake descriptors, apart from any device: what clients may do to the file descriptions they share
 * neither blocks nor loses anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "bells.h"
#include "control.h"
#include "errors.h"
#include "wakes.h"

#define BELLS 200

static void ring(int fd)
{
    const uint64_t one = 1;
    assert_int_equal(write(fd, &one, sizeof one), (ssize_t)sizeof one);
}

static int bell(void)
{
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void every_ring_is_an_edge_though_nobody_reads(void **state)
{
    (void)state;
    const int bells = gm_bells_open(), fd = bell();
    assert_int_equal(gm_bells_add(bells, fd), GM_OK);
    assert_false(gm_bells_wait(bells, 0));
    for (int i = 0; i < 1000; i++) {
        ring(fd);
        assert_true(gm_bells_wait(bells, -1));
        assert_false(gm_bells_wait(bells, 0));
    }
    close(fd);
    close(bells);
}

static void ring_before_the_doorbell_is_added_counts(void **state)
{
    (void)state;
    const int bells = gm_bells_open(), fd = bell();
    ring(fd);
    assert_int_equal(gm_bells_add(bells, fd), GM_OK);
    assert_true(gm_bells_wait(bells, -1));
    close(fd);
    close(bells);
}

/* More than one batch of events, all at once. */
static void one_wait_forgets_all_that_rang(void **state)
{
    (void)state;
    const int bells = gm_bells_open();
    int fd[BELLS];
    for (int i = 0; i < BELLS; i++) {
        fd[i] = bell();
        assert_int_equal(gm_bells_add(bells, fd[i]), GM_OK);
        ring(fd[i]);
    }
    assert_true(gm_bells_wait(bells, -1));
    assert_false(gm_bells_wait(bells, 0));
    ring(fd[BELLS - 1]);
    assert_true(gm_bells_wait(bells, -1));
    for (int i = 0; i < BELLS; i++)
        close(fd[i]);
    close(bells);
}

/* A client that fills its own doorbell has only that one out of order, and one that empties it takes nothing away. */
static void hostile_doorbell_neither_blocks_nor_silences_others(void **state)
{
    (void)state;
    const uint64_t most = UINT64_MAX - 1u, one = 1;
    uint64_t count;
    const int bells = gm_bells_open(), hostile = bell(), honest = bell();
    assert_int_equal(gm_bells_add(bells, hostile), GM_OK);
    assert_int_equal(gm_bells_add(bells, honest), GM_OK);
    assert_int_equal(write(hostile, &most, sizeof most), (ssize_t)sizeof most);
    assert_true(gm_bells_wait(bells, -1));
    assert_int_equal(write(hostile, &one, sizeof one), -1);
    assert_int_equal(errno, EAGAIN);
    assert_false(gm_bells_wait(bells, 0));
    ring(honest);
    assert_int_equal(read(honest, &count, sizeof count), (ssize_t)sizeof count);
    ring(honest);
    assert_int_equal(fcntl(hostile, F_SETFL, 0), 0); /* the description is shared: it blocks for everybody now */
    assert_true(gm_bells_wait(bells, -1));
    assert_false(gm_bells_wait(bells, 0));
    close(hostile);
    close(honest);
    close(bells);
}

/* The client's copy keeps the description alive: without an explicit removal it would stay in the set. */
static void dropped_doorbell_is_heard_no_more(void **state)
{
    (void)state;
    const int bells = gm_bells_open(), fd = bell(), copy = dup(fd);
    assert_true(copy >= 0);
    assert_int_equal(gm_bells_add(bells, fd), GM_OK);
    gm_bells_drop(bells, fd);
    close(fd);
    ring(copy);
    assert_false(gm_bells_wait(bells, 0));
    close(copy);
    close(bells);
}

/* As the CUDA backend has them, beside its notices. */
static void bells_stand_in_another_set(void **state)
{
    (void)state;
    const int bells = gm_bells_open(), fd = bell(), outer = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd p = {.fd = outer, .events = POLLIN};
    assert_int_equal(epoll_ctl(outer, EPOLL_CTL_ADD, bells, &event), 0);
    for (int i = 0; i < 1000; i++) {
        if (i % 3 == 0)
            assert_int_equal(gm_bells_add(bells, fd), GM_OK);
        assert_int_equal(poll(&p, 1, 0), i % 3 == 0 && i > 0); /* it had rung before it was added */
        assert_true(gm_bells_wait(bells, 0) == (i % 3 == 0 && i > 0));
        ring(fd);
        assert_int_equal(poll(&p, 1, -1), 1);
        assert_int_equal(poll(&p, 1, 0), 1); /* until it was waited for */
        assert_true(gm_bells_wait(bells, 0));
        assert_int_equal(poll(&p, 1, 0), 0);
        if (i % 3 == 2)
            gm_bells_drop(bells, fd);
    }
    close(outer);
    close(fd);
    close(bells);
}

static void what_cannot_ring_is_refused(void **state)
{
    (void)state;
    const int bells = gm_bells_open(), file = memfd_create("file", MFD_CLOEXEC);
    assert_int_equal(gm_bells_add(bells, file), GM_EINVAL);
    assert_int_equal(gm_bells_add(bells, -1), GM_EINVAL);
    close(file);
    close(bells);
}

static void *ring_without_end(void *arg)
{
    const uint64_t one = 1;
    const int *fd = arg;
    while (__atomic_load_n(&fd[BELLS], __ATOMIC_RELAXED) == 0)
        for (int i = 0; i < BELLS; i++)
            assert_true(write(fd[i], &one, sizeof one) > 0);
    return NULL;
}

static void clients_that_ring_without_end_hold_nobody(void **state)
{
    (void)state;
    const int bells = gm_bells_open();
    static int fd[BELLS + 1];
    pthread_t thread[2];
    for (int i = 0; i < BELLS; i++) {
        fd[i] = bell();
        assert_int_equal(gm_bells_add(bells, fd[i]), GM_OK);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ring_without_end, fd), 0);
    for (int i = 0; i < 1000; i++)
        assert_true(gm_bells_wait(bells, -1));
    __atomic_store_n(&fd[BELLS], 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < BELLS; i++)
        close(fd[i]);
    close(bells);
}

static uint64_t readable(int fd)
{
    char bytes[64];
    const ssize_t n = read(fd, bytes, sizeof bytes);
    return n > 0 ? (uint64_t)n : 0;
}

static void each_lane_of_the_bits_is_woken_and_no_other(void **state)
{
    (void)state;
    static struct gm_wakes wakes;
    static const uint32_t lanes[] = {1, 31, 32, 255, GM_LANES_MAX};
    uint32_t bits[GM_LANE_WORDS] = {0};
    int ends[sizeof lanes / sizeof lanes[0]][2];
    const int daemon_fd = bell();
    uint64_t count;
    gm_wakes_init(&wakes, daemon_fd);
    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
        assert_int_equal(pipe2(ends[i], O_NONBLOCK | O_CLOEXEC), 0);
        gm_wakes_set(&wakes, lanes[i], ends[i][1]);
    }
    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
        memset(bits, 0, sizeof bits);
        bits[lanes[i] / 32u] = 1u << (lanes[i] & 31u);
        gm_wakes_ring(&wakes, bits);
        for (size_t k = 0; k < sizeof lanes / sizeof lanes[0]; k++)
            assert_int_equal(readable(ends[k][0]), k == i ? 1 : 0);
    }
    assert_int_equal(read(daemon_fd, &count, sizeof count), -1);
    memset(bits, 0xff, sizeof bits); /* also lanes that nobody has, and bits that are no lane */
    gm_wakes_ring(&wakes, bits);
    for (size_t k = 0; k < sizeof lanes / sizeof lanes[0]; k++) {
        assert_int_equal(readable(ends[k][0]), 1);
        gm_wakes_set(&wakes, lanes[k], -1);
    }
    assert_int_equal(read(daemon_fd, &count, sizeof count), (ssize_t)sizeof count);
    assert_int_equal(count, 1);
    gm_wakes_ring(&wakes, bits);
    for (size_t k = 0; k < sizeof lanes / sizeof lanes[0]; k++) {
        assert_int_equal(readable(ends[k][0]), 0);
        close(ends[k][0]);
        close(ends[k][1]);
    }
    gm_wakes_destroy(&wakes);
    close(daemon_fd);
}

static void full_pipe_and_lost_reader_hold_nobody(void **state)
{
    (void)state;
    static struct gm_wakes wakes;
    uint32_t bits[GM_LANE_WORDS] = {6};
    char block[4096] = {0};
    int full[2], lost[2];
    signal(SIGPIPE, SIG_IGN); /* as in the device process */
    assert_int_equal(pipe2(full, O_NONBLOCK | O_CLOEXEC), 0);
    assert_int_equal(pipe2(lost, O_NONBLOCK | O_CLOEXEC), 0);
    close(lost[0]);
    while (write(full[1], block, sizeof block) > 0) {
    }
    gm_wakes_init(&wakes, -1);
    gm_wakes_set(&wakes, 1, full[1]);
    gm_wakes_set(&wakes, 2, lost[1]);
    for (int i = 0; i < 100; i++)
        gm_wakes_ring(&wakes, bits);
    assert_true(readable(full[0]) > 0);
    gm_wakes_destroy(&wakes);
    close(full[0]);
    close(full[1]);
    close(lost[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ring_is_an_edge_though_nobody_reads),
        cmocka_unit_test(ring_before_the_doorbell_is_added_counts),
        cmocka_unit_test(one_wait_forgets_all_that_rang),
        cmocka_unit_test(hostile_doorbell_neither_blocks_nor_silences_others),
        cmocka_unit_test(dropped_doorbell_is_heard_no_more),
        cmocka_unit_test(bells_stand_in_another_set),
        cmocka_unit_test(what_cannot_ring_is_refused),
        cmocka_unit_test(clients_that_ring_without_end_hold_nobody),
        cmocka_unit_test(each_lane_of_the_bits_is_woken_and_no_other),
        cmocka_unit_test(full_pipe_and_lost_reader_hold_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
