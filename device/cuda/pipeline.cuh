/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming reads by bulk copies: the tiles of a share come through shared memory in chunks of 32 KB, several in
 * flight, each completing on an mbarrier of its stage; a second mbarrier counts the warps that have read it, so that
 * warps need not keep step. Thread 0 asks for tiles and starts copies, all threads consume. sm_90 and later; ops have
 * a complete path of plain loads beside it. Bounded by the job's tiles.
 *
 * Copies move whole granules of 16 bytes. The granules at the ends of a chunk that does not begin or end on one hold
 * a few bytes of its neighbours: they are in the same arena, because arenas begin and end on pages, and nobody looks.
 */
#ifndef GM_CUDA_PIPELINE_CUH
#define GM_CUDA_PIPELINE_CUH

#include "ops/run.cuh"

#define GM_PIPE_CHUNK  32768u
#define GM_PIPE_STRIDE (GM_PIPE_CHUNK + 128u) /* room for the granule that a chunk off the grid begins in */
#define GM_PIPE_BYTES  (GM_PIPE_STAGES * GM_PIPE_STRIDE)
#define GM_PIPE_ROOM   1536u /* behind the stages, for what the op combines */
static_assert(GM_PIPE_BYTES + GM_PIPE_ROOM <= GM_BLOCK_SCRATCH, "both fit");

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GM_HAVE_BULK 1
#include <cuda/ptx>
#endif

/* Once in the life of the kernel, by one thread, before the block's first barrier. */
__device__ __forceinline__ void gm_pipe_init(struct gm_pipe *pipe)
{
    pipe->parity = 0;
#ifdef GM_HAVE_BULK
    for (int i = 0; i < GM_PIPE_STAGES; i++) {
        cuda::ptx::mbarrier_init(&pipe->full[i], 1);
        cuda::ptx::mbarrier_init(&pipe->empty[i], GM_BLOCK_WARPS);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
#endif
}

#ifdef GM_HAVE_BULK

struct gm_chunk {
    uint64_t tile;
    uint32_t index;       /* of the chunk in its tile */
    uint32_t bytes;
    bool last;            /* of its tile */
    const uint8_t *data;  /* shared memory; the address has the alignment that the bytes have in global memory */
};

struct gm_reader {
    struct gm_run *run;
    const uint8_t *from;
    uint64_t tile_bytes, bytes;
    struct gm_tiles tiles;  /* thread 0 */
    uint64_t tile;          /* thread 0: being copied */
    uint32_t chunk;         /* thread 0: its next chunk */
    uint32_t put, ended;    /* thread 0: next stage to fill; the end was put into one */
    uint32_t get, parity, index;
    bool begun;             /* thread 0: a chunk has been read, so its stage waits to be filled */
};

__device__ __forceinline__ uint64_t gm_reader_tile_bytes(const struct gm_reader *r, uint64_t tile)
{
    const uint64_t left = r->bytes - tile * r->tile_bytes;
    return left < r->tile_bytes ? left : r->tile_bytes;
}

/* Starts the next chunk into the next stage, or says there that no more come. Thread 0. */
__device__ __forceinline__ void gm_reader_put(struct gm_reader *r)
{
    namespace ptx = cuda::ptx;
    struct gm_pipe *pipe = &r->run->pipe;
    uint64_t *full = &pipe->full[r->put];
    if (r->ended)
        return;
    pipe->tile[r->put] = r->tile;
    if (r->tile == UINT64_MAX) {
        r->ended = 1;
        ptx::mbarrier_arrive(full);
        return;
    }
    const uint64_t all = gm_reader_tile_bytes(r, r->tile), at = (uint64_t)r->chunk * GM_PIPE_CHUNK;
    const uint8_t *begin = r->from + r->tile * r->tile_bytes + at;
    const uint8_t *end = begin + (all - at < GM_PIPE_CHUNK ? all - at : GM_PIPE_CHUNK);
    const uint8_t *first = (const uint8_t *)((uintptr_t)begin & ~(uintptr_t)15);
    const uint32_t size = (uint32_t)((((uintptr_t)end + 15u) & ~(uintptr_t)15) - (uintptr_t)first);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, size);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, gm_run_scratch<uint8_t>(r->put * GM_PIPE_STRIDE),
                       first, size, full);
    r->put = r->put + 1u == GM_PIPE_STAGES ? 0 : r->put + 1u;
    r->chunk++;
    if (at + GM_PIPE_CHUNK >= all) {
        const uint64_t next = r->tiles.ahead;
        const bool more = next < r->run->job->tiles && r->tiles.abort == 0;
        r->tile = more ? next : UINT64_MAX;
        r->chunk = 0;
        if (more)
            gm_tiles_ask(r->run, &r->tiles);
    }
}

/* Whole block. The scratch below GM_PIPE_BYTES is the reader's until gm_reader_close. */
__device__ __forceinline__ void gm_reader_open(struct gm_reader *r, struct gm_run *run, const void *from,
                                               uint32_t element)
{
    r->run = run;
    r->from = (const uint8_t *)from;
    r->tile_bytes = run->job->tile_elements * element;
    r->bytes = run->job->n * element;
    r->tile = run->aborted != 0 || run->share >= run->job->tiles ? UINT64_MAX : run->share;
    r->chunk = r->put = r->ended = r->get = r->index = 0;
    r->begun = false;
    r->parity = run->pipe.parity;
    __syncthreads(); /* everyone is done with the scratch, and has read parity */
    if (threadIdx.x == 0) {
        gm_tiles_ask(run, &r->tiles);
        /* What was written by ordinary stores, here to the scratch and anywhere to the input, before it is read or
         * overwritten by the copies. */
        cuda::ptx::fence_proxy_async();
        for (int i = 0; i < GM_PIPE_STAGES; i++)
            gm_reader_put(r);
    }
}

/* Waits for the next chunk; false at the end. Whole block. */
__device__ __forceinline__ bool gm_reader_get(struct gm_reader *r, struct gm_chunk *chunk)
{
    struct gm_pipe *pipe = &r->run->pipe;
    while (!cuda::ptx::mbarrier_try_wait_parity(&pipe->full[r->get], r->parity >> r->get & 1u)) {
    }
    r->parity ^= 1u << r->get;
    chunk->tile = pipe->tile[r->get];
    if (chunk->tile == UINT64_MAX)
        return false;
    const uint64_t all = gm_reader_tile_bytes(r, chunk->tile), at = (uint64_t)r->index * GM_PIPE_CHUNK;
    const uint64_t left = all - at, begin = (uint64_t)(uintptr_t)r->from + chunk->tile * r->tile_bytes + at;
    chunk->index = r->index;
    chunk->last = left <= GM_PIPE_CHUNK;
    chunk->bytes = chunk->last ? (uint32_t)left : GM_PIPE_CHUNK;
    chunk->data = gm_run_scratch<uint8_t>(r->get * GM_PIPE_STRIDE) + (begin & 15u);
    r->index = chunk->last ? 0 : r->index + 1u;
    return true;
}

/* The chunk has been read by this thread. Its stage is filled again one chunk later, when the other warps will have
 * read it too. Whole block, but no barrier. */
__device__ __forceinline__ void gm_reader_done(struct gm_reader *r)
{
    namespace ptx = cuda::ptx;
    struct gm_pipe *pipe = &r->run->pipe;
    __syncwarp();
    if ((threadIdx.x & 31u) == 0)
        ptx::mbarrier_arrive(&pipe->empty[r->get]); /* release: pairs with the wait below */
    r->get = r->get + 1u == GM_PIPE_STAGES ? 0 : r->get + 1u;
    if (threadIdx.x != 0)
        return;
    if (r->begun && !r->ended) {
        /* Full and empty have completed equally often; this thread has passed the phase that it waits for here. */
        while (!ptx::mbarrier_try_wait_parity(&pipe->empty[r->put], (r->parity >> r->put & 1u) ^ 1u)) {
        }
        gm_reader_put(r);
    }
    r->begun = true;
}

/* After gm_reader_get said false. A barrier. Whole block. */
__device__ __forceinline__ void gm_reader_close(struct gm_reader *r)
{
    /* The stage that held the end counts as read, so that both mbarriers stay in step. */
    if ((threadIdx.x & 31u) == 0)
        cuda::ptx::mbarrier_arrive(&r->run->pipe.empty[r->get]);
    if (threadIdx.x == 0)
        r->run->pipe.parity = r->parity;
    __syncthreads();
}

#endif /* GM_HAVE_BULK */
#endif
