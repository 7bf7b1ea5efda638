/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated blocks themselves: collectives give what CUDA says, whatever the order of threads, and what hangs or is
 * undefined on a GPU is told apart from what is not. Small kernels, one thread.
 */
#include "vocabulary.h"

#include "bulk.h"

#include <setjmp.h>
#include <stdarg.h>

extern "C" {
#include <cmocka.h>
}

#define SCRATCH 65536u

namespace
{

uint32_t seen[GM_SIMT_BLOCKS][GM_SIMT_THREADS];
uint32_t word;
char text[1024];

uint32_t *shared_words()
{
    return (uint32_t *)gm_dynamic;
}

/* Empty text: it ran to its end. */
const char *run(void (*kernel)(void *), gm_simt_order order, uint32_t blocks = 1, uint64_t seed = 1)
{
    const struct gm_simt_launch launch = {blocks, order, seed, kernel, {}, NULL};
    text[0] = 0;
    memset(seen, 0, sizeof seen);
    word = 0;
    if (gm_simt_launch(&launch, text, sizeof text))
        assert_string_equal(text, "");
    return text;
}

void check_runs(void (*kernel)(void *), uint32_t blocks = 1)
{
    for (uint32_t order = 0; order < GM_SIMT_ORDERS; order++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            assert_string_equal(run(kernel, (gm_simt_order)order, blocks, seed), "");
}

/* Under every order it ends with these words. */
void check_fails(void (*kernel)(void *), const char *words)
{
    for (uint32_t order = 0; order < GM_SIMT_ORDERS; order++)
        if (strstr(run(kernel, (gm_simt_order)order), words) == NULL)
            fail_msg("order %u: '%s' does not say '%s'", order, text, words);
}

uint32_t lane()
{
    return threadIdx.x & 31u;
}

void check(bool right, int line)
{
    if (!right)
        gm_simt_fail("line %d", line);
}
#define CHECK(what) check(what, __LINE__)

/* ---- what collectives give ---- */

void shuffles(void *)
{
    const uint32_t l = lane(), v = l * 3u + 1u;
    CHECK(__shfl_sync(GM_SIMT_FULL, v, 5) == 16u);
    CHECK(__shfl_sync(GM_SIMT_FULL, v, (int)(l + 1u)) == (l + 1u) % 32u * 3u + 1u);
    CHECK(__shfl_sync(GM_SIMT_FULL, v, 1, 8) == (l / 8u * 8u + 1u) * 3u + 1u);
    CHECK(__shfl_up_sync(GM_SIMT_FULL, v, 4u) == (l >= 4u ? v - 12u : v));
    CHECK(__shfl_up_sync(GM_SIMT_FULL, v, 3u, 16) == (l % 16u >= 3u ? v - 9u : v));
    CHECK(__shfl_down_sync(GM_SIMT_FULL, v, 4u) == (l < 28u ? v + 12u : v));
    CHECK(__shfl_down_sync(GM_SIMT_FULL, v, 3u, 16) == (l % 16u < 13u ? v + 9u : v));
    CHECK(__shfl_xor_sync(GM_SIMT_FULL, v, 9) == (l ^ 9u) * 3u + 1u);
    const double d = __shfl_xor_sync(GM_SIMT_FULL, (double)l + 0.25, 16);
    CHECK(d == (double)(l ^ 16u) + 0.25);
    const unsigned long long wide = ((unsigned long long)l << 40) + 7u;
    CHECK(__shfl_down_sync(GM_SIMT_FULL, wide, 1u) == ((unsigned long long)(l < 31u ? l + 1u : l) << 40) + 7u);
}

void votes(void *)
{
    const uint32_t l = lane();
    int all = 1;
    CHECK(__ballot_sync(GM_SIMT_FULL, l % 3u == 0) == 0x49249249u);
    CHECK(__any_sync(GM_SIMT_FULL, l == 31u) && !__any_sync(GM_SIMT_FULL, l == 32u));
    CHECK(__all_sync(GM_SIMT_FULL, l < 32u) && !__all_sync(GM_SIMT_FULL, l < 31u));
    CHECK(__match_any_sync(GM_SIMT_FULL, l / 8u) == 0xffu << l / 8u * 8u);
    CHECK(__match_all_sync(GM_SIMT_FULL, 7u, &all) == GM_SIMT_FULL && all != 0);
    CHECK(__match_all_sync(GM_SIMT_FULL, l, &all) == 0 && all == 0);
    CHECK(__reduce_add_sync(GM_SIMT_FULL, l) == 496u && __reduce_max_sync(GM_SIMT_FULL, -(int)l) == 0);
    CHECK(__reduce_min_sync(GM_SIMT_FULL, -(int)l) == -31 && __reduce_xor_sync(GM_SIMT_FULL, 1u << l) == GM_SIMT_FULL);
    CHECK(__syncthreads_count(threadIdx.x < 100u) == 100 && __syncthreads_or(threadIdx.x == 511u) != 0);
    CHECK(__syncthreads_and(threadIdx.x != 0) == 0 && __syncthreads_and(1) != 0);
}

/* Parts of a warp in two branches, each with its own mask, and together again. */
void halves(void *)
{
    uint32_t sum;
    if (lane() < 8u)
        sum = __reduce_add_sync(0x000000ffu, 1u) + __shfl_sync(0x000000ffu, lane(), 7);
    else
        sum = __reduce_add_sync(0xffffff00u, 1u) + __shfl_sync(0xffffff00u, lane(), 31);
    CHECK(sum == (lane() < 8u ? 15u : 55u));
    CHECK(__ballot_sync(GM_SIMT_FULL, 1) == GM_SIMT_FULL);
}

void collectives_give_what_cuda_says(void **)
{
    check_runs(shuffles);
    check_runs(votes);
    check_runs(halves);
}

void arithmetic(void *)
{
    CHECK(__ffs(0) == 0 && __ffs(8) == 4 && __clz(0) == 32 && __clz(1) == 31 && __clzll(1) == 63 && __popc(7u) == 3);
    CHECK(__funnelshift_r(0x11223344u, 0x55667788u, 8) == 0x88112233u && __brev(1u) == 0x80000000u);
    CHECK(__funnelshift_l(0x11223344u, 0x55667788u, 8) == 0x66778811u &&
          __byte_perm(0x33221100u, 0, 0x0123) == 0x112233u);
    CHECK(__umulhi(0xffffffffu, 2u) == 1u && __umul64hi(~0ull, 3ull) == 2u);
    CHECK(__float2int_rz(3e9f) == INT32_MAX && __float2int_rz(NAN) == 0 && __double2ll_rz(NAN) == INT64_MIN);
    CHECK(__double2uint_rz(-1.0) == 0 && __double2int_rn(2.5) == 2 && __double2ull_rz(1e30) == UINT64_MAX);
    CHECK(__float_as_uint(__fadd_rn(INFINITY, -INFINITY)) == 0x7fffffffu && __hiloint2double(0x3ff00000, 0) == 1.0);
    CHECK(__fmaf_rn(1.0f + FLT_EPSILON, 1.0f + FLT_EPSILON, -1.0f) == 2 * FLT_EPSILON + FLT_EPSILON * FLT_EPSILON);
    const uint32_t before = atomicAdd(&word, 1u);
    CHECK(before < GM_SIMT_THREADS);
    __syncthreads();
    CHECK(word == GM_SIMT_THREADS && atomicCAS(&seen[1][threadIdx.x], 0u, 5u) == 0 && seen[1][threadIdx.x] == 5u);
    CHECK(atomicMax(&seen[1][threadIdx.x], 9u) == 5u && atomicExch(&seen[1][threadIdx.x], 2u) == 9u);
}

void arithmetic_is_cudas(void **)
{
    check_runs(arithmetic);
}

/* ---- what must fail ---- */

void two_barriers(void *)
{
    if (threadIdx.x < 32u)
        __syncthreads();
    else
        __syncthreads();
}
void barrier_in_a_branch(void *)
{
    if (threadIdx.x < 32u)
        __syncthreads();
}
void returns_early(void *)
{
    if (threadIdx.x == 77u)
        return;
    __syncthreads();
}
void lane_never_comes(void *)
{
    if (lane() != 3u)
        __syncwarp();
    __syncthreads();
}
void reads_a_lane_that_is_not_there(void *)
{
    if (lane() < 16u)
        (void)__shfl_sync(0x0000ffffu, 1, 20);
}
void names_others_only(void *)
{
    (void)__ballot_sync(0xfffffffeu, 1);
}
void meets_another_collective(void *)
{
    if (lane() < 16u)
        (void)__any_sync(GM_SIMT_FULL, 1);
    else
        (void)__all_sync(GM_SIMT_FULL, 1);
}
void waits_for_ever(void *)
{
    while (threadIdx.x == 0 && gm_load_acquire_u32(&word) == 0) {
    }
    __syncthreads();
}
void never_ends(void *)
{
    while (__any_sync(GM_SIMT_FULL, 1)) {
    }
}
void loads_off_the_grid(void *)
{
    (void)__ldcg((const uint2 *)(gm_dynamic + 4));
}

void undefined_is_told(void **)
{
    check_fails(two_barriers, "others wait in __syncthreads");
    check_fails(barrier_in_a_branch, "have returned");
    check_fails(returns_early, "lanes 00002000 of warp 2 have returned");
    check_fails(lane_never_comes, "lanes fffffff7 of warp 0 wait in __syncwarp(ffffffff)");
    check_fails(reads_a_lane_that_is_not_there, "reads lane 20, which mask 0000ffff does not name");
    check_fails(names_others_only, "is not in the mask fffffffe");
    check_fails(meets_another_collective, "in another collective");
    check_fails(waits_for_ever, "waits for something that does not come");
    check_fails(loads_off_the_grid, "is not aligned");
    if (strstr(run(never_ends, GM_SIMT_RANDOM), "come to no end") == NULL)
        fail_msg("'%s' does not say so", text);
    check_runs(votes); /* and nothing of it stays */
}

/* ---- orders ---- */

/* Each thread reads what its neighbour wrote, without a barrier between. */
void races(void *)
{
    shared_words()[threadIdx.x] = 0;
    __syncthreads();
    shared_words()[threadIdx.x] = 1;
    seen[0][threadIdx.x] = shared_words()[threadIdx.x ^ 1u];
}
void races_in_a_warp(void *)
{
    shared_words()[threadIdx.x] = 0;
    __syncwarp();
    shared_words()[threadIdx.x] = 1;
    seen[0][threadIdx.x] = shared_words()[threadIdx.x ^ 1u];
}

void missing_barriers_show_under_some_order(void **)
{
    void (*const kernels[])(void *) = {races, races_in_a_warp};
    for (uint32_t k = 0; k < 2; k++) {
        assert_string_equal(run(kernels[k], GM_SIMT_RISING), "");
        assert_int_equal(seen[0][10], 0);
        assert_int_equal(seen[0][11], 1);
        assert_string_equal(run(kernels[k], GM_SIMT_FALLING), "");
        assert_int_equal(seen[0][10], 1);
        assert_int_equal(seen[0][11], 0);
    }
}

/* The block before writes what this one waits for: both begin at once, and the first runs last. */
void looks_back(void *)
{
    if (threadIdx.x == 0) {
        const uint32_t behind = gridDim.x - 1u - blockIdx.x;
        while (gm_load_acquire_u32(&word) != behind) {
        }
        gm_store_release_u32(&word, behind + 1u);
    }
    __syncthreads();
    CHECK(gm_load_relaxed_u32(&word) > gridDim.x - 1u - blockIdx.x);
}

void blocks_take_turns(void **)
{
    check_runs(looks_back, GM_SIMT_BLOCKS);
}

/* ---- bulk copies ---- */

uint64_t bars[2] __attribute__((aligned(16)));
uint8_t source[4096] __attribute__((aligned(16)));

void copies(void *)
{
    uint8_t *to = gm_dynamic;
    if (threadIdx.x == 0) {
        gm_simt_mbarrier_init(&bars[0], 1);
        gm_simt_mbarrier_arrive(&bars[0], sizeof source);
        gm_simt_bulk_copy(to, source, sizeof source, &bars[0]);
        CHECK(to[5] != source[5]); /* not before somebody waits */
    }
    __syncthreads();
    while (!gm_simt_mbarrier_try_wait(&bars[0], 0)) {
    }
    CHECK(memcmp(to, source, sizeof source) == 0 && !gm_simt_mbarrier_try_wait(&bars[0], 1));
    __syncthreads();
}
void copies_less_than_it_says(void *)
{
    if (threadIdx.x == 0) {
        gm_simt_mbarrier_init(&bars[0], 1);
        gm_simt_mbarrier_arrive(&bars[0], 32);
        gm_simt_bulk_copy(gm_dynamic, source, 16, &bars[0]);
    }
    while (threadIdx.x == 0 && !gm_simt_mbarrier_try_wait(&bars[0], 0)) {
    }
}
void arrives_twice(void *)
{
    if (threadIdx.x == 0) {
        gm_simt_mbarrier_init(&bars[0], 1);
        gm_simt_mbarrier_arrive(&bars[0], 16);
        gm_simt_mbarrier_arrive(&bars[0], 0);
    }
}
void copies_half_a_granule(void *)
{
    gm_simt_bulk_copy(gm_dynamic, source + 8, 16, &bars[0]);
}

void bulk_copies_come_when_they_are_waited_for(void **)
{
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 7u);
    check_runs(copies);
    assert_int_equal(gm_simt_bulk_left(), 0);
    check_fails(copies_less_than_it_says, "waits for something that does not come");
    check_fails(arrives_twice, "which is all");
    check_fails(copies_half_a_granule, "not in whole granules");
}

int open_all(void **)
{
    gm_simt_open(SCRATCH);
    return 0;
}

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(collectives_give_what_cuda_says),
                                       cmocka_unit_test(arithmetic_is_cudas),
                                       cmocka_unit_test(undefined_is_told),
                                       cmocka_unit_test(missing_barriers_show_under_some_order),
                                       cmocka_unit_test(blocks_take_turns),
                                       cmocka_unit_test(bulk_copies_come_when_they_are_waited_for)};
    return cmocka_run_group_tests(tests, open_all, NULL);
}
