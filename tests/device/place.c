/* SPDX-License-Identifier: Apache-2.0
 *
 * See place.h. The seat lies in host memory, and the device sleeps when it has had nothing to do for two seconds.
 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

void place_open(struct place *p, uint32_t workers)
{
    const struct gm_device_config config = {.workers = workers, .idle_ns = UINT64_C(2000000000)};
    memset(p, 0, sizeof *p);
    gm_harness_open(&p->h, &config);
    gm_harness_lane_open(&p->h, &p->lane, 1, 6, 0);
    gm_seat_open(&p->seat, &p->lane, PLACE_BYTES, false);
}

void place_close(struct place *p)
{
    gm_harness_idle(&p->h);
    gm_harness_close(&p->h);
    gm_seat_close(&p->seat);
}

int place_setup(void **state)
{
    struct place *p = malloc(sizeof *p);
    if (!p)
        return -1;
    place_open(p, 0);
    *state = p;
    return 0;
}

int place_teardown(void **state)
{
    place_close(*state);
    free(*state);
    return 0;
}
