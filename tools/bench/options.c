/* SPDX-License-Identifier: Apache-2.0
 *
 * See options.h. Nothing here changes anything; what is returned is in memory of the caller.
 */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gm_bench_number(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && errno == 0 && *end == 0 && *value >= low && *value <= high;
}

static bool take_number(const char *program, const struct gm_bench_option *o, const char *text)
{
    uint64_t value;
    if (!gm_bench_number(text, o->low, o->high, &value)) {
        fprintf(stderr, "%s: --%s %s is not a number from %" PRIu64 " to %" PRIu64 "\n", program, o->name, text, o->low,
                o->high);
        return false;
    }
    value *= o->unit;
    if (o->size == sizeof(uint32_t))
        *(uint32_t *)o->to = (uint32_t)value;
    else
        *(uint64_t *)o->to = value;
    return true;
}

bool gm_bench_parse(int argc, char **argv, const struct gm_bench_option *table)
{
    struct option options[GM_BENCH_OPTIONS_MAX + 1u];
    memset(options, 0, sizeof options);
    for (uint32_t i = 0; table[i].name; i++) {
        assert(i < GM_BENCH_OPTIONS_MAX);
        options[i].name = table[i].name;
        const bool alone = table[i].kind == GM_BENCH_YES || table[i].kind == GM_BENCH_NO;
        options[i].has_arg = alone ? no_argument : required_argument;
    }
    int at = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, &at)) != -1;) {
        const struct gm_bench_option *o = &table[at];
        if (c == '?')
            return false; /* getopt_long has said why */
        if (o->kind == GM_BENCH_NUMBER && !take_number(argv[0], o, optarg))
            return false;
        if (o->kind == GM_BENCH_TEXT)
            *(const char **)o->to = optarg;
        else if (o->kind != GM_BENCH_NUMBER)
            *(bool *)o->to = o->kind == GM_BENCH_YES;
    }
    if (optind != argc)
        fprintf(stderr, "%s: %s is no option\n", argv[0], argv[optind]);
    return optind == argc;
}

const char *gm_bench_beside(const char *name, char path[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 64);
    if (n <= 0)
        return name;
    path[n] = 0;
    char *at = strrchr(path, '/') + 1;
    snprintf(at, (size_t)(path + PATH_MAX - at), "%s", name);
    return path;
}

const char *gm_bench_on_path(const char *name, char path[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t size = strcspn(at, ":");
        snprintf(path, PATH_MAX, "%.*s/%s", (int)size, at, name);
        if (size != 0 && access(path, X_OK) == 0)
            return path;
        at += size + (at[size] == ':');
    }
    return NULL;
}
