/* SPDX-License-Identifier: Apache-2.0
 *
 * See block.h. Threads are chosen warp by warp; a round ends when all that can run have had their turn, which keeps
 * loops that wait for others from starving them, and then another block goes on.
 */
#include "block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_types.h"

#define IDLE_ROUNDS (1u << 18) /* without anybody's getting anywhere: they wait for what never comes */

#define SWITCHES (1u << 26) /* of one launch: thirty times as many as the largest needs */

static struct gm_simt_block *blocks[GM_SIMT_BLOCKS];
static struct gm_fiber own; /* the stack that launches */
static struct gm_fiber *running;
static const struct gm_simt_launch *launched;
static uint64_t random_state;
static uint32_t idle_rounds, switches, undisturbed;
static bool failed;
static char failure[1024];

struct gm_simt_block *gm_simt_here;
uint32_t gm_simt_budget;
uint3 threadIdx, blockIdx;
dim3 blockDim(GM_SIMT_THREADS), gridDim;

uint32_t gm_simt_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 24);
}

void gm_simt_open(size_t scratch_bytes)
{
    if (blocks[0] != NULL)
        return;
    gm_fiber_adopt(&own);
    for (uint32_t b = 0; b < GM_SIMT_BLOCKS; b++) {
        blocks[b] = (struct gm_simt_block *)calloc(1, sizeof *blocks[b]);
        if (blocks[b] == NULL || posix_memalign((void **)&blocks[b]->scratch, 1024, scratch_bytes) != 0)
            abort();
        blocks[b]->index = b;
        gm_fibers_open(blocks[b]->fiber, GM_SIMT_THREADS);
    }
}

struct gm_simt_block *gm_simt_block_at(uint32_t index)
{
    return blocks[index];
}

/* ---- what went wrong ---- */

static void leave(void)
{
    struct gm_fiber *from = running;
    running = &own;
    gm_fiber_switch(from, &own);
}

void gm_simt_fail(const char *format, ...)
{
    va_list args;
    const int at = snprintf(failure, sizeof failure, "block %u thread %u: ", blockIdx.x, threadIdx.x);
    va_start(args, format);
    vsnprintf(failure + at, sizeof failure - (size_t)at, format, args);
    va_end(args);
    failed = true;
    leave();
    abort(); /* nobody comes back here */
}

static const char *name_of(enum gm_simt_kind kind)
{
    static const char *const names[] = {
        "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",   "__ballot_sync",
        "__any_sync",        "__all_sync",        "__match_any_sync",  "__match_all_sync",  "__reduce_add_sync",
        "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
        "__reduce_or_sync",  "__reduce_xor_sync", "__syncwarp",        "__syncthreads",     "__syncthreads_count",
        "__syncthreads_and", "__syncthreads_or"};
    return names[kind];
}

static const char *short_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

static uint32_t lowest(uint32_t set)
{
    return (uint32_t)__builtin_ctz(set);
}

/* Nobody of the block can run, and not all are done: whoever waits says for what. */
static void fail_stuck(const struct gm_simt_block *b)
{
    char text[900];
    int at = 0;
    uint32_t said = 0;
    for (uint32_t w = 0; w < GM_SIMT_WARPS; w++) {
        const struct gm_simt_warp *warp = &b->warp[w];
        uint32_t left = warp->waiting | warp->at_barrier;
        while (left != 0 && said < 6u) {
            const struct gm_simt_call *c = &warp->call[lowest(left)];
            uint32_t same = 0;
            for (uint32_t l = 0; l < 32; l++)
                if (left >> l & 1u && warp->call[l].kind == c->kind && warp->call[l].mask == c->mask &&
                    warp->call[l].site.line == c->site.line)
                    same |= 1u << l;
            at += snprintf(text + at, sizeof text - (size_t)at, "; lanes %08x of warp %u wait in %s", same, w,
                           name_of(c->kind));
            if (c->kind < GM_SIMT_SYNCTHREADS)
                at += snprintf(text + at, sizeof text - (size_t)at, "(%08x)", c->mask);
            at += snprintf(text + at, sizeof text - (size_t)at, " at %s:%d", short_name(c->site.file), c->site.line);
            left &= ~same;
            said++;
        }
        if (warp->done != 0 && said < 6u) {
            at += snprintf(text + at, sizeof text - (size_t)at, "; lanes %08x of warp %u have returned", warp->done, w);
            said++;
        }
    }
    gm_simt_fail("nobody of block %u can go on%s", b->index, text);
}

/* ---- who is next ---- */

static uint32_t ready(const struct gm_simt_warp *warp)
{
    return warp->runnable & ~warp->tired;
}

static uint32_t choose(uint32_t set)
{
    if (launched->order == GM_SIMT_RISING)
        return lowest(set);
    if (launched->order == GM_SIMT_FALLING)
        return 31u - (uint32_t)__builtin_clz(set);
    const uint32_t by = gm_simt_random() & 31u, turned = set >> by | set << ((32u - by) & 31u);
    return (lowest(turned) + by) & 31u;
}

static void go_to(struct gm_simt_block *b, uint32_t w, uint32_t lane)
{
    struct gm_fiber *from = running;
    gm_simt_here = b;
    b->current = w;
    blockIdx.x = b->index;
    threadIdx.x = w * 32u + lane;
    running = &b->fiber[threadIdx.x];
    if (running == from)
        return;
    if (++switches > SWITCHES) {
        running = from;
        gm_simt_fail("and the others come to no end");
    }
    if (launched->disturb != NULL && undisturbed-- == 0) {
        undisturbed = gm_simt_random() % 1024u;
        launched->disturb();
    }
    gm_fiber_switch(from, running);
}

/* A warp of the block that has somebody ready, or none. */
static uint32_t choose_warp(const struct gm_simt_block *b)
{
    uint32_t set = 0;
    const bool stay = launched->order != GM_SIMT_RANDOM || (gm_simt_random() & 15u) != 0;
    if (stay && ready(&b->warp[b->current]) != 0)
        return b->current;
    for (uint32_t w = 0; w < GM_SIMT_WARPS; w++)
        set |= ready(&b->warp[w]) != 0 ? 1u << w : 0u;
    return set == 0 ? GM_SIMT_WARPS : choose(set);
}

/* All of a block that can run have had their turn: a new round. False when there is nobody. */
static bool begin_round(struct gm_simt_block *b)
{
    uint32_t any = 0;
    for (uint32_t w = 0; w < GM_SIMT_WARPS; w++) {
        b->warp[w].tired = 0;
        any |= b->warp[w].runnable;
    }
    return any != 0;
}

/* The next block of which somebody can run, this one last. */
static struct gm_simt_block *choose_block(const struct gm_simt_block *here)
{
    const uint32_t from = launched->order == GM_SIMT_RANDOM ? gm_simt_random() : here->index + 1u;
    for (uint32_t i = 0; i < launched->blocks; i++) {
        struct gm_simt_block *b = blocks[(from + i) % launched->blocks];
        if (b->done == GM_SIMT_THREADS)
            continue;
        if (choose_warp(b) < GM_SIMT_WARPS || begin_round(b))
            return b;
        fail_stuck(b);
    }
    return NULL;
}

/* Goes on with somebody; returns when it is this one's turn again. */
static void next(bool other_block)
{
    struct gm_simt_block *b = gm_simt_here;
    const uint32_t here = ready(&b->warp[b->current]);
    uint32_t w = b->current;
    if (other_block || here == 0 || launched->order == GM_SIMT_RANDOM)
        w = other_block ? GM_SIMT_WARPS : choose_warp(b);
    if (w == GM_SIMT_WARPS) {
        if (++idle_rounds > IDLE_ROUNDS)
            gm_simt_fail("waits for something that does not come");
        b = choose_block(b);
        if (b == NULL) {
            leave();
            return;
        }
        w = choose_warp(b);
    }
    go_to(b, w, choose(ready(&b->warp[w])));
}

void gm_simt_poll(void)
{
    struct gm_simt_warp *warp = &gm_simt_here->warp[threadIdx.x / 32u];
    gm_simt_budget = launched->order == GM_SIMT_RANDOM ? 1u + gm_simt_random() % 256u : 4096u;
    warp->tired |= 1u << (threadIdx.x & 31u);
    next(false);
}

/* ---- collectives ---- */

static uint32_t source_of(const struct gm_simt_call *c, uint32_t lane)
{
    const uint32_t first = lane & ~(c->width - 1u), end = first + c->width;
    switch (c->kind) {
    case GM_SIMT_SHFL:
        return first + (c->arg & (c->width - 1u));
    case GM_SIMT_SHFL_UP:
        return lane >= first + c->arg ? lane - c->arg : lane;
    case GM_SIMT_SHFL_DOWN:
        return c->arg < end - lane ? lane + c->arg : lane;
    default:
        return (lane ^ c->arg) < end ? lane ^ c->arg : lane;
    }
}

static void shuffle(struct gm_simt_warp *warp, uint32_t mask)
{
    for (uint32_t set = mask; set != 0; set &= set - 1u) {
        const uint32_t lane = lowest(set), source = source_of(&warp->call[lane], lane);
        if (!(mask >> (source & 31u) & 1u) || source > 31u)
            gm_simt_fail("lane %u reads lane %u, which mask %08x does not name, in %s at %s:%d", lane, source, mask,
                         name_of(warp->call[lane].kind), short_name(warp->call[lane].site.file),
                         warp->call[lane].site.line);
        warp->out[lane] = warp->in[source];
    }
}

static uint64_t combine(enum gm_simt_kind kind, uint64_t a, uint64_t b)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    switch (kind) {
    case GM_SIMT_REDUCE_ADD:
        return x + y;
    case GM_SIMT_REDUCE_MIN:
        return x < y ? x : y;
    case GM_SIMT_REDUCE_MAX:
        return x > y ? x : y;
    case GM_SIMT_REDUCE_MIN_SIGNED:
        return (int32_t)x < (int32_t)y ? x : y;
    case GM_SIMT_REDUCE_MAX_SIGNED:
        return (int32_t)x > (int32_t)y ? x : y;
    case GM_SIMT_REDUCE_AND:
        return x & y;
    case GM_SIMT_REDUCE_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static void vote(struct gm_simt_warp *warp, uint32_t mask, enum gm_simt_kind kind)
{
    uint32_t yes = 0;
    for (uint32_t lane = 0; lane < 32u; lane++)
        yes |= warp->in[lane] != 0 ? 1u << lane : 0u;
    yes &= mask;
    uint64_t answer = kind == GM_SIMT_BALLOT ? yes : kind == GM_SIMT_ANY ? yes != 0 : yes == mask;
    if (kind >= GM_SIMT_REDUCE_ADD) {
        answer = warp->in[lowest(mask)];
        for (uint32_t set = mask & (mask - 1u); set != 0; set &= set - 1u)
            answer = combine(kind, answer, warp->in[lowest(set)]);
    }
    for (uint32_t lane = 0; lane < 32u; lane++)
        warp->out[lane] = mask >> lane & 1u ? answer : warp->out[lane];
}

static void match(struct gm_simt_warp *warp, uint32_t mask, enum gm_simt_kind kind)
{
    for (uint32_t set = mask; set != 0; set &= set - 1u) {
        uint32_t same = 0;
        for (uint32_t k = mask; k != 0; k &= k - 1u)
            same |= warp->in[lowest(k)] == warp->in[lowest(set)] ? 1u << lowest(k) : 0u;
        warp->out[lowest(set)] = kind == GM_SIMT_MATCH_ANY || same == mask ? same : 0u;
    }
}

/* Whether all that the mask names, who all wait, wait in this collective; false: some have one of their own first. */
static bool complete(const struct gm_simt_warp *warp, uint32_t mask, const struct gm_simt_call *c)
{
    for (uint32_t set = mask; set != 0; set &= set - 1u)
        if (warp->call[lowest(set)].mask != mask)
            return false;
    for (uint32_t set = mask; set != 0; set &= set - 1u) {
        const struct gm_simt_call *o = &warp->call[lowest(set)];
        if (o->kind != c->kind || o->width != c->width || o->site.line != c->site.line ||
            (o->site.file != c->site.file && strcmp(o->site.file, c->site.file) != 0))
            gm_simt_fail("meets lane %u of its warp in another collective: %s at %s:%d, and %s at %s:%d", lowest(set),
                         name_of(c->kind), short_name(c->site.file), c->site.line, name_of(o->kind),
                         short_name(o->site.file), o->site.line);
    }
    return true;
}

/* All that the mask names have come. */
static void exchange(struct gm_simt_warp *warp, uint32_t mask, const struct gm_simt_call *call)
{
    if (!complete(warp, mask, call))
        return;
    if (call->kind <= GM_SIMT_SHFL_XOR)
        shuffle(warp, mask);
    else if (call->kind == GM_SIMT_MATCH_ANY || call->kind == GM_SIMT_MATCH_ALL)
        match(warp, mask, call->kind);
    else if (call->kind != GM_SIMT_SYNCWARP)
        vote(warp, mask, call->kind);
    warp->waiting &= ~mask;
    warp->runnable |= mask;
    warp->tired &= ~mask;
    idle_rounds = 0;
}

uint64_t gm_simt_warp_call(enum gm_simt_kind kind, uint32_t mask, uint64_t value, uint32_t arg, uint32_t width,
                           struct gm_simt_site site)
{
    struct gm_simt_warp *warp = &gm_simt_here->warp[threadIdx.x / 32u];
    const uint32_t lane = threadIdx.x & 31u;
    if (!(mask >> lane & 1u))
        gm_simt_fail("is not in the mask %08x that it names in %s at %s:%d", mask, name_of(kind), short_name(site.file),
                     site.line);
    if (width - 1u > 31u || (width & (width - 1u)) != 0)
        gm_simt_fail("asks for a width of %u in %s at %s:%d", width, name_of(kind), short_name(site.file), site.line);
    warp->call[lane] = {kind, mask, arg, width, site};
    warp->in[lane] = value;
    warp->runnable &= ~(1u << lane);
    warp->waiting |= 1u << lane;
    if ((warp->waiting & mask) == mask)
        exchange(warp, mask, &warp->call[lane]);
    next(false);
    return warp->out[lane];
}

static void release(struct gm_simt_block *b)
{
    for (uint32_t w = 0; w < GM_SIMT_WARPS; w++) {
        b->warp[w].at_barrier = 0;
        b->warp[w].tired = 0;
        b->warp[w].runnable = 0xffffffffu;
        for (uint32_t l = 0; l < 32u; l++)
            b->warp[w].out[l] = b->barrier_sum;
    }
    b->at_barrier = 0;
    idle_rounds = 0;
}

uint32_t gm_simt_barrier(enum gm_simt_kind kind, bool predicate, struct gm_simt_site site)
{
    struct gm_simt_block *b = gm_simt_here;
    const uint32_t w = threadIdx.x / 32u, lane = threadIdx.x & 31u;
    struct gm_simt_warp *warp = &b->warp[w];
    warp->call[lane] = {kind, 0, 0, 0, site};
    warp->runnable &= ~(1u << lane);
    warp->at_barrier |= 1u << lane;
    if (b->at_barrier++ == 0) {
        b->barrier = warp->call[lane];
        b->barrier_sum = 0;
    } else if (b->barrier.kind != kind || b->barrier.site.line != site.line ||
               (b->barrier.site.file != site.file && strcmp(b->barrier.site.file, site.file) != 0)) {
        gm_simt_fail("comes to %s at %s:%d, while %u others wait in %s at %s:%d", name_of(kind), short_name(site.file),
                     site.line, b->at_barrier - 1u, name_of(b->barrier.kind), short_name(b->barrier.site.file),
                     b->barrier.site.line);
    }
    b->barrier_sum += predicate ? 1u : 0u;
    if (b->at_barrier == GM_SIMT_THREADS)
        release(b);
    next(launched->order == GM_SIMT_RANDOM && b->at_barrier == 0 && (gm_simt_random() & 3u) == 0);
    const uint32_t sum = (uint32_t)warp->out[lane];
    return kind == GM_SIMT_SYNCTHREADS_AND ? sum == GM_SIMT_THREADS : kind == GM_SIMT_SYNCTHREADS_OR ? sum != 0 : sum;
}

/* ---- launches ---- */

static void run_thread(void)
{
    struct gm_simt_block *b = gm_simt_here;
    launched->body(b->context);
    b->warp[threadIdx.x / 32u].runnable &= ~(1u << (threadIdx.x & 31u));
    b->warp[threadIdx.x / 32u].done |= 1u << (threadIdx.x & 31u);
    b->done++;
    idle_rounds = 0;
    next(false);
}

bool gm_simt_launch(const struct gm_simt_launch *launch, char *why, size_t size)
{
    launched = launch;
    random_state = launch->seed * UINT64_C(0x9e3779b97f4a7c15) | 1u;
    gm_simt_budget = 1;
    idle_rounds = switches = undisturbed = 0;
    failed = false;
    gridDim.x = launch->blocks;
    for (uint32_t i = 0; i < launch->blocks; i++) {
        struct gm_simt_block *b = blocks[i];
        memset(b->warp, 0, sizeof b->warp);
        for (uint32_t w = 0; w < GM_SIMT_WARPS; w++)
            b->warp[w].runnable = 0xffffffffu;
        b->at_barrier = b->done = b->current = 0;
        b->context = launch->context[i];
        for (uint32_t t = 0; t < GM_SIMT_THREADS; t++)
            gm_fiber_begin(&b->fiber[t], run_thread);
    }
    running = &own;
    gm_simt_here = blocks[0];
    next(false);
    if (!failed)
        return true;
    snprintf(why, size, "%s", failure);
    for (uint32_t i = 0; i < launch->blocks * GM_SIMT_THREADS; i++)
        gm_fiber_abandon(&blocks[i / GM_SIMT_THREADS]->fiber[i % GM_SIMT_THREADS]);
    return false;
}
