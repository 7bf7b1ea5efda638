/* SPDX-License-Identifier: Apache-2.0
 *
 * The workspace pool: first fit over a sorted list of free pieces. A job's workspace is reserved whole before it
 * starts and given back at its end. Dispatcher only, one thread; at most GM_WORKSPACE_PIECES steps.
 */
#ifndef GM_CORE_WORKSPACE_H
#define GM_CORE_WORKSPACE_H

#include "core.h"

GM_HD uint32_t gm_workspace_units(uint64_t bytes)
{
    return (uint32_t)((bytes + GM_WORKSPACE_ALIGN - 1u) / GM_WORKSPACE_ALIGN);
}

GM_HD void gm_workspace_init(struct gm_disp *d, uint64_t bytes)
{
    d->pieces_out = 0;
    d->pieces = bytes >= GM_WORKSPACE_ALIGN ? 1u : 0u;
    d->piece[0].start = 0;
    d->piece[0].count = (uint32_t)(bytes / GM_WORKSPACE_ALIGN);
}

/* Offset in the pool in *offset, or false: not now. The number of free pieces is at most the number of reserved ones
 * plus one, so bounding the reserved ones keeps a release from ever running out of list. */
GM_HD bool gm_workspace_take(struct gm_disp *d, uint64_t bytes, uint64_t *offset)
{
    const uint32_t units = gm_workspace_units(bytes);
    if (d->pieces_out + 1u >= GM_WORKSPACE_PIECES)
        return false;
    for (uint32_t i = 0; i < d->pieces; i++) {
        struct gm_piece *p = &d->piece[i];
        if (p->count < units)
            continue;
        *offset = (uint64_t)p->start * GM_WORKSPACE_ALIGN;
        p->start += units;
        p->count -= units;
        if (p->count == 0) {
            for (uint32_t k = i + 1; k < d->pieces; k++)
                d->piece[k - 1u] = d->piece[k];
            d->pieces--;
        }
        d->pieces_out++;
        d->counters.workspace += (uint64_t)units * GM_WORKSPACE_ALIGN;
        if (d->counters.workspace > d->counters.workspace_high)
            d->counters.workspace_high = d->counters.workspace;
        return true;
    }
    return false;
}

GM_HD void gm_workspace_give(struct gm_disp *d, uint64_t offset, uint64_t bytes)
{
    const uint32_t units = gm_workspace_units(bytes), start = (uint32_t)(offset / GM_WORKSPACE_ALIGN);
    uint32_t i = 0;
    while (i < d->pieces && d->piece[i].start < start)
        i++;
    const bool joins_left = i > 0 && d->piece[i - 1u].start + d->piece[i - 1u].count == start;
    const bool joins_right = i < d->pieces && start + units == d->piece[i].start;
    if (joins_left && joins_right) {
        d->piece[i - 1u].count += units + d->piece[i].count;
        for (uint32_t k = i + 1; k < d->pieces; k++)
            d->piece[k - 1u] = d->piece[k];
        d->pieces--;
    } else if (joins_left) {
        d->piece[i - 1u].count += units;
    } else if (joins_right) {
        d->piece[i].start = start;
        d->piece[i].count += units;
    } else {
        for (uint32_t k = d->pieces; k > i; k--)
            d->piece[k] = d->piece[k - 1u];
        d->piece[i].start = start;
        d->piece[i].count = units;
        d->pieces++;
    }
    d->pieces_out--;
    d->counters.workspace -= (uint64_t)units * GM_WORKSPACE_ALIGN;
}

#endif
