/* SPDX-License-Identifier: Apache-2.0
 *
 * GRIDMILL_MATRIX=brief, for builds with a sanitizer, and for tests that repeat others on another architecture's code:
 * of cases that differ only in values, types and sizes one in three is run, because it is accesses and their order that
 * are looked at. The build without one runs them all.
 */
#ifndef GM_TESTS_BRIEF_H
#define GM_TESTS_BRIEF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline bool gm_brief(void)
{
    const char *matrix = getenv("GRIDMILL_MATRIX");
    return matrix != NULL && strcmp(matrix, "brief") == 0;
}

/* Whether case number i is left out. */
static inline bool gm_left_out(uint64_t i)
{
    return i % 3u != 0 && gm_brief();
}

/* How often something is repeated. */
static inline uint32_t gm_rounds(uint32_t rounds)
{
    return gm_brief() ? (rounds + 2u) / 3u : rounds;
}

#endif
