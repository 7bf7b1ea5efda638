/* SPDX-License-Identifier: Apache-2.0
 *
 * The faults of the runner. What a fault may cause is written into the world before it happens. One thread.
 */
#include "chaos_lane.h"
#include "chaos_runner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_GARBAGE = 40 };

/* 0: there is none now. */
static pid_t device_now(struct runner *r, uint32_t d)
{
    struct figures f;

    runner_figures(r, &f);
    const bool up = strcmp(f.device[d].state, "up") == 0 || strcmp(f.device[d].state, "asleep") == 0 ||
                    strcmp(f.device[d].state, "unresponsive") == 0;
    return up ? (pid_t)f.device[d].pid : 0;
}

static void kill_client(struct runner *r, uint32_t slot)
{
    struct ledger *const l = r->client[slot];

    if (l == NULL || l->pid == 0)
        return;
    l->killed = true;
    kill(l->pid, SIGKILL);
}

static void kill_device(struct runner *r, uint32_t d)
{
    const pid_t pid = device_now(r, d);

    if (pid == 0)
        return;
    r->world->losses[d]++;
    note(r->world, "device %u is process %d", d, pid);
    kill(pid, SIGKILL);
    r->gone[d] = pid;
    if (r->frozen[d] == pid)
        r->frozen[d] = 0;
}

static void freeze_process(struct runner *r, uint32_t d, uint32_t ms)
{
    const pid_t pid = device_now(r, d);

    if (pid == 0 || r->frozen[d] != 0)
        return;
    kill(pid, SIGSTOP);
    r->frozen[d] = pid;
    r->thaw_ms[d] = now_ms() + ms;
}

/* Until the daemon has replaced it. */
static void stall_device(struct runner *r, uint32_t d)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    const pid_t pid = device_now(r, d);

    if (pid == 0)
        return;
    r->world->losses[d]++;
    kill(pid, SIGSTOP);
    while (device_now(r, d) == pid) {
        if (now_ms() > end_ms)
            complain(r->world, "a device process that stands still is not replaced");
        runner_reap(r);
        sleep_ms(20);
    }
    r->frozen[d] = 0;
}

/* Until it is out of service. */
static void doom_device(struct runner *r, uint32_t d)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct figures f;

    r->world->doomed[d] = r->world->life;
    r->world->losses[d]++;
    runner_thaw(r, d);
    for (;;) {
        runner_figures(r, &f);
        if (strcmp(f.device[d].state, "lost") == 0)
            return;
        if (now_ms() > end_ms)
            complain(r->world, "a device that is killed again and again is %s", f.device[d].state);
        const pid_t pid = device_now(r, d);
        if (pid != 0)
            kill(pid, SIGKILL);
        runner_reap(r);
        sleep_ms(10);
    }
}

static void freeze_daemon(struct runner *r, uint32_t ms)
{
    kill(r->daemon.pid, SIGSTOP);
    sleep_ms(ms);
    kill(r->daemon.pid, SIGCONT);
}

static void pause_device(struct runner *r, uint32_t d, uint32_t times)
{
    struct gm_wire_request request = {.method = GM_METHOD_PAUSE, .u.pause = {.has_device = true, .device = d}};
    struct gm_wire_response response;
    struct record now = {.life = (uint16_t)r->world->life};
    char path[sizeof r->daemon.socket + 8];
    struct raw raw;

    for (uint32_t i = 0; i < DEVICES_HERE; i++)
        now.repaired[i] = (uint8_t)r->world->repaired[i];
    runner_thaw(r, d);
    snprintf(path, sizeof path, "%s.admin", r->daemon.socket);
    if (raw_open(&raw, path, WAIT_MS) != GM_OK)
        complain(r->world, "the admin socket does not answer");
    for (uint32_t i = 0; i < times; i++) {
        const int rc = raw_call(&raw, &request, &response, WAIT_MS);
        if (rc != GM_OK && rc != GM_EBUSY && !explained(r->world, &now, rc))
            complain(r->world, "pause: %s", gm_status_name(rc));
    }
    raw_close(&raw);
}

static void drain_daemon(struct runner *r)
{
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        runner_thaw(r, d);
    r->world->draining = r->world->life;
    const int rc = gm_drain(r->observer, in_ms(WAIT_MS));
    if (rc != GM_OK)
        complain(r->world, "gm_drain: %s", gm_status_name(rc));
    runner_end_daemon(r, SIGTERM);
    runner_start_daemon(r);
}

static void send_garbage(struct runner *r, uint32_t amount)
{
    static const char *const lengths[] = {"\xff\xff\xff\xff", "\0\0\0\1", "\0\0\0\5", "\0\0\0\40"};
    struct rng rng = random_of(r->world->plan.seed, KEY_GARBAGE, amount, 0);
    uint8_t bytes[200];

    for (uint32_t i = 0; i < 1 + amount % 8u; i++) {
        const int fd = raw_connect(&r->daemon);
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)random_next(&rng);
        memcpy(bytes, lengths[random_below(&rng, 4)], 4);
        raw_send(fd, bytes, 1 + random_below(&rng, sizeof bytes));
        close(fd);
    }
}

void runner_fault(struct runner *r, const struct fault *f)
{
    note(r->world, "%s %u (%u)", fault_name(f->kind), f->target, f->amount);
    switch (f->kind) {
    case FAULT_KILL_CLIENT:
        kill_client(r, f->target);
        break;
    case FAULT_KILL_DEVICE:
        kill_device(r, f->target);
        break;
    case FAULT_FREEZE_DEVICE:
        freeze_process(r, f->target, f->amount);
        break;
    case FAULT_FREEZE_DAEMON:
        freeze_daemon(r, f->amount);
        break;
    case FAULT_KILL_DAEMON:
        runner_end_daemon(r, SIGKILL);
        runner_start_daemon(r);
        break;
    case FAULT_TERM_DAEMON:
        runner_end_daemon(r, SIGTERM);
        runner_start_daemon(r);
        break;
    case FAULT_PAUSE:
        pause_device(r, f->target, f->amount);
        break;
    case FAULT_DRAIN:
        drain_daemon(r);
        break;
    case FAULT_GARBAGE:
        send_garbage(r, f->amount);
        break;
    case FAULT_DOOM:
        doom_device(r, f->target);
        break;
    case FAULT_STALL:
        stall_device(r, f->target);
        break;
    case FAULTS:
        break;
    }
}
