/* SPDX-License-Identifier: Apache-2.0
 *
 * Client processes that start together, see socket.h. The gate and the counts lie in memory that they share.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "socket.h"

struct meeting {
    struct gm_gate gate;
    uint64_t answered[GM_CLIENTS_MAX]; /* read after the client's end */
};

void gm_gate_pass(struct gm_gate *gate)
{
    __atomic_add_fetch(&gate->connected, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE) == 0)
        gm_bench_sleep_ms(1);
}

static void child(struct gm_socket_bench *bench, gm_client_body *body, const char *socket, uint32_t window,
                  struct meeting *meeting, uint32_t index)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
    meeting->answered[index] = body(bench, socket, window, &meeting->gate);
    if (meeting->answered[index] == 0)
        fprintf(stderr, "bench_socket: client %u: %s\n", index, bench->text);
    _exit(meeting->answered[index] == 0);
}

double gm_bench_processes(struct gm_socket_bench *bench, gm_client_body *body, const char *socket, uint32_t clients,
                          uint32_t window)
{
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[GM_CLIENTS_MAX];
    uint64_t answered = 0;
    bool good = meeting != MAP_FAILED && clients <= GM_CLIENTS_MAX;
    uint32_t started = 0;
    fflush(bench->figures->to); /* or every child would write it again */
    for (; good && started < clients; started++) {
        pids[started] = fork();
        if (pids[started] == 0)
            child(bench, body, socket, window, meeting, started);
        good = pids[started] > 0;
    }
    const uint64_t deadline = gm_bench_now_ns() + UINT64_C(10000000000);
    while (good && __atomic_load_n(&meeting->gate.connected, __ATOMIC_ACQUIRE) < clients &&
           gm_bench_now_ns() < deadline)
        gm_bench_sleep_ms(1);
    if (meeting != MAP_FAILED)
        __atomic_store_n(&meeting->gate.open, 1, __ATOMIC_RELEASE);
    const uint64_t begin = gm_bench_now_ns();
    for (uint32_t i = 0; i < started; i++) {
        int status = 0;
        good = pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0 && good;
        answered += good ? meeting->answered[i] : 0;
    }
    const uint64_t spent = gm_bench_now_ns() - begin;
    if (meeting != MAP_FAILED)
        munmap(meeting, sizeof *meeting);
    if (!good)
        snprintf(bench->text, sizeof bench->text, "a client process failed");
    return good ? (double)answered * 1e9 / (double)spent : 0;
}
