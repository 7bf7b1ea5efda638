/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill ping: how long one message takes to the daemon and back. One thread; bounded by the count.
 */
#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PINGS_MAX 1000000u

struct ping {
    struct common common;
    uint64_t count, interval_ns;
};

static void print_help(void)
{
    fputs("usage: gridmill ping [OPTION...]\n\n"
          "Sends messages to the daemon, one after the other, and prints how long the answers took.\n"
          "They go through the daemon, not through a device: `gridmill run nop --time` does that.\n\n"
          "  -c, --count N           messages (default 10, at most 1000000)\n"
          "  -i, --interval SECONDS  pause between them (default none)\n" COMMON_HELP,
          stdout);
}

static int parse(struct ping *ping, int argc, char **argv)
{
    static const struct option options[] = {{"count", required_argument, NULL, 'c'},
                                            {"interval", required_argument, NULL, 'i'},
                                            COMMON_LONG,
                                            {0}};
    double seconds;
    int option;

    while ((option = getopt_long(argc, argv, "c:i:" COMMON_SHORT, options, NULL)) != -1) {
        const int common = common_option(&ping->common, option, optarg);
        if (common < 0)
            return EXIT_USAGE;
        if (common > 0)
            continue;
        if (option == 'c' && parse_u64(optarg, PINGS_MAX, &ping->count) && ping->count > 0)
            continue;
        if (option == 'i' && parse_f64(optarg, &seconds) && seconds >= 0 && seconds < 1e6) {
            ping->interval_ns = (uint64_t)(seconds * 1e9);
            continue;
        }
        if (option == 'c')
            return usage_error("ping", "--count: \"%s\" is not a number from 1 to %u", optarg, PINGS_MAX);
        if (option == 'i')
            return usage_error("ping", "--interval: \"%s\" is not a number of seconds below a million", optarg);
        return usage_error("ping", "wrong usage of ping");
    }
    return optind == argc ? EXIT_DONE : usage_error("ping", "ping takes no arguments");
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double us_at(const uint64_t *sorted, uint64_t count, double share)
{
    return (double)sorted[(uint64_t)(share * (double)(count - 1) + 0.5)] / 1e3;
}

static int ping_all(struct gm_client *client, const struct ping *ping, uint64_t *times_ns)
{
    const struct timespec pause = {.tv_sec = (time_t)(ping->interval_ns / 1000000000u),
                                   .tv_nsec = (long)(ping->interval_ns % 1000000000u)};

    for (uint64_t i = 0; i < ping->count; i++) {
        const uint64_t start_ns = gm_now_ns();
        if (gm_ping(client, command_deadline(&ping->common)) != GM_OK)
            return complain_last(client, "ping");
        times_ns[i] = gm_now_ns() - start_ns;
        if (ping->interval_ns > 0 && i + 1 < ping->count)
            nanosleep(&pause, NULL);
    }
    qsort(times_ns, ping->count, sizeof *times_ns, compare);
    printf("%" PRIu64 " round trips: min %.1f us, p50 %.1f us, p99 %.1f us, max %.1f us\n", ping->count,
           us_at(times_ns, ping->count, 0), us_at(times_ns, ping->count, 0.5), us_at(times_ns, ping->count, 0.99),
           us_at(times_ns, ping->count, 1));
    return EXIT_DONE;
}

int cmd_ping(int argc, char **argv)
{
    struct ping ping = {.common = {.timeout_ns = UINT64_C(5000000000)}, .count = 10};
    struct gm_client *client = NULL;

    int rc = parse(&ping, argc, argv);
    if (rc != EXIT_DONE)
        return rc;
    if (ping.common.help) {
        print_help();
        return EXIT_DONE;
    }
    uint64_t *const times_ns = malloc(ping.count * sizeof *times_ns);
    if (times_ns == NULL)
        return complain(EXIT_FAILED, "out of memory");
    rc = command_connect(&ping.common, &client);
    if (rc == EXIT_DONE)
        rc = ping_all(client, &ping, times_ns);
    gm_close(client);
    free(times_ns);
    return rc;
}
