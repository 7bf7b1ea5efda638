/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes elements through stdio, and finds every write error before success is reported. One thread; its only memory
 * is the stream's buffer.
 */
#include "output.h"

#include "command.h"
#include "npy.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool output_format_by_name(const char *name, enum output_format *format)
{
    if (strcmp(name, "text") == 0)
        *format = OUTPUT_TEXT;
    else if (strcmp(name, "npy") == 0)
        *format = OUTPUT_NPY;
    else if (strcmp(name, "raw") == 0)
        *format = OUTPUT_RAW;
    else
        return false;
    return true;
}

static void write_text(FILE *to, uint32_t dtype, const char *elements, uint64_t n)
{
    const size_t element_bytes = gm_element_bytes(dtype);
    char number[NUMBER_BYTES_MAX];

    for (uint64_t i = 0; i < n && !ferror(to); i++) {
        const size_t length = number_print(dtype, elements + i * element_bytes, number);
        fwrite(number, 1, length, to);
        putc('\n', to);
    }
}

int output_write(const char *path, enum output_format format, uint32_t dtype, const void *elements, uint64_t n)
{
    const char *const name = path != NULL ? path : "standard output";
    uint8_t header[128];
    size_t header_bytes = 0;

    if (format != OUTPUT_TEXT && path == NULL && isatty(STDOUT_FILENO))
        return complain(EXIT_USAGE, "binary data does not go to a terminal; use -o FILE or a pipe");
    if (format == OUTPUT_NPY && (header_bytes = npy_header(dtype, n, header)) == 0)
        return complain(EXIT_USAGE, "NumPy has no type %s; use --format raw", gm_element_name(dtype));
    FILE *const to = path != NULL ? fopen(path, "wbe") : stdout;
    if (to == NULL)
        return complain(EXIT_FAILED, "%s: %s", name, strerror(errno));
    fwrite(header, 1, header_bytes, to);
    if (format == OUTPUT_TEXT)
        write_text(to, dtype, elements, n);
    else if (n > 0)
        fwrite(elements, gm_element_bytes(dtype), n, to);
    const bool failed = ferror(to) != 0;
    if ((path != NULL ? fclose(to) : fflush(to)) == 0 && !failed)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "%s: %s", name, path != NULL ? strerror(errno) : command_stream_error(STDOUT_FILENO));
}

int output_pairs(const uint32_t dtype[2], const void *const elements[2], uint64_t n)
{
    char number[NUMBER_BYTES_MAX];

    for (uint64_t i = 0; i < n && !ferror(stdout); i++)
        for (uint32_t column = 0; column < 2; column++) {
            const char *const element = (const char *)elements[column] + i * gm_element_bytes(dtype[column]);
            fwrite(number, 1, number_print(dtype[column], element, number), stdout);
            putchar(column == 0 ? '\t' : '\n');
        }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    return complain(EXIT_FAILED, "standard output: %s", command_stream_error(STDOUT_FILENO));
}
