/* SPDX-License-Identifier: Apache-2.0
 *
 * See sanitize_device.h. A bounded device that says when launches begin and end. One bed in a process.
 */
#include "sanitize_device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TELL_MS 5000u /* between two looks at a launch that lasts */
#define LOOK_MS 100u

static struct gm_bed *the_bed;
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

static void told(enum gm_bounded_point point, int status)
{
    static double begin, came_back;
    if (point == GM_BOUNDED_BEGINS) {
        begin = came_back = sanitize_seconds();
        sanitize_say("launch %u", gm_bounded_launches());
        __atomic_store_n(&launched_ns, gm_bed_now_ns(), __ATOMIC_RELEASE);
    } else if (point == GM_BOUNDED_CALLED) {
        came_back = sanitize_seconds();
    } else {
        __atomic_store_n(&launched_ns, 0, __ATOMIC_RELEASE);
        sanitize_say("launch %u: status %d, the call %.3f s, the end %.3f s later", gm_bounded_launches(), status,
                     came_back - begin, sanitize_seconds() - came_back);
    }
}

int sanitize_open(struct gm_bed *bed, const char *backend, uint32_t workers, bool plain)
{
    pthread_t thread;
    const bool cuda = strcmp(backend, "cuda") == 0;
    const struct gm_device_config config = {.device = cuda ? "cuda:0" : "cpu", .workers = workers, .plain = plain,
                                            .workspace_bytes = UINT64_C(64) << 20, .idle_ns = 0};
    const struct gm_backend *real = gm_bed_backend(backend);
    the_bed = bed;
    if (!real) {
        snprintf(bed->text, sizeof bed->text, "this build has no %s backend", backend);
        return GM_ENODEVICE;
    }
    sanitize_say("opening %s", config.device);
    if (real->unmap_needs_stop && pthread_create(&thread, NULL, tell, NULL) == 0)
        pthread_detach(thread);
    const int status = gm_bed_open(bed, gm_bounded_backend(real, told), &config, 0);
    sanitize_say("open: status %d, %u workers", status, bed->hello.workers);
    return status;
}
