/* SPDX-License-Identifier: Apache-2.0
 *
 * Named arenas in a client of the random run: made and filled, read by whoever attaches, taken away. Handles live for
 * one action. The first element is written last, so a reader knows whether the rest is there. Names are few, so that
 * clients meet.
 */
#include "chaos_client.h"

#include <string.h>

#define NAMES    3u
#define ELEMENTS 2048u
#define BYTES    (ELEMENTS * 8u)
#define READY    UINT64_C(0x7265616479)

static_assert(BYTES <= CELL, "it passes through a cell");

static uint64_t element(uint32_t name, uint32_t i)
{
    return i == 0 ? READY : (uint64_t)name * 1000003u + i;
}

static bool copy(struct worker *w, const struct gm_arena *from, const struct gm_arena *to, uint64_t first, uint64_t n,
                 int expected)
{
    /* Who made the arena, and what has been lost since, this client does not know: any loss explains it. */
    const struct record lives_in = {.device = 0};
    struct unit *const u = &w->unit[1];

    u->task = (struct task){.c = {.op = GM_OP_copy}};
    u->request = gm_request("copy", GM_U64, n);
    u->request.in[0] = gm_in_arena(from, first * 8u, n * 8u);
    u->request.out[0] = gm_in_arena(to, first * 8u, n * 8u);
    const int status = work_step(w, u, &lives_in);
    if (status == expected)
        return status == GM_OK;
    if (!explained(w->world, u->record, status))
        complain(w->world, "client %u: copy of a named arena: %s instead of %s", w->ledger->slot,
                 gm_status_name(status), gm_status_name(expected));
    return false;
}

static void fill(struct worker *w, const struct gm_arena *named, uint32_t name)
{
    uint64_t *const cell = gm_arena_data(w->arena);

    for (uint32_t i = 0; i < ELEMENTS; i++)
        cell[i] = element(name, i);
    if (copy(w, w->arena, named, 1, ELEMENTS - 1u, GM_OK))
        copy(w, w->arena, named, 0, 1, GM_OK);
}

static void see_content(struct worker *w, const uint64_t *is, uint32_t name, const char *how)
{
    /* Acquire: what was written before the first element. */
    if (__atomic_load_n(&is[0], __ATOMIC_ACQUIRE) != READY)
        return;
    for (uint32_t i = 1; i < ELEMENTS; i++)
        if (is[i] != element(name, i))
            complain(w->world, "client %u: element %u of named arena %u is %" PRIx64 " %s", w->ledger->slot, i, name,
                     is[i], how);
}

/* Two reads: the first element, and when it says so, the rest. */
static void read_all(struct worker *w, const struct gm_arena *named, uint32_t name)
{
    uint64_t *const cell = gm_arena_data(w->arena);

    memset(cell, 0, BYTES);
    if (!copy(w, named, w->arena, 0, 1, GM_OK) || cell[0] != READY)
        return;
    if (copy(w, named, w->arena, 1, ELEMENTS - 1u, GM_OK))
        see_content(w, cell, name, "by a job");
    if (gm_arena_data(named) != NULL)
        see_content(w, gm_arena_data(named), name, "in memory");
}

static bool is_answer(struct worker *w, const char *what, int status, int other)
{
    return status != other && work_call(w, what, status);
}

static bool make(struct worker *w, struct rng *rng, uint32_t number, const char *name)
{
    const enum gm_memory memory = random_one_in(rng, 2) ? GM_MEMORY_DEVICE : GM_MEMORY_SHARED;
    struct gm_arena *named;
    const int status =
        gm_arena_create_named(w->link->client, name, BYTES, memory, GM_DEVICE_ANY, in_ms(WAIT_MS), &named);

    if (!is_answer(w, "gm_arena_create_named", status, GM_EINVAL)) /* there is one */
        return status == GM_EINVAL;
    fill(w, named, number);
    return work_call(w, "gm_arena_free (named)", gm_arena_free(named, in_ms(WAIT_MS)));
}

static bool attach(struct worker *w, struct rng *rng, uint32_t number, const char *name)
{
    const bool writes = random_one_in(rng, 4);
    struct record any = {.life = (uint16_t)w->link->life};
    struct gm_arena *named;
    const int status = gm_arena_attach(w->link->client, name, in_ms(WAIT_MS), &named);

    if (status == GM_ENOTFOUND || (status == GM_EDEVICELOST && explained(w->world, &any, status)))
        return true;
    if (!work_call(w, "gm_arena_attach", status))
        return false;
    read_all(w, named, number);
    if (writes && !w->link->broken)
        copy(w, w->arena, named, 1, 10, GM_EREADONLY);
    return work_call(w, "gm_arena_free (attached)", gm_arena_free(named, in_ms(WAIT_MS)));
}

bool work_named(struct worker *w, struct rng *rng)
{
    const uint32_t number = random_below(rng, NAMES), dice = random_below(rng, 8);
    char name[16];

    snprintf(name, sizeof name, "name %u", number);
    if (dice < 3)
        return make(w, rng, number, name);
    if (dice < 7)
        return attach(w, rng, number, name);
    const int status = gm_arena_remove(w->link->client, name, in_ms(WAIT_MS));
    return status == GM_ENOTFOUND || work_call(w, "gm_arena_remove", status);
}
