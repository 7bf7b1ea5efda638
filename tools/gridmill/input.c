/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens inputs and reads them. Regular files are read where the job needs the data; what comes through a pipe, or from
 * a device that may never end, is collected first: no more than is wanted, in memory that grows with it up to
 * half of what there is. One thread.
 */
#include "input.h"

#include "command.h"
#include "npy.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define COLLECTED_MAX (UINT64_C(1) << 36)
#define NPY_MAGIC "\x93NUMPY"

static int read_failed(const char *name, int fd)
{
    return complain(EXIT_FAILED, "%s: %s", name,
                    fd == STDIN_FILENO ? command_stream_error(STDIN_FILENO) : strerror(errno));
}

/* Half of the memory that this process may have: the other half is for the data of the job. */
static uint64_t collected_max(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t most = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : COLLECTED_MAX, group;
    struct rlimit limit;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re"); /* of a container; "max" is no number */

    if (file != NULL) {
        if (fscanf(file, "%" SCNu64, &group) == 1 && group < most)
            most = group;
        fclose(file);
    }
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < most)
        most = limit.rlim_cur;
    return most / 2 < COLLECTED_MAX ? most / 2 : COLLECTED_MAX;
}

/* Reads until there are so many bytes, or the end. */
static int read_to(const char *name, int fd, uint8_t *bytes, size_t *size, size_t wanted)
{
    while (*size < wanted) {
        const ssize_t n = read(fd, bytes + *size, wanted - *size);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return read_failed(name, fd);
        *size += n > 0 ? (size_t)n : 0;
    }
    return EXIT_DONE;
}

/* What the descriptor still gives, behind the kept bytes: until there are as many as wanted, or UINT64_MAX for all. */
static int slurp(const char *name, int fd, uint8_t **bytes, size_t *size, uint64_t wanted)
{
    const uint64_t most = collected_max();
    uint64_t capacity = *size > 65536 ? *size : 65536;

    if (wanted != UINT64_MAX && wanted > most)
        return complain(EXIT_FAILED,
                        "%s: %" PRIu64 " bytes are wanted; at most %" PRIu64 " are read from what is no regular file",
                        name, wanted, most);
    for (;;) {
        if (*size >= wanted)
            return EXIT_DONE;
        capacity = capacity < wanted ? capacity : wanted;
        uint8_t *const all = realloc(*bytes, capacity);
        if (all == NULL)
            return complain(EXIT_FAILED, "%s: out of memory", name);
        *bytes = all;
        const int rc = read_to(name, fd, all, size, capacity);
        if (rc != EXIT_DONE || *size < capacity)
            return rc;
        if (capacity > most)
            return complain(EXIT_FAILED,
                            "%s: more than %" PRIu64 " bytes; what is no regular file is read up to that, "
                            "or as far as --count says",
                            name, most);
        capacity = capacity * 2 < most + 1 ? capacity * 2 : most + 1;
    }
}

/* The first bytes of the input, enough for any .npy header; of what is none, no more than are wanted. */
static int read_head(const char *name, int fd, uint8_t **bytes, size_t *size, uint64_t wanted)
{
    const size_t first = wanted < NPY_HEADER_MAX ? wanted : NPY_HEADER_MAX;

    *bytes = malloc(NPY_HEADER_MAX);
    *size = 0;
    if (*bytes == NULL)
        return complain(EXIT_FAILED, "%s: out of memory", name);
    const int rc = read_to(name, fd, *bytes, size, first);
    const size_t known = *size < strlen(NPY_MAGIC) ? *size : strlen(NPY_MAGIC);
    if (rc != EXIT_DONE || *size < first || known == 0 || memcmp(*bytes, NPY_MAGIC, known) != 0)
        return rc;
    return read_to(name, fd, *bytes, size, NPY_HEADER_MAX);
}

/* Total bytes: known for a regular file, collected for anything else as far as wanted. */
static int find_data(struct input *input, bool regular, uint64_t file_bytes, size_t header_bytes, uint64_t wanted,
                     uint8_t **head, size_t *size, uint64_t *data_bytes)
{
    if (regular) {
        input->offset = header_bytes;
        *data_bytes = file_bytes > header_bytes ? file_bytes - header_bytes : 0;
        return EXIT_DONE;
    }
    if (__builtin_add_overflow(wanted, header_bytes, &wanted))
        wanted = UINT64_MAX;
    const int rc = slurp(input->name, input->fd, head, size, wanted);
    if (rc != EXIT_DONE)
        return rc;
    *data_bytes = *size - header_bytes;
    memmove(*head, *head + header_bytes, *data_bytes);
    input->memory = *head;
    *head = NULL;
    return EXIT_DONE;
}

static int take_npy(struct input *input, uint32_t wanted, const struct npy *npy, uint64_t data_bytes)
{
    if (wanted != GM_NO_ELEMENT && wanted != npy->dtype)
        return complain(EXIT_USAGE, "%s: holds %s, not %s", input->name, gm_element_name(npy->dtype),
                        gm_element_name(wanted));
    input->dtype = npy->dtype;
    input->n = npy->n;
    input->dimensions = npy->dimensions;
    input->last = npy->last;
    if (__builtin_mul_overflow(npy->n, gm_element_bytes(npy->dtype), &input->bytes) || data_bytes < input->bytes)
        return complain(EXIT_FAILED,
                        "%s: is cut: its header promises %" PRIu64 " elements, %" PRIu64 " bytes are there",
                        input->name, npy->n, data_bytes);
    if (data_bytes > input->bytes)
        return complain(EXIT_FAILED, "%s: has more data than its header says", input->name);
    return EXIT_DONE;
}

static int take_raw(struct input *input, uint32_t dtype, uint64_t data_bytes)
{
    const size_t element = gm_element_bytes(dtype);

    if (data_bytes % element != 0)
        return complain(EXIT_FAILED, "%s: %" PRIu64 " bytes are no multiple of the %zu of %s", input->name, data_bytes,
                        element, gm_element_name(dtype));
    input->dtype = dtype;
    input->n = data_bytes / element;
    input->bytes = data_bytes;
    return EXIT_DONE;
}

static int take_text(struct input *input, uint32_t dtype, const char *text, size_t size)
{
    struct text_problem problem;

    input->dtype = dtype != GM_NO_ELEMENT ? dtype : text_dtype(text, size);
    input->n = text_count(text, size);
    input->bytes = input->n * gm_element_bytes(input->dtype);
    input->memory = malloc(input->bytes > 0 ? input->bytes : 1);
    if (input->memory == NULL)
        return complain(EXIT_FAILED, "%s: out of memory", input->name);
    if (!text_parse(text, size, input->dtype, input->memory, &problem))
        return complain(EXIT_FAILED, "%s: line %" PRIu64 ": %s", input->name, problem.line, problem.what);
    return EXIT_DONE;
}

/* Of an .npy file its header says how much there is; a byte more shows that it lies. */
static uint64_t npy_wants(const struct npy *npy)
{
    uint64_t bytes;

    return __builtin_mul_overflow(npy->n, gm_element_bytes(npy->dtype), &bytes) || bytes == UINT64_MAX ? UINT64_MAX
                                                                                                       : bytes + 1;
}

static int open_found(struct input *input, bool is_stdin, uint32_t dtype, const char *option, uint64_t count,
                      uint8_t **head, size_t *size)
{
    struct stat st;
    struct npy npy;
    const char *why;
    uint64_t data_bytes = 0, raw_bytes = UINT64_MAX;

    if (fstat(input->fd, &st) != 0)
        return read_failed(input->name, input->fd);
    /* Standard input may stand anywhere in a file, so only files of our own are read by position. */
    const bool regular = S_ISREG(st.st_mode) && !is_stdin;
    if (!regular && !is_stdin && dtype != GM_NO_ELEMENT &&
        __builtin_mul_overflow(count, gm_element_bytes(dtype), &raw_bytes))
        raw_bytes = UINT64_MAX;
    int rc = read_head(input->name, input->fd, head, size, raw_bytes);
    if (rc != EXIT_DONE)
        return rc;
    const int parsed = *size == 0 ? NPY_NOT_NPY : npy_parse(*head, *size, &npy, &why);
    if (parsed == NPY_OK) {
        rc =
            find_data(input, regular, (uint64_t)st.st_size, npy.header_bytes, npy_wants(&npy), head, size, &data_bytes);
        return rc == EXIT_DONE ? take_npy(input, dtype, &npy, data_bytes) : rc;
    }
    if (parsed != NPY_NOT_NPY)
        return complain(EXIT_FAILED, "%s: %s", input->name, parsed == NPY_SHORT ? "the .npy header is cut" : why);
    if (is_stdin) {
        rc = slurp(input->name, input->fd, head, size, UINT64_MAX);
        return rc == EXIT_DONE ? take_text(input, dtype, (const char *)*head, *size) : rc;
    }
    if (dtype == GM_NO_ELEMENT)
        return complain(EXIT_USAGE, "%s: is no .npy file; say %s for raw data, or give text on standard input",
                        input->name, option);
    rc = find_data(input, regular, (uint64_t)st.st_size, 0, raw_bytes, head, size, &data_bytes);
    return rc == EXIT_DONE ? take_raw(input, dtype, data_bytes) : rc;
}

int input_open(const char *path, uint32_t dtype, const char *option, uint64_t count, struct input *input)
{
    const bool is_stdin = path == NULL || strcmp(path, "-") == 0;
    uint8_t *head = NULL;
    size_t size = 0;

    *input = (struct input){.name = is_stdin ? "standard input" : path, .fd = STDIN_FILENO};
    if (!is_stdin)
        input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0)
        return read_failed(input->name, input->fd);
    const int rc = open_found(input, is_stdin, dtype, option, count, &head, &size);
    free(head);
    return rc;
}

int input_read(const struct input *input, uint64_t from, void *to, uint64_t bytes)
{
    const uint64_t offset = input->offset + from;
    uint64_t done = 0;

    if (input->memory != NULL) {
        memcpy(to, (const uint8_t *)input->memory + from, bytes);
        return EXIT_DONE;
    }
    while (done < bytes) {
        const ssize_t n = pread(input->fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));
        if (n == 0)
            return complain(EXIT_FAILED, "%s: became shorter while it was read", input->name);
        if (n < 0 && errno != EINTR)
            return read_failed(input->name, input->fd);
        done += n > 0 ? (uint64_t)n : 0;
    }
    return EXIT_DONE;
}

void input_close(struct input *input)
{
    free(input->memory);
    input->memory = NULL;
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    input->fd = -1;
}
