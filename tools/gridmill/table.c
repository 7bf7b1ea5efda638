/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects cells, then prints them in columns. One thread.
 */
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void table_init(struct table *table, size_t columns)
{
    *table = (struct table){.columns = columns < TABLE_COLUMNS_MAX ? columns : TABLE_COLUMNS_MAX};
}

bool table_row(struct table *table)
{
    if (table->rows == table->capacity) {
        const size_t capacity = table->capacity > 0 ? 2 * table->capacity : 16;
        void *const cells = realloc(table->cells, capacity * table->columns * sizeof *table->cells);
        if (cells == NULL)
            return false;
        table->cells = cells;
        table->capacity = capacity;
    }
    memset(table->cells[table->rows * table->columns], 0, table->columns * sizeof *table->cells);
    table->rows++;
    return true;
}

void table_cell(struct table *table, size_t column, const char *format, ...)
{
    va_list arguments;

    if (table->rows == 0 || column >= table->columns)
        return;
    va_start(arguments, format);
    vsnprintf(table->cells[(table->rows - 1) * table->columns + column], TABLE_CELL_BYTES, format, arguments);
    va_end(arguments);
}

static void print_row(const struct table *table, size_t row, const size_t *widths)
{
    size_t columns = table->columns;

    while (columns > 0 && table->cells[row * table->columns + columns - 1][0] == '\0')
        columns--; /* no blanks at the end of a line */
    for (size_t c = 0; c < columns; c++) {
        const char *const cell = table->cells[row * table->columns + c];
        const char *const gap = c > 0 ? "  " : "";
        if (table->right[c])
            printf("%s%*s", gap, (int)widths[c], cell);
        else if (c + 1 == columns)
            printf("%s%s", gap, cell);
        else
            printf("%s%-*s", gap, (int)widths[c], cell);
    }
    putchar('\n');
}

void table_print(const struct table *table, const char *indentation)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < table->rows * table->columns; i++) {
        const size_t width = strlen(table->cells[i]), column = i % table->columns;
        if (width > widths[column])
            widths[column] = width;
    }
    for (size_t row = 0; row < table->rows; row++) {
        fputs(indentation, stdout);
        print_row(table, row, widths);
    }
}

void table_free(struct table *table)
{
    free(table->cells);
    *table = (struct table){0};
}

size_t print_words(const char *text, size_t bytes, size_t indentation, size_t column)
{
    for (size_t at = 0; at < bytes;) {
        size_t length = 0;
        while (at + length < bytes && text[at + length] != ' ')
            length++;
        if (length > 0 && column > indentation && column + 1 + length > PARAGRAPH_WIDTH) {
            printf("\n%*s", (int)indentation, "");
            column = indentation;
        }
        if (length > 0) {
            printf("%s%.*s", column > indentation ? " " : "", (int)length, text + at);
            column += length + (column > indentation);
        }
        at += length + 1;
    }
    return column;
}
