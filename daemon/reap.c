/* SPDX-License-Identifier: Apache-2.0
 *
 * Completions, and the choice between spinning and sleeping. Loop thread only. A look at the rings costs one 16-byte
 * load per job in flight, whatever the size of the ring.
 */
#include "reap.h"

#include <assert.h>
#include <sched.h>
#include <unistd.h>

#include "daemon.h"
#include "enqueue.h"
#include "server.h"

/* Time without a completion or a new job after which the loop sleeps although jobs are in flight. */
#define GM_SPIN_BUDGET_NS 100000u
/* Of that, the time it looks at the rings alone between two looks at the sockets. */
#define GM_SPIN_INNER_NS 5000u

/* Processors that this process may use. */
static long gm_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t gm_reap_spin_budget(const struct gm_daemon *d)
{
    if (d->config.spin_us != GM_SPIN_AUTO)
        return d->config.spin_us * UINT64_C(1000);
    const long cpus = gm_cpus();
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (d->devices.device[i].config.backend == GM_BACKEND_CPU && cpus <= 2)
            return 0;
    return cpus <= 1 ? 0 : GM_SPIN_BUDGET_NS;
}

static void gm_reap_job(struct gm_device *v, struct gm_job *job, struct gm_granule g)
{
    v->slot[job->position & (GM_LANE0_SLOTS - 1u)] = NULL;
    if (job->wide)
        v->slot[(job->position + 1u) & (GM_LANE0_SLOTS - 1u)] = NULL;
    v->flight_cost -= job->cost;
    v->reaped++;
    gm_job_finish(v->daemon, job, gm_completion_status(g), gm_completion_result(g), gm_completion_run_ns(g), NULL);
}

uint32_t gm_reap_device(struct gm_device *v)
{
    const uint32_t before = v->flight_count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < before; i++) {
        struct gm_job *job = v->flight[i];
        /* Acquire: pairs with the store of the completion; results in shared memory were written before it. */
        const struct gm_granule g = gm_load16_sys(&v->cq[job->position & (GM_LANE0_SLOTS - 1u)]);
        if (g.w[3] == gm_lap(job->position, v->lane->slots_log2))
            gm_reap_job(v, job, g);
        else
            v->flight[kept++] = job;
    }
    v->flight_count = kept;
    return before - kept;
}

static uint32_t gm_reap_all(struct gm_daemon *d)
{
    uint32_t reaped = 0;
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (d->devices.device[i].flight_count != 0)
            reaped += gm_reap_device(&d->devices.device[i]);
    return reaped;
}

static bool gm_in_flight(const struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (d->devices.device[i].flight_count != 0)
            return true;
    return false;
}

static void gm_wait_store(struct gm_device *v, bool armed)
{
    const struct gm_granule wait = {{(uint32_t)v->reaped, (uint32_t)(v->reaped >> 32), armed, 0}};
    gm_store16_sys(&v->lane->wait, wait);
    v->armed = armed;
}

/* Asks the devices to wake us, then looks once more: a completion that came before they saw the request is found here,
 * one that comes after rings. true: nothing there, it is safe to sleep. */
static bool gm_arm(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (d->devices.device[i].flight_count != 0)
            gm_wait_store(&d->devices.device[i], true);
    /* Store-load: pairs with the dispatcher's fence between its completion and its look at the wait granule. */
    gm_fence_sys();
    return gm_reap_all(d) == 0;
}

static void gm_disarm(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (d->devices.device[i].armed && d->devices.device[i].lane != NULL)
            gm_wait_store(&d->devices.device[i], false);
}

static void gm_spin_set(struct gm_daemon *d, bool on);

static void gm_spin_idle(uv_idle_t *idle)
{
    (void)idle; /* its being active makes epoll return at once */
}

static void gm_spin_set(struct gm_daemon *d, bool on)
{
    if (on == d->spinning)
        return;
    d->spinning = on;
    if (on)
        uv_idle_start(&d->server.spin, gm_spin_idle);
    else
        uv_idle_stop(&d->server.spin);
}

/* Looks at the rings for a moment; the first completions are answered at once. true: some came. */
static bool gm_spin(struct gm_daemon *d, uint64_t now)
{
    const uint64_t until = now + GM_SPIN_INNER_NS;
    do {
        for (int i = 0; i < 16; i++) {
            if (gm_reap_all(d) != 0) {
                gm_enqueue_flush(d);
                gm_conn_flush_all(&d->io);
                return true;
            }
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        now = gm_now_ns();
    } while (now < until);
    return false;
}

/* Less than the spin budget, so that where spinning is not wanted this is not either. */
static uint64_t gm_linger_limit(const struct gm_daemon *d)
{
    return d->spin_budget_ns < GM_LINGER_NS ? d->spin_budget_ns : GM_LINGER_NS;
}

static void gm_rest(struct gm_daemon *d)
{
    bool awake = d->io.later != NULL;
    if (awake) {
        /* Frames wait for their turn, which is the next one. */
    } else if (gm_in_flight(d)) {
        const uint64_t now = gm_now_ns();
        if (d->spin_budget_ns != 0 && now - d->last_activity_ns < d->spin_budget_ns) {
            awake = true;
            if (gm_spin(d, now))
                d->last_activity_ns = gm_now_ns();
        } else if (!gm_arm(d)) {
            awake = true;
            d->last_activity_ns = now;
        }
    } else if (gm_linger_limit(d) != 0) {
        awake = gm_linger_stays(&d->linger, gm_now_ns(), gm_linger_limit(d));
    }
    gm_spin_set(d, awake);
}

void gm_reap_turn(struct gm_daemon *d)
{
    gm_disarm(d);
    gm_linger_frames(&d->linger, d->io.frames, d->turn_ns, gm_linger_limit(d));
    d->turn++; /* first what was put off, so that the jobs among it are sent on below */
    bool active = gm_conn_later(&d->io);
    do { /* once more while the output made room for requests that were held, which bring new jobs */
        active |= gm_enqueue_flush(d);
        if (gm_reap_all(d) != 0) {
            gm_enqueue_flush(d);
            active = true;
        }
        gm_conn_flush_all(&d->io);
    } while (gm_conn_resume_all(&d->io));
    gm_sessions_leave(d);
    gm_server_progress(d);
    gm_conn_flush_all(&d->io);
    if (d->turn_ns != 0 || active) {
        const uint64_t now = gm_now_ns(), lag = d->turn_ns != 0 ? now - d->turn_ns : 0;
        if (lag > d->counters.loop_lag_max_ns)
            d->counters.loop_lag_max_ns = lag;
        d->turn_ns = 0;
        if (active)
            d->last_activity_ns = now;
        for (uint32_t i = 0; i < d->devices.count; i++)
            gm_enqueue_adapt(&d->devices.device[i], now);
    }
    gm_rest(d);
}
