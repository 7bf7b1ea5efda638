/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and texts of everything in the tables, and the printing of a problem. Constant data; any thread.
 */
#include "wire_cursor.h"

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
#define SHAPE(name, inputs, outputs, wide)                                                                  \
    case GM_SHAPE_##name:                                                                                   \
        return #name;
#include "ops.def"
#undef SHAPE
    default:
        return NULL;
    }
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
