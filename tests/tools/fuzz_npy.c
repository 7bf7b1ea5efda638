/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the beginning of a .npy file: parsed without a step too far, and a header that is accepted describes
 * an array that fits 64 bits and says the same when it is written again. libFuzzer runs it; one thread.
 */
#include "npy.h"

#include "gridmill.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct npy npy, again;
    uint8_t header[128];
    const char *why;
    const int rc = npy_parse(bytes, size, &npy, &why);

    if (rc == NPY_BAD && why[0] == '\0')
        abort();
    if (rc != NPY_OK)
        return 0;
    if (npy.header_bytes > size || npy.header_bytes > NPY_HEADER_MAX || gm_element_bytes(npy.dtype) == 0)
        abort();
    const size_t written = npy_header(npy.dtype, npy.n, header);
    if (npy_parse(header, written, &again, &why) != NPY_OK || again.dtype != npy.dtype || again.n != npy.n)
        abort();
    return 0;
}
