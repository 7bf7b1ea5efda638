/* SPDX-License-Identifier: Apache-2.0
 *
 * What fuzz targets share: a property that does not hold ends the process, in every kind of build. One thread.
 */
#ifndef GM_TESTS_FUZZ_H
#define GM_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition) must_hold(condition, #condition, __FILE__, __LINE__)
static inline void must_hold(bool condition, const char *text, const char *file, int line)
{
    if (!condition) {
        fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
        abort();
    }
}

/* A problem is whole: its strings end, and there is one exactly when something failed. */
static inline void must_be_whole(const struct gm_problem *problem, int rc)
{
    must(rc == problem->code && rc <= 0 && rc > -GM_ERRORS_MAX);
    must(memchr(problem->field, '\0', sizeof problem->field) != NULL);
    must(memchr(problem->text, '\0', sizeof problem->text) != NULL);
    must((rc != GM_OK) == (problem->text[0] != '\0'));
}

#endif
