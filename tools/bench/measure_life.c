/* SPDX-License-Identifier: Apache-2.0
 *
 * What the life of the resident kernel costs, see measure.h: pauses for housekeeping, parks, wake-ups of a client that
 * sleeps. The opening thread makes every call to the backend; a loading thread only submits.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"

#define PAUSES  200u
#define PARKS   40u
#define WAKES   200u
#define WINDOW  1000u
#define NAP_US  2000u

static const uint32_t nop_words[GM_DESC_WORDS] = {GM_OP_nop};

struct load {
    struct gm_bed *bed;
    uint32_t stop;
    int status;
};

/* Keeps a window of no-ops in flight until told to stop. */
static void *load_thread(void *arg)
{
    struct load *load = arg;
    struct gm_bed *bed = load->bed;
    uint64_t tail = bed->position;
    struct gm_granule completion;
    while (!__atomic_load_n(&load->stop, __ATOMIC_RELAXED) && load->status == GM_OK) {
        const uint64_t before = bed->position;
        while (bed->position - tail < WINDOW)
            bed->position = gm_bed_put(bed, bed->position, nop_words);
        if (bed->position != before)
            load->status = gm_bed_ring(bed);
        while (tail != bed->position && gm_bed_answered(bed, tail, &completion))
            tail++;
        gm_bed_relax();
        if (bed->spins != 0)
            sched_yield();
    }
    for (; tail != bed->position && load->status == GM_OK; tail++)
        load->status = gm_bed_wait(bed, tail, &completion);
    return NULL;
}

static int pauses(struct gm_measure *m, bool loaded, const char *name, const char *what)
{
    struct gm_bed *bed = m->bed;
    int status = GM_OK;
    for (uint32_t i = 0; i < PAUSES && status == GM_OK; i++) {
        const uint64_t begin = gm_bed_now_ns();
        status = gm_bed_pause(bed);
        if (status == GM_OK && !loaded)
            status = gm_bed_run(bed, nop_words, NULL);
        gm_samples_add(&m->samples, gm_bed_now_ns() - begin);
        usleep(loaded ? NAP_US : 100);
    }
    if (status == GM_OK)
        gm_figures_latency(m->figures, name, what, &m->samples);
    return status;
}

int gm_measure_pauses(struct gm_measure *m)
{
    struct load load = {m->bed, 0, GM_OK};
    pthread_t thread;
    int status = pauses(m, false, "pause_idle", "stop, start and first no-op, idle");
    if (status != GM_OK)
        return status;
    if (pthread_create(&thread, NULL, load_thread, &load) != 0)
        return GM_ESYSTEM;
    status = pauses(m, true, "pause_loaded", "stop and start, 1000 no-ops always in flight");
    __atomic_store_n(&load.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    return status != GM_OK ? status : load.status;
}

/* ---- sleep ---- */

/* Until the device says asleep, and its kernel (if it has one that ends) is gone. */
static int wait_parked(struct gm_bed *bed)
{
    const uint64_t deadline = gm_bed_now_ns() + GM_BED_WAIT_NS;
    while (!gm_bed_asleep(bed) || (bed->backend->unmap_needs_stop && bed->backend->running(bed->device))) {
        usleep(200);
        if (gm_bed_now_ns() > deadline) {
            snprintf(bed->text, sizeof bed->text, "the device does not park");
            return GM_ETIMEDOUT;
        }
    }
    return GM_OK;
}

static void wait_store(struct gm_bed *bed, uint64_t reaped, bool armed)
{
    const struct gm_granule wait = {{(uint32_t)reaped, (uint32_t)(reaped >> 32), armed, 0}};
    gm_store16_sys(&bed->header->wait, wait);
}

/* Sleeps until the wake-up descriptor is readable; the backend's own events are served meanwhile. */
static int sleep_until_woken(struct gm_bed *bed)
{
    uint64_t count;
    for (;;) {
        struct pollfd p[2] = {{.fd = bed->wake_fd, .events = POLLIN},
                              {.fd = bed->backend->event_fd(bed->device), .events = POLLIN}};
        const int n = poll(p, 2, 10000);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            snprintf(bed->text, sizeof bed->text, "a sleeping client was not woken");
            return GM_ETIMEDOUT;
        }
        if (p[0].revents && read(bed->wake_fd, &count, sizeof count) == (ssize_t)sizeof count)
            return GM_OK;
        if (p[1].revents) {
            const int status = bed->backend->service(bed->device, bed->text);
            if (status != GM_OK)
                return status;
        }
    }
}

static int wakes(struct gm_measure *m, uint64_t reaped)
{
    struct gm_bed *bed = m->bed;
    int status = GM_OK;
    for (uint32_t i = 0; i < WAKES && status == GM_OK; i++, reaped++) {
        struct gm_granule completion;
        uint64_t position;
        wait_store(bed, reaped, true);
        status = gm_bed_run(bed, nop_words, NULL); /* awake from here on; its completion wakes too */
        if (status == GM_OK)
            status = sleep_until_woken(bed);
        wait_store(bed, ++reaped, true);
        const uint64_t begin = gm_bed_now_ns();
        if (status == GM_OK)
            status = gm_bed_submit(bed, nop_words, &position);
        if (status == GM_OK)
            status = sleep_until_woken(bed);
        if (status == GM_OK)
            status = gm_bed_wait(bed, position, &completion);
        gm_samples_add(&m->samples, gm_bed_now_ns() - begin);
        wait_store(bed, reaped + 1u, false);
        usleep(500);
    }
    if (status == GM_OK)
        gm_figures_latency(m->figures, "wake_client", "no-op seen by a client that sleeps on the wake-up descriptor",
                           &m->samples);
    return status;
}

int gm_measure_sleep(struct gm_measure *m)
{
    struct gm_bed *bed = m->bed;
    int status = GM_OK;
    for (uint32_t i = 0; i < PARKS && status == GM_OK; i++) {
        status = wait_parked(bed);
        const uint64_t begin = gm_bed_now_ns();
        if (status == GM_OK)
            status = gm_bed_run(bed, nop_words, NULL);
        gm_samples_add(&m->samples, gm_bed_now_ns() - begin);
    }
    if (status != GM_OK)
        return status;
    gm_figures_latency(m->figures, "first_after_park", "first no-op after the device parked", &m->samples);
    status = wakes(m, PARKS);
    if (status == GM_OK)
        status = wait_parked(bed);
    if (status != GM_OK)
        return status;
    gm_measure_idle(m, "idle_parked_armed", "processor time, parked, a stream waits for wakes");
    status = bed->backend->check(bed->device, bed->text);
    gm_measure_idle(m, "idle_parked", "processor time, parked, as a device process leaves it");
    return status;
}
