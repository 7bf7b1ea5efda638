/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the results of a job go: text, .npy or raw bytes, to standard output or a file. One thread.
 */
#ifndef GM_OUTPUT_H
#define GM_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

enum output_format { OUTPUT_TEXT, OUTPUT_NPY, OUTPUT_RAW };

/* False for a word that names none. */
bool output_format_by_name(const char *name, enum output_format *format);

/* Writes n elements; path NULL is standard output. A file is complete or, after a message, as far as it got. Returns an
 * exit code. */
int output_write(const char *path, enum output_format format, uint32_t dtype, const void *elements, uint64_t n);
/* Two of n elements each as text on standard output: one line has one of each, and a tab between them. */
int output_pairs(const uint32_t dtype[2], const void *const elements[2], uint64_t n);

#endif
