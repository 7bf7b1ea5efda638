/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens inputs, finds out what they say about the job, and checks them against the shape of the op: see operands.h. One
 * thread; data is not read here, but for what comes through a pipe.
 */
#include "wire.h" /* before gridmill.h, which leaves the status enumerators to it */

#include "operands.h"

#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool operand_is_named(const struct operands *operands, uint32_t i)
{
    return operands->path[i] != NULL && operands->path[i][0] == '@';
}

static bool is_standard_input(const struct operands *operands, uint32_t i)
{
    return operands->path[i] == NULL || strcmp(operands->path[i], "-") == 0;
}

/* Indices and offsets have a type of their own. */
static bool has_second_type(const struct gm_op_row *row, uint32_t i)
{
    return gm_buffer_content(row->buffer[i]) >= GM_CONTENT_TO;
}

uint32_t operand_dtype(const struct gm_op_row *row, uint32_t i, const struct gm_args *args)
{
    if (gm_buffer_content(row->buffer[i]) == GM_CONTENT_U64)
        return GM_U64;
    return has_second_type(row, i) ? args->type2 : args->dtype;
}

/* The argument that says how many elements a buffer of this extent has. GM_ARGS: none. */
static uint32_t size_argument(const struct gm_op_row *row, uint32_t extent)
{
    switch (extent) {
    case GM_EXTENT_LENGTH:
        return gm_args_takes(row, GM_A_length) ? GM_A_length : GM_A_segments;
    case GM_EXTENT_LENGTH1:
        return GM_A_segments;
    case GM_EXTENT_COUNT1:
        return GM_A_bins;
    default:
        return GM_ARGS;
    }
}

uint32_t operands_may_give(const struct gm_op_row *row)
{
    uint32_t args = row->args & (1u << GM_A_index | 1u << GM_A_width | 1u << GM_A_channels);

    for (uint32_t i = 0; i < row->inputs; i++) {
        const uint32_t arg = size_argument(row, gm_buffer_extent(row->buffer[i]));
        args |= arg < GM_ARGS ? 1u << arg : 0;
    }
    return args;
}

/* ---- Opening ---- */

/* Elements of input i, when the user says how many, or UINT64_MAX. */
static uint64_t wanted_of(const struct operands *o, uint32_t i, const struct arguments *arguments,
                          const struct gm_args *args)
{
    const uint32_t extent = gm_buffer_extent(o->row.buffer[i]), arg = size_argument(&o->row, extent);
    const bool pixels = extent == GM_EXTENT_PIXELS, counted = pixels || extent == GM_EXTENT_N;
    const bool said = counted ? o->has_n && (!pixels || arguments->text[GM_A_channels] != NULL)
                              : arg < GM_ARGS && arguments->text[arg] != NULL;
    uint64_t wanted = UINT64_MAX;

    if (pixels && said)
        return __builtin_mul_overflow(args->n, args->count2, &wanted) ? UINT64_MAX : wanted;
    return said ? gm_buffer_count(&o->row, i, args) : UINT64_MAX;
}

static int open_one(struct operands *o, uint32_t i, const struct arguments *arguments, struct gm_args *args)
{
    struct input *const input = &o->input[i];
    const bool second = has_second_type(&o->row, i);
    const uint32_t said = !second                                 ? args->dtype
                          : (arguments->text[GM_A_index] != NULL) ? args->type2
                                                                  : (uint32_t)GM_NO_ELEMENT;

    const int rc =
        input_open(o->path[i], said, second ? "--index" : "--dtype", wanted_of(o, i, arguments, args), input);
    if (rc != EXIT_DONE)
        return rc;
    if (second && (o->row.types2 >> input->dtype & 1u) == 0)
        return complain(EXIT_USAGE, "%s: holds %s, which %s does not take as %s", input->name,
                        gm_element_name(input->dtype), gm_op_name(o->op),
                        gm_buffer_content(o->row.buffer[i]) == GM_CONTENT_INDEX ? "indices" : "offsets");
    if (!second) {
        args->dtype = (uint8_t)input->dtype;
        return EXIT_DONE;
    }
    args->type2 = (uint8_t)input->dtype;
    o->derived |= 1u << GM_A_index;
    return EXIT_DONE;
}

/* Files first: they know their type, and text is read as the type of the others. */
static int open_all(struct operands *o, const struct arguments *arguments, struct gm_args *args)
{
    int rc = EXIT_DONE;

    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < o->row.inputs && rc == EXIT_DONE; i++)
            if (!operand_is_named(o, i) && is_standard_input(o, i) == (pass == 1))
                rc = open_one(o, i, arguments, args);
    return rc;
}

/* ---- What follows ---- */

/* What does not fit is more than any op takes, and is refused by its name. */
static uint32_t count_within(uint64_t size, uint32_t place)
{
    const uint32_t most = gm_arg_count_most(place);
    return size < most ? (uint32_t)size : most;
}

/* The last dimension of a matrix is the width of its rows, and of an image of pixels its channels. */
static void derive_shape(struct operands *o, const struct input *input, uint32_t given, struct gm_args *args)
{
    const bool is_matrix = input->dimensions >= 2;

    if (is_matrix && gm_args_takes(&o->row, GM_A_width) && !(given >> GM_A_width & 1u)) {
        args->value[0] = input->last;
        o->derived |= 1u << GM_A_width;
    }
    if (is_matrix && gm_args_takes(&o->row, GM_A_channels) && !(given >> GM_A_channels & 1u)) {
        args->count2 = count_within(input->last, GM_AT_COUNT2);
        o->derived |= 1u << GM_A_channels;
    }
}

/* How many elements the job has, by an input of so many. */
static int derive_n(struct operands *o, uint32_t i, bool *has_n, struct gm_args *args)
{
    const struct input *const input = &o->input[i];
    const bool pixels = gm_buffer_extent(o->row.buffer[i]) == GM_EXTENT_PIXELS;

    if (*has_n || (pixels && args->count2 == 0))
        return EXIT_DONE;
    if (pixels && input->n % args->count2 != 0)
        return complain(EXIT_USAGE, "%s: has %" PRIu64 " elements, which are no whole pixels of %" PRIu32 " channels",
                        input->name, input->n, args->count2);
    args->n = pixels ? input->n / args->count2 : input->n;
    *has_n = true;
    return EXIT_DONE;
}

static int derive_size(struct operands *o, uint32_t i, uint32_t arg, struct gm_args *args)
{
    const struct input *const input = &o->input[i];
    const uint32_t extent = gm_buffer_extent(o->row.buffer[i]);
    const uint64_t one = extent == GM_EXTENT_LENGTH1 || extent == GM_EXTENT_COUNT1 ? 1 : 0;

    if (input->n < one)
        return complain(EXIT_USAGE, "%s: is empty; %s needs one %s at least", input->name, gm_op_name(o->op),
                        extent == GM_EXTENT_COUNT1 ? "edge" : "offset");
    const uint64_t size = input->n - one;
    if (gm_arg_place(arg) == GM_AT_COUNT)
        args->count = count_within(size, GM_AT_COUNT);
    else
        args->value[gm_arg_place(arg) - GM_AT_VALUE0] = size;
    o->derived |= 1u << arg;
    return EXIT_DONE;
}

static int derive(struct operands *o, uint32_t given, bool *has_n, struct gm_args *args)
{
    int rc = EXIT_DONE;

    for (uint32_t i = 0; i < o->row.inputs && rc == EXIT_DONE; i++) {
        const uint32_t extent = gm_buffer_extent(o->row.buffer[i]), arg = size_argument(&o->row, extent);
        if (operand_is_named(o, i))
            continue;
        if (extent == GM_EXTENT_N || extent == GM_EXTENT_PIXELS) {
            derive_shape(o, &o->input[i], given, args);
            rc = derive_n(o, i, has_n, args);
        } else if (arg < GM_ARGS && !(given >> arg & 1u)) {
            rc = derive_size(o, i, arg, args);
        }
    }
    return rc;
}

/* ---- Right or wrong ---- */

/* An input has exactly what the job works on, or more where the user said how much that is. */
static int check_count(const struct operands *o, uint32_t i, uint32_t given, const struct gm_args *args)
{
    const struct input *const input = &o->input[i];
    const uint32_t extent = gm_buffer_extent(o->row.buffer[i]), arg = size_argument(&o->row, extent);
    const uint64_t wanted = gm_buffer_count(&o->row, i, args);
    const bool counted = extent == GM_EXTENT_N || extent == GM_EXTENT_PIXELS;
    const bool may_be_longer = counted ? o->has_n : arg < GM_ARGS && (given >> arg & 1u) != 0;
    const char *of = gm_op_name(o->op);

    if (input->n == wanted || (input->n > wanted && may_be_longer))
        return EXIT_DONE;
    if (may_be_longer)
        of = counted ? "--count" : argument_option(arg);
    else
        for (uint32_t first = 0; counted && first < i; first++)
            if (gm_buffer_extent(o->row.buffer[first]) == extent && !operand_is_named(o, first))
                of = o->input[first].name;
    return complain(EXIT_USAGE, "%s: has %" PRIu64 " elements, not the %" PRIu64 " of %s", input->name, input->n,
                    wanted, of);
}

/* In the words of the protocol. That there is nothing to reduce is the job's failure. */
static int check_args(const struct operands *o, const struct gm_args *args)
{
    struct gm_problem problem;
    const enum gm_complaint complaint = gm_args_check(&o->row, args);

    if (complaint == GM_COMPLAINT_NONE || complaint == GM_COMPLAINT_EMPTY)
        return EXIT_DONE;
    gm_complaint_problem(&problem, complaint);
    return complain(EXIT_FAILED, "%s: %s (%s)", gm_op_name(o->op), problem.text, gm_status_name(problem.code));
}

/* Arenas do not say what lies in them. */
static int check_known(const struct operands *o, uint32_t given, bool has_n, const struct gm_args *args)
{
    const uint32_t missing = arguments_needed(&o->row) & ~given & ~o->derived;

    if (missing != 0)
        return arguments_missing(o->op, NULL, 0, missing);
    for (uint32_t i = 0; i < o->row.inputs; i++)
        if (operand_is_named(o, i) && (!has_n || args->dtype == GM_NO_ELEMENT))
            return usage_error("run", "%s needs --dtype and --count", o->path[i]);
    if (args->dtype >= GM_DTYPE_COUNT || (o->row.types >> args->dtype & 1u) == 0)
        return complain(EXIT_FAILED, "%s does not take %s (GM_EDTYPE)", gm_op_name(o->op),
                        gm_element_name(args->dtype));
    return EXIT_DONE;
}

int operands_open(struct operands *o, const struct arguments *arguments, struct gm_args *args)
{
    const uint32_t given = arguments_given(arguments);
    bool has_n = o->has_n;

    if (o->row.types == GM_NO_TYPES) {
        args->dtype = 0, args->n = 0;
        return EXIT_DONE;
    }
    int rc = open_all(o, arguments, args);
    if (rc == EXIT_DONE)
        rc = derive(o, given, &has_n, args);
    if (rc == EXIT_DONE)
        rc = check_known(o, given, has_n, args);
    if (rc == EXIT_DONE)
        rc = arguments_read(arguments, o->op, true, args);
    if (rc == EXIT_DONE)
        rc = check_args(o, args);
    for (uint32_t i = 0; i < o->row.inputs && rc == EXIT_DONE; i++)
        if (!operand_is_named(o, i))
            rc = check_count(o, i, given, args);
    return rc;
}

void operands_close(struct operands *operands)
{
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        input_close(&operands->input[i]);
}
