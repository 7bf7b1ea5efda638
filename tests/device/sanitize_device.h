/* SPDX-License-Identifier: Apache-2.0
 *
 * A device for runs under compute-sanitizer: a bounded one, so that no wait of the host has a deadline that a slow tool
 * could miss. Says what it does, with the time, line by line, and now and then what the device says of itself while a
 * launch lasts. One thread, and the one that tells.
 */
#ifndef GM_TESTS_SANITIZE_DEVICE_H
#define GM_TESTS_SANITIZE_DEVICE_H

#include "bounded.h"

/* A line of progress: "# seconds text". */
void sanitize_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Since the first of these calls. */
double sanitize_seconds(void);

/* ENODEVICE: nothing to run on. Workers 0: the backend's number. The CPU's device is an ordinary one. */
int sanitize_open(struct gm_bed *bed, const char *backend, uint32_t workers, bool plain);

#endif
