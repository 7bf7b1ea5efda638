/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon that refuses lanes, or gives wrong ones: the client works on without the lane and says why; nothing crashes,
 * hangs or leaks.
 */
#include "lane_peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct lane_peer p;
static struct gm_client *client;

static size_t open_descriptors(void)
{
    DIR *const folder = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Without a lane, and working all the same. */
static void assert_socket_only(const char *why)
{
    const struct gm_request request = nop();
    struct gm_failure failure;

    gm_last_failure(client, &failure);
    if (strstr(failure.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", failure.text, why);
    assert_int_equal(0, gm_lanes(client));
    const uint32_t before = __atomic_load_n(&p.submits, __ATOMIC_SEQ_CST);
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), NULL));
    lanes_await(&p.submits, before + 1);
}

static void refused_lane_is_no_failure(void **state)
{
    static const int refusals[] = {GM_EMETHOD, GM_EQUOTA, GM_EDRAINING, GM_EDEVICELOST, GM_EFDS, GM_ENOMEM};

    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        lanes_make(&p, 2, 8, 0);
        p.refusal = refusals[i];
        lanes_serve(&p);
        client = lanes_open(&p, (struct gm_options){0});
        assert_int_equal(2, p.opens);
        assert_socket_only("no lane for you");
        gm_close(client);
        lanes_stop(&p);
    }
}

/* A daemon of before: hello does not speak of lanes, and none is asked for. */
static void older_daemon_is_not_asked(void **state)
{
    const struct gm_request request = nop();
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    client = peer_open(&peer);
    assert_int_equal(0, gm_lanes(client));
    assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), NULL));
    gm_close(client);
    peer_stop(&peer);
}

static void device_that_does_not_answer_costs_its_lane_only(void **state)
{
    struct gm_options options = {0};
    struct gm_failure failure;

    (void)state;
    lanes_make(&p, 1, 8, 0);
    p.silent = true;
    lanes_serve(&p);
    options.socket = p.peer.path;
    options.deadline_ns = in_ms(300);
    const uint64_t start_ns = gm_now_ns();
    assert_int_equal(GM_OK, gm_open(&options, &client, &failure));
    assert_in_range(gm_now_ns() - start_ns, 200000000u, 20000000000u);
    assert_socket_only("no answer to lane.open before the deadline");
    gm_close(client);
    lanes_stop(&p);
}

/* ---- Wrong answers to lane.open ---- */

static void no_slots(struct lane_reply *r) { r->slots = 0; }
static void one_slot(struct lane_reply *r) { r->slots = 1; }
static void odd_slots(struct lane_reply *r) { r->slots = 12; }
static void many_slots(struct lane_reply *r) { r->slots = 4096, r->bytes = gm_lane_bytes(4096); }
static void huge_slots(struct lane_reply *r) { r->slots = UINT64_C(1) << 40; }
static void wrong_bytes(struct lane_reply *r) { r->bytes -= 4096; }
static void more_bytes(struct lane_reply *r) { r->bytes = UINT64_MAX; }
static void other_slots(struct lane_reply *r) { r->slots = 16, r->bytes = gm_lane_bytes(16); }
static void wrong_device(struct lane_reply *r) { r->device = 16; }
static void wrong_start(struct lane_reply *r) { r->start = 8; }
static void starts_at(struct lane_reply *r, uint64_t start) { r->start = p.lane[0].header->start = start; }
static void start_in_lap_zero(struct lane_reply *r) { starts_at(r, ((UINT64_C(1) << 32) - 1) * 8); }
static void start_before_lap_zero(struct lane_reply *r) { starts_at(r, ((UINT64_C(1) << 32) - 2) * 8 + 1); }
static void large_number(struct lane_reply *r) { r->lane = UINT64_C(1) << 32; }
static void no_descriptors(struct lane_reply *r) { r->count = 0; }
static void one_descriptor(struct lane_reply *r) { r->count = 1; }
static void two_descriptors(struct lane_reply *r) { r->count = 2; }
static void swapped_bells(struct lane_reply *r)
{
    const int bell = r->fds[1];
    r->fds[1] = r->fds[2], r->fds[2] = bell;
}
static void memory_for_a_bell(struct lane_reply *r) { r->fds[2] = r->fds[0]; }
static void bell_for_memory(struct lane_reply *r) { r->fds[0] = r->fds[1]; }
static void write_end_for_a_bell(struct lane_reply *r) { r->fds[1] = p.lane[0].wake_fds[1]; }
static void blocking_bell(struct lane_reply *r) { fcntl(r->fds[1], F_SETFL, 0); }
static void blocking_wake(struct lane_reply *r) { fcntl(r->fds[2], F_SETFL, 0); }
static void no_magic(struct lane_reply *r) { (void)r, p.lane[0].header->magic++; }
static void newer_version(struct lane_reply *r) { (void)r, p.lane[0].header->version++; }
static void other_log(struct lane_reply *r) { (void)r, p.lane[0].header->slots_log2++; }

/* Memory with the right header; it is the test's own, and stays open until the next one. */
static void other_memory(struct lane_reply *r, size_t bytes, int seals)
{
    static int fd = -1;

    if (fd >= 0)
        close(fd);
    fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (write(fd, p.lane[0].header, 4096) != 4096 || ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, seals) != 0)
        abort();
    r->fds[0] = fd;
}

static void unsealed_memory(struct lane_reply *r) { other_memory(r, r->bytes, F_SEAL_GROW); }
static void short_memory(struct lane_reply *r) { other_memory(r, r->bytes - 4096, F_SEAL_SHRINK | F_SEAL_GROW); }

static const struct wrong {
    const char *name;
    void (*twist)(struct lane_reply *reply);
} wrongs[] = {
#define W(name) {#name, name}
    W(no_slots),          W(one_slot),          W(odd_slots),
    W(many_slots),        W(huge_slots),        W(wrong_bytes),
    W(more_bytes),        W(other_slots),       W(wrong_device),
    W(wrong_start),       W(start_in_lap_zero), W(start_before_lap_zero),
    W(large_number),      W(no_descriptors),    W(one_descriptor),
    W(two_descriptors),   W(swapped_bells),     W(memory_for_a_bell),
    W(bell_for_memory),   W(write_end_for_a_bell), W(blocking_bell),
    W(blocking_wake),     W(no_magic),          W(newer_version),
    W(other_log),         W(unsealed_memory),   W(short_memory),
#undef W
};

static void twist(struct lane_peer *peer, struct lane_reply *reply)
{
    const struct wrong *const wrong = peer->user;

    wrong->twist(reply);
}

static void wrong_lane_is_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        lanes_make(&p, 1, 8, 0);
        p.twist = twist;
        p.user = (void *)(uintptr_t)&wrongs[i];
        lanes_serve(&p);
        const size_t before = open_descriptors();
        client = lanes_open(&p, (struct gm_options){0});
        if (gm_lanes(client) != 0)
            fail_msg("%s: it was taken", wrongs[i].name);
        assert_socket_only("lane");
        if (wrongs[i].twist != large_number) /* which lane.close cannot name */
            lanes_await(&p.closes, 1);
        gm_close(client);
        lanes_stop(&p);
        /* The peer's: listener, stop pipe, and the lane's memory, doorbell, wake pipe. One or two of the test's own. */
        assert_in_range(open_descriptors(), before - 7, before - 7 + 2);
    }
}

/* Four instead of three: the fourth belongs to no frame. */
static void fourth_descriptor(struct lane_reply *r)
{
    r->fds[3] = r->fds[0];
    r->count = 4;
}

static void descriptors_too_many_end_the_connection(void **state)
{
    const struct wrong wrong = {"fourth_descriptor", fourth_descriptor};
    struct gm_options options = {0};
    struct gm_failure failure;

    (void)state;
    lanes_make(&p, 1, 8, 0);
    p.twist = twist;
    p.user = (void *)(uintptr_t)&wrong;
    lanes_serve(&p);
    options.socket = p.peer.path;
    const size_t before = open_descriptors();
    client = NULL;
    assert_int_equal(GM_EPROTO, gm_open(&options, &client, &failure));
    assert_null(client);
    lanes_stop(&p);
    assert_int_equal(before - 7, open_descriptors());
}

static void of_device_0(struct lane_reply *r)
{
    r->device = 0;
}

static void second_lane_of_a_device_is_refused(void **state)
{
    static const struct wrong wrong = {"of_device_0", of_device_0};

    (void)state;
    lanes_make(&p, 2, 8, 0);
    p.twist = twist;
    p.user = (void *)(uintptr_t)&wrong;
    lanes_serve(&p);
    client = lanes_open(&p, (struct gm_options){0});
    assert_int_equal(1, gm_lanes(client));
    lanes_await(&p.closes, 1);
    gm_close(client);
    lanes_stop(&p);
}

static void client_without_room_for_descriptors_has_no_lane(void **state)
{
    struct rlimit old, tight;
    size_t opened = 0;

    (void)state;
    lanes_start(&p, 1, 8, 0);
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    /* The client needs two, its lane three for a while, the loop one; the peer's end of the connection is one more. */
    for (int room = 3; room <= 8; room++) {
        struct gm_options options = {.socket = p.peer.path, .deadline_ns = in_ms(20000)};
        struct gm_failure failure;
        const int next = dup(0);
        close(next);
        tight = old;
        tight.rlim_cur = (rlim_t)(next + room);
        assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &tight));
        const int rc = gm_open(&options, &client, &failure);
        setrlimit(RLIMIT_NOFILE, &old);
        assert_int_equal(GM_OK, rc);
        opened += (size_t)gm_lanes(client);
        if (gm_lanes(client) == 0) {
            gm_last_failure(client, &failure);
            assert_int_equal(GM_EFDS, failure.status);
        }
        assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
        gm_close(client);
        /* The other end closes on the peer's thread. */
        usleep(20000);
    }
    assert_in_range(opened, 1, 3);
    lanes_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_lane_is_no_failure),
        cmocka_unit_test(older_daemon_is_not_asked),
        cmocka_unit_test(device_that_does_not_answer_costs_its_lane_only),
        cmocka_unit_test(wrong_lane_is_given_back),
        cmocka_unit_test(descriptors_too_many_end_the_connection),
        cmocka_unit_test(second_lane_of_a_device_is_refused),
        cmocka_unit_test(client_without_room_for_descriptors_has_no_lane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
