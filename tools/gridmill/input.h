/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the elements of a job come from: a .npy file, a raw file, or numbers as text. An input knows its type and
 * count before its data is read, so that the data goes straight to where the job will read it. One thread.
 */
#ifndef GM_INPUT_H
#define GM_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    const char *name; /* for messages */
    uint32_t dtype;
    uint64_t n;
    uint64_t bytes;   /* n elements */
    uint32_t dimensions; /* of a .npy file; else 0 */
    uint64_t last;       /* size of the last one */
    int fd;           /* >= 0: the data is in this file, from offset on */
    uint64_t offset;
    void *memory; /* else here, from malloc */
};

/* Opens "-" or NULL (standard input) or a file. dtype: what the user says with this option, or GM_NO_ELEMENT; count:
 * the elements that are wanted, or UINT64_MAX: of raw data that is no regular file, no more is read, and there may be
 * fewer. Returns an exit code after a message, or EXIT_DONE. */
int input_open(const char *path, uint32_t dtype, const char *option, uint64_t count, struct input *input);
/* Copies bytes of the data, from a place in it on; a file that became shorter is an error. */
int input_read(const struct input *input, uint64_t from, void *to, uint64_t bytes);
void input_close(struct input *input);

#endif
