/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas while the process of a device is replaced. Loop thread; once a loss, bounded by GM_ARENAS_MAX. Shared memory
 * is registered again under the same handles; memory of the device is gone, and its handles say so until they are
 * freed.
 */
#include <inttypes.h>

#include "daemon.h"

bool gm_arena_can_wait(const struct gm_arena *arena, const struct gm_device *v)
{
    return arena->kind == GM_ARENA_SHARED && gm_device_recovering(v);
}

void gm_arenas_device_reaped(struct gm_daemon *d, uint32_t device)
{
    for (uint32_t i = 1; i < GM_ARENAS_MAX; i++) {
        struct gm_arena *arena = &d->arenas.arena[i];
        if (arena->kind == GM_ARENA_DEVICE && (arena->devices >> device & 1u) != 0)
            arena->gone = true;
    }
}

void gm_arenas_device_lost(struct gm_daemon *d, uint32_t device)
{
    for (uint32_t i = 1; i < GM_ARENAS_MAX; i++)
        d->arenas.arena[i].devices &= ~(1u << device);
}

static void gm_arena_refilled(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t generation)
{
    struct gm_arena *arena = context;
    if (reply == NULL)
        return; /* the one after it will get it */
    if (reply->status != GM_OK) {
        gm_log(GM_LOG_WARN, "arena_refused", "device=%" PRIu32 " bytes=%" PRIu64 " status=%s text=\"%s\"", v->index,
               arena->bytes, gm_error_name(reply->status), reply->u.text);
        if (arena->generation == generation)
            arena->devices &= ~(1u << v->index);
    }
    gm_restart_refilled(v);
}

/* handles: those on named arenas, else arenas with memory of their own. */
static uint32_t gm_arenas_send(struct gm_device *v, bool handles)
{
    uint32_t asked = 0;
    for (uint32_t i = 1; i < GM_ARENAS_MAX; i++) {
        struct gm_arena *arena = &v->daemon->arenas.arena[i];
        struct gm_control add;
        if ((arena->devices >> v->index & 1u) == 0 || (arena->base != NULL) != handles)
            continue;
        const int fd = gm_arena_message(arena, &add);
        if (gm_device_request(v, &add, fd, gm_arena_refilled, arena, arena->generation) == GM_OK)
            asked++;
    }
    return asked;
}

uint32_t gm_arenas_refill(struct gm_device *v)
{
    const uint32_t bases = gm_arenas_send(v, false);
    return bases + gm_arenas_send(v, true);
}
