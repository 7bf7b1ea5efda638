/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks back by hand: what comes before a tile is the same bits wherever a look begins, as look_back.cuh says it in
 * words; what was not said is waited for, in whatever order it comes; who waits leaves when the job is cancelled, and
 * when nothing comes. A warp of one emulated block looks, another thread speaks for all other tiles. One thread.
 */
#include "vocabulary.h"

#define GM_LOOKS_MOST 3000u
#include "ops/prefix_tile.cuh"
#include "ops/select.cuh"

#include <setjmp.h>
#include <stdarg.h>

extern "C" {
#include <cmocka.h>
}

#define TILES 161u
#define WINDOWS 5u
#define SPEAKER 77u /* a thread of another warp */

namespace
{

typedef prefix_joins<prefix_float<uint64_t>, false> sums;
typedef prefix_joins<prefix_float<uint64_t>, true> segments;

struct gm_granule said[TILES + 2]; /* one for all, and one of somebody else */
struct gm_entry entry;
struct gm_job job;
struct gm_run run;
uint32_t looker; /* tile that looks back */
uint32_t order[TILES], orders;
uint32_t abort_after; /* steps of the speaker; 0: never */
bool found;

template <class J> struct table {
    static typename J::State own[TILES], before[TILES], answer;
};
template <class J> typename J::State table<J>::own[TILES];
template <class J> typename J::State table<J>::before[TILES];
template <class J> typename J::State table<J>::answer;

/* A tree as look_tree makes it, of count states. */
template <class J> typename J::State tree(const typename J::State *from, uint32_t count)
{
    typename J::State v[64];
    for (uint32_t i = 0; i < 64; i++)
        v[i] = i < count ? from[i] : J::nothing();
    for (uint32_t d = 1; d < 32; d *= 2)
        for (uint32_t i = 0; i < 32; i++)
            v[i] = J::join(v[i], v[i + d]);
    return v[0];
}

/* What comes before each tile, by the words of look_back.cuh. */
template <class J> void expect()
{
    typename J::State b = J::nothing();
    for (uint32_t t = 0; t < TILES; t++) {
        const typename J::State *window = table<J>::own + t / 32u * 32u;
        table<J>::before[t] = J::join(b, tree<J>(window, t % 32u));
        if (t % 32u == 31u)
            b = J::join(J::join(b, tree<J>(window, 31)), window[31]);
    }
}

/* Numbers of which no sum is exact; in each segmented window but the second some begin a segment. */
template <class J> void make(uint32_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t t = 0; t < TILES; t++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        table<J>::own[t].v = (double)(state >> 20) / 3.0 * (state >> 10 & 1u ? 1e9 : 1e-3);
        table<J>::own[t].head = J::closed({0, 1}) && t / 32u != 1u && (state >> 40) % 20u == 0;
    }
    expect<J>();
}

bool same(double a, double b)
{
    return gm_simt_bits(a) == gm_simt_bits(b);
}

/* All tiles have said what they come to, and the last ones of some windows, bits of ends, all. */
template <class J> void say_all(uint32_t ends)
{
    memset(said, 0, sizeof said);
    for (uint32_t t = 0; t < TILES; t++) {
        const bool last = t % 32u == 31u && (ends >> t / 32u & 1u) != 0;
        const typename J::State own = table<J>::own[t];
        if (t == looker)
            continue;
        look_say<J>(&job, t, last ? J::join(table<J>::before[t], own) : own,
                    last || J::closed(own) ? LOOK_UPTO : LOOK_OWN);
    }
}

template <class J> void kernel(void *)
{
    if (threadIdx.x < 32u) {
        typename J::State before = J::nothing();
        if (threadIdx.x == 0)
            look_say_own<J>(&run, looker, table<J>::own[looker]);
        const bool good = look_back<J>(&run, looker, table<J>::own[looker], &before);
        if (threadIdx.x == 0) {
            found = good;
            table<J>::answer = before;
        }
    } else if (threadIdx.x == SPEAKER) {
        for (uint32_t i = 0; i < orders; i++) {
            const uint32_t t = order[i];
            for (uint32_t k = 0; k < (i + 1u == orders ? 200u : 1u); k++)
                gm_simt_poll();
            if (t != looker)
                look_say<J>(&job, t, table<J>::own[t], LOOK_OWN);
        }
        for (uint32_t i = 0; i < abort_after; i++)
            gm_simt_poll();
        if (abort_after != 0)
            gm_store_relaxed_u32(&entry.abort, 1);
    }
}

template <class J> void look(uint32_t how)
{
    char text[1024] = "";
    const struct gm_simt_launch launch = {1, (gm_simt_order)(how % GM_SIMT_ORDERS), how + 1u, kernel<J>, {}, NULL};
    memset(&entry, 0, sizeof entry);
    found = false;
    if (!gm_simt_launch(&launch, text, sizeof text))
        fail_msg("%s", text);
}

/* Of the looker's answer, and of what it has said. */
template <class J> void check_right()
{
    const typename J::State before = table<J>::before[looker], own = table<J>::own[looker];
    const bool closed = J::closed(own), last = looker % 32u == 31u;
    const typename J::State says = last && !closed ? J::join(before, own) : own;
    assert_true(found);
    if (!same(table<J>::answer.v, before.v))
        fail_msg("before tile %u: %a, not %a", looker, table<J>::answer.v, before.v);
    assert_int_equal(said[looker].w[3], last || closed ? LOOK_UPTO : LOOK_OWN);
    assert_true(same(J::unpack(said[looker].w).v, says.v));
}

template <class J> void check_beginnings()
{
    static const uint32_t tiles[] = {0, 1, 5, 31, 32, 63, 64, 95, 96, 127, 128, 130, 159, 160};
    orders = abort_after = 0;
    for (uint32_t seed = 1; seed <= 2; seed++) {
        make<J>(seed);
        for (uint32_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
            for (uint32_t ends = 0; ends < 1u << (WINDOWS - 1u); ends++) {
                const uint32_t window = tiles[i] / 32u, behind = GM_LOOK_WINDOWS - 1u;
                if (window > behind && (ends >> (window - behind) & ((1u << behind) - 1u)) == 0)
                    continue; /* it would wait */
                looker = tiles[i];
                say_all<J>(ends);
                look<J>(ends);
                check_right<J>();
            }
    }
}

void what_comes_before_is_the_same_bits_wherever_a_look_begins(void **)
{
    check_beginnings<sums>();
    check_beginnings<segments>();
}

/* In any order, and last of all, and late, one of those that count: each by turns. */
void what_was_not_said_is_waited_for(void **)
{
    uint64_t state = 11;
    abort_after = 0;
    make<sums>(3);
    for (uint32_t round = 0; round < 66; round++) {
        memset(said, 0, sizeof said);
        looker = round < 33u ? 33u : 66u;
        orders = looker;
        for (uint32_t i = 0; i < orders; i++)
            order[i] = i;
        for (uint32_t i = orders; i > 1; i--) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            const uint32_t k = (uint32_t)(state >> 33) % i, other = order[k];
            order[k] = order[i - 1u];
            order[i - 1u] = other;
        }
        for (uint32_t i = 0, late = looker - 1u - round % 33u; i < orders; i++)
            if (order[i] == late) {
                order[i] = order[orders - 1u];
                order[orders - 1u] = late;
            }
        look<sums>(round);
        check_right<sums>();
    }
}

/* The last tile of a window that says what it comes to has not said what everything comes to: too far back for a look
 * that begins with nothing, it waits, and leaves when it is told. */
void who_waits_leaves_with_a_cancelled_job(void **)
{
    make<sums>(4);
    orders = 0;
    abort_after = 500;
    for (uint32_t how = 0; how < GM_SIMT_ORDERS; how++) {
        looker = GM_LOOK_WINDOWS * 32u + 12u;
        say_all<sums>(1); /* window 0, which a look of that tile's window does not take in */
        look<sums>(how);
        assert_false(found);
        assert_int_equal(entry.status, 0);
        looker = 40;
        memset(said, 0, sizeof said);
        look<sums>(how);
        assert_false(found);
    }
}

void a_wait_without_end_fails_the_job(void **)
{
    make<sums>(5);
    orders = abort_after = 0;
    looker = 3;
    memset(said, 0, sizeof said);
    look<sums>(1);
    assert_false(found);
    assert_int_equal(entry.status, GM_EINTERNAL);
}

void clear(void *)
{
    look_clear(&run);
}

/* Whatever lay there, by all shares together; not a granule more. */
void the_first_phase_clears_what_tiles_will_say(void **)
{
    memset(said, 0xff, sizeof said);
    for (run.share = 0; run.share < job.shares; run.share++) {
        char text[1024] = "";
        const struct gm_simt_launch launch = {1, GM_SIMT_RANDOM, 1, clear, {}, NULL};
        if (!gm_simt_launch(&launch, text, sizeof text))
            fail_msg("%s", text);
    }
    for (uint32_t i = 0; i < 4u * (TILES + 2u); i++)
        assert_int_equal(said[i / 4u].w[i % 4u], i < 4u * (TILES + 1u) ? 0 : UINT32_MAX);
    assert_int_equal(*look_next(&job), 0);
}

/* Numbers of selects in three words. */
void positions_of_any_size_come_back_as_they_were_said(void **)
{
    const uint64_t numbers[] = {0,
                                1,
                                0xffff,
                                0x10000,
                                UINT32_MAX,
                                UINT64_C(1) << 32,
                                GM_ELEMENTS_MAX - 1u,
                                GM_ELEMENTS_MAX,
                                GM_ELEMENTS_MAX + 1u};
    for (uint64_t kept : numbers)
        for (uint64_t start : numbers) {
            uint32_t w[3];
            select_joins<true>::pack({kept, start}, w);
            const select_state s = select_joins<true>::unpack(w);
            assert_true(s.kept == kept && s.start == start);
        }
}

int open_all(void **)
{
    gm_simt_open(GM_BLOCK_SCRATCH);
    job.workspace = (uint64_t)(uintptr_t)said;
    job.tiles = TILES;
    job.shares = 3;
    job.phases = 2;
    job.phase = 1;
    run.job = &job;
    run.entry = &entry;
    return 0;
}

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_comes_before_is_the_same_bits_wherever_a_look_begins),
                                       cmocka_unit_test(what_was_not_said_is_waited_for),
                                       cmocka_unit_test(who_waits_leaves_with_a_cancelled_job),
                                       cmocka_unit_test(a_wait_without_end_fails_the_job),
                                       cmocka_unit_test(the_first_phase_clears_what_tiles_will_say),
                                       cmocka_unit_test(positions_of_any_size_come_back_as_they_were_said)};
    return cmocka_run_group_tests(tests, open_all, NULL);
}
