/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise of lanes: a job is submitted, and its completion taken, without a system call. A thread forbids itself
 * all of them and counts those that come all the same. Skipped where that cannot be done, or a sanitizer makes its own.
 */
#include "lane_peer.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(GM_TSAN)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static volatile sig_atomic_t trapped;

static void count_trap(int number)
{
    (void)number;
    trapped++;
}

/* What a thread needs to end, and the clock where the kernel does not serve it without a call. */
static int forbid(void)
{
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(clock_gettime), ALLOW(rt_sigreturn), ALLOW(rt_sigprocmask), ALLOW(madvise), ALLOW(munmap),
        ALLOW(futex), ALLOW(exit), ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    const struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? errno : 0;
}

struct quiet {
    struct lane_peer p;
    struct gm_client *client;
    struct gm_request requests[8];
    struct gm_job jobs[8], *pointers[8], *found[8];
    int forbidden, wrong;
    int control, counted;
};

static void *run_quietly(void *argument)
{
    struct quiet *const q = argument;

    q->forbidden = forbid();
    if (q->forbidden != 0)
        return NULL;
    (void)syscall(SYS_getppid);
    q->control = trapped;
    for (int i = 0; i < 1000; i++) {
        uint32_t words[GM_DESC_WORDS];
        uint64_t position;
        q->wrong += gm_submit_batch(q->client, q->requests, q->pointers, 8, NULL) != GM_OK;
        while (fake_take(&q->p.lane[0], words, &position))
            fake_answer(&q->p.lane[0], position, 0, GM_OK, 1);
        q->wrong += gm_wait(q->client, q->pointers[7], GM_NO_DEADLINE) != GM_OK;
        q->wrong += gm_next_batch(q->client, q->found, 8) != 7;
        q->wrong += gm_submit(q->client, q->requests, q->pointers[0]) != GM_OK;
        q->wrong += fake_take(&q->p.lane[0], words, &position) ? 0 : 1;
        fake_answer(&q->p.lane[0], position, 0, GM_OK, 1);
        q->wrong += gm_wait(q->client, q->pointers[0], GM_NO_DEADLINE) != GM_OK;
    }
    q->counted = trapped;
    return NULL;
}

static void job_in_a_lane_makes_no_system_call(void **state)
{
    static struct quiet q;
    struct sigaction action = {.sa_handler = count_trap};
    struct gm_arena *arena;
    pthread_t thread;

    (void)state;
    if (SANITIZED)
        skip();
    sigaction(SIGSYS, &action, NULL);
    lanes_start(&q.p, 1, 16, 0);
    q.client = lanes_open(&q.p, (struct gm_options){.lane_only = 1, .wait = GM_WAIT_SPIN});
    assert_int_equal(GM_OK, gm_arena_create(q.client, 4096, GM_MEMORY_SHARED, 0, in_ms(20000), &arena));
    for (int i = 0; i < 8; i++) {
        q.requests[i] = gm_request(i % 2 == 0 ? "sum" : "fill", GM_U64, 8);
        if (i % 2 == 0)
            q.requests[i].in[0] = gm_in_arena(arena, 0, 64);
        else
            q.requests[i].out[0] = gm_in_arena(arena, 0, 64);
        q.pointers[i] = &q.jobs[i];
    }
    assert_int_equal(0, pthread_create(&thread, NULL, run_quietly, &q));
    pthread_join(thread, NULL);
    gm_close(q.client);
    lanes_stop(&q.p);
    if (q.forbidden != 0)
        skip();
    assert_int_equal(0, q.wrong);
    assert_int_equal(1, q.control);
    assert_int_equal(1, q.counted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(job_in_a_lane_makes_no_system_call)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
