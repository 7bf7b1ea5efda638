/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tile function of the CUDA backend sees: run.h for a block. All threads of the block call everything here
 * together, unless a comment says one thread. The struct lives in shared memory; thread 0 alone writes it.
 */
#ifndef GM_OPS_RUN_CUH
#define GM_OPS_RUN_CUH

#include "core/core.h"
#include "ops/tile.h"

/* Threads of a block: a constant of the build, because block-wide pieces are unrolled by it. */
#ifndef GM_CUDA_THREADS
#define GM_CUDA_THREADS 512
#endif
#define GM_BLOCK_WARPS (GM_CUDA_THREADS / 32)

/* Dynamic shared memory that an op may use as it likes: the stages of pipeline.cuh and some room beside them. */
#define GM_BLOCK_SCRATCH (130u * 1024u)

/* Reserved for pipeline.cuh for the life of the kernel: mbarriers must not lie in memory that is used for anything
 * else. parity: of the phase that each one is in. */
#define GM_PIPE_STAGES 4
struct gm_pipe {
    uint64_t full[GM_PIPE_STAGES];  /* the bytes of a stage have come */
    uint64_t empty[GM_PIPE_STAGES]; /* every warp has read them */
    uint64_t tile[GM_PIPE_STAGES]; /* whose bytes a stage holds */
    uint32_t parity;
};

struct gm_run {
    const struct gm_job *job; /* this block's copy, in shared memory */
    struct gm_entry *entry;
    uint32_t share;
    uint32_t bulk;    /* bulk copies may be used (sm_90 and not forced off) */
    uint32_t aborted; /* the abort word when the share began */
    int32_t status;   /* like result: what finish, or the only share of a job of one tile, has to say */
    uint64_t result;
    uint64_t tile[2]; /* what the block is told, alternately, so that one barrier a tile is enough */
    struct gm_pipe pipe;
};

#ifdef __CUDACC__

/* A share's way through its tiles, in registers. */
struct gm_tiles {
    uint64_t ahead; /* thread 0: the next tile, asked for while this one is worked on */
    uint32_t abort; /* thread 0: the abort word, looked at with it */
    uint32_t turn;
};

/* Asks for the next tile; the answer is not waited for. Thread 0. */
__device__ __forceinline__ void gm_tiles_ask(const struct gm_run *run, struct gm_tiles *tiles)
{
    tiles->ahead = gm_fetch_add_relaxed_u64(&run->entry->next_tile, 1);
    tiles->abort = gm_load_relaxed_u32(&run->entry->abort);
}

/* The share's next tile: its own number first, then from the job's counter. False at the end, and as soon as the job
 * is aborted; the share then simply returns and arrives. A barrier between two tiles; none before the first, and none
 * where every share has one tile. */
__device__ __forceinline__ bool gm_run_next_tile(struct gm_run *run, struct gm_tiles *tiles, uint64_t *tile)
{
    const struct gm_job *job = run->job;
    const bool counted = job->tiles > job->shares;
    if (tiles->turn == 0) {
        *tile = run->share;
        if (run->aborted != 0 || run->share >= job->tiles)
            return false;
    } else {
        if (!counted)
            return false;
        if (threadIdx.x == 0)
            run->tile[tiles->turn & 1u] = tiles->abort != 0 ? UINT64_MAX : tiles->ahead;
        __syncthreads();
        *tile = run->tile[tiles->turn & 1u];
        if (*tile >= job->tiles)
            return false;
    }
    tiles->turn++;
    if (counted && threadIdx.x == 0)
        gm_tiles_ask(run, tiles);
    return true;
}

/* First element and count of a tile. */
__device__ __forceinline__ uint64_t gm_run_tile(const struct gm_run *run, uint64_t tile, uint64_t *count)
{
    const struct gm_job *job = run->job;
    const uint64_t first = tile * job->tile_elements, left = job->n - first;
    *count = left < job->tile_elements ? left : job->tile_elements;
    return first;
}

template <typename T> __device__ __forceinline__ T *gm_run_buffer(const struct gm_run *run, uint32_t i)
{
    return (T *)run->job->address[i];
}

/* The first GM_BLOCK_SCRATCH bytes of the block's dynamic shared memory. By its name, not through a pointer in gm_run,
 * so that the compiler knows that it is shared memory. */
template <typename T> __device__ __forceinline__ T *gm_run_scratch(uint32_t offset)
{
    return (T *)(gm_dynamic + offset);
}

/* Arguments that only some jobs have, and none that lies in its slot; of the others they are 0, and the entry holds
 * what an earlier job left. */
__device__ __forceinline__ uint64_t gm_run_value2(const struct gm_run *run)
{
    return run->job->marks & GM_MARK_MORE ? gm_load_relaxed_u64(&run->entry->more[0]) : 0;
}
__device__ __forceinline__ uint64_t gm_run_value3(const struct gm_run *run)
{
    return run->job->marks & GM_MARK_MORE ? gm_load_relaxed_u64(&run->entry->more[1]) : 0;
}
__device__ __forceinline__ uint32_t gm_run_count2(const struct gm_run *run)
{
    return run->job->marks & GM_MARK_MORE ? gm_load_relaxed_u32(&run->entry->count2) : 0;
}

/* Reports an error from a share; the first one becomes the job's status. One thread. */
__device__ __forceinline__ void gm_run_fail(struct gm_run *run, int32_t status)
{
    const struct gm_job *job = run->job;
    uint32_t *word = (uint32_t *)&run->entry->status;
    if (job->shares == 1 && job->tiles <= 1) { /* nobody looks at the entry again */
        if (run->status == 0)
            run->status = status;
    } else if (gm_load_relaxed_u32(word) == 0) {
        gm_store_relaxed_u32(word, (uint32_t)status);
    }
}

#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    __device__ void gm_op_##name##_share(struct gm_run *run);                                                          \
    __device__ void gm_op_##name##_finish(struct gm_run *run);
#include "ops.def"
#undef OP

#endif /* __CUDACC__ */
#endif
