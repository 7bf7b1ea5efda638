/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command lines of the benchmarks have in common: numbers in their bounds, and programs found by name. One
 * thread.
 */
#ifndef GM_BENCH_OPTIONS_H
#define GM_BENCH_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

/* false: not a number from low to high. */
bool gm_bench_number(const char *text, unsigned long low, unsigned long high, unsigned long *value);
/* The path of a program beside this one, where the build puts everything. */
const char *gm_bench_beside(const char *name, char path[PATH_MAX]);
/* On the PATH; NULL when it is not. */
const char *gm_bench_on_path(const char *name, char path[PATH_MAX]);

#endif
