/* SPDX-License-Identifier: Apache-2.0
 *
 * Drops that meet a dispatcher which is late: a try runs out of time, is done after all, and the next one finds nothing
 * to do. The test is the dispatcher: it stores the answers that the admin lane gets. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve.h"

#define LANE     3u
#define SEQUENCE 77u

static struct gm_server server;
static void *region;
static int daemon_end;
static uint32_t unmapped, freed;
static char text[GM_ERROR_TEXT_MAX];

static bool runs(struct gm_device *device)
{
    (void)device;
    return true;
}

static int is_well(struct gm_device *device, char *why)
{
    (void)device, (void)why;
    return GM_OK;
}

static void forget_wake(struct gm_device *device, uint32_t lane, int fd)
{
    (void)device, (void)lane, (void)fd;
}

static int count_unmap(struct gm_device *device, void *host, uint64_t bytes, char *why)
{
    (void)device, (void)host, (void)bytes, (void)why;
    unmapped++;
    return GM_OK;
}

static void count_free(struct gm_device *device, uint64_t address)
{
    (void)device, (void)address;
    freed++;
}

static const struct gm_backend backend = {.name = "late", .running = runs, .kick = is_well, .check = is_well,
                                          .lane_wake = forget_wake, .unmap = count_unmap, .free = count_free};

static void *memory(uint64_t bytes)
{
    void *const at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

static int begin(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    daemon_end = ends[1];
    region = memory(gm_region_bytes());
    unmapped = freed = 0;
    server = (struct gm_server){.backend = &backend, .control_fd = ends[0], .bells_fd = -1,
                                .region = (uint64_t)(uintptr_t)region};
    gm_admin_init(&server.admin, &backend, NULL, region);
    server.admin.header->slots_log2 = (uint32_t)__builtin_ctz(GM_ADMIN_SLOTS);
    server.lane[LANE] = (struct gm_lane_mapping){.host = memory(gm_lane_bytes(4)), .bytes = gm_lane_bytes(4),
                                                 .doorbell_fd = -1, .wake_fd = -1};
    server.arena[1] = (struct gm_mapping){.handle = gm_handle(1, 1), .bytes = 4096, .address = 4096};
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (server.lane[LANE].host)
        munmap(server.lane[LANE].host, server.lane[LANE].bytes);
    munmap(region, gm_region_bytes());
    close(server.control_fd);
    close(daemon_end);
    return 0;
}

/* What the dispatcher answers to the descriptor at this position. */
static void answer(uint64_t position, int status)
{
    const uint32_t lap = gm_lap(position, server.admin.header->slots_log2);

    gm_store16_sys(&server.admin.cq[position & (GM_ADMIN_SLOTS - 1u)], gm_completion(0, status, 0, lap));
}

static void assert_replied(int status)
{
    struct gm_control reply;

    assert_int_equal(sizeof reply, recv(daemon_end, &reply, sizeof reply, MSG_DONTWAIT));
    assert_int_equal(GM_CONTROL_REPLY, reply.type);
    assert_int_equal(SEQUENCE, reply.sequence);
    assert_int_equal(status, reply.status);
}

static void assert_nothing_replied(void)
{
    char byte;

    assert_int_equal(-1, recv(daemon_end, &byte, 1, MSG_DONTWAIT));
}

static void lane_that_was_closed_late_is_let_go_of(void **state)
{
    (void)state;
    assert_int_equal(GM_OK, gm_server_lane_drop(&server, LANE, SEQUENCE, text));
    assert_int_equal(1, server.closing);
    assert_nothing_replied();
    answer(0, GM_OK);
    answer(1, GM_EINVAL);
    assert_int_equal(GM_OK, gm_server_lane_close(&server, LANE, text));
    assert_int_equal(0, server.closing);
    assert_int_equal(1, unmapped);
    assert_null(server.lane[LANE].host);
    assert_replied(GM_OK);
}

static void lane_that_is_late_and_busy_is_asked_again(void **state)
{
    (void)state;
    assert_int_equal(GM_OK, gm_server_lane_drop(&server, LANE, SEQUENCE, text));
    answer(0, GM_EBUSY);
    answer(1, GM_EBUSY);
    assert_int_equal(GM_EBUSY, gm_server_lane_close(&server, LANE, text));
    assert_int_equal(1, server.closing);
    assert_nothing_replied();
    answer(2, GM_OK);
    assert_int_equal(GM_OK, gm_server_lane_close(&server, LANE, text));
    assert_null(server.lane[LANE].host);
    assert_replied(GM_OK);
}

/* Nobody closed it: what else is wrong nobody knows, so the memory stays. */
static void lane_that_the_table_lacks_stays_mapped(void **state)
{
    (void)state;
    answer(0, GM_EINVAL);
    assert_int_equal(GM_OK, gm_server_lane_drop(&server, LANE, SEQUENCE, text));
    assert_int_equal(0, server.closing);
    assert_int_equal(0, unmapped);
    assert_non_null(server.lane[LANE].host);
    assert_replied(GM_EINVAL);
}

static void arena_that_was_cleared_late_is_let_go_of(void **state)
{
    (void)state;
    assert_int_equal(GM_OK, gm_server_arena_drop(&server, gm_handle(1, 1), SEQUENCE, text));
    assert_int_equal(1, server.closing);
    assert_nothing_replied();
    answer(0, GM_OK);
    answer(1, GM_EINVAL);
    assert_int_equal(GM_OK, gm_server_arena_close(&server, &server.arena[1], text));
    assert_int_equal(0, server.closing);
    assert_int_equal(1, freed);
    assert_int_equal(0, server.arena[1].handle);
    assert_replied(GM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lane_that_was_closed_late_is_let_go_of, begin, end),
        cmocka_unit_test_setup_teardown(lane_that_is_late_and_busy_is_asked_again, begin, end),
        cmocka_unit_test_setup_teardown(lane_that_the_table_lacks_stays_mapped, begin, end),
        cmocka_unit_test_setup_teardown(arena_that_was_cleared_late_is_let_go_of, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
