/* SPDX-License-Identifier: Apache-2.0
 *
 * run_length on blocks: runs begin where unique keeps an element. See select.cuh for the way, and run_length.c for
 * which tile writes which lengths.
 */
#include "ops/select.cuh"

namespace
{

constexpr int runs_packs = GM_TILE_BYTES_run_length / 16 / GM_CUDA_THREADS;
static_assert(runs_packs * 16 * GM_CUDA_THREADS == GM_TILE_BYTES_run_length, "every thread has as many");
static_assert(GM_TILE_BYTES_run_length <= 65536, "a position in a tile has 16 bits");
constexpr uint32_t runs_values = select_out(GM_TILE_BYTES_run_length);
constexpr uint32_t runs_starts = runs_values + GM_TILE_BYTES_run_length + 64u; /* of runs, behind their values */
static_assert(runs_starts + GM_TILE_BYTES_run_length * 2u <= GM_BLOCK_SCRATCH, "fits");

/* The lengths of the runs that end where those of this tile begin, by the block; behind a barrier. room: how many begin
 * in it, from place `begin` on. start: of the run before them. */
__device__ __forceinline__ void runs_lengths(const struct gm_run *run, uint64_t begin, uint32_t room, uint64_t first,
                                             uint64_t start, bool last)
{
    const uint16_t *starts = gm_run_scratch<const uint16_t>(runs_starts);
    uint64_t *lengths = gm_run_buffer<uint64_t>(run, 2);
    for (uint32_t i = threadIdx.x; i < room; i += GM_CUDA_THREADS) {
        const uint64_t from = i == 0 ? start : first + starts[i - 1u];
        if (begin + i != 0)
            lengths[begin + i - 1u] = first + starts[i] - from;
    }
    if (last && threadIdx.x == 0 && begin + room != 0)
        lengths[begin + room - 1u] = run->job->n - (room != 0 ? first + starts[room - 1u] : start);
}

/* For select_write. */
struct runs_kept {
    static constexpr bool starts = true;
    template <class R, int PACKS>
    __device__ __forceinline__ static void move(const selector<R, PACKS> &s, uint64_t tile, const select_state &before,
                                                uint32_t in_tile, uint32_t all)
    {
        typedef typename R::Word Word;
        constexpr uint32_t E = selector<R, PACKS>::E;
        const struct gm_job *job = s.run->job;
        const struct gm_places kept = gm_places_make(before.kept, all, job->n);
        const select_stage<Word> values(gm_run_buffer<Word>(s.run, 1), kept, s.count, runs_values);
        uint16_t *starts_of = gm_run_scratch<uint16_t>(runs_starts);
#pragma unroll select_at_once
        for (uint32_t k = 0; k < PACKS; k++) {
            if (!s.has_row(k))
                continue;
            const uint4 v = s.pack(k);
            const uint32_t is_kept = s.kept.get(k);
            uint32_t at = in_tile + s.in_front.get(k);
            in_tile += s.in_row.get(k);
#pragma unroll
            for (uint32_t e = 0; e < E; e++) {
                const bool is = is_kept >> e & 1u;
                if (is && at < values.room) {
                    values.put(at, select_element<Word>(v, (int)e));
                    starts_of[at] = (uint16_t)(s.at(k) + e);
                }
                at += is;
            }
        }
        __syncthreads();
        values.store();
        runs_lengths(s.run, kept.next, values.room, s.first, before.start != 0 ? before.start - 1u : 0,
                     tile + 1u == job->tiles);
    }
};

template <class R> __device__ __forceinline__ void runs_share(struct gm_run *run, const R &rule)
{
    select_share<R, runs_packs, runs_kept>(run, rule);
}

} // namespace

__device__ void gm_op_run_length_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_f32:
        runs_share(run, select_starts<uint32_t, true>());
        break;
    case GM_DTYPE_f64:
        runs_share(run, select_starts<uint64_t, true>());
        break;
    case GM_DTYPE_u8:
        runs_share(run, select_starts<uint8_t, false>());
        break;
    case GM_DTYPE_i32:
    case GM_DTYPE_u32:
        runs_share(run, select_starts<uint32_t, false>());
        break;
    default:
        runs_share(run, select_starts<uint64_t, false>());
        break;
    }
}

__device__ void gm_op_run_length_finish(struct gm_run *run) { select_finish(run); }
