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

/* The lengths of the runs that end where those of this tile begin, by the block; behind a barrier. have: runs of this
 * tile whose starts are there, of the room that it owns from place `begin` on. start: of the run before them. */
__device__ __forceinline__ void runs_lengths(const struct gm_run *run, uint64_t begin, uint32_t room, uint32_t have,
                                             uint64_t first, uint64_t start, bool last)
{
    const uint16_t *starts = gm_run_scratch<const uint16_t>(runs_starts);
    uint64_t *lengths = gm_run_buffer<uint64_t>(run, 2);
    for (uint32_t i = threadIdx.x; i < room; i += GM_CUDA_THREADS) {
        const uint64_t from = i == 0 ? start : first + starts[i - 1u];
        if (begin + i != 0)
            lengths[begin + i - 1u] = i < have ? first + starts[i] - from : 0;
    }
    if (last && threadIdx.x == 0 && begin + room != 0)
        lengths[begin + room - 1u] = run->job->n - (have != 0 ? first + starts[have - 1u] : start);
}

template <class R> __device__ __forceinline__ void runs_move(struct gm_run *run, const R &rule, uint64_t tile)
{
    typedef typename R::Word Word;
    selector<R, runs_packs> s(run, rule);
    struct gm_places kept, others;
    uint32_t all;
    s.load(tile);
    s.counts();
    uint32_t before = s.before(&all);
    select_places(run, tile, s.first, s.count, all, &kept, &others);
    const select_stage<Word> values(gm_run_buffer<Word>(run, 1), kept, s.count, runs_values);
    uint16_t *starts = gm_run_scratch<uint16_t>(runs_starts);
#pragma unroll 1
    for (int k = 0; k < runs_packs && s.has_row(k); k++) {
        const uint4 v = s.pack(k);
        const uint32_t flags = s.judge(k, v);
        uint32_t in_row, at = before + select_rank<s.E>(flags, &in_row);
        before += in_row;
#pragma unroll
        for (uint32_t e = 0; e < s.E; e++) {
            const bool is = flags >> e & 1u;
            if (is && at < values.room) {
                values.put(at, select_element<Word>(v, (int)e));
                starts[at] = (uint16_t)(s.at(k) + e);
            }
            at += is;
        }
    }
    values.close(all);
    __syncthreads();
    values.store();
    const uint64_t start = run->job->phases == 1 ? 0 : select_kept(run->job, tile).start;
    runs_lengths(run, kept.next, values.room, min(all, values.room), s.first, start, tile + 1u == run->job->tiles);
}

template <class R> __device__ __noinline__ void runs_share(struct gm_run *run, R rule)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        if (run->job->phase + 1u < run->job->phases) {
            selector<R, runs_packs> s(run, rule);
            s.load(tile);
            s.counts();
            s.put_counts(tile);
        } else {
            runs_move<R>(run, rule, tile);
        }
    }
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
