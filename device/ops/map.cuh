/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that make an element of out from the elements of the same number in one input or two: units of 16 bytes where all
 * buffers have the same alignment, else element by element, which neighbouring threads still do side by side. Each
 * element is read once and written once by one thread, so that out may be an input. Bounded by the job's tiles.
 *
 * F, the op: In and Out (elements as bits), inputs (1 or 2), and operator()(a, b), whose b means nothing for one input.
 */
#ifndef GM_OPS_MAP_CUH
#define GM_OPS_MAP_CUH

#include "ops/run.cuh"

namespace
{

template <uint32_t bytes> struct map_bits;
template <> struct map_bits<1> {
    typedef unsigned char type;
};
template <> struct map_bits<2> {
    typedef unsigned short type;
};
template <> struct map_bits<4> {
    typedef unsigned int type;
};
template <> struct map_bits<8> {
    typedef uint2 type;
};
template <> struct map_bits<16> {
    typedef uint4 type;
};

/* What one access moves: E elements. */
template <typename Word, uint32_t E> union map_unit {
    typedef typename map_bits<sizeof(Word) * E>::type Bits;
    Bits v;
    Word w[E];
};

/* A number type and its bits. */
template <typename N> struct map_number {
    typedef N Word; /* of integers: themselves */
    __device__ __forceinline__ static N of(Word w) { return w; }
    __device__ __forceinline__ static Word bits(N v) { return v; }
};
template <> struct map_number<float> {
    typedef uint32_t Word;
    __device__ __forceinline__ static float of(Word w) { return __uint_as_float(w); }
    /* Every NaN that an operation makes is the quiet one without payload. */
    __device__ __forceinline__ static Word bits(float v) { return v == v ? __float_as_uint(v) : 0x7fc00000u; }
};
template <> struct map_number<double> {
    typedef uint64_t Word;
    __device__ __forceinline__ static double of(Word w) { return __longlong_as_double((long long)w); }
    __device__ __forceinline__ static Word bits(double v)
    {
        return v == v ? (Word)__double_as_longlong(v) : 0x7ff8000000000000u;
    }
};

/* count pieces of E elements; piece i is number i, but from head on it is number i + skip. */
template <class F, uint32_t E, uint32_t flight>
__device__ __forceinline__ void map_pieces(const F &f, typename F::Out *out, const typename F::In *a,
                                           const typename F::In *b, uint32_t count, uint32_t head, uint32_t skip)
{
    typedef map_unit<typename F::In, E> In;
    typedef map_unit<typename F::Out, E> Out;
#pragma unroll 1
    for (uint32_t base = threadIdx.x; base < count; base += flight * GM_CUDA_THREADS) {
        In x[flight], y[flight];
#pragma unroll
        for (uint32_t k = 0; k < flight; k++) {
            const uint32_t i = base + k * GM_CUDA_THREADS, at = i < head ? i : i + skip;
            if (i < count) {
                x[k].v = __ldcg((const typename In::Bits *)a + at);
                if constexpr (F::inputs == 2)
                    y[k].v = __ldcg((const typename In::Bits *)b + at);
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < flight; k++) {
            const uint32_t i = base + k * GM_CUDA_THREADS, at = i < head ? i : i + skip;
            Out r;
            if (i < count) {
#pragma unroll
                for (uint32_t e = 0; e < E; e++) {
                    if constexpr (F::inputs == 2)
                        r.w[e] = f(x[k].w[e], y[k].w[e]);
                    else
                        r.w[e] = f(x[k].w[e], x[k].w[e]);
                }
                __stcg((typename Out::Bits *)out + at, r.v);
            }
        }
    }
}

template <class F> __device__ __noinline__ void map_share(struct gm_run *run, F f)
{
    typedef typename F::In In;
    typedef typename F::Out Out;
    constexpr uint32_t E = 16u / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
    /* Of one input with 4 bytes an element, a whole tile: the work hides behind what is still on its way. */
    constexpr uint32_t flight = F::inputs == 2 ? 2u : E == 4u ? 8u : 4u, single = F::inputs == 2 ? 4u : 8u;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count64;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count64);
        const uint32_t count = (uint32_t)count64;
        Out *out = gm_run_buffer<Out>(run, F::inputs) + first;
        const In *a = gm_run_buffer<const In>(run, 0) + first, *b = gm_run_buffer<const In>(run, F::inputs - 1) + first;
        const uint32_t before = (uint32_t)((0u - (uintptr_t)out & (sizeof(Out) * E - 1u)) / sizeof(Out));
        const uintptr_t off = ((uintptr_t)(a + before) | (uintptr_t)(b + before)) & (sizeof(In) * E - 1u);
        const uint32_t head = off != 0 || before > count ? count : before;
        const uint32_t units = (count - head) / E, body = units * E;
        map_pieces<F, E, flight>(f, out + head, a + head, b + head, units, units, 0);
        map_pieces<F, 1u, single>(f, out, a, b, count - body, head, body);
    }
}

/* Calls f with a zero of the type in which the job's elements are computed: sums and products of integers wrap, so both
 * of a width are alike. */
template <class F> __device__ __forceinline__ void map_wrapping(const struct gm_run *run, F f)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
    case GM_DTYPE_u32:
        f(uint32_t());
        break;
    case GM_DTYPE_i64:
    case GM_DTYPE_u64:
        f(uint64_t());
        break;
    case GM_DTYPE_f32:
        f(float());
        break;
    case GM_DTYPE_f64:
        f(double());
        break;
    }
}

} // namespace

#endif
