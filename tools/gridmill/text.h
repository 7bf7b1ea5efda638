/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text: parsed strictly into elements, printed so that they read back as the same bits. No state: any
 * thread (in the C locale, which is the only one the command sets); bounded by the caller's buffers.
 */
#ifndef GM_TEXT_H
#define GM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NUMBER_BYTES_MAX 64u /* one number, out */
#define NUMERAL_BYTES_MAX 1280u /* one number, in: the exact value of the least f64 has 1077 characters */

/* Where and why parsing failed. */
struct text_problem {
    uint64_t line;
    char what[160];
};

/* The element type of a text that says none: i64, or f64 when any number has a point, an exponent, or is no finite
 * number. */
uint32_t text_dtype(const char *text, size_t size);

/* Numbers in the text, which are separated by white space or commas. */
uint64_t text_count(const char *text, size_t size);

/* Parses every number of the text into elements of dtype; there is room for text_count of them. */
bool text_parse(const char *text, size_t size, uint32_t dtype, void *elements, struct text_problem *problem);

/* One number into the element's bits, zero-extended. */
bool number_parse(const char *text, uint32_t dtype, uint64_t *bits);

/* The shortest digits that read back as the same element. Returns the length. */
size_t number_print(uint32_t dtype, const void *element, char out[NUMBER_BYTES_MAX]);

#endif
