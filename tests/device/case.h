/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of the op matrix, wherever it runs: its data from a seed, what the oracle says of it, and whether an answer
 * is what it should be. Any thread, but what fails a test: cmocka leaves it by a jump.
 */
#ifndef GM_TESTS_CASE_H
#define GM_TESTS_CASE_H

#include "oracle.h"

enum gm_pattern {
    GM_PATTERN_RANDOM,  /* integers: all bits; floats: ordinary numbers of both signs */
    GM_PATTERN_BITS,    /* all bits random, whatever they mean */
    GM_PATTERN_SPECIAL, /* NaNs of both signs, zeros, infinities, denormals, extremes, and little else */
    GM_PATTERN_EQUAL,
    GM_PATTERN_SORTED,
    GM_PATTERN_REVERSED,
    GM_PATTERN_CONCENTRATED, /* nearly all in three values */
    GM_PATTERN_SMALL,        /* small integers, so that sums fit and bin edges are hit */
    GM_PATTERN_COUNT
};

/* Bins that gm_case_choose chooses at most. */
#define GM_CASE_BINS_MAX (1u << 20)

struct gm_case {
    uint32_t op, dtype, type2, flags, bins, count2;
    uint64_t n, value[GM_ARG_VALUES];
    uint32_t align_in, align_out; /* elements past a 4096-byte boundary, or before the end of the arena */
    bool at_end, same_buffer;
    enum gm_pattern pattern;
    uint64_t seed;
};

uint64_t gm_random(uint64_t *state);

/* Elements of a pattern; a pure function of its arguments. */
void gm_pattern_fill(void *data, uint64_t n, uint32_t dtype, enum gm_pattern pattern, uint64_t seed);
/* What the seed leaves open: the arguments. */
void gm_case_choose(struct gm_case *c);
/* The arguments as a descriptor has them. */
struct gm_args gm_case_args(const struct gm_case *c);
/* The data of input i of a case: elements by its pattern, or indices, offsets, edges that follow from its arguments. */
void gm_case_fill(const struct gm_case *c, uint32_t i, void *data);
/* What the oracle is asked, with where buffers are. */
struct gm_oracle_job gm_case_question(const struct gm_case *c, const void *in, const void *in2, void *out, void *out2);

/* The answer of the op's oracle to a question. */
void gm_case_ask(uint32_t op, struct gm_oracle_job *job);
/* How far an output's elements may be off is for the oracle to say. */
bool gm_case_wants_slack(const struct gm_case *c);
void gm_case_describe(const struct gm_case *c, char *text, size_t size);

/* These fail the test, with what the case is called. result: bits as in a completion. */
void gm_case_check_result(const struct gm_case *c, const struct gm_oracle_job *expected, int32_t status,
                          uint64_t result, const char *what);
void gm_case_check_bytes(const uint8_t *is, const uint8_t *should, uint64_t bytes, const char *what, const char *which);
/* Buffer i, an output, of a job that did not fail. */
void gm_case_check_output(const struct gm_case *c, uint32_t i, const uint8_t *is, const uint8_t *should,
                          const double *slack, const char *what);

#endif
