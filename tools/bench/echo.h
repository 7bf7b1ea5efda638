/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory over which a process without CUDA and an echo kernel speak: a memfd that the process with the kernel has
 * registered. The first page is the kernel's, what follows is the client's report.
 */
#ifndef GM_BENCH_ECHO_H
#define GM_BENCH_ECHO_H

#include <assert.h>

#include "atomic.h"

#define GM_ECHO_PAGE    4096u
#define GM_ECHO_WARM_UP 2000u
#define GM_ECHO_STOP    0xffffffffu
#define GM_ECHO_FLAG    "--as-echo" /* of bench_lanes, before the number of the descriptor */

struct gm_echo {
    uint32_t word; /* the client's; what it was before is no news */
    uint32_t pad0[255];
    struct gm_granule answer; /* the kernel's: the word, four times, as one store */
    uint8_t pad1[GM_ECHO_PAGE - 1024u - sizeof(struct gm_granule)];
    uint64_t count; /* round trips wanted */
    uint64_t ns[];  /* of each */
};
static_assert(sizeof(struct gm_echo) == GM_ECHO_PAGE + 8u, "the report begins on a page of its own");

#endif
