/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a job: files, standard input and named arenas, and what follows from them about the job: its type, how
 * many elements it has, and arguments that are sizes of inputs. One thread.
 */
#ifndef GM_OPERANDS_H
#define GM_OPERANDS_H

#include "arguments.h"
#include "input.h"

struct operands {
    uint32_t op, inputs;
    struct gm_op_row row;
    const char *path[GM_BUFFERS_MAX]; /* NULL or "-": standard input; "@...": an arena */
    struct input input[GM_BUFFERS_MAX];
    bool has_n;      /* what the user says */
    uint32_t derived; /* arguments that followed from inputs */
};

/* Whether input i is an arena that is there; then its name stands behind the @. */
bool operand_is_named(const struct operands *operands, uint32_t i);
/* The element type of buffer i; the arguments are complete. */
uint32_t operand_dtype(const struct gm_op_row *row, uint32_t i, const struct gm_args *args);

/* Opens the inputs and completes the arguments: args->dtype and args->n are what the user says (GM_NO_ELEMENT: nothing;
 * has_n), and everything else that was given but elements. Then what is missing or wrong is said. Returns an exit
 * code. */
int operands_open(struct operands *operands, const struct arguments *arguments, struct gm_args *args);
void operands_close(struct operands *operands);
/* Arguments that may follow from inputs. */
uint32_t operands_may_give(const struct gm_op_row *row);

#endif
