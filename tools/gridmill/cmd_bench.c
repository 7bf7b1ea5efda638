/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill bench: what this machine's daemon gives a client process, as separate figures: the round trip, the device's
 * own time in it, what a submission costs the caller, jobs a second of several client processes, and latency at a load
 * that does not wait for answers. Prints figures, never judges them. One thread, and a child for each client process.
 */
#include "load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#define SAMPLES    2000000u
#define WARM_UP    1000u
#define BATCH      64u
#define LIST_MAX   8u
#define PERCENT_MAX 1000u
#define NAME_BYTES 64u

static void print_help(void)
{
    fputs("usage: gridmill bench [OPTION...]\n\n"
          "Measures no-op jobs (and sums, with -n) of client processes on one device: the round\n"
          "trip and the device's share of it, the cost of a submission, jobs a second, and latency\n"
          "under loads whose arrival times are fixed in advance. Everything goes over the client's\n"
          "own lane, and again over the socket with --socket-too.\n\n"
          "  -d, --device N      device (default 0)\n"
          "  -n, --elements N    also time sums of N f32 in device memory\n"
          "      --seconds S     of each figure (default 1)\n"
          "      --clients LIST  client processes, comma-separated (default 1,4,8,16)\n"
          "      --load LIST     percent of one client's capacity (default 10,50,80,95)\n"
          "      --window LIST   jobs of a client in flight; each gets its part of the time, and the\n"
          "                      best rate counts (default 128,256,512)\n"
          "      --seed N        of the arrival times (default 1)\n"
          "      --socket-too    measure the socket as well\n"
          "      --json          print JSON\n" COMMON_HELP,
          stdout);
}

enum { OPTION_JSON = OPTION_FIRST, OPTION_SECONDS, OPTION_CLIENTS, OPTION_LOAD, OPTION_WINDOW, OPTION_SEED,
       OPTION_SOCKET_TOO };

struct list {
    uint32_t count, value[LIST_MAX];
};

struct bench {
    struct common common;
    struct load load;
    struct gm_figures figures;
    struct gm_samples wall, device;
    struct list clients, percent, window;
    uint64_t elements;
    bool json, socket_too;
};

static bool parse_list(const char *text, uint32_t most, struct list *list)
{
    char item[16];

    for (list->count = 0; list->count < LIST_MAX; text++) {
        const size_t size = strcspn(text, ",");
        uint64_t value;
        if (size >= sizeof item)
            return false;
        memcpy(item, text, size);
        item[size] = 0;
        if (!parse_u64(item, most, &value) || value == 0)
            return false;
        list->value[list->count++] = (uint32_t)value;
        text += size;
        if (*text == 0)
            return true;
    }
    return false;
}

/* 1: taken. */
static int parse_one(struct bench *bench, int option, const char *argument)
{
    uint64_t value = 0;
    double seconds;

    switch (option) {
    case 'd':
        bench->load.device = parse_u64(argument, INT32_MAX, &value) ? (int)value : -1;
        return bench->load.device >= 0;
    case 'n':
        return parse_u64(argument, UINT64_C(1) << 34, &bench->elements) && bench->elements > 0;
    case OPTION_SECONDS:
        if (!parse_f64(argument, &seconds) || !(seconds >= 0.01 && seconds <= 3600))
            return 0;
        bench->load.seconds_ns = (uint64_t)(seconds * 1e9);
        return 1;
    case OPTION_CLIENTS:
        return parse_list(argument, LOAD_CLIENTS_MAX, &bench->clients);
    case OPTION_LOAD:
        return parse_list(argument, PERCENT_MAX, &bench->percent);
    case OPTION_WINDOW:
        return parse_list(argument, LOAD_WINDOW_MAX, &bench->window);
    case OPTION_SEED:
        return parse_u64(argument, UINT64_MAX, &bench->load.seed);
    case OPTION_JSON:
        return bench->json = true;
    case OPTION_SOCKET_TOO:
        return bench->socket_too = true;
    default:
        return 0;
    }
}

/* What an option takes: parse_one took it not. */
static int refuse(int option, const char *argument)
{
    switch (option) {
    case 'd':
        return usage_error("bench", "--device: \"%s\" is not the number of a device", argument);
    case 'n':
        return usage_error("bench", "--elements: \"%s\" is not a number from 1 to 2^34", argument);
    case OPTION_SECONDS:
        return usage_error("bench", "--seconds: \"%s\" is not a number from 0.01 to 3600", argument);
    case OPTION_CLIENTS:
        return usage_error("bench", "--clients: \"%s\" is not 1 to %u numbers from 1 to %u, separated by commas",
                           argument, LIST_MAX, LOAD_CLIENTS_MAX);
    case OPTION_LOAD:
        return usage_error("bench", "--load: \"%s\" is not 1 to %u percentages from 1 to %u, separated by commas",
                           argument, LIST_MAX, PERCENT_MAX);
    case OPTION_WINDOW:
        return usage_error("bench", "--window: \"%s\" is not 1 to %u numbers from 1 to %u, separated by commas",
                           argument, LIST_MAX, LOAD_WINDOW_MAX);
    case OPTION_SEED:
        return usage_error("bench", "--seed: \"%s\" is not a number of 64 bits", argument);
    default: /* getopt_long has said what is wrong */
        return usage_error("bench", "wrong usage of bench");
    }
}

static int parse(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"elements", required_argument, NULL, 'n'},
                                            {"seconds", required_argument, NULL, OPTION_SECONDS},
                                            {"clients", required_argument, NULL, OPTION_CLIENTS},
                                            {"load", required_argument, NULL, OPTION_LOAD},
                                            {"window", required_argument, NULL, OPTION_WINDOW},
                                            {"seed", required_argument, NULL, OPTION_SEED},
                                            {"socket-too", no_argument, NULL, OPTION_SOCKET_TOO},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            COMMON_LONG,
                                            {0}};
    int option;

    while ((option = getopt_long(argc, argv, "d:n:" COMMON_SHORT, options, NULL)) != -1) {
        const int common = common_option(&bench->common, option, optarg);
        if (common < 0)
            return EXIT_USAGE;
        if (common == 0 && !parse_one(bench, option, optarg))
            return refuse(option, optarg);
    }
    return optind == argc ? EXIT_DONE : usage_error("bench", "bench takes no arguments");
}

static const char *name_of(char *name, const struct bench *bench, const char *figure, uint64_t number)
{
    const char *const path = bench->load.path == LOAD_LANE ? "lane" : "socket";

    if (number == 0)
        snprintf(name, NAME_BYTES, "%s_%s", path, figure);
    else
        snprintf(name, NAME_BYTES, "%s_%s_%" PRIu64, path, figure, number);
    return name;
}

/* One job after the other: the caller's clock, and the device's part of it. */
static int lockstep(struct bench *bench, struct gm_client *client, const struct gm_request *request, const char *figure,
                    uint64_t number)
{
    char name[NAME_BYTES], what[NAME_BYTES * 2];
    struct gm_result result;
    uint64_t end = gm_now_ns() + bench->load.seconds_ns;

    for (uint64_t i = 0;; i++) {
        const uint64_t start = gm_now_ns();
        if (gm_run(client, request, gm_deadline_in(bench->common.timeout_ns), &result) != GM_OK)
            return complain_last(client, figure);
        const uint64_t now = gm_now_ns();
        if (i == WARM_UP && end - start < bench->load.seconds_ns / 2u)
            end = start + bench->load.seconds_ns / 2u; /* a slow start does not take the samples' time */
        if (i >= WARM_UP || now > end) {
            gm_samples_add(&bench->wall, now - start);
            gm_samples_add(&bench->device, result.run_ns);
        }
        if (now > end)
            break;
    }
    snprintf(what, sizeof what, "%s, round trip", figure);
    gm_figures_latency(&bench->figures, name_of(name, bench, figure, number), what, &bench->wall);
    char device_name[NAME_BYTES * 2];
    snprintf(device_name, sizeof device_name, "%s_device", name);
    snprintf(what, sizeof what, "%s, on the device", figure);
    gm_figures_latency(&bench->figures, device_name, what, &bench->device);
    return EXIT_DONE;
}

/* Looks until every job of a batch has come back, all that are there at a time, as a program with many jobs does. */
static int take_batch(struct bench *bench, struct gm_client *client)
{
    const uint64_t deadline = gm_deadline_in(bench->common.timeout_ns);
    struct gm_job *done[BATCH];

    for (size_t taken = 0; taken < BATCH;) {
        if (gm_poll(client) != GM_OK)
            return complain_last(client, "poll");
        const size_t found = gm_next_batch(client, done, BATCH);
        for (size_t i = 0; i < found; i++)
            if (gm_job_status(done[i]) != GM_OK)
                return complain(EXIT_FAILED, "a job failed: %s", gm_strerror(gm_job_status(done[i])));
        taken += found;
        if (found == 0 && gm_now_ns() > deadline)
            return complain(EXIT_FAILED, "jobs were not answered in time");
    }
    return EXIT_DONE;
}

/* What the caller pays for one job of a batch, while the ring has room. */
static int submit_cost(struct bench *bench, struct gm_client *client)
{
    static struct gm_job jobs[BATCH];
    struct gm_job *pointers[BATCH];
    struct gm_request requests[BATCH];
    char name[NAME_BYTES];
    const uint64_t end = gm_now_ns() + bench->load.seconds_ns;

    for (uint32_t i = 0; i < BATCH; i++) {
        requests[i] = gm_request("nop", GM_NO_ELEMENT, 0);
        requests[i].device = bench->load.device;
        pointers[i] = &jobs[i];
    }
    double total = 0, batches = 0;
    int rc = EXIT_DONE;
    while (rc == EXIT_DONE && gm_now_ns() < end) {
        size_t accepted = 0;
        const uint64_t start = gm_now_ns();
        const int status = gm_submit_batch(client, requests, (struct gm_job *const *)pointers, BATCH, &accepted);
        const uint64_t spent = gm_now_ns() - start;
        if (status != GM_OK)
            return complain_last(client, "submit");
        total += (double)spent, batches++;
        gm_samples_add(&bench->wall, spent);
        rc = take_batch(bench, client);
    }
    if (rc != EXIT_DONE)
        return rc;
    gm_figures_value(&bench->figures, name_of(name, bench, "submit_cost", 0),
                     "submission, one job of a batch of 64, median of the batches", "ns",
                     (double)gm_samples_at(&bench->wall, 0.5) / BATCH);
    /* With what the caller's thread loses to others, while it submits. */
    gm_figures_value(&bench->figures, name_of(name, bench, "submit_cost_mean", 0),
                     "submission, one job of a batch of 64, mean", "ns", total / batches / BATCH);
    bench->wall.count = 0;
    return EXIT_DONE;
}

/* At the window that is best for so many clients; each gets its part of the time. */
static int best_rate(struct bench *bench, uint32_t clients, double *best, uint32_t *window)
{
    struct load load = bench->load;
    int rc = EXIT_DONE;

    load.seconds_ns /= bench->window.count;
    *best = 0;
    for (uint32_t i = 0; rc == EXIT_DONE && i < bench->window.count; i++) {
        double rate = 0;
        load.window = bench->window.value[i];
        rc = load_processes(&load, clients, &rate);
        if (rc == EXIT_DONE && rate > *best)
            *best = rate, *window = load.window;
    }
    return rc;
}

static int rates(struct bench *bench, double *one_client)
{
    char name[NAME_BYTES], what[NAME_BYTES];
    int rc = EXIT_DONE;

    for (uint32_t i = 0; rc == EXIT_DONE && i < bench->clients.count; i++) {
        double rate = 0;
        uint32_t window = 0;
        rc = best_rate(bench, bench->clients.value[i], &rate, &window);
        if (rc != EXIT_DONE)
            break;
        snprintf(what, sizeof what, "jobs a second, %" PRIu32 " client processes, %" PRIu32 " in flight each",
                 bench->clients.value[i], window);
        gm_figures_value(&bench->figures, name_of(name, bench, "rate", bench->clients.value[i]), what, "1/s", rate);
        if (i == 0)
            *one_client = rate / bench->clients.value[i];
    }
    return rc;
}

static int loads(struct bench *bench, struct gm_client *client, double capacity)
{
    char name[NAME_BYTES], what[NAME_BYTES * 2];
    int rc = EXIT_DONE;

    for (uint32_t i = 0; rc == EXIT_DONE && i < bench->percent.count; i++) {
        const double rate = capacity * bench->percent.value[i] / 100;
        rc = load_arrivals(&bench->load, client, rate, &bench->wall);
        if (rc != EXIT_DONE)
            break;
        snprintf(what, sizeof what, "latency at %" PRIu32 " %% of one client's rate (%.0f/s)", bench->percent.value[i],
                 rate);
        gm_figures_latency(&bench->figures, name_of(name, bench, "open_loop", bench->percent.value[i]), what,
                           &bench->wall);
    }
    return rc;
}

/* A sum of floats that lie on the device. */
static int sums(struct bench *bench, struct gm_client *client)
{
    const uint64_t deadline = gm_deadline_in(bench->common.timeout_ns);
    struct gm_arena *arena = NULL;
    struct gm_request fill = gm_request("fill", GM_F32, bench->elements), sum = gm_request("sum", GM_F32, 0);

    if (gm_arena_create(client, bench->elements * 4u, GM_MEMORY_DEVICE, bench->load.device, deadline, &arena) != GM_OK)
        return complain_last(client, "device memory");
    fill.value = gm_bits_f32(1);
    fill.out[0] = sum.in[0] = gm_in_arena(arena, 0, bench->elements * 4u);
    sum.n = bench->elements;
    int rc = gm_run(client, &fill, deadline, NULL) == GM_OK ? EXIT_DONE : complain_last(client, "fill");
    if (rc == EXIT_DONE)
        rc = lockstep(bench, client, &sum, "sum_f32", bench->elements);
    gm_arena_free(arena, deadline);
    return rc;
}

static int one_path(struct bench *bench, enum load_path path)
{
    struct gm_client *client = NULL;
    struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    double one_client = 0;

    bench->load.path = path;
    nop.device = bench->load.device;
    int rc = load_connect(&bench->load, &client);
    if (rc == EXIT_DONE)
        rc = lockstep(bench, client, &nop, "nop", 0);
    if (rc == EXIT_DONE && bench->elements != 0)
        rc = sums(bench, client);
    if (rc == EXIT_DONE)
        rc = submit_cost(bench, client);
    if (rc == EXIT_DONE)
        rc = rates(bench, &one_client);
    if (rc == EXIT_DONE)
        rc = loads(bench, client, one_client);
    gm_close(client);
    return rc;
}

static int measure(struct bench *bench)
{
    char text[32];
    struct gm_client *client = NULL;

    int rc = load_connect(&bench->load, &client); /* nothing is printed where nobody listens */
    gm_close(client);
    if (rc != EXIT_DONE)
        return rc;
    if (!gm_samples_make(&bench->wall, SAMPLES) || !gm_samples_make(&bench->device, SAMPLES))
        return complain(EXIT_FAILED, "out of memory");
    gm_figures_begin(&bench->figures, stdout, bench->json, "gridmill bench");
    snprintf(text, sizeof text, "%d", bench->load.device);
    gm_figures_fact(&bench->figures, "device", text);
    gm_figures_fact(&bench->figures, "library", gm_version());
    gm_figures_fact(&bench->figures, "ways", bench->socket_too ? "lane, socket" : "lane");
    rc = one_path(bench, LOAD_LANE);
    if (rc == EXIT_DONE && bench->socket_too)
        rc = one_path(bench, LOAD_SOCKET);
    if (!gm_figures_end(&bench->figures) && rc == EXIT_DONE)
        rc = complain(EXIT_FAILED, "standard output: %s", command_stream_error(STDOUT_FILENO));
    return rc;
}

int cmd_bench(int argc, char **argv)
{
    struct bench bench = {.common = {.timeout_ns = UINT64_C(10000000000)},
                          .load = {.seconds_ns = UINT64_C(1000000000), .seed = 1},
                          .clients = {4, {1, 4, 8, 16}},
                          .percent = {4, {10, 50, 80, 95}},
                          .window = {3, {128, 256, 512}}};

    int rc = parse(&bench, argc, argv);
    if (rc != EXIT_DONE)
        return rc;
    if (bench.common.help) {
        print_help();
        return EXIT_DONE;
    }
    bench.load.common = &bench.common;
    rc = measure(&bench);
    gm_samples_free(&bench.wall);
    gm_samples_free(&bench.device);
    return rc;
}
