/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for people: tables, whose columns are as wide as their widest cell, and paragraphs. One thread; a table is
 * bounded by the rows and columns it is made for, a paragraph takes no memory.
 */
#ifndef GM_TABLE_H
#define GM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_COLUMNS_MAX 20u
#define TABLE_CELL_BYTES 120u
#define PARAGRAPH_WIDTH 100u

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

/* Prints the words of a text on standard output, in lines of PARAGRAPH_WIDTH (a longer word has its own) that begin
 * behind an indentation. The column is where the last line ends so far, and the indentation where one has just begun;
 * returns where it ends now, for more words of the same paragraph. */
size_t print_words(const char *text, size_t bytes, size_t indentation, size_t column);

#endif
