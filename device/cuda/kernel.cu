/* SPDX-License-Identifier: Apache-2.0
 *
 * The resident kernel. Block 0 is the dispatcher: warps run its front, back, scout and wings (device/core), with their
 * state in shared memory. Every other block is a worker: one warp draws a ticket and loads the job, the whole block
 * runs the share, one thread arrives and answers. All blocks meet only at check-in and at the end, behind the stop
 * tickets.
 */
#include <cooperative_groups.h>

#include "core/arrive.h"
#include "core/draw.h"
#include "core/turn.h"
#include "core/wing.h"
#include "cuda/kernel.h"
#include "cuda/pipeline.cuh"

/* Dynamic shared memory of every block: a worker's scratch, or the dispatcher's state. */
#define GM_KERNEL_SHARED                                                                                               \
    (GM_BLOCK_SCRATCH > sizeof(struct gm_disp) ? (uint32_t)GM_BLOCK_SCRATCH : (uint32_t)sizeof(struct gm_disp))

/* Moves the dispatcher's state between launches: global memory <-> shared memory, by all threads of the block. Several
 * loads before the first store, because each round is a trip to the second-level cache. */
static __device__ void copy_disp(struct gm_disp *to, const struct gm_disp *from)
{
    const uint32_t ahead = 6u, all = sizeof(struct gm_disp) / 16u;
    const uint4 *source = (const uint4 *)from;
    uint4 *target = (uint4 *)to;
    for (uint32_t base = threadIdx.x; base < all; base += ahead * blockDim.x) {
        uint4 v[ahead];
#pragma unroll
        for (uint32_t k = 0; k < ahead; k++)
            if (base + k * blockDim.x < all)
                v[k] = source[base + k * blockDim.x];
#pragma unroll
        for (uint32_t k = 0; k < ahead; k++)
            if (base + k * blockDim.x < all)
                target[base + k * blockDim.x] = v[k];
    }
    __syncthreads();
}

static __shared__ uint32_t wakes; /* the scout's count of this kernel's wakes and all before */

/* Notes which lanes have a sleeper to wake, and counts: the host's stream waits for the count. count: of this kernel's
 * wakes and all before, kept here because a look at the word would be a trip over the bus. Whole warp; a call, because
 * it is rare. */
static __device__ __noinline__ void tell(const struct gm_launch *launch, struct gm_disp *d, uint32_t *count)
{
    const uint32_t next = *count + 1u;
    for (uint32_t word = gm_lane_id(); word < GM_LANE_WORDS; word += GM_WARP) {
        for (uint32_t bits = d->wake_lanes[word]; bits != 0; bits &= bits - 1u)
            gm_store_relaxed_sys_u32(&launch->wake_lanes[word * 32u + gm_lowest_one(bits)], next);
        d->wake_lanes[word] = 0;
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->wake = 0;
        *count = next;
        /* Release: the completions that the sleepers are woken for, and their lanes, come first. */
        gm_store_release_sys_u32(launch->wake, next);
    }
    gm_syncwarp();
}

#ifdef GM_DRILLS
/* drill.c; here for the dispatcher and the workers of a GPU. */
static __device__ void drill_turn(const struct gm_drill *drill, const struct gm_disp *d)
{
    while (drill->kind == GM_DRILL_STALL_DISPATCHER_AFTER && d->counters.started >= drill->at)
        __nanosleep(1000);
}

static __device__ void drill_job(const struct gm_drill *drill, const struct gm_job *job)
{
    if (job->lane == GM_LANE_TABLE - 1u || job->position < drill->at)
        return;
    if (drill->kind == GM_DRILL_ABORT_IN_JOB)
        *(volatile uint32_t *)8 = 1;
    else if (drill->kind == GM_DRILL_TRAP_IN_JOB)
        __trap();
}
#endif

/* In the bounded mode, in which a device sleeps as soon as it has nothing to do, the front's warp plays all three
 * parts: compute-sanitizer does not know that warps of a block may order what they share by acquire and release. */
static __device__ __forceinline__ bool gm_alone(const struct gm_launch *launch) { return launch->core.idle_ns == 0; }

/* One turn of the scout, and who wakes the sleepers that it finds. One warp. */
static __device__ void scout_turn(const struct gm_launch *launch, struct gm_disp *d)
{
    gm_scout_turn(&launch->core, d);
    if (gm_load_relaxed_block_u32(&d->wake))
        tell(launch, d, &wakes);
}

/* One turn of scout and back, for a front that plays them too. A call: in a front that does not it is in the way. */
static __device__ __noinline__ void others_turn(const struct gm_launch *launch)
{
    struct gm_disp *d = gm_disp_here(NULL);
    scout_turn(launch, d);
    gm_back_turn(&launch->core, d);
}

/* The front, until the stop tickets are out. A function of its own, so that its registers are its own. One warp. */
static __device__ __noinline__ void front(const struct gm_launch *launch)
{
    const struct gm_core *core = &launch->core;
    const bool alone = gm_alone(launch);
    struct gm_disp *d = gm_disp_here(NULL);
    struct gm_fetch fetch;
    gm_park_flag(core, d, 0);
    gm_turn_begin(core, d, &fetch);
    for (;;) {
        if (alone)
            others_turn(launch);
        /* The constants from shared memory: in a function of its own the kernel's parameters are far away. */
        const enum gm_turn_result result = gm_turn(&d->core, d, &fetch);
#ifdef GM_DRILLS
        drill_turn(&launch->drill, d);
#endif
        if (result == GM_TURN_STOP)
            break;
        if (result == GM_TURN_PARK) {
            if (threadIdx.x == 0)
                d->counters.parks++;
            gm_syncwarp();
            while (!gm_stop_publish(d)) {
            } /* nothing is in flight, so the acknowledgements are on their way */
            break;
        }
    }
    gm_counters_store(d);
    if (threadIdx.x == 0)
        gm_store_release_block_u32(&d->crew.leave, 1);
}

static __device__ void scout(const struct gm_launch *launch)
{
    struct gm_disp *d = gm_disp_here(NULL);
    while (gm_agreed_u32(&d->crew.leave) == 0)
        if (!gm_scout_waits(d))
            scout_turn(launch, d);
}

static __device__ __noinline__ void back(const struct gm_launch *launch)
{
    struct gm_disp *d = gm_disp_here(NULL);
    while (gm_agreed_u32(&d->crew.leave) == 0)
        gm_back_turn(&launch->core, d);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define GM_WINGS_RUN 1
#else
#define GM_WINGS_RUN 0 /* where nothing goes the quick way (GM_QUICK_MAX), no lane is ever leased */
#endif

/* Between two looks of a wing for a lease: without a break they take turns in shared memory from the front, whose round
 * trips they make longer. */
#define GM_WING_IDLE_NS 500u

/* A wing, in a function of its own as the front. One warp. */
static __device__ __noinline__ void wing(uint32_t w)
{
    struct gm_disp *d = gm_disp_here(NULL);
    struct gm_wing_look look;
    gm_wing_init(d, w, &look);
    for (;;) {
        if (gm_wing_turn(&d->core, d, w, &look))
            continue;
        if (gm_agreed_u32(&d->crew.leave) != 0)
            break;
        __nanosleep(GM_WING_IDLE_NS);
    }
}

/* Which wing a warp is, or GM_WINGS_MAX: none. The front shares its scheduler with none of them. */
static __device__ uint32_t wing_of(uint32_t warp)
{
    return warp == 3u ? 0u : warp == 5u ? 1u : warp == 6u ? 2u : GM_WINGS_MAX;
}
static_assert(GM_WINGS_MAX == 3u, "a warp for each");

/* Front, back and scout each on a scheduler of its own. */
static __device__ void dispatch(const struct gm_launch *launch)
{
    struct gm_disp *d = gm_disp_here(NULL);
    copy_disp(d, launch->core.saved);
    if (threadIdx.x == 0) {
        d->counters.launches++;
        d->last_work_ns = gm_now_ns();
        d->crew.apart = !gm_alone(launch);
        d->crew.leave = 0;
        wakes = gm_load_relaxed_sys_u32(launch->wake);
    }
    __syncthreads();
    if (threadIdx.x / GM_WARP == 0)
        front(launch);
    else if (threadIdx.x / GM_WARP == 1 && !gm_alone(launch))
        back(launch);
    else if (threadIdx.x / GM_WARP == 2 && !gm_alone(launch))
        scout(launch);
    else if (GM_WINGS_RUN && wing_of(threadIdx.x / GM_WARP) < launch->core.wings)
        wing(wing_of(threadIdx.x / GM_WARP));
    __syncthreads();
    copy_disp(launch->core.saved, d);
}
static_assert(GM_BLOCK_WARPS >= 7, "three parts and three wings, on four schedulers");

/* Separately compiled, so that no op's registers or code enter another's, or this loop. */
static __device__ __forceinline__ void op_share(uint32_t op, struct gm_run *run)
{
    switch (op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_op_##name##_share(run);                                                                                     \
        break;
#include "ops.def"
#undef OP
    }
}

static __device__ __forceinline__ void op_finish(uint32_t op, struct gm_run *run)
{
    switch (op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_op_##name##_finish(run);                                                                                    \
        break;
#include "ops.def"
#undef OP
    }
}

struct worker {
    struct gm_job job;
    struct gm_run run;
    uint64_t abort_status; /* the entry's two words when the share began, or what the ticket says in their place */
    uint32_t ticket;       /* its word */
    uint64_t busy_ns;
    uint32_t last;
};

/* Draws, waits, acknowledges and loads the job: one warp; the block waits at its barrier. */
static __device__ void fetch(const struct gm_core *core, struct worker *w, uint32_t worker, struct gm_slot_way way)
{
    struct gm_drawn drawn;
    uint64_t ticket = 0, abort_status = 0;
    const uint32_t lane = gm_lane_id();
    static_assert(GM_JOB_WORDS == GM_WARP, "one for each thread");
    if (lane == 0) {
        w->run.result = 0;
        w->run.status = GM_OK;
        ticket = gm_draw(core);
    }
    ticket = gm_shfl_u64(ticket, 0);
    if (!gm_draw_try(core, ticket, &drawn)) {
        if (lane == 0)
            gm_journal_worker(core, worker, w->busy_ns, 0, 0);
        while (!gm_draw_try(core, ticket, &drawn)) {
        }
    }
    const bool in_slot = gm_ticket_inline(drawn.word), stop = gm_ticket_entry(drawn.word) == GM_STOP_ENTRY;
    struct gm_entry *entry = gm_entry_at(core, gm_ticket_entry(drawn.word));
    if (in_slot) {
        gm_drawn_store(core, &drawn, way, (uint32_t *)&w->job);
        abort_status = gm_ticket_share(drawn.word) == GM_SHARE_ABORTED;
    } else if (!stop) {
        /* Both loads before either is used, so that they cost one trip. */
        abort_status = gm_load_relaxed_u64((const uint64_t *)&entry->abort);
        ((uint32_t *)&w->job)[lane] = gm_load_relaxed_u32((const uint32_t *)&entry->job + lane);
    }
    if (lane == 0) {
        w->run.entry = entry;
        w->run.share = in_slot ? 0 : gm_ticket_share(drawn.word);
        w->run.aborted = (uint32_t)abort_status;
        w->abort_status = abort_status;
        w->ticket = drawn.word;
        gm_ack(core, ticket);
    }
}

/* The entry's verdict so far: cancelled, an error from a share, or OK. */
static __device__ int32_t verdict(uint64_t abort_status)
{
    return (uint32_t)abort_status != 0 ? GM_ECANCELLED : (int32_t)(abort_status >> 32);
}

/* The end of a share, by the whole block; thread 0 counts and answers. A job of one tile has nothing to count, and its
 * verdict came with the job. */
static __device__ void finish(const struct gm_core *core, struct worker *w)
{
    const struct gm_job *job = &w->job;
    struct gm_entry *entry = w->run.entry;
    int32_t before = verdict(w->abort_status);
    if (job->shares != 1 || job->tiles > 1) {
        if (threadIdx.x == 0) {
            w->last = gm_arrive(entry, job);
            if (w->last)
                w->abort_status = gm_load_relaxed_u64((const uint64_t *)&entry->abort);
        }
        __syncthreads();
        if (!w->last)
            return;
        before = verdict(w->abort_status);
    }
    if (before == GM_OK && (job->marks & GM_MARK_FINISH)) {
        op_finish(job->op, &w->run);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const int32_t status = before != GM_OK ? before : w->run.status;
        if (status == GM_OK && job->phase + 1u < job->phases) {
            gm_arrive_next_phase(core, entry, job);
        } else {
            gm_complete(job, w->run.result, status);
            gm_inbox_push(core, gm_inbox_word(gm_inbox_answered(status), job));
        }
    }
}

static __device__ void work(const struct gm_launch *launch, struct worker *w)
{
    const struct gm_core *core = &launch->core;
    const uint32_t worker = blockIdx.x - 1u;
    const struct gm_slot_way way = gm_slot_way(gm_lane_id());
    if (threadIdx.x == 0) {
        w->run.job = &w->job;
        w->run.bulk = launch->bulk;
        gm_pipe_init(&w->run.pipe);
        w->busy_ns = core->workers_busy[worker];
    }
    for (;;) {
        if (threadIdx.x < GM_WARP)
            fetch(core, w, worker, way);
        __syncthreads();
        if (gm_ticket_entry(w->ticket) == GM_STOP_ENTRY)
            break;
        uint64_t begin = 0;
        if (threadIdx.x == 0)
            begin = gm_now_ns();
        if (threadIdx.x == GM_WARP) /* not of the first warp, whose way is the longest */
            gm_journal_worker(core, worker, w->busy_ns, w->job.lane + 1u, w->job.position);
#ifdef GM_DRILLS
        drill_job(&launch->drill, &w->job);
#endif
        op_share(w->job.op, &w->run);
        __syncthreads();
        finish(core, w);
        if (threadIdx.x == 0)
            w->busy_ns += gm_now_ns() - begin;
        __syncthreads(); /* nobody looks at this job any more */
    }
    if (threadIdx.x == 0) {
        core->workers_busy[worker] = w->busy_ns;
        gm_journal_worker(core, worker, w->busy_ns, 0, 0);
    }
}

/* At 128 registers a thread no other kernel would find room beside this one, not even the driver's own memset. */
extern "C" __global__ void __maxnreg__(GM_CUDA_REGISTERS) gm_resident(const __grid_constant__ struct gm_launch launch)
{
    __shared__ struct worker w;
    if (threadIdx.x == 0)
        gm_store_relaxed_sys_u32(&launch.checkin[blockIdx.x], launch.launch);
    if (blockIdx.x == 0)
        dispatch(&launch);
    else
        work(&launch, &w);
    /* The kernel ends as one: nobody is left waiting for a ticket when the host takes over. */
    cooperative_groups::this_grid().sync();
}

extern "C" const void *gm_kernel_address(void) { return (const void *)gm_resident; }
extern "C" uint32_t gm_kernel_shared_bytes(void) { return GM_KERNEL_SHARED; }
