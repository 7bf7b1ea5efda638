/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command lines of the benchmarks have in common: a table of options, numbers in their bounds, and programs
 * found by name. One thread.
 */
#ifndef GM_BENCH_OPTIONS_H
#define GM_BENCH_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An option and where what it says goes. */
struct gm_bench_option {
    const char *name; /* NULL: the end of a table */
    enum gm_bench_kind { GM_BENCH_YES, GM_BENCH_NO, GM_BENCH_TEXT, GM_BENCH_NUMBER } kind;
    void *to; /* a bool, a const char *, or an unsigned number of size bytes, 4 or 8 */
    size_t size;
    uint64_t low, high, unit; /* of a number: its bounds as it is written, and what it is multiplied by */
};
#define GM_BENCH_SWITCH(name, variable) {name, GM_BENCH_YES, &(variable), 0, 0, 0, 0}
#define GM_BENCH_SWITCH_OFF(name, variable) {name, GM_BENCH_NO, &(variable), 0, 0, 0, 0}
#define GM_BENCH_STRING(name, variable) {name, GM_BENCH_TEXT, &(variable), 0, 0, 0, 0}
#define GM_BENCH_COUNT(name, variable, low, high, unit)                                                                \
    {name, GM_BENCH_NUMBER, &(variable), sizeof(variable), low, high, unit}
#define GM_BENCH_OPTIONS_MAX 24u

/* false, and on stderr which option is wrong and why. There are options alone. */
bool gm_bench_parse(int argc, char **argv, const struct gm_bench_option *table);

/* false: not a number from low to high. */
bool gm_bench_number(const char *text, uint64_t low, uint64_t high, uint64_t *value);
/* The path of a program beside this one, where the build puts everything. */
const char *gm_bench_beside(const char *name, char path[PATH_MAX]);
/* On the PATH; NULL when it is not. */
const char *gm_bench_on_path(const char *name, char path[PATH_MAX]);

#endif
