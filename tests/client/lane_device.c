/* SPDX-License-Identifier: Apache-2.0
 *
 * The device of lane_peer.h as a thread, with a dispatcher's manners: it looks once more before it sleeps, wakes whom
 * it finds asleep, and waits for nobody.
 */
#include "lane_peer.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define HELD_MAX 64u

struct held {
    struct fake_lane *lane;
    uint64_t position, n;
};

struct turn {
    struct held held[HELD_MAX];
    uint32_t count;
    uint32_t random;
};

static uint32_t next_random(struct turn *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 17;
    t->random ^= t->random << 5;
    return t->random;
}

static void answer_one(struct fake_device *device, struct turn *t)
{
    const uint32_t which = next_random(t) % t->count;
    const struct held h = t->held[which];

    t->held[which] = t->held[--t->count];
    fake_answer(h.lane, h.position, h.n, GM_OK, 1);
    fake_wake(h.lane);
    device->jobs++;
}

/* Takes what is there, a little of each lane. */
static bool take_some(struct fake_device *device, struct turn *t)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;
    bool any = false;

    for (uint32_t i = 0; i < device->p->devices; i++) {
        struct fake_lane *const lane = &device->p->lane[i];
        for (int k = 0; k < 8 && fake_take(lane, words, &position); k++) {
            if (t->count == HELD_MAX)
                answer_one(device, t);
            t->held[t->count++] = (struct held){lane, position, gm_desc_get64(words, GM_W_N)};
            any = true;
        }
        fake_wake(lane);
    }
    return any;
}

static void set_asleep(struct fake_device *device, uint32_t asleep)
{
    for (uint32_t i = 0; i < device->p->devices; i++)
        gm_store_relaxed_sys_u32(&device->p->lane[i].header->asleep, asleep);
}

static void ring_out(struct fake_device *device)
{
    struct pollfd fds[FAKE_DEVICES_MAX];
    uint64_t rung;

    for (uint32_t i = 0; i < device->p->devices; i++)
        fds[i] = (struct pollfd){.fd = device->p->lane[i].doorbell_fd, .events = POLLIN};
    if (poll(fds, device->p->devices, -1) < 0 && errno != EINTR)
        abort();
    for (uint32_t i = 0; i < device->p->devices; i++)
        if (read(device->p->lane[i].doorbell_fd, &rung, sizeof rung) < 0 && errno != EAGAIN)
            abort();
}

static void *device_run(void *argument)
{
    struct fake_device *const device = argument;
    struct turn t = {.random = 2463534242u};
    uint32_t idle = 0;

    while (__atomic_load_n(&device->stop, __ATOMIC_ACQUIRE) == 0) {
        bool worked = take_some(device, &t);
        while (t.count > (worked ? device->window : 0)) {
            answer_one(device, &t);
            worked = true;
        }
        idle = worked ? 0 : idle + 1;
        if (idle > 0)
            sched_yield();
        if (idle < 50)
            continue;
        set_asleep(device, 1);
        gm_fence_sys();
        if (!take_some(device, &t))
            ring_out(device);
        set_asleep(device, 0);
        idle = 0;
    }
    return NULL;
}

void device_start(struct fake_device *device, struct lane_peer *p, uint32_t window)
{
    *device = (struct fake_device){.p = p, .window = window};
    assert_true(window < HELD_MAX);
    assert_int_equal(0, pthread_create(&device->thread, NULL, device_run, device));
}

void device_await_sleep(const struct fake_device *device)
{
    const uint64_t deadline_ns = in_ms(20000);

    while (gm_load_relaxed_sys_u32(&device->p->lane[0].header->asleep) == 0 && gm_now_ns() < deadline_ns)
        sched_yield();
    assert_int_equal(1, gm_load_relaxed_sys_u32(&device->p->lane[0].header->asleep));
}

void device_stop(struct fake_device *device)
{
    const uint64_t one = 1;

    __atomic_store_n(&device->stop, 1, __ATOMIC_RELEASE);
    assert_int_equal(sizeof one, write(device->p->lane[0].doorbell_fd, &one, sizeof one));
    pthread_join(device->thread, NULL);
}
