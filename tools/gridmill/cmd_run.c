/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill run: one job from files or standard input to files or standard output. One thread; the data of the job is
 * bounded by the daemon's quota.
 */
#include "wire.h" /* before gridmill.h, which leaves the status enumerators to it */

#include "arguments.h"
#include "command.h"
#include "operands.h"
#include "output.h"
#include "place.h"
#include "reply.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct run {
    struct common common;
    uint32_t op;
    struct gm_op_row row;
    const char *device; /* as given, or NULL */
    const char *output[GM_BUFFERS_MAX];
    uint32_t outputs; /* that many were given */
    enum output_format format;
    bool has_format, time, result;
    enum place_kind place;
    struct arguments arguments;
    struct operands operands;
    struct gm_args args;
};

static void print_help(void)
{
    fputs("usage: gridmill run OP [INPUT...] [OPTION...]\n\n"
          "Runs one job. Each INPUT is a .npy file, a file of raw elements (with --dtype, or --index for indices and\n"
          "offsets), @NAME for a named arena (with --dtype and --count), or - for standard input: numbers as text, or\n"
          "a .npy file. The last input may be left out: then it is standard input.\n"
          "`gridmill ops` lists the ops; `gridmill run OP --help` says what one of them takes.\n\n"
          "  -t, --dtype TYPE    element type (u8 i8 u32 i32 u64 i64 f16 bf16 f32 f64); text: that of the files,\n"
          "                      or i64, or f64 when a number has a point, an exponent, or is not finite\n"
          "  -d, --device WHICH  number of a device, or cpu, or cuda (default: any)\n"
          "  -n, --count N       elements: fill needs it; others take the first N of their input\n"
          "      --arena KIND    where the data lies: inline (in the message), shared, device, or auto (default)\n"
          "  -o, --output FILE   write the output there (default: standard output); once for each output\n"
          "  -f, --format FORMAT text (default), npy (default for FILE.npy), raw\n"
          "      --result        say on standard error what the op returns beside its output\n"
          "      --time          say on standard error how long it took\n" COMMON_HELP
          "\nArguments of ops; sizes that inputs have need not be given:\n\n",
          stdout);
    arguments_help(GM_OP_COUNT);
}

/* What one op takes. */
static void print_op_help(uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);

    printf("usage: gridmill run %s%s [OPTION...]\n\n", gm_op_name(op),
           row.inputs == 0   ? ""
           : row.inputs == 1 ? " [INPUT]"
                             : " INPUT [INPUT]");
    print_words(gm_op_help(op), strlen(gm_op_help(op)), 0, 0);
    putchar('\n');
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        char name[GM_FIELD_BYTES_MAX];
        gm_buffer_name(&row, i, "", name);
        printf("%s      %-18s%s (%s)\n", i == 0 ? "\n" : "", name, gm_buffer_extent_name(&row, i),
               gm_buffer_content_name(&row, i));
    }
    if (row.args != 0)
        putchar('\n');
    arguments_help(op);
    fputs("\n`gridmill run --help` lists the options of all ops.\n", stdout);
}

enum { OPTION_ARENA = OPTION_FIRST, OPTION_RESULT, OPTION_TIME };

static const struct option options[] = {{"dtype", required_argument, NULL, 't'},
                                        {"device", required_argument, NULL, 'd'},
                                        {"count", required_argument, NULL, 'n'},
                                        {"arena", required_argument, NULL, OPTION_ARENA},
                                        {"output", required_argument, NULL, 'o'},
                                        {"format", required_argument, NULL, 'f'},
                                        {"result", no_argument, NULL, OPTION_RESULT},
                                        {"time", no_argument, NULL, OPTION_TIME},
                                        COMMON_LONG};
#define OPTIONS (sizeof options / sizeof *options)

static int bad_value(const char *option, const char *value, const char *wanted)
{
    return usage_error("run", "%s: \"%s\" is not %s", option, value, wanted);
}

static int take_dtype(struct run *run, const char *value)
{
    const int dtype = gm_element_by_name(value);

    if (dtype < 0)
        return bad_value("--dtype", value, "an element type");
    run->args.dtype = (uint8_t)dtype;
    return EXIT_DONE;
}

static int take_output(struct run *run, const char *path)
{
    if (run->outputs == GM_BUFFERS_MAX)
        return usage_error("run", "--output: no op has so many outputs");
    for (uint32_t i = 0; i < run->outputs; i++)
        if (strcmp(run->output[i], path) == 0 && strcmp(path, "/dev/null") != 0)
            return usage_error("run", "--output: \"%s\" would be overwritten by the next output", path);
    run->output[run->outputs++] = path;
    return EXIT_DONE;
}

static int take_option(struct run *run, int option, const char *value)
{
    char wanted[64];

    if (arguments_take(&run->arguments, option, value))
        return EXIT_DONE;
    switch (option) {
    case 't':
        return take_dtype(run, value);
    case 'd':
        run->device = value;
        return EXIT_DONE;
    case 'n':
        run->operands.has_n = parse_u64(value, GM_ELEMENTS_MAX, &run->args.n);
        snprintf(wanted, sizeof wanted, "a number of elements, at most %" PRIu64, GM_ELEMENTS_MAX);
        return run->operands.has_n ? EXIT_DONE : bad_value("--count", value, wanted);
    case OPTION_ARENA:
        return place_kind_by_name(value, &run->place) ? EXIT_DONE
                                                      : bad_value("--arena", value, "auto, inline, shared or device");
    case 'o':
        return take_output(run, value);
    case 'f':
        run->has_format = output_format_by_name(value, &run->format);
        return run->has_format ? EXIT_DONE : bad_value("--format", value, "text, npy or raw");
    case OPTION_RESULT:
        run->result = true;
        return EXIT_DONE;
    case OPTION_TIME:
        run->time = true;
        return EXIT_DONE;
    default: /* getopt_long has said what is wrong */
        return usage_error("run", "wrong usage of run");
    }
}

static int take_op(struct run *run, const char *name)
{
    const int op = gm_op_by_name(name, strlen(name));

    if (op < 0)
        return complain(EXIT_USAGE, "unknown op \"%s\"; `gridmill ops` lists them", name);
    run->op = run->operands.op = (uint32_t)op;
    run->row = run->operands.row = gm_op_row(run->op);
    return EXIT_DONE;
}

/* The last input may be left out; standard input can be one of them. */
static int take_inputs(struct run *run, uint32_t count, char **paths)
{
    static const char *const numbers[] = {"no input", "one input", "two inputs"};
    uint32_t from_stdin = 0;

    if (count > run->row.inputs || count + 1 < run->row.inputs)
        return usage_error("run", "%s takes %s", gm_op_name(run->op), numbers[run->row.inputs]);
    for (uint32_t i = 0; i < run->row.inputs; i++) {
        run->operands.path[i] = i < count ? paths[i] : NULL;
        from_stdin += i >= count || strcmp(paths[i], "-") == 0;
    }
    if (from_stdin > 1)
        return usage_error("run", "standard input can be one input only");
    return EXIT_DONE;
}

/* An option for elements, or for something to write, that the op does not have; NULL: none. */
static const char *needless(const struct run *run)
{
    const bool typed = run->row.types != GM_NO_TYPES;
    const bool writes = run->row.outputs > 0 || run->row.result != GM_RESULT_NONE;

    return !typed && run->args.dtype != GM_NO_ELEMENT ? "--dtype"
           : !typed && run->operands.has_n            ? "--count"
           : !writes && run->outputs > 0              ? "--output"
           : !writes && run->has_format               ? "--format"
                                                      : NULL;
}

/* What this op needs and what it does not take. */
static int check(const struct run *run)
{
    const char *words[2];
    size_t count = 0;

    if (needless(run) != NULL)
        return usage_error("run", "%s takes no %s", gm_op_name(run->op), needless(run));
    if (run->row.inputs == 0 && run->row.outputs > 0 && run->args.dtype == GM_NO_ELEMENT)
        words[count++] = "--dtype";
    if (run->row.inputs == 0 && run->row.outputs > 0 && !run->operands.has_n)
        words[count++] = "--count";
    int rc = arguments_refuse(&run->arguments, run->op);
    if (rc == EXIT_DONE)
        rc = arguments_missing(run->op, words, count,
                               arguments_needed(&run->row) & ~arguments_given(&run->arguments) &
                                   ~operands_may_give(&run->row));
    if (rc == EXIT_DONE && run->outputs > (run->row.outputs > 1 ? run->row.outputs : 1u))
        return usage_error("run", "%s has one output: one --output", gm_op_name(run->op));
    if (rc == EXIT_DONE && run->row.outputs > run->outputs + 1u && run->has_format && run->format != OUTPUT_TEXT)
        return usage_error("run", "%s has two outputs: say --output for each, or --format text", gm_op_name(run->op));
    if (rc == EXIT_DONE && run->result && run->row.result == GM_RESULT_NONE)
        return usage_error("run", "%s takes no --result: it returns nothing", gm_op_name(run->op));
    return rc;
}

static int parse(struct run *run, int argc, char **argv)
{
    struct option all[ARGUMENT_OPTIONS_MAX + OPTIONS + 1];
    int option, rc = EXIT_DONE;

    memcpy(all, options, sizeof options);
    const size_t count = OPTIONS + arguments_options(all + OPTIONS);
    all[count] = (struct option){0};
    while (rc == EXIT_DONE && (option = getopt_long(argc, argv, "t:d:n:o:f:" COMMON_SHORT, all, NULL)) != -1) {
        const int common = common_option(&run->common, option, optarg);
        rc = common < 0 ? EXIT_USAGE : common > 0 ? EXIT_DONE : take_option(run, option, optarg);
    }
    if (rc != EXIT_DONE || (run->common.help && optind == argc))
        return rc;
    if (optind == argc)
        return usage_error("run", "run needs an op");
    rc = take_op(run, argv[optind]);
    if (rc != EXIT_DONE || run->common.help)
        return rc;
    rc = take_inputs(run, (uint32_t)(argc - optind - 1), argv + optind + 1);
    if (rc == EXIT_DONE)
        rc = check(run);
    return rc == EXIT_DONE ? arguments_read(&run->arguments, run->op, false, &run->args) : rc;
}

/* ---- Output ---- */

static enum output_format format_of(const struct run *run, const char *path)
{
    const size_t length = path != NULL ? strlen(path) : 0;

    if (!run->has_format && length > 4 && strcmp(path + length - 4, ".npy") == 0)
        return OUTPUT_NPY;
    return run->format;
}

/* Elements of an output that are there. */
static uint64_t count_of(const struct run *run, uint32_t i, const struct gm_result *result)
{
    const uint64_t room = gm_buffer_count(&run->row, i, &run->args);

    return gm_buffer_extent(run->row.buffer[i]) == GM_EXTENT_RESULT && result->value.u64 < room ? result->value.u64
                                                                                                : room;
}

static int write_outputs(const struct run *run, const struct place *place, const struct gm_result *result)
{
    const uint32_t first = run->row.inputs;
    uint32_t dtype[2] = {0};
    const void *data[2] = {NULL};
    int rc = EXIT_DONE;

    for (uint32_t i = 0; i < run->row.outputs; i++) {
        dtype[i] = operand_dtype(&run->row, first + i, &run->args);
        data[i] = place->buffer[first + i].data;
    }
    if (run->row.outputs == 2 && run->outputs == 0)
        return output_pairs(dtype, data, count_of(run, first, result));
    for (uint32_t i = 0; i < run->row.outputs && rc == EXIT_DONE; i++)
        rc = output_write(run->output[i], format_of(run, run->output[i]), dtype[i], data[i],
                          count_of(run, first + i, result));
    return rc;
}

static int write_result(const struct run *run, const struct place *place, const struct gm_result *result)
{
    char number[NUMBER_BYTES_MAX];

    if (run->result && run->row.outputs > 0)
        fprintf(stderr, "%.*s\n", (int)number_print(result->dtype, &result->value, number), number);
    if (run->row.outputs > 0)
        return write_outputs(run, place, result);
    if (result->dtype != GM_NO_ELEMENT)
        return output_write(run->output[0], format_of(run, run->output[0]), result->dtype, &result->value, 1);
    return EXIT_DONE;
}

static void print_time(const struct gm_result *result, uint64_t round_trip_ns)
{
    fprintf(stderr, "device %u: waited %.1f us, ran %.1f us; round trip %.1f us\n", result->device,
            (double)result->wait_ns / 1e3, (double)result->run_ns / 1e3, (double)round_trip_ns / 1e3);
}

/* ---- The job ---- */

static struct gm_request request_of(const struct run *run, const struct place *place)
{
    const bool typed = run->row.types != GM_NO_TYPES;
    struct gm_request request = gm_request(gm_op_name(run->op), typed ? run->args.dtype : GM_NO_ELEMENT, run->args.n);

    request.device = place->device;
    arguments_request(&run->row, &run->args, &request);
    for (uint32_t i = 0; i < place->buffers; i++)
        if (i < place->inputs)
            request.in[i] = place_buffer(place, i);
        else
            request.out[i - place->inputs] = place_buffer(place, i);
    return request;
}

/* Room for the data, and the inputs in it. */
static int bring(struct gm_client *client, const struct run *run, struct place *place)
{
    int rc = EXIT_DONE;

    place->kind = run->place;
    place->inputs = run->row.inputs;
    place->buffers = (uint32_t)run->row.inputs + run->row.outputs;
    for (uint32_t i = 0; i < place->buffers; i++)
        place->buffer[i].bytes = gm_buffer_bytes(&run->row, i, &run->args);
    for (uint32_t i = 0; i < place->inputs && rc == EXIT_DONE; i++)
        if (operand_is_named(&run->operands, i))
            rc = place_attach(client, &run->common, run->operands.path[i] + 1, i, place);
    if (rc == EXIT_DONE)
        rc = place_make(client, &run->common, place);
    for (uint32_t i = 0; i < place->inputs && rc == EXIT_DONE; i++)
        if (!operand_is_named(&run->operands, i))
            rc = input_read(&run->operands.input[i], 0, place->buffer[i].data, place->buffer[i].bytes);
    return rc == EXIT_DONE ? place_upload(client, &run->common, place) : rc;
}

static int run_job(struct gm_client *client, const struct run *run, struct place *place)
{
    struct gm_result result;

    int rc = bring(client, run, place);
    if (rc != EXIT_DONE)
        return rc;
    const struct gm_request request = request_of(run, place);
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
    struct run run = {.common = {.timeout_ns = GM_NO_DEADLINE}, .op = GM_OP_COUNT, .args = {.dtype = GM_NO_ELEMENT}};
    struct place place = {0};
    struct gm_client *client = NULL;

    int rc = parse(&run, argc, argv);
    if (rc == EXIT_DONE && run.common.help) {
        if (run.op < GM_OP_COUNT)
            print_op_help(run.op);
        else
            print_help();
        return EXIT_DONE;
    }
    if (rc == EXIT_DONE)
        rc = operands_open(&run.operands, &run.arguments, &run.args);
    if (rc == EXIT_DONE)
        rc = command_connect(&run.common, &client);
    if (rc == EXIT_DONE)
        rc = reply_device(client, &run.common, run.device, &place.device);
    if (rc == EXIT_DONE)
        rc = run_job(client, &run, &place);
    place_free(&place);
    operands_close(&run.operands);
    gm_close(client);
    return rc;
}
