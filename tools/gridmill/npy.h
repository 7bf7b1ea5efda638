/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy files, versions 1 to 3: the header is parsed from a bounded buffer, so that a hostile file costs
 * nothing, and written for one-dimensional little-endian arrays. No state: any thread.
 */
#ifndef GM_NPY_H
#define GM_NPY_H

#include <stddef.h>
#include <stdint.h>

#define NPY_MAGIC_BYTES  6u
#define NPY_HEADER_MAX   65536u /* NumPy's own headers have 128 bytes; version 1 cannot have more than this */
#define NPY_DIMENSIONS_MAX 64u

struct npy {
    uint32_t dtype;      /* enum gm_element */
    uint64_t n;          /* elements: the product of the shape */
    uint32_t dimensions;
    uint64_t last; /* the last of the shape; 1 when it has none */
    size_t header_bytes; /* the data begins here */
};

enum npy_status {
    NPY_OK = 0,
    NPY_NOT_NPY = -1, /* other magic */
    NPY_SHORT = -2,   /* the header goes on behind these bytes: read more, up to NPY_HEADER_MAX */
    NPY_BAD = -3      /* *why says what cannot be read; a constant text */
};

/* Parses the first size bytes of a file. */
int npy_parse(const uint8_t *bytes, size_t size, struct npy *npy, const char **why);

/* Writes the header of a version 1 file of n elements, C order; returns its size, a multiple of 64. 0 when NumPy has no
 * such type. */
size_t npy_header(uint32_t dtype, uint64_t n, uint8_t out[128]);

#endif
