/* SPDX-License-Identifier: Apache-2.0
 *
 * A device for runs under compute-sanitizer: a bed whose kernel never runs while the host does anything else. Work is
 * written into the lane first; whatever launches the kernel then returns only when it has taken everything and ended,
 * so that no wait of the host has a deadline that a slow tool could miss. Says what it does, with the time, line by
 * line, and now and then what the device says of itself while a launch lasts. One thread, and the one that tells.
 */
#ifndef GM_TESTS_SANITIZE_DEVICE_H
#define GM_TESTS_SANITIZE_DEVICE_H

#include "bed.h"

/* A line of progress: "# seconds text". */
void sanitize_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Since the first of these calls. */
double sanitize_seconds(void);

/* ENODEVICE: nothing to run on. Workers 0: the backend's number. The CPU's device is an ordinary one. */
int sanitize_open(struct gm_bed *bed, const char *backend, uint32_t workers, bool plain);

/* After a ring. On a bounded device the answer is there, or never comes. */
int sanitize_wait(struct gm_bed *bed, uint64_t position, struct gm_granule *completion);

#endif
