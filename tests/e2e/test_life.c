/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon comes, goes, and is killed: socket paths, one instance per socket, stale sockets, draining. Clients learn
 * of everything before their deadlines.
 */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void socket_path_of_exactly(struct daemon *d, size_t bytes)
{
    memset(d->socket, 'p', bytes);
    memcpy(d->socket, d->folder, strlen(d->folder));
    d->socket[strlen(d->folder)] = '/';
    d->socket[bytes] = '\0';
}

/* The admin socket's path is 6 bytes longer, so the longest pair ends at 107. */
static void longest_socket_path_works_and_longer_ones_are_refused(void **state)
{
    static const size_t longer[] = {102, 107, 108, 140};
    struct daemon d;

    (void)state;
    daemon_init(&d);
    socket_path_of_exactly(&d, 101);
    daemon_start(&d);
    daemon_stop(&d);
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        struct stat st;
        socket_path_of_exactly(&d, longer[i]);
        daemon_spawn(&d);
        const int status = daemon_wait(&d, 20000);
        if (status == -1)
            fail_msg("a path of %zu bytes was taken", longer[i]);
        assert_int_equal(2, status);
        assert_int_equal(-1, stat(d.socket, &st));
    }
    daemon_remove(&d);
}

static void second_instance_is_refused_also_when_the_first_is_stopped(void **state)
{
    struct daemon *const d = *state, second = *d;
    struct gm_client *client;

    second.pid = 0;
    daemon_spawn(&second);
    assert_int_equal(3, daemon_wait(&second, 20000));
    freeze(d->pid);
    daemon_spawn(&second);
    assert_int_equal(3, daemon_wait(&second, 20000));
    thaw(d->pid);
    client = daemon_open(d);
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    gm_close(client);
}

struct waiting {
    struct gm_client *client;
    struct gm_job *job;
    int status;
    uint64_t took_ms;
};

static void *wait_long(void *argument)
{
    struct waiting *const w = argument;
    const uint64_t start_ms = now_ms();

    w->status = gm_wait(w->client, w->job, in_ms(60000));
    w->took_ms = now_ms() - start_ms;
    return NULL;
}

enum { PENDING = 8 };

static void killed_daemon_ends_every_pending_call_and_a_new_one_starts_over_its_socket(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_job jobs[PENDING] = {0};
    struct waiting waiting[PENDING];
    pthread_t threads[PENDING];
    const pid_t device = device_pid(client);

    freeze_device(client, device); /* so that the jobs are pending for sure */
    for (int i = 0; i < PENDING; i++) {
        assert_int_equal(GM_OK, gm_submit(client, &nop, &jobs[i]));
        waiting[i] = (struct waiting){.client = client, .job = &jobs[i]};
        assert_int_equal(0, pthread_create(&threads[i], NULL, wait_long, &waiting[i]));
    }
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    daemon_kill(d);
    for (int i = 0; i < PENDING; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(GM_ECLOSED, waiting[i].status);
        assert_true(waiting[i].took_ms < 30000);
    }
    assert_int_equal(GM_ECLOSED, gm_ping(client, in_ms(20000)));
    gm_close(client);
    thaw(device);
    /* Nothing is removed by hand. */
    daemon_start(d);
    /* The device process of the dead daemon goes too. */
    const uint64_t end_ms = now_ms() + 20000;
    while (kill(device, 0) == 0 && now_ms() < end_ms)
        sleep_ms(5);
    assert_int_equal(-1, kill(device, 0));
    assert_int_equal(ESRCH, errno);
}

static void daemon_unlinks_only_its_own_socket(void **state)
{
    struct daemon *const d = *state;
    struct stat before, after;
    char moved[300];

    snprintf(moved, sizeof moved, "%s.moved", d->socket);
    assert_int_equal(0, rename(d->socket, moved));
    FILE *const other = fopen(d->socket, "w");
    assert_non_null(other);
    fclose(other);
    assert_int_equal(0, stat(d->socket, &before));
    daemon_stop(d);
    assert_int_equal(0, stat(d->socket, &after));
    assert_int_equal(before.st_ino, after.st_ino);
    unlink(d->socket);
    daemon_start(d);
}

/* Submits for as long as it can; every job that was accepted is answered. */
struct load {
    struct gm_client *client;
    uint64_t done, draining, closed, other;
    uint32_t begun; /* atomic: something was done */
};

static void count(struct load *load, int status)
{
    load->done += status == GM_OK;
    load->draining += status == GM_EDRAINING;
    load->closed += status == GM_ECLOSED;
    load->other += status != GM_OK && status != GM_EDRAINING && status != GM_ECLOSED;
    if (load->done != 0)
        __atomic_store_n(&load->begun, 1, __ATOMIC_RELAXED);
}

enum { WINDOW = 64 };

static void *submit_until_drained(void *argument)
{
    struct load *const load = argument;
    const uint32_t numbers[64] = {1};
    struct gm_request sum = gm_request("sum", GM_U32, 64);
    struct gm_job jobs[WINDOW] = {0};
    uint64_t submitted = 0, taken = 0;

    sum.in[0] = gm_in_memory(numbers, sizeof numbers);
    while (load->draining == 0 && load->closed == 0 && load->other == 0) {
        while (submitted - taken < WINDOW && gm_submit(load->client, &sum, &jobs[submitted % WINDOW]) == GM_OK)
            submitted++;
        if (submitted == taken)
            break;
        count(load, gm_wait(load->client, &jobs[taken % WINDOW], in_ms(60000)));
        taken++;
    }
    for (; taken < submitted; taken++)
        count(load, gm_wait(load->client, &jobs[taken % WINDOW], in_ms(60000)));
    return NULL;
}

static bool has_begun(void *load)
{
    return __atomic_load_n(&((struct load *)load)->begun, __ATOMIC_RELAXED) != 0;
}

static void term_under_load_answers_what_was_accepted_and_exits_0(void **state)
{
    enum { CLIENTS = 3 };
    struct daemon *const d = *state;
    struct load loads[CLIENTS];
    pthread_t threads[CLIENTS];

    for (int i = 0; i < CLIENTS; i++) {
        loads[i] = (struct load){.client = daemon_open(d)};
        assert_int_equal(0, pthread_create(&threads[i], NULL, submit_until_drained, &loads[i]));
    }
    for (int i = 0; i < CLIENTS; i++)
        assert_true(eventually(has_begun, &loads[i], 60000));
    sleep_ms(200);
    kill(d->pid, SIGTERM);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(loads[i].done > 0);
        assert_int_equal(0, loads[i].other);
        gm_close(loads[i].client);
    }
    assert_int_equal(0, daemon_wait(d, 40000));
    daemon_start(d);
}

/* Replies that nobody reads are no accepted jobs: the stop does not wait its whole time for them. */
static void client_that_does_not_read_cannot_spoil_the_stop(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const struct gm_wire_request request = {.id = 9, .method = GM_METHOD_STATS};
    const struct frame frame = raw_encode(&request);
    const int fd = raw_session(d);

    /* More than a socket's buffer holds, less than the bound of a slow reader. */
    for (int i = 0; i < 300; i++)
        raw_send(fd, frame.bytes, frame.size);
    free(frame.bytes);
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    gm_close(client);
    kill(d->pid, SIGTERM);
    const int status = daemon_wait(d, GM_DRAIN_MS_DEFAULT - 5000u); /* it did not wait for its deadline */
    close(fd);
    assert_int_equal(0, status);
    daemon_start(d);
}

static void drained_daemon_refuses_jobs_and_stays_until_term(void **state)
{
    struct daemon *const d = *state;
    const struct gm_options options = {.socket = d->socket, .admin = 1, .deadline_ns = in_ms(20000)};
    struct gm_client *admin, *const client = daemon_open(d);
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct stat st;
    char path[220];

    snprintf(path, sizeof path, "%s.admin", d->socket);
    assert_int_equal(0, stat(path, &st));
    assert_int_equal(0600, st.st_mode & 0777);
    assert_int_equal(GM_OK, gm_open(&options, &admin, NULL));
    assert_int_equal(GM_OK, gm_run(client, &nop, in_ms(20000), NULL));
    assert_int_equal(GM_OK, gm_drain(admin, in_ms(20000)));
    assert_int_equal(GM_EDRAINING, gm_run(client, &nop, in_ms(20000), NULL));
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    gm_close(client);
    gm_close(admin);
    kill(d->pid, SIGTERM);
    assert_int_equal(0, daemon_wait(d, 40000));
    daemon_start(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_socket_path_works_and_longer_ones_are_refused),
        cmocka_unit_test_setup_teardown(second_instance_is_refused_also_when_the_first_is_stopped, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(
            killed_daemon_ends_every_pending_call_and_a_new_one_starts_over_its_socket, daemon_setup_to_freeze,
            daemon_teardown),
        cmocka_unit_test_setup_teardown(daemon_unlinks_only_its_own_socket, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(term_under_load_answers_what_was_accepted_and_exits_0, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(client_that_does_not_read_cannot_spoil_the_stop, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(drained_daemon_refuses_jobs_and_stays_until_term, daemon_setup,
                                        daemon_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
