/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and texts of everything in the tables, and the printing of a problem. Constant data; any thread.
 */
#include "args.h"
#include "wire_cursor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *gm_method_name(uint32_t method)
{
    switch (method) {
#define M(name, text, admin)                                                                                \
    case GM_METHOD_##name:                                                                                  \
        return text;
        GM_METHODS(M)
#undef M
    default:
        return NULL;
    }
}

bool gm_method_is_admin(uint32_t method)
{
    switch (method) {
#define M(name, text, admin)                                                                                \
    case GM_METHOD_##name:                                                                                  \
        return admin;
        GM_METHODS(M)
#undef M
    default:
        return false;
    }
}

const char *gm_error_name(int code)
{
    switch (code) {
#define E(name, number, retriable, text)                                                                    \
    case number:                                                                                            \
        return #name;
#include "errors.def"
#undef E
    default:
        return "E?";
    }
}

const char *gm_error_text(int code)
{
    switch (code) {
#define E(name, number, retriable, text)                                                                    \
    case number:                                                                                            \
        return text;
#include "errors.def"
#undef E
    default:
        return "unknown error";
    }
}

bool gm_error_is_retriable(int code)
{
    switch (code) {
#define E(name, number, retriable, text)                                                                    \
    case number:                                                                                            \
        return retriable;
#include "errors.def"
#undef E
    default:
        return false;
    }
}

const char *gm_op_name(uint32_t op)
{
    switch (op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                               \
    case id:                                                                                                \
        return #name;
#include "ops.def"
#undef OP
    default:
        return NULL;
    }
}

const char *gm_op_help(uint32_t op)
{
    switch (op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                               \
    case id:                                                                                                \
        return help;
#include "ops.def"
#undef OP
    default:
        return NULL;
    }
}

const char *gm_dtype_name(uint32_t dtype)
{
    switch (dtype) {
#define D(name, id, bytes, kind)                                                                            \
    case id:                                                                                                \
        return #name;
#include "dtypes.def"
#undef D
    default:
        return NULL;
    }
}

const char *gm_shape_name(uint32_t shape)
{
    switch (shape) {
#define SHAPE(name, inputs, outputs, args, types2, alias, buffer0, buffer1, buffer2)                        \
    case GM_SHAPE_##name:                                                                                   \
        return #name;
#include "ops.def"
#undef SHAPE
    default:
        return NULL;
    }
}

const char *gm_arg_name(uint32_t arg)
{
    switch (arg) {
#define ARG(name, type, place, help)                                                                        \
    case GM_A_##name:                                                                                       \
        return #name;
#include "ops.def"
#undef ARG
    default:
        return NULL;
    }
}

uint32_t gm_arg_type(uint32_t arg)
{
    switch (arg) {
#define ARG(name, type, place, help)                                                                        \
    case GM_A_##name:                                                                                       \
        return GM_ARG_##type;
#include "ops.def"
#undef ARG
    default:
        return UINT32_MAX;
    }
}

uint32_t gm_arg_place(uint32_t arg)
{
    switch (arg) {
#define ARG(name, type, place, help)                                                                        \
    case GM_A_##name:                                                                                       \
        return GM_AT_##place;
#include "ops.def"
#undef ARG
    default:
        return UINT32_MAX;
    }
}

const char *gm_arg_help(uint32_t arg)
{
    switch (arg) {
#define ARG(name, type, place, help)                                                                        \
    case GM_A_##name:                                                                                       \
        return help;
#include "ops.def"
#undef ARG
    default:
        return NULL;
    }
}

bool gm_arg_is_optional(uint32_t arg)
{
    return gm_arg_type(arg) == GM_ARG_FLAG || arg == GM_A_high;
}

const char *gm_arg_type_name(uint32_t arg)
{
    switch (gm_arg_type(arg)) {
    case GM_ARG_ELEMENT:
        return "number, of dtype";
    case GM_ARG_F64:
        return "number";
    case GM_ARG_COUNT:
    case GM_ARG_SIZE:
        return "uint";
    case GM_ARG_FLAG:
        return "bool";
    case GM_ARG_TYPE:
        return "str, an element type";
    case GM_ARG_COMPARE:
        return "str, a comparison";
    default:
        return NULL;
    }
}

const char *gm_result_kind_name(uint32_t kind)
{
    static const char *const names[] = {[GM_RESULT_NONE] = "none",   [GM_RESULT_SAME] = "same",
                                        [GM_RESULT_WIDE] = "wide",   [GM_RESULT_COUNT] = "count",
                                        [GM_RESULT_INDEX] = "index"};
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *gm_buffer_extent_name(const struct gm_op_row *row, uint32_t i)
{
    switch (gm_buffer_extent(row->buffer[i])) {
    case GM_EXTENT_N:
        return "n";
    case GM_EXTENT_RESULT:
        return "n, of which the result says how many were written";
    case GM_EXTENT_COUNT:
        return "bins";
    case GM_EXTENT_COUNT1:
        return "bins + 1";
    case GM_EXTENT_CELLS:
        return gm_args_takes(row, GM_A_channels) ? "bins * channels" : "bins * bins_y";
    case GM_EXTENT_PIXELS:
        return "n * channels";
    case GM_EXTENT_LENGTH:
        return gm_args_takes(row, GM_A_length) ? "length" : "segments";
    case GM_EXTENT_LENGTH1:
        return "segments + 1";
    case GM_EXTENT_FIVE:
        return "5";
    default:
        return NULL;
    }
}

const char *gm_buffer_content_name(const struct gm_op_row *row, uint32_t i)
{
    static const char *const names[] = {[GM_CONTENT_T] = "dtype",
                                        [GM_CONTENT_EDGES] = "dtype, rising",
                                        [GM_CONTENT_WEIGHTS] = "dtype: center, west, east, north, south",
                                        [GM_CONTENT_U64] = "u64",
                                        [GM_CONTENT_TO] = "to",
                                        [GM_CONTENT_INDEX] = "index, below length",
                                        [GM_CONTENT_OFFSETS] = "index, not falling, from 0 to n"};
    const uint32_t content = gm_buffer_content(row->buffer[i]);
    return content < sizeof names / sizeof *names ? names[content] : NULL;
}

/* What is wrong with a buffer of this content when a job fails with this status; NULL: nothing that is known. */
static const char *gm_content_complaint(uint32_t content, int status)
{
    static const struct {
        int status;
        const char *text;
    } complaints[] = {
        [GM_CONTENT_EDGES] = {GM_EINVAL, "has an edge that is NaN or less than the one before it"},
        [GM_CONTENT_INDEX] = {GM_EBOUNDS, "has an index outside 0 to length - 1"},
        [GM_CONTENT_OFFSETS] = {GM_EBOUNDS, "has an offset that is less than the one before it, or outside 0 to n"}};
    return content < sizeof complaints / sizeof *complaints && complaints[content].status == status
               ? complaints[content].text
               : NULL;
}

int gm_failure_problem(struct gm_problem *problem, const struct gm_op_row *row, int status)
{
    char name[GM_FIELD_BYTES_MAX];
    for (uint32_t i = 0; i < row->inputs; i++) {
        const char *const text = gm_content_complaint(gm_buffer_content(row->buffer[i]), status);
        gm_buffer_name(row, i, "", name);
        if (text != NULL)
            return gm_problem_set(problem, status, name, "%s %s", name, text);
    }
    return gm_problem_set(problem, status, status == GM_EEMPTY ? "n" : "", "%s", gm_error_text(status));
}

const char *gm_compare_name(uint32_t compare)
{
    switch (compare) {
#define X(name)                                                                                             \
    case GM_COMPARE_##name:                                                                                 \
        return #name;
        GM_COMPARES(X)
#undef X
    default:
        return NULL;
    }
}

int gm_compare_by_name(const char *name, size_t size)
{
    for (uint32_t compare = 0; compare < GM_COMPARE_COUNT; compare++)
        if (gm_same_text(gm_compare_name(compare), name, size))
            return (int)compare;
    return -1;
}

void gm_buffer_name(const struct gm_op_row *row, uint32_t i, const char *member, char name[GM_FIELD_BYTES_MAX])
{
    const bool out = i >= row->inputs;
    snprintf(name, GM_FIELD_BYTES_MAX, "%s[%u]%s%s", out ? "out" : "in", (out ? i - row->inputs : i) % 10u,
             member[0] != '\0' ? "." : "", member);
}

int gm_op_by_name(const char *name, size_t size)
{
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        if (gm_same_text(gm_op_name(op), name, size))
            return (int)op;
    return -1;
}

int gm_dtype_by_name(const char *name, size_t size)
{
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
        if (gm_same_text(gm_dtype_name(dtype), name, size))
            return (int)dtype;
    return -1;
}

int gm_problem_set(struct gm_problem *problem, int code, const char *field, const char *format, ...)
{
    va_list arguments;

    if (problem == NULL)
        return code;
    memset(problem, 0, sizeof *problem);
    problem->code = code;
    snprintf(problem->field, sizeof problem->field, "%s", field);
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return code;
}

int gm_complaint_problem(struct gm_problem *problem, uint32_t complaint)
{
    switch (complaint) {
#define C(name, status, field, text, bound)                                                                 \
    case GM_COMPLAINT_##name:                                                                               \
        if ((uint64_t)(bound) == 0)                                                                         \
            return gm_problem_set(problem, GM_##status, field, "%s %s", field, text);                       \
        return gm_problem_set(problem, GM_##status, field, "%s %s %" PRIu64, field, text, (uint64_t)(bound));
        GM_COMPLAINTS(C)
#undef C
    default:
        return GM_OK;
    }
}
