/* SPDX-License-Identifier: Apache-2.0
 *
 * The least arguments that are good, for tests that run any op without caring what it does. Pure.
 */
#ifndef GM_TESTS_LEAST_H
#define GM_TESTS_LEAST_H

#include "args.h"
#include "wire.h"

/* n is 0, or anything where the op takes it with counts and sizes of 1. */
static inline struct gm_args gm_least_args(const struct gm_op_row *row, uint32_t dtype, uint64_t n)
{
    struct gm_args args = {.n = n, .dtype = (uint8_t)dtype};
    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        const uint32_t place = gm_arg_place(arg), type = gm_arg_type(arg);
        if (!gm_args_takes(row, (enum gm_arg)arg))
            continue;
        if (type == GM_ARG_TYPE)
            args.type2 = (uint8_t)__builtin_ctz(row->types2);
        else if (place == GM_AT_COUNT && type == GM_ARG_COUNT)
            args.count = 1;
        else if (place == GM_AT_COUNT2)
            args.count2 = 1;
        else if (type == GM_ARG_SIZE)
            args.value[place] = 1;
        else if (type == GM_ARG_F64 && (place & 1u) != 0) /* upper ends of ranges; lower ones are 0 */
            args.value[place] = UINT64_C(0x3ff0000000000000);
    }
    return args;
}

#endif
