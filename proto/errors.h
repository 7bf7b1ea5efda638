/* SPDX-License-Identifier: Apache-2.0
 *
 * The error enum made from errors.def. Internal code returns these negative values; the installed header
 * gridmill.h carries the same names (a test compares them).
 */
#ifndef GM_PROTO_ERRORS_H
#define GM_PROTO_ERRORS_H

enum gm_error {
#define E(name, number, retriable, text) GM_##name = (number),
#include "errors.def"
#undef E
};

/* Every error number n satisfies -GM_ERRORS_MAX < n <= 0; tables are indexed by -n. */
#define GM_ERRORS_MAX 64

#endif
