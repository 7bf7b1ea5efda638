/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of ops as options of the command: every row of ARG in ops.def is one, so that a new argument needs no
 * line here. An argument's option is its name, with - or _. One thread.
 */
#ifndef GM_ARGUMENTS_H
#define GM_ARGUMENTS_H

#include "args.h"

#include <getopt.h>
#include <stddef.h>

struct arguments {
    const char *text[GM_ARGS]; /* as given, a flag as ""; NULL: not given */
};

enum { ARGUMENT_OPTION = 1024 }; /* what getopt_long returns for the first; above every other option */
#define ARGUMENT_OPTIONS_MAX (2u * (size_t)GM_ARGS)

/* Options for getopt_long; returns how many. */
size_t arguments_options(struct option *options);
bool arguments_take(struct arguments *arguments, int option, const char *value);

/* "--lo-y" */
const char *argument_option(uint32_t arg);

/* Those that the op takes and that must be there. */
uint32_t arguments_needed(const struct gm_op_row *row);
uint32_t arguments_given(const struct arguments *arguments);
/* Complains about what the op does not take. Returns an exit code. */
int arguments_refuse(const struct arguments *arguments, uint32_t op);
/* Complains that the op needs these, and first of all the words. Returns an exit code. */
int arguments_missing(uint32_t op, const char *const *words, size_t count, uint32_t args);

/* Reads what was given, by its type: first all but elements, then, when args has the job's type, elements. Returns an
 * exit code. */
int arguments_read(const struct arguments *arguments, uint32_t op, bool elements, struct gm_args *args);
/* The other way: the members of a request. */
struct gm_request;
void arguments_request(const struct gm_op_row *row, const struct gm_args *args, struct gm_request *request);

/* Lines of help: of one op's arguments, or of all with the ops that take them (GM_OP_COUNT). */
void arguments_help(uint32_t op);

#endif
