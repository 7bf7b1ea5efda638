/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold after a device process was lost: every job is answered, and another process serves. One thread; every
 * wait is bounded.
 */
#ifndef GM_E2E_LOSS_H
#define GM_E2E_LOSS_H

#include "harness.h"

/* Every job is answered: it was done, or the device was lost while it ran. How many were lost. */
int wait_for_all(struct gm_client *client, struct gm_job *jobs, int count);
/* Another process than before serves device 0, and it is as good as the first. */
void assert_device_came_back(struct gm_client *client, pid_t before, uint64_t restarts);

#endif
