/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of the op matrix: make its data from a seed, let the device and the oracle do it, compare every byte. A
 * seat is the memory of one case in flight; cases overlap by taking several seats. One thread.
 */
#ifndef GM_TESTS_MATRIX_H
#define GM_TESTS_MATRIX_H

#include "crew.h"
#include "harness.h"
#include "oracle.h"

enum gm_pattern {
    GM_PATTERN_RANDOM, /* integers: all bits; floats: ordinary numbers of both signs */
    GM_PATTERN_BITS,   /* all bits random, whatever they mean */
    GM_PATTERN_SPECIAL, /* NaNs of both signs, zeros, infinities, denormals, extremes, and little else */
    GM_PATTERN_EQUAL,
    GM_PATTERN_SORTED,
    GM_PATTERN_REVERSED,
    GM_PATTERN_CONCENTRATED, /* nearly all in three values */
    GM_PATTERN_SMALL,        /* small integers, so that sums fit and bin edges are hit */
    GM_PATTERN_COUNT
};

struct gm_case {
    uint32_t op, dtype, flags, bins;
    uint64_t n, value[2];
    uint32_t align_in, align_out; /* elements past a 4096-byte boundary, or before the end of the arena */
    bool at_end, same_buffer;
    enum gm_pattern pattern;
    uint64_t seed;
};

struct gm_seat {
    struct gm_harness_lane *lane;
    struct gm_harness_arena in, out;
    struct gm_harness_arena device_in, device_out; /* bytes 0: jobs work on host memory */
    struct gm_case c;
    struct gm_oracle_job expected;
    uint8_t *copy, *answer; /* of the input; the oracle's output */
    uint64_t in_offset, out_offset, in_bytes, out_bytes, position;
    uint64_t result; /* as the device answered */
    struct gm_task task; /* gm_seat_fill on a crew */
};

uint64_t gm_random(uint64_t *state);

/* Elements of a pattern; a pure function of its arguments. */
void gm_pattern_fill(void *data, uint64_t n, uint32_t dtype, enum gm_pattern pattern, uint64_t seed);
/* What the seed leaves open: value of a fill, bins and range of a histogram. */
void gm_case_choose(struct gm_case *c);

/* Room for inputs and outputs of so many bytes; on_device: jobs run in device memory and data travels by copy jobs. */
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
