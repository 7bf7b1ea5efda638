/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil5 on blocks: see stencil.cuh for the way. The grid is cut into parts of some columns and rows, as many
 * elements as a tile or less, so that of those above and below most are in the same thread; a tile number is that of a
 * part, and of those that lie as many as there are tiles behind it. Narrow grids are done as the flat array, in tiles,
 * by five reads an element. The weights are read once a share.
 */
#include "ops/stencil.cuh"

namespace
{

template <typename N> struct stencil5 {
    typedef map_number<N> Number;
    typedef typename Number::Word Word;
    N center, west, east, north, south;

    __device__ __forceinline__ Word point(Word x, Word w, Word e, Word above, Word below) const
    {
        N sum = stencil_product(center, Number::of(x));
        sum = stencil_fused(west, Number::of(w), sum);
        sum = stencil_fused(east, Number::of(e), sum);
        sum = stencil_fused(north, Number::of(above), sum);
        return Number::bits(stencil_fused(south, Number::of(below), sum));
    }
};

/* How the grid is cut, in pieces of E elements. */
template <typename Word, uint32_t E> struct stencil5_cut {
    /* Rows of a thread: as many as its registers hold. */
    static constexpr uint32_t deep = STENCIL_PIECES * (E == 1u ? 2u : 1u) * 4u / (uint32_t)sizeof(Word);
    uint64_t width, rows, row; /* width: in pieces; row: in elements */
    uint64_t strips, parts;
    uint32_t span, high;    /* pieces and rows of a part */
    uint32_t column, below; /* of this thread in a part */
    bool idle;

    /* Where a row does not fit the block's threads, a part ends with a warp: see stencil_piece. */
    __device__ __forceinline__ stencil5_cut(const struct gm_job *job)
    {
        row = job->value[0];
        rows = job->n / row;
        width = row / E;
        strips = (width + GM_CUDA_THREADS - 1u) / GM_CUDA_THREADS;
        span = (uint32_t)((width + strips - 1u) / strips);
        if (strips > 1u)
            span = (span + 31u) & ~31u;
        const uint32_t groups = GM_CUDA_THREADS / span, group = threadIdx.x / span;
        high = groups * deep;
        parts = strips * ((rows + high - 1u) / high);
        column = threadIdx.x % span;
        below = group * deep;
        idle = group >= groups;
    }
};

template <typename N, uint32_t E>
__device__ __forceinline__ void stencil5_part(const struct gm_run *run, const stencil5<N> &s,
                                              const stencil5_cut<typename map_number<N>::Word, E> &cut, uint64_t part)
{
    typedef typename map_number<N>::Word Word;
    typedef stencil_piece<Word, E> Piece;
    typedef typename Piece::Unit Unit;
    constexpr uint32_t deep = stencil5_cut<Word, E>::deep;
    const uint64_t top = part / cut.strips * cut.high, first = top + cut.below;
    const uint64_t column = part % cut.strips * cut.span + cut.column;
    const uint64_t here = cut.rows - top < cut.high ? cut.rows - top : cut.high; /* rows of the part */
    const uint64_t most = cut.rows - top < deep + 1u ? cut.rows - top : deep + 1u;
    const bool none = cut.idle || column >= cut.width || cut.below >= here;
    const uint32_t own_rows = none ? 0 : (uint32_t)(cut.rows - first < deep + 1u ? cut.rows - first : deep + 1u);
    const uint64_t at = first * cut.row + column * E;
    Unit x[deep + 2u];
    typename Piece::Side side[deep];
    const Word *in = gm_run_buffer<const Word>(run, 0) + at;
    x[0] = !none && first != 0 ? Piece::load(in - cut.row) : Piece::nothing();
#pragma unroll
    for (uint32_t k = 0; k <= deep; k++) { /* one row more than are written */
        x[k + 1u] = k < own_rows ? Piece::load(in) : Piece::nothing();
        if (k < deep)
            side[k] = Piece::side(in, k < own_rows && column != 0, k < own_rows && column + 1u < cut.width);
        in += cut.row;
    }
    Word *out = gm_run_buffer<Word>(run, 2) + at;
#pragma unroll
    for (uint32_t k = 0; k < deep; k++) {
        if (k >= most) /* no thread has such a row */
            break;
        const Unit &own = x[k + 1u];
        Word before, behind;
        Unit r;
        Piece::beside(own, side[k], &before, &behind);
        before = column != 0 ? before : 0;
        behind = column + 1u < cut.width ? behind : 0;
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            r.w[e] = s.point(own.w[e], e != 0 ? own.w[e - 1u] : before, e + 1u != E ? own.w[e + 1u] : behind, x[k].w[e],
                             x[k + 2u].w[e]);
        if (k < own_rows)
            __stcg((typename Unit::Bits *)out, r.v);
        out += cut.row;
    }
}

template <typename N, uint32_t E> __device__ __noinline__ void stencil5_grid(struct gm_run *run, stencil5<N> s)
{
    const stencil5_cut<typename map_number<N>::Word, E> cut(run->job);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    while (gm_run_next_tile(run, &tiles, &tile))
#pragma unroll 1
        for (uint64_t part = tile; part < cut.parts; part += run->job->tiles)
            stencil5_part<N, E>(run, s, cut, part);
}

template <typename N> __device__ __noinline__ void stencil5_flat(struct gm_run *run, stencil5<N> s)
{
    typedef typename map_number<N>::Word Word;
    constexpr uint32_t flight = 4;
    const uint64_t width = run->job->value[0], n = run->job->n, step = GM_CUDA_THREADS % width;
    const Word *in = gm_run_buffer<const Word>(run, 0);
    Word *out = gm_run_buffer<Word>(run, 2);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t end = gm_run_tile(run, tile, &count) + count;
        uint64_t column = (end - count + threadIdx.x) % width;
#pragma unroll 1
        for (uint64_t base = end - count + threadIdx.x; base < end; base += flight * GM_CUDA_THREADS) {
            Word x[flight], west[flight], east[flight], north[flight], south[flight];
#pragma unroll
            for (uint32_t k = 0; k < flight; k++) {
                const uint64_t i = base + k * GM_CUDA_THREADS;
                x[k] = i < end ? gm_global_load(in + i) : 0;
                west[k] = i < end && column != 0 ? gm_global_load(in + i - 1u) : 0;
                east[k] = i < end && column + 1u != width ? gm_global_load(in + i + 1u) : 0;
                north[k] = i < end && i >= width ? gm_global_load(in + i - width) : 0;
                south[k] = i < end && n - i > width ? gm_global_load(in + i + width) : 0;
                column += step;
                column -= column >= width ? width : 0;
            }
#pragma unroll
            for (uint32_t k = 0; k < flight; k++)
                if (base + k * GM_CUDA_THREADS < end)
                    out[base + k * GM_CUDA_THREADS] = s.point(x[k], west[k], east[k], north[k], south[k]);
        }
    }
}

template <typename N> __device__ __forceinline__ void stencil5_share(struct gm_run *run)
{
    typedef map_number<N> Number;
    typedef typename Number::Word Word;
    constexpr uint32_t E = 16u / sizeof(Word);
    const Word *w = gm_run_buffer<const Word>(run, 1);
    const stencil5<N> s = {Number::of(gm_global_load(w)), Number::of(gm_global_load(w + 1)),
                           Number::of(gm_global_load(w + 2)), Number::of(gm_global_load(w + 3)),
                           Number::of(gm_global_load(w + 4))};
    const uint64_t width = run->job->value[0], bytes = width * sizeof(Word);
    if (bytes < 128u) /* less than a line of memory */
        stencil5_flat<N>(run, s);
    else if (((run->job->address[0] | run->job->address[2] | bytes) & 15u) == 0)
        stencil5_grid<N, E>(run, s);
    else
        stencil5_grid<N, 1u>(run, s);
}

} // namespace

__device__ void gm_op_stencil5_share(struct gm_run *run)
{
    map_wrapping(run, [run](auto zero) { stencil5_share<decltype(zero)>(run); });
}

__device__ void gm_op_stencil5_finish(struct gm_run *run)
{
    (void)run;
}
