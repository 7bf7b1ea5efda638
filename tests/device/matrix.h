/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of the op matrix: make its data from a seed, let the device and the oracle do it, compare every byte. A
 * seat is the memory of one case in flight; cases overlap by taking several seats. One thread.
 */
#ifndef GM_TESTS_MATRIX_H
#define GM_TESTS_MATRIX_H

#include "case.h"
#include "crew.h"
#include "harness.h"

/* Where a buffer of a case lies in its seat's arena, and its copy in the seat's own memory. */
struct gm_spot {
    uint64_t offset, bytes, copy;
};

struct gm_seat {
    struct gm_harness_lane *lane;
    struct gm_harness_arena in, out;               /* all inputs, all outputs */
    struct gm_harness_arena device_in, device_out; /* bytes 0: jobs work on host memory */
    struct gm_case c;
    struct gm_oracle_job expected;
    struct gm_spot buffer[GM_BUFFERS_MAX];
    uint8_t *copy, *answer; /* of the inputs; the oracle's outputs */
    double *slack;          /* of the first output's elements, as gm_oracle_job */
    uint64_t position;
    uint64_t result;     /* as the device answered */
    struct gm_task task; /* gm_seat_fill on a crew */
};

/* Room for inputs, and for outputs, of so many bytes together; on_device: jobs run in device memory and data travels by
 * copy jobs. */
void gm_seat_open(struct gm_seat *seat, struct gm_harness_lane *lane, uint64_t bytes, bool on_device);
void gm_seat_close(struct gm_seat *seat);
/* Where the case's data goes; then the data, canaries, poison and the expected answer, on any thread. */
void gm_seat_place(struct gm_seat *seat, const struct gm_case *c);
void gm_seat_fill(void *seat);
/* Both, here. */
void gm_seat_prepare(struct gm_seat *seat, const struct gm_case *c);
void gm_seat_submit(struct gm_seat *seat);
/* Waits for the answer and compares; fails the test with the case's description. */
void gm_seat_check(struct gm_seat *seat);
/* The three together. */
void gm_seat_run(struct gm_seat *seat, const struct gm_case *c);

#endif
