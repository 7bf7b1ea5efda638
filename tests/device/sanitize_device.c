/* SPDX-License-Identifier: Apache-2.0
 *
 * See sanitize_device.h. The CUDA backend with its start and kick followed by a join; the backend's own part of the
 * bounded mode (park at once, no stream that waits, time for blocks to check in) comes with idle_ns 0. One bed in a
 * process.
 */
#include "sanitize_device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TELL_MS 5000u /* between two looks at a launch that lasts */
#define LOOK_MS 100u

static const struct gm_backend *real;
static struct gm_backend bounded;
static struct gm_bed *the_bed;
static uint32_t launches;
static uint64_t launched_ns; /* 0: no launch lasts; read by the thread that tells */

double sanitize_seconds(void)
{
    static uint64_t begin;
    const uint64_t now = gm_bed_now_ns();
    if (begin == 0) /* by the first line, before there is another thread */
        begin = now;
    return (double)(now - begin) / 1e9;
}

void sanitize_say(const char *format, ...)
{
    va_list args;
    char text[256];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("# %7.2f s  %s\n", sanitize_seconds(), text);
    fflush(stdout);
}

/* What a kernel that does not come back last wrote into host memory tells whether it runs at all. */
static void *tell(void *arg)
{
    uint64_t told_ms = TELL_MS;
    (void)arg;
    for (;;) {
        usleep(LOOK_MS * 1000u);
        const uint64_t since = __atomic_load_n(&launched_ns, __ATOMIC_ACQUIRE);
        const uint64_t ms = since ? (gm_bed_now_ns() - since) / 1000000u : 0;
        told_ms = since ? told_ms : TELL_MS;
        if (ms < told_ms || !the_bed->region)
            continue;
        told_ms += TELL_MS;
        const struct gm_device_counters c = gm_bed_counters(the_bed);
        sanitize_say("the launch lasts %llu ms: turns %llu, polled %llu, started %llu, completed %llu, parks %llu",
                     (unsigned long long)ms, (unsigned long long)c.turns, (unsigned long long)c.polled,
                     (unsigned long long)c.started, (unsigned long long)c.completed, (unsigned long long)c.parks);
    }
    return NULL;
}

/* Launches by one of the backend's two ways to, and waits for the end. */
static int launch(int (*way)(struct gm_device *, char *), struct gm_device *device, char *text)
{
    const double begin = sanitize_seconds();
    launches++;
    sanitize_say("launch %u", launches);
    __atomic_store_n(&launched_ns, gm_bed_now_ns(), __ATOMIC_RELEASE);
    int status = way(device, text);
    const double came_back = sanitize_seconds();
    if (status == GM_OK)
        status = real->join(device, text);
    __atomic_store_n(&launched_ns, 0, __ATOMIC_RELEASE);
    sanitize_say("launch %u: status %d, the call %.3f s, the end %.3f s later", launches, status, came_back - begin,
                 sanitize_seconds() - came_back);
    return status;
}

static int bounded_start(struct gm_device *device, char *text) { return launch(real->start, device, text); }
static int bounded_kick(struct gm_device *device, char *text) { return launch(real->kick, device, text); }

int sanitize_open(struct gm_bed *bed, const char *backend, uint32_t workers, bool plain)
{
    pthread_t thread;
    const bool cuda = strcmp(backend, "cuda") == 0;
    const struct gm_device_config config = {.device = cuda ? "cuda:0" : "cpu", .workers = workers, .plain = plain,
                                            .workspace_bytes = UINT64_C(64) << 20, .idle_ns = 0};
    real = gm_bed_backend(backend);
    the_bed = bed;
    if (!real) {
        snprintf(bed->text, sizeof bed->text, "this build has no %s backend", backend);
        return GM_ENODEVICE;
    }
    sanitize_say("opening %s", config.device);
    bounded = *real;
    if (real->unmap_needs_stop) {
        bounded.start = bounded_start;
        bounded.kick = bounded_kick;
        if (pthread_create(&thread, NULL, tell, NULL) == 0)
            pthread_detach(thread);
    }
    const int status = gm_bed_open(bed, &bounded, &config, 0);
    sanitize_say("open: status %d, %u workers", status, bed->hello.workers);
    return status;
}

int sanitize_wait(struct gm_bed *bed, uint64_t position, struct gm_granule *completion)
{
    if (!real->unmap_needs_stop)
        return gm_bed_wait(bed, position, completion);
    if (gm_bed_answered(bed, position, completion))
        return GM_OK;
    snprintf(bed->text, sizeof bed->text, "the kernel ended without an answer to the job at position %llu",
             (unsigned long long)position);
    return GM_EINTERNAL;
}
