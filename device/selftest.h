/* SPDX-License-Identifier: Apache-2.0
 *
 * Before a device says ready it answers jobs whose answers are known, the whole way through ring, dispatcher, worker
 * and completion, from memory that the host wrote. Main thread; bounded by a deadline.
 */
#ifndef GM_DEVICE_SELFTEST_H
#define GM_DEVICE_SELFTEST_H

#include "admin.h"

#define GM_SELFTEST_LANE (GM_LANE_TABLE - 1u)
#define GM_SELFTEST_NOPS 48u
#define GM_SELFTEST_JOBS (GM_SELFTEST_NOPS + 1u)

int gm_selftest(struct gm_admin *admin, char *text);

#endif
