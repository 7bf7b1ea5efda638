/* SPDX-License-Identifier: Apache-2.0
 *
 * Data for bench_ops in memory of the device: made here, uploaded through a shared arena by copy jobs, and multiplied
 * there by more of them. Regions are kept from one op to the next, as far as there is room. One thread.
 */
#include <string.h>

#include "ops_bench.h"

#define UPLOAD_BYTES (UINT64_C(32) << 20)
#define OUTPUT UINT32_MAX /* as content: whatever it holds */
#define PINNED UINT64_MAX
#define TRIES 100u /* to get memory that was given back a moment ago */

static bool copy(struct gm_ops_bench *b, const struct gm_arena *from, uint64_t from_offset, const struct gm_arena *to,
                 uint64_t to_offset, uint64_t bytes)
{
    struct gm_request request = gm_request("copy", GM_U8, bytes);
    request.in[0] = gm_in_arena(from, from_offset, bytes);
    request.out[0] = gm_in_arena(to, to_offset, bytes);
    return gm_run(b->client, &request, gm_deadline_in(GM_LANES_JOB_NS), NULL) == GM_OK ||
           gm_lanes_fail_last(&b->lanes, "data to the device", b->client);
}

static bool arena(struct gm_ops_bench *b, uint64_t bytes, enum gm_memory memory, struct gm_arena **arena)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const int status = gm_arena_create(b->client, bytes, memory, 0, gm_deadline_in(GM_LANES_JOB_NS), arena);
        if (status == GM_OK)
            return true;
        if (status != GM_EQUOTA && status != GM_ENOMEM)
            break;
        gm_bench_sleep_ms(10);
    }
    return gm_lanes_fail_last(&b->lanes, memory == GM_MEMORY_DEVICE ? "device memory" : "shared memory", b->client);
}

struct filling {
    struct gm_ops_bench *bench;
    const struct gm_ops_region *region;
};

static bool put(void *context, bool repeated, uint64_t from, uint64_t to, uint64_t bytes)
{
    const struct filling *f = context;
    return copy(f->bench, repeated ? f->region->arena : f->bench->upload, from, f->region->arena, to, bytes);
}

/* Elements of a buffer, as many as all places have. */
static bool fill(struct gm_ops_bench *b, const struct gm_ops_plan *plan, uint32_t i, const struct gm_ops_region *region)
{
    struct filling f = {b, region};
    if (!b->upload && !arena(b, UPLOAD_BYTES, GM_MEMORY_SHARED, &b->upload))
        return false;
    return gm_ops_fill(plan, i, region->bytes, gm_arena_data(b->upload), UPLOAD_BYTES, put, &f);
}

/* Once over all pages of an output, so that no job is the first to touch them. */
static bool touch(struct gm_ops_bench *b, const struct gm_ops_region *region)
{
    struct gm_request request = gm_request("fill", GM_U8, region->bytes);
    request.out[0] = gm_in_arena(region->arena, 0, region->bytes);
    return gm_run(b->client, &request, gm_deadline_in(GM_LANES_JOB_NS), NULL) == GM_OK ||
           gm_lanes_fail_last(&b->lanes, "memory of the device", b->client);
}

static void give_up(struct gm_ops_bench *b, struct gm_ops_region *region)
{
    b->held -= region->bytes;
    (void)gm_arena_free(region->arena, gm_deadline_in(GM_LANES_JOB_NS));
    memset(region, 0, sizeof *region);
}

/* The one that was used longest ago and is not needed now, or NULL. */
static struct gm_ops_region *oldest(struct gm_ops_bench *b)
{
    struct gm_ops_region *found = NULL;
    for (uint32_t i = 0; i < GM_OPS_REGIONS; i++) {
        struct gm_ops_region *r = &b->region[i];
        if (r->arena && r->used != PINNED && (!found || r->used < found->used))
            found = r;
    }
    return found;
}

static struct gm_ops_region *vacant(struct gm_ops_bench *b, uint64_t bytes)
{
    struct gm_ops_region *last;
    while (b->held + bytes > b->keep_bytes && (last = oldest(b)) != NULL)
        give_up(b, last);
    for (uint32_t i = 0; i < GM_OPS_REGIONS; i++)
        if (!b->region[i].arena)
            return &b->region[i];
    last = oldest(b);
    if (last)
        give_up(b, last);
    return last;
}

/* What data depends on; the rest is zero. */
static struct gm_ops_region wanted(const struct gm_ops_plan *plan, uint32_t i)
{
    const uint32_t content = gm_buffer_content(plan->row.buffer[i]);
    struct gm_ops_region r = {.bytes = gm_ops_room(plan, i), .content = content, .buffer = i};
    if (i >= plan->row.inputs) {
        r.content = OUTPUT;
        r.buffer = i - plan->row.inputs;
        return r;
    }
    r.dtype = content >= GM_CONTENT_TO ? plan->args.type2 : plan->args.dtype;
    r.data = content >= GM_CONTENT_TO ? 0 : plan->data;
    r.n = content == GM_CONTENT_OFFSETS ? plan->args.n : 0;
    r.length = content == GM_CONTENT_OFFSETS || content == GM_CONTENT_INDEX ? plan->args.value[0]
               : content == GM_CONTENT_EDGES                                ? plan->args.count
                                                                            : 0;
    return r;
}

static bool same(const struct gm_ops_region *a, const struct gm_ops_region *b)
{
    return a->content == b->content && a->dtype == b->dtype && a->data == b->data && a->buffer == b->buffer &&
           a->n == b->n && a->length == b->length;
}

static struct gm_ops_region *find(struct gm_ops_bench *b, const struct gm_ops_plan *plan, uint32_t i)
{
    const struct gm_ops_region want = wanted(plan, i);
    struct gm_ops_region *r = NULL;
    for (uint32_t k = 0; k < GM_OPS_REGIONS; k++)
        if (b->region[k].arena && same(&b->region[k], &want) && b->region[k].bytes >= want.bytes)
            r = &b->region[k];
    if (r) {
        r->used = PINNED;
        return r;
    }
    r = vacant(b, want.bytes);
    if (!r) {
        (void)gm_lanes_fail(&b->lanes, "data", "more kinds of it than there is room for");
        return NULL;
    }
    *r = want;
    if (!arena(b, want.bytes, GM_MEMORY_DEVICE, &r->arena)) {
        memset(r, 0, sizeof *r);
        return NULL;
    }
    r->used = PINNED;
    b->held += r->bytes;
    if (want.content == OUTPUT ? touch(b, r) : fill(b, plan, i, r))
        return r;
    give_up(b, r);
    return NULL;
}

static void put_args(const struct gm_ops_plan *plan, struct gm_request *request)
{
    request->value = plan->args.value[0]; /* members of one place are one */
    request->high = plan->args.value[1];
    request->right = plan->args.value[2];
    memcpy(&request->hi_y, &plan->args.value[3], sizeof request->hi_y);
    request->bins = plan->args.count;
    request->bins_y = plan->args.count2;
    request->to = plan->args.type2;
}

bool gm_ops_request(struct gm_ops_bench *b, const struct gm_ops_plan *plan, struct gm_request *request)
{
    *request = gm_request(plan->name, plan->row.types == GM_NO_TYPES ? GM_NO_ELEMENT : plan->args.dtype, plan->args.n);
    put_args(plan, request);
    for (uint32_t i = 0; i < plan->buffers; i++) {
        const struct gm_ops_region *r = find(b, plan, i);
        if (!r)
            return false;
        *(i < plan->row.inputs ? &request->in[i] : &request->out[i - plan->row.inputs]) =
            gm_in_arena(r->arena, 0, plan->bytes[i]);
    }
    return true;
}

void gm_ops_move(const struct gm_ops_plan *plan, struct gm_request *request, uint64_t place)
{
    for (uint32_t i = 0; i < plan->buffers; i++)
        (i < plan->row.inputs ? &request->in[i] : &request->out[i - plan->row.inputs])->offset = place * plan->step[i];
}

void gm_ops_release(struct gm_ops_bench *b)
{
    b->clock++;
    for (uint32_t i = 0; i < GM_OPS_REGIONS; i++)
        if (b->region[i].used == PINNED)
            b->region[i].used = b->clock;
}

void gm_ops_forget(struct gm_ops_bench *b)
{
    for (uint32_t i = 0; i < GM_OPS_REGIONS; i++)
        if (b->region[i].arena)
            give_up(b, &b->region[i]);
}
