/* SPDX-License-Identifier: Apache-2.0
 *
 * A device, a lane and one seat, for tests that run one job after the other. One thread.
 */
#ifndef GM_TESTS_PLACE_H
#define GM_TESTS_PLACE_H

#include "matrix.h"

#define PLACE_BYTES (12u << 20) /* of its seat */

struct place {
    struct gm_harness h;
    struct gm_harness_lane lane;
    struct gm_seat seat;
};

/* workers: 0 for as many as the device has by itself. */
void place_open(struct place *p, uint32_t workers);
void place_close(struct place *p);
/* The same for a group of tests, whose state is the place. */
int place_setup(void **state);
int place_teardown(void **state);

#endif
