/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill run: one job from files or standard input to files or standard output. One thread; the data of the job is
 * bounded by the daemon's quota.
 */
#include "wire.h" /* before gridmill.h, which leaves the status enumerators to it */

#include "command.h"
#include "input.h"
#include "output.h"
#include "place.h"
#include "reply.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct run {
    struct common common;
    uint32_t op;
    struct gm_op_row row;
    const char *device; /* as given, or NULL */
    const char *value, *output;
    enum output_format format;
    bool has_format, has_n, has_lo, has_hi, descending, time;
    uint32_t dtype;
    uint64_t n, bins;
    double lo, hi;
    enum place_kind place;
    const char *input;
};

static void print_help(void)
{
    fputs("usage: gridmill run OP [INPUT] [OPTION...]\n\n"
          "Runs one job. INPUT is a .npy file, a file of raw elements (with --dtype), @NAME for a named arena\n"
          "(with --dtype and --count), or - or nothing for standard input: numbers as text, or a .npy file.\n"
          "`gridmill ops` lists the ops.\n\n"
          "  -t, --dtype TYPE    element type (i32 u32 i64 u64 f32 f64 u8); text: default i64, or f64 when\n"
          "                      a number has a point, an exponent, or is not finite\n"
          "  -d, --device WHICH  number of a device, or cpu, or cuda (default: any)\n"
          "  -n, --count N       elements: fill needs it; others take the first N of their input\n"
          "      --value V       fill: the value\n"
          "      --descending    sort: largest first\n"
          "      --bins N --lo X --hi Y\n"
          "                      histogram: N equal bins from X to Y\n"
          "      --arena KIND    where the data lies: inline (in the message), shared, device, or auto (default)\n"
          "  -o, --output FILE   write the result there (default: standard output)\n"
          "  -f, --format FORMAT text (default), npy (default for FILE.npy), raw\n"
          "      --time          say on standard error how long it took\n" COMMON_HELP,
          stdout);
}

enum {
    OPTION_VALUE = OPTION_FIRST,
    OPTION_DESCENDING,
    OPTION_BINS,
    OPTION_LO,
    OPTION_HI,
    OPTION_ARENA,
    OPTION_TIME
};

static const struct option options[] = {{"dtype", required_argument, NULL, 't'},
                                        {"device", required_argument, NULL, 'd'},
                                        {"count", required_argument, NULL, 'n'},
                                        {"value", required_argument, NULL, OPTION_VALUE},
                                        {"descending", no_argument, NULL, OPTION_DESCENDING},
                                        {"bins", required_argument, NULL, OPTION_BINS},
                                        {"lo", required_argument, NULL, OPTION_LO},
                                        {"hi", required_argument, NULL, OPTION_HI},
                                        {"arena", required_argument, NULL, OPTION_ARENA},
                                        {"output", required_argument, NULL, 'o'},
                                        {"format", required_argument, NULL, 'f'},
                                        {"time", no_argument, NULL, OPTION_TIME},
                                        COMMON_LONG,
                                        {0}};

static int bad_value(const char *option, const char *value, const char *wanted)
{
    return usage_error("run", "%s: \"%s\" is not %s", option, value, wanted);
}

static int take_dtype(struct run *run, const char *value)
{
    const int dtype = gm_element_by_name(value);

    if (dtype < 0)
        return bad_value("--dtype", value, "an element type");
    run->dtype = (uint32_t)dtype;
    return EXIT_DONE;
}

/* Options whose values are numbers. */
static int take_number(struct run *run, int option, const char *value)
{
    switch (option) {
    case 'n':
        run->has_n = parse_u64(value, GM_ELEMENTS_MAX, &run->n);
        return run->has_n ? EXIT_DONE : bad_value("--count", value, "a number of elements");
    case OPTION_BINS:
        return parse_u64(value, UINT32_MAX, &run->bins) ? EXIT_DONE : bad_value("--bins", value, "a number of bins");
    case OPTION_LO:
        run->has_lo = parse_f64(value, &run->lo);
        return run->has_lo ? EXIT_DONE : bad_value("--lo", value, "a number");
    default:
        run->has_hi = parse_f64(value, &run->hi);
        return run->has_hi ? EXIT_DONE : bad_value("--hi", value, "a number");
    }
}

static int take_option(struct run *run, int option, const char *value)
{
    switch (option) {
    case 't':
        return take_dtype(run, value);
    case 'd':
        run->device = value;
        return EXIT_DONE;
    case 'n':
    case OPTION_BINS:
    case OPTION_LO:
    case OPTION_HI:
        return take_number(run, option, value);
    case OPTION_VALUE:
        run->value = value;
        return EXIT_DONE;
    case OPTION_DESCENDING:
        run->descending = true;
        return EXIT_DONE;
    case OPTION_ARENA:
        return place_kind_by_name(value, &run->place) ? EXIT_DONE
                                                      : bad_value("--arena", value, "auto, inline, shared or device");
    case 'o':
        run->output = value;
        return EXIT_DONE;
    case 'f':
        run->has_format = output_format_by_name(value, &run->format);
        return run->has_format ? EXIT_DONE : bad_value("--format", value, "text, npy or raw");
    case OPTION_TIME:
        run->time = true;
        return EXIT_DONE;
    default: /* getopt_long has said what is wrong */
        return usage_error("run", "wrong usage of run");
    }
}

static int take_arguments(struct run *run, int count, char **arguments)
{
    if (count < 1)
        return usage_error("run", "run needs an op");
    const int op = gm_op_by_name(arguments[0], strlen(arguments[0]));
    if (op < 0)
        return complain(EXIT_USAGE, "unknown op \"%s\"; `gridmill ops` lists them", arguments[0]);
    run->op = (uint32_t)op;
    run->row = gm_op_row(run->op);
    if (count - 1 > run->row.inputs)
        return usage_error("run", "%s takes %s", arguments[0], run->row.inputs == 0 ? "no input" : "one input");
    run->input = count > 1 ? arguments[1] : NULL;
    return EXIT_DONE;
}

static int parse(struct run *run, int argc, char **argv)
{
    int option, rc = EXIT_DONE;

    while (rc == EXIT_DONE && (option = getopt_long(argc, argv, "t:d:n:o:f:" COMMON_SHORT, options, NULL)) != -1) {
        const int common = common_option(&run->common, option, optarg);
        rc = common < 0 ? EXIT_USAGE : common > 0 ? EXIT_DONE : take_option(run, option, optarg);
    }
    if (rc != EXIT_DONE || run->common.help)
        return rc;
    return take_arguments(run, argc - optind, argv + optind);
}

/* The first option that fill or histogram need and do not have, or NULL. */
static const char *missing(const struct run *run)
{
    if (run->row.shape == GM_SHAPE_FILL)
        return run->dtype == GM_NO_ELEMENT ? "--dtype"
               : !run->has_n               ? "--count"
               : run->value == NULL        ? "--value"
                                           : NULL;
    if (run->row.shape == GM_SHAPE_HISTOGRAM)
        return run->bins == 0 ? "--bins" : !run->has_lo ? "--lo" : !run->has_hi ? "--hi" : NULL;
    return NULL;
}

/* What this op needs and what it does not take. */
static int check(const struct run *run)
{
    const char *const name = gm_op_name(run->op);
    const bool fill = run->row.shape == GM_SHAPE_FILL, histogram = run->row.shape == GM_SHAPE_HISTOGRAM;

    if (fill && missing(run) != NULL)
        return usage_error("run", "%s needs --dtype, --count and --value; %s is missing", name, missing(run));
    if (!fill && run->value != NULL)
        return usage_error("run", "%s takes no --value", name);
    if (histogram && missing(run) != NULL)
        return usage_error("run", "%s needs --bins, --lo and --hi; %s is missing", name, missing(run));
    if (!histogram && (run->bins != 0 || run->has_lo || run->has_hi))
        return usage_error("run", "%s takes no --bins, --lo and --hi", name);
    if (run->descending && run->row.work != GM_WORK_SORT)
        return usage_error("run", "%s takes no --descending", name);
    return EXIT_DONE;
}

/* Whether the input is an arena that is there. */
static bool is_named(const struct run *run)
{
    return run->input != NULL && run->input[0] == '@';
}

/* Type and count, from the input where there is one. */
static int size_up(struct run *run, struct input *input)
{
    if (run->row.inputs == 0)
        return EXIT_DONE;
    if (is_named(run) && (!run->has_n || run->dtype == GM_NO_ELEMENT))
        return usage_error("run", "%s needs --dtype and --count", run->input);
    if (is_named(run))
        return EXIT_DONE;
    const int rc = input_open(run->input, run->dtype, run->has_n ? run->n : UINT64_MAX, input);
    if (rc != EXIT_DONE)
        return rc;
    if (run->has_n && run->n > input->n)
        return complain(EXIT_USAGE, "%s: has %" PRIu64 " elements, not the %" PRIu64 " of --count", input->name,
                        input->n, run->n);
    run->dtype = input->dtype;
    run->n = run->has_n ? run->n : input->n;
    return EXIT_DONE;
}

static int fill_request(const struct run *run, const struct place *place, struct gm_request *request)
{
    *request = gm_request(gm_op_name(run->op), run->dtype, run->n);
    request->device = place->device;
    if (run->row.shape == GM_SHAPE_HISTOGRAM) {
        request->bins = (uint32_t)run->bins;
        request->lo = run->lo;
        request->hi = run->hi;
    }
    request->descending = run->descending;
    if (run->value != NULL && !number_parse(run->value, run->dtype, &request->value))
        return bad_value("--value", run->value, "a number of this type");
    if (run->row.inputs > 0)
        request->in[0] = place_input(place);
    if (run->row.outputs > 0)
        request->out[0] = place_output(place);
    return EXIT_DONE;
}

static int write_result(const struct run *run, const struct place *place, const struct gm_result *result)
{
    if (run->row.outputs > 0) {
        const bool histogram = run->row.shape == GM_SHAPE_HISTOGRAM;
        return output_write(run->output, run->format, histogram ? GM_U64 : run->dtype, place->out,
                            histogram ? run->bins : run->n);
    }
    if (result->dtype != GM_NO_ELEMENT)
        return output_write(run->output, run->format, result->dtype, &result->value, 1);
    return EXIT_DONE;
}

static void print_time(const struct gm_result *result, uint64_t round_trip_ns)
{
    fprintf(stderr, "device %u: waited %.1f us, ran %.1f us; round trip %.1f us\n", result->device,
            (double)result->wait_ns / 1e3, (double)result->run_ns / 1e3, (double)round_trip_ns / 1e3);
}

static int run_job(struct gm_client *client, const struct run *run, const struct input *input, struct place *place)
{
    struct gm_request request;
    struct gm_result result;

    int rc = is_named(run) ? place_attach(client, &run->common, run->input + 1, place) : EXIT_DONE;
    if (rc == EXIT_DONE)
        rc = place_make(client, &run->common, place);
    if (rc == EXIT_DONE && run->row.inputs > 0 && !is_named(run))
        rc = input_read(input, 0, place->in, place->in_bytes);
    if (rc == EXIT_DONE)
        rc = place_upload(client, &run->common, place);
    if (rc == EXIT_DONE)
        rc = fill_request(run, place, &request);
    if (rc != EXIT_DONE)
        return rc;
    const uint64_t start_ns = gm_now_ns();
    if (gm_run(client, &request, command_deadline(&run->common), &result) != GM_OK)
        return complain_last(client, gm_op_name(run->op));
    if (run->time)
        print_time(&result, gm_now_ns() - start_ns);
    rc = place_download(client, &run->common, place);
    return rc == EXIT_DONE ? write_result(run, place, &result) : rc;
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.common = {.timeout_ns = GM_NO_DEADLINE}, .dtype = GM_NO_ELEMENT};
    struct input input = {.fd = -1};
    struct place place = {0};
    struct gm_client *client = NULL;

    int rc = parse(&run, argc, argv);
    if (rc == EXIT_DONE && run.common.help) {
        print_help();
        return EXIT_DONE;
    }
    if (rc == EXIT_DONE)
        rc = check(&run);
    if (rc == EXIT_DONE)
        rc = size_up(&run, &input);
    const size_t length = run.output != NULL ? strlen(run.output) : 0;
    if (!run.has_format && length > 4 && strcmp(run.output + length - 4, ".npy") == 0)
        run.format = OUTPUT_NPY;
    if (rc == EXIT_DONE)
        rc = command_connect(&run.common, &client);
    place.kind = run.place;
    place.in_bytes = run.row.inputs > 0 ? run.n * gm_element_bytes(run.dtype) : 0;
    const struct gm_args args = {.n = run.n, .count = (uint32_t)run.bins, .dtype = (uint8_t)run.dtype};
    if (run.row.outputs > 0)
        place.out_bytes = gm_buffer_bytes(&run.row, run.row.inputs, &args);
    if (rc == EXIT_DONE)
        rc = reply_device(client, &run.common, run.device, &place.device);
    if (rc == EXIT_DONE)
        rc = run_job(client, &run, &input, &place);
    place_free(&place);
    input_close(&input);
    gm_close(client);
    return rc;
}
