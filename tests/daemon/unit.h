/* SPDX-License-Identifier: Apache-2.0
 *
 * What every cmocka program includes, in the order cmocka wants it.
 */
#ifndef GM_TESTS_DAEMON_UNIT_H
#define GM_TESTS_DAEMON_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* xorshift64*: the same sequence everywhere, printed seed in, same test out. */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

#endif
