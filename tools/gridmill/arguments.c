/* SPDX-License-Identifier: Apache-2.0
 *
 * Options to arguments, arguments to a request: see arguments.h. Values are read strictly, and what is wrong is said
 * with the name of the option. One thread; no allocation.
 */
#include "wire.h" /* before gridmill.h, which leaves the status enumerators to it */

#include "arguments.h"
#include "command.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPTION_BYTES 40u
#define LIST_BYTES 400u

static const char *const names[] = {
#define ARG(name, type, place, help) #name,
#include "ops.def"
#undef ARG
};
#define ARG(name, type, place, help) static_assert(sizeof "--" #name <= OPTION_BYTES, "an option's name has room");
#include "ops.def"
#undef ARG

const char *argument_option(uint32_t arg)
{
    static char text[GM_ARGS][OPTION_BYTES];

    snprintf(text[arg], OPTION_BYTES, "--%s", names[arg]);
    for (char *c = text[arg]; *c != '\0'; c++)
        if (*c == '_')
            *c = '-';
    return text[arg];
}

size_t arguments_options(struct option *options)
{
    size_t count = 0;

    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        const int has = gm_arg_type(arg) == GM_ARG_FLAG ? no_argument : required_argument;
        options[count++] = (struct option){argument_option(arg) + 2, has, NULL, ARGUMENT_OPTION + (int)arg};
        if (strchr(names[arg], '_') != NULL)
            options[count++] = (struct option){names[arg], has, NULL, ARGUMENT_OPTION + (int)arg};
    }
    return count;
}

bool arguments_take(struct arguments *arguments, int option, const char *value)
{
    if (option < ARGUMENT_OPTION || option >= ARGUMENT_OPTION + (int)GM_ARGS)
        return false;
    arguments->text[option - ARGUMENT_OPTION] = value != NULL ? value : "";
    return true;
}

uint32_t arguments_needed(const struct gm_op_row *row)
{
    uint32_t needed = row->args;

    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        if (gm_arg_is_optional(arg))
            needed &= ~(1u << arg);
    return needed;
}

uint32_t arguments_given(const struct arguments *arguments)
{
    uint32_t given = 0;

    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        given |= (uint32_t)(arguments->text[arg] != NULL) << arg;
    return given;
}

int arguments_refuse(const struct arguments *arguments, uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);

    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        if (arguments->text[arg] != NULL && !gm_args_takes(&row, (enum gm_arg)arg))
            return usage_error("run", "%s takes no %s", gm_op_name(op), argument_option(arg));
    return EXIT_DONE;
}

int arguments_missing(uint32_t op, const char *const *words, size_t count, uint32_t args)
{
    const char *missing[GM_ARGS + 4];
    char list[LIST_BYTES] = "";
    size_t all = 0, at = 0;

    for (size_t i = 0; i < count; i++)
        missing[all++] = words[i];
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        if (args >> arg & 1u)
            missing[all++] = argument_option(arg);
    if (all == 0)
        return EXIT_DONE;
    for (size_t i = 0; i < all && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                               i == 0         ? ""
                               : i + 1 == all ? " and "
                                              : ", ",
                               missing[i]);
    return usage_error("run", "%s needs %s", gm_op_name(op), list);
}

/* ---- Values ---- */

static int bad(uint32_t arg, const char *text, const char *wanted)
{
    return usage_error("run", "%s: \"%s\" is not %s", argument_option(arg), text, wanted);
}

static int read_type(uint32_t arg, const char *text, uint32_t op, uint8_t *type)
{
    const int found = gm_element_by_name(text);

    if (found < 0)
        return bad(arg, text, "an element type");
    if ((gm_op_row(op).types2 >> found & 1u) == 0)
        return usage_error("run", "%s: %s does not take %s", argument_option(arg), gm_op_name(op), text);
    *type = (uint8_t)found;
    return EXIT_DONE;
}

static int read_number(uint32_t arg, const char *text, const struct gm_args *args, uint64_t *number)
{
    char wanted[64];
    double real;
    int compare;

    switch (gm_arg_type(arg)) {
    case GM_ARG_ELEMENT:
        snprintf(wanted, sizeof wanted, "a number of type %s", gm_element_name(args->dtype));
        return number_parse(text, args->dtype, number) ? EXIT_DONE : bad(arg, text, wanted);
    case GM_ARG_F64:
        if (!parse_f64(text, &real))
            return bad(arg, text, "a number");
        memcpy(number, &real, sizeof real);
        return EXIT_DONE;
    case GM_ARG_COMPARE:
        compare = gm_compare_by_name(text, strlen(text));
        *number = (uint64_t)compare;
        return compare >= 0 ? EXIT_DONE : bad(arg, text, "eq, ne, lt, le, gt, ge, between or outside");
    case GM_ARG_COUNT:
        if (!parse_u64(text, UINT64_MAX, number))
            return bad(arg, text, "a whole number");
        *number = *number < UINT32_MAX ? *number : UINT32_MAX; /* more than any may be: the check says */
        return EXIT_DONE;
    default:
        snprintf(wanted, sizeof wanted, "a whole number of at most %" PRIu64, GM_ELEMENTS_MAX);
        return parse_u64(text, GM_ELEMENTS_MAX, number) ? EXIT_DONE : bad(arg, text, wanted);
    }
}

static int read_one(uint32_t arg, const char *text, uint32_t op, struct gm_args *args)
{
    const uint32_t place = gm_arg_place(arg);
    uint64_t number = 0;

    if (gm_arg_type(arg) == GM_ARG_FLAG) {
        args->flags |= gm_place_flag(place);
        return EXIT_DONE;
    }
    if (gm_arg_type(arg) == GM_ARG_TYPE)
        return read_type(arg, text, op, &args->type2);
    const int rc = read_number(arg, text, args, &number);
    if (place == GM_AT_COUNT)
        args->count = (uint32_t)number;
    else if (place == GM_AT_COUNT2)
        args->count2 = (uint32_t)number;
    else
        args->value[place - GM_AT_VALUE0] = number;
    return rc;
}

int arguments_read(const struct arguments *arguments, uint32_t op, bool elements, struct gm_args *args)
{
    const struct gm_op_row row = gm_op_row(op);
    int rc = EXIT_DONE;

    for (uint32_t arg = 0; arg < GM_ARGS && rc == EXIT_DONE; arg++)
        if (arguments->text[arg] != NULL && (gm_arg_type(arg) == GM_ARG_ELEMENT) == elements)
            rc = read_one(arg, arguments->text[arg], op, args);
    if (rc == EXIT_DONE && !elements && gm_args_takes(&row, GM_A_compare) && gm_compare_takes_high(args->count) &&
        arguments->text[GM_A_high] == NULL)
        return usage_error("run", "--compare %s needs --high", gm_compare_name(args->count));
    return rc;
}

/* ---- To a request ---- */

#define AT_VALUE0 args->value[0]
#define AT_VALUE1 args->value[1]
#define AT_VALUE2 args->value[2]
#define AT_VALUE3 args->value[3]
#define AT_COUNT args->count
#define AT_COUNT2 args->count2
#define AT_TYPE2 args->type2
#define AT_DESCENDING ((args->flags & GM_FLAG_DESCENDING) != 0)
#define AT_EXCLUSIVE ((args->flags & GM_FLAG_EXCLUSIVE) != 0)
#define AS_ELEMENT(x) (x)
#define AS_F64(x) gm_f64_of(x)
#define AS_COUNT(x) (x)
#define AS_SIZE(x) (x)
#define AS_FLAG(x) (x)
#define AS_TYPE(x) (x)
#define AS_COMPARE(x) (x)

void arguments_request(const struct gm_op_row *row, const struct gm_args *args, struct gm_request *request)
{
#define ARG(name, type, place, help)                                                                                   \
    if (gm_args_takes(row, GM_A_##name))                                                                               \
        request->name = AS_##type(AT_##place);
#include "ops.def"
#undef ARG
}

/* ---- Help ---- */

static const char *placeholder(uint32_t arg)
{
    switch (gm_arg_type(arg)) {
    case GM_ARG_ELEMENT:
        return " V";
    case GM_ARG_F64:
        return " X";
    case GM_ARG_FLAG:
        return "";
    case GM_ARG_TYPE:
        return " TYPE";
    case GM_ARG_COMPARE:
        return " HOW";
    default:
        return " N";
    }
}

#define HELP_COLUMN 24u
#define WORD_BYTES 64u
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    static_assert(sizeof "(" #name ")" <= WORD_BYTES, "an op's name has room");
#include "ops.def"
#undef OP

/* The ops that take it, for people, behind its help. */
static void print_takers(uint32_t arg, size_t column)
{
    const char *before = "(", *taker = NULL;
    char word[WORD_BYTES];

    for (uint32_t op = 0; op <= GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        if (op < GM_OP_COUNT && !gm_args_takes(&row, (enum gm_arg)arg))
            continue;
        if (taker != NULL) {
            const int length = snprintf(word, sizeof word, "%s%s%s", before, taker, op < GM_OP_COUNT ? "," : ")");
            column = print_words(word, (size_t)length, HELP_COLUMN, column);
            before = "";
        }
        taker = gm_op_name(op);
    }
}

void arguments_help(uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);

    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        if (op < GM_OP_COUNT && !gm_args_takes(&row, (enum gm_arg)arg))
            continue;
        const int length = printf("      %s%s", argument_option(arg), placeholder(arg));
        if (length < (int)HELP_COLUMN)
            printf("%*s", (int)HELP_COLUMN - length, "");
        else
            printf("\n%*s", (int)HELP_COLUMN, "");
        const size_t column = print_words(gm_arg_help(arg), strlen(gm_arg_help(arg)), HELP_COLUMN, HELP_COLUMN);
        if (op >= GM_OP_COUNT)
            print_takers(arg, column);
        putchar('\n');
    }
}
