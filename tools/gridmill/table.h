/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: cells of text, columns as wide as their widest cell. One thread; bounded by the rows and columns
 * it is made for.
 */
#ifndef GM_TABLE_H
#define GM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_COLUMNS_MAX 20u
#define TABLE_CELL_BYTES  120u

struct table {
    size_t rows, capacity, columns;
    char (*cells)[TABLE_CELL_BYTES];
    bool right[TABLE_COLUMNS_MAX]; /* aligned right: numbers */
};

/* columns at most TABLE_COLUMNS_MAX. */
void table_init(struct table *table, size_t columns);
/* A new row of empty cells; false when memory is out. */
bool table_row(struct table *table);
/* The text of a cell of the last row; the rest is cut. */
void table_cell(struct table *table, size_t column, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints on standard output, every line behind this indentation. */
void table_print(const struct table *table, const char *indentation);
void table_free(struct table *table);

#endif
