/* SPDX-License-Identifier: Apache-2.0
 *
 * See bounded.h. Runs on the thread that opened the bed; a launch lasts as long as the work in the lane.
 */
#include "bounded.h"

#include <stdio.h>

static const struct gm_backend *real;
static struct gm_backend bounded;
static gm_bounded_told *told;
static uint32_t launches;

static void tell(enum gm_bounded_point point, int status)
{
    if (told)
        told(point, status);
}

/* Launches by one of the backend's two ways to, and waits for the end. */
static int launch(int (*way)(struct gm_device *, char *), struct gm_device *device, char *text)
{
    launches++;
    tell(GM_BOUNDED_BEGINS, GM_OK);
    int status = way(device, text);
    tell(GM_BOUNDED_CALLED, status);
    if (status == GM_OK)
        status = real->join(device, text);
    tell(GM_BOUNDED_ENDED, status);
    return status;
}

static int bounded_start(struct gm_device *device, char *text)
{
    return launch(real->start, device, text);
}
static int bounded_kick(struct gm_device *device, char *text)
{
    return launch(real->kick, device, text);
}

const struct gm_backend *gm_bounded_backend(const struct gm_backend *backend, gm_bounded_told *whom)
{
    real = backend;
    told = whom;
    bounded = *real;
    if (real->unmap_needs_stop) {
        bounded.start = bounded_start;
        bounded.kick = bounded_kick;
    }
    return &bounded;
}

uint32_t gm_bounded_launches(void)
{
    return launches;
}

int gm_bounded_wait(struct gm_bed *bed, uint64_t position, struct gm_granule *completion)
{
    if (!bed->backend->unmap_needs_stop)
        return gm_bed_wait(bed, position, completion);
    if (gm_bed_answered(bed, position, completion))
        return GM_OK;
    snprintf(bed->text, sizeof bed->text, "the kernel ended without an answer to the job at position %llu",
             (unsigned long long)position);
    return GM_EINTERNAL;
}
