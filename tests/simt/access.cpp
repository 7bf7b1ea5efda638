/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads by name, where the address sanitizer is to judge them by other rules than those of C: see collectives.h.
 */
#include "collectives.h"

#ifdef GM_SIMT_ASAN
#include <sanitizer/asan_interface.h>

bool gm_simt_readable(const void *p, size_t bytes)
{
    const uint8_t *first = (const uint8_t *)p;
    if (__asan_region_is_poisoned((void *)(uintptr_t)p, bytes) == NULL)
        return true;
    if (bytes > 4u)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!__asan_address_is_poisoned(first + i))
            return true;
    return false;
}
#else
bool gm_simt_readable(const void *, size_t)
{
    return true;
}
#endif

void gm_simt_copy(void *to, const void *from, size_t bytes)
{
    uint8_t *t = (uint8_t *)to;
    const uint8_t *f = (const uint8_t *)from;
    for (size_t i = 0; i < bytes; i++)
        t[i] = f[i];
}

void gm_simt_bad_access(const void *p, size_t bytes, const char *what)
{
    gm_simt_fail("a load or store of %zu bytes at %p %s", bytes, p, what);
}
