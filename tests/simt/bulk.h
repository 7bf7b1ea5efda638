/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarriers and bulk copies into shared memory, for fibers. A copy is made when a thread waits for the mbarrier that it
 * completes on, and not before; what it will overwrite is spoilt when it is asked for. C++; by fibers.
 */
#ifndef GM_SIMT_BULK_H
#define GM_SIMT_BULK_H

#include "block.h"

void gm_simt_mbarrier_init(uint64_t *bar, uint32_t count);
/* expect: bytes of copies that the phase also waits for. Returns the state before. */
uint64_t gm_simt_mbarrier_arrive(uint64_t *bar, uint32_t expect);
/* Whether the phase of this parity is over. */
bool gm_simt_mbarrier_try_wait(uint64_t *bar, uint32_t parity);
void gm_simt_bulk_copy(void *to, const void *from, uint32_t bytes, uint64_t *bar);
/* Copies that were asked for and not made, of all blocks; forgets them. */
uint32_t gm_simt_bulk_left(void);

#endif
