/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's half of the copy engine by hand: where copies are cut, whose turn it is, and what ends one. The test puts
 * requests as a dispatcher does, and is the hardware. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "copier.h"

#define PIECE UINT64_C(4096)
#define START UINT32_C(0xfffffffe)
#define PIECES 64u

static struct gm_copies copies;
static struct gm_copier copier;
static struct {
    uint32_t direction;
    uint64_t target, source, bytes;
} piece[PIECES];
static uint32_t pieces;
static int piece_status, end_status;

static int on_piece(void *self, uint32_t direction, uint64_t target, uint64_t source, uint64_t bytes)
{
    assert_ptr_equal(self, &pieces);
    if (piece_status != GM_OK)
        return piece_status;
    assert_true(pieces < PIECES);
    piece[pieces].direction = direction;
    piece[pieces].target = target;
    piece[pieces].source = source;
    piece[pieces++].bytes = bytes;
    return GM_OK;
}

static int on_end(void *self, uint32_t direction, uint32_t *end, uint32_t value)
{
    assert_ptr_equal(self, &pieces);
    assert_true(direction < GM_COPY_DIRECTIONS);
    *end = value;
    return end_status;
}

static int setup(void **state)
{
    (void)state;
    static const struct gm_copier_calls calls = {on_piece, on_end};
    memset(&copies, 0, sizeof copies);
    pieces = 0;
    piece_status = end_status = GM_OK;
    gm_copier_init(&copier, &copies, PIECE, START, &calls, &pieces);
    return 0;
}

static void put(uint32_t at, uint32_t turn, uint32_t down, uint64_t host_offset, uint64_t bytes)
{
    const struct gm_job job = {.n = bytes,
                               .dtype = GM_DTYPE_u8,
                               .marks = down ? GM_MARK_HOST_OUT : GM_MARK_HOST_IN,
                               .address = {(uint64_t)(at + 1u) << 32, (uint64_t)(at + 1u) << 40}};
    copies.place[at].abort = turn - 1u;
    gm_copy_request(&copies.place[at], &job, host_offset, turn);
}

static bool step(uint32_t direction)
{
    bool did = true;
    assert_int_equal(gm_copier_step(&copier, direction, &did), GM_OK);
    return did;
}

static bool ended(uint32_t at, uint32_t turn, int32_t status)
{
    return copies.place[at].end == gm_copy_end(turn, status);
}

/* Its borders are those of the host's arena; the other buffer may lie anywhere. */
static void copy_is_cut_where_the_hosts_memory_is(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, bytes, cut[4];
    } cases[] = {{0, 1, {1}},
                 {0, PIECE, {PIECE}},
                 {0, PIECE + 1u, {PIECE, 1}},
                 {PIECE - 1u, PIECE + 2u, {1, PIECE, 1}},
                 {7u * PIECE + 1u, 2u * PIECE, {PIECE - 1u, PIECE, 1}},
                 {3u * PIECE, 3u * PIECE, {PIECE, PIECE, PIECE}}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t done = 0;
        uint32_t k = 0;
        pieces = 0;
        put(5, START + 1u + i, i & 1u, cases[i].offset, cases[i].bytes);
        assert_false(step(1u - (i & 1u)));
        for (; k < 4u && cases[i].cut[k] != 0; k++) {
            assert_false(ended(5, START + 1u + i, GM_OK));
            assert_true(step(i & 1u));
            assert_int_equal(pieces, k + 1u);
            assert_int_equal(piece[k].direction, i & 1u);
            assert_int_equal(piece[k].bytes, cases[i].cut[k]);
            assert_int_equal(piece[k].source, (UINT64_C(6) << 32) + done);
            assert_int_equal(piece[k].target, (UINT64_C(6) << 40) + done);
            done += piece[k].bytes;
        }
        assert_int_equal(done, cases[i].bytes);
        assert_true(ended(5, START + 1u + i, GM_OK)); /* with the last piece */
        assert_false(step(i & 1u));
    }
}

static void copies_take_turns(void **state)
{
    (void)state;
    put(1, START + 1u, 0, 0, 6u * PIECE);
    put(GM_COPIES_MAX - 1u, START + 1u, 0, 0, 2u * PIECE);
    put(2, START + 1u, 1, 0, PIECE);
    static const uint32_t order[] = {1, GM_COPIES_MAX - 1u, 1, GM_COPIES_MAX - 1u, 1, 1, 1, 1};
    for (uint32_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        assert_true(step(0));
        assert_int_equal(piece[i].source >> 32, order[i] + 1u);
    }
    assert_false(step(0));
    assert_false(ended(2, START + 1u, GM_OK));
    assert_true(step(1)); /* the other direction has waited for nobody */
    assert_true(ended(2, START + 1u, GM_OK));
}

static void half_a_request_is_none(void **state)
{
    (void)state;
    put(0, START + 1u, 0, 0, PIECE);
    for (uint32_t i = 0; i < GM_COPY_GRANULES; i++) {
        const struct gm_granule g = copies.place[0].request[i];
        copies.place[0].request[i].w[3] = START;
        assert_false(step(0));
        copies.place[0].request[i] = g;
    }
    assert_true(step(0));
    assert_false(step(0)); /* once */
}

static void cancelled_copy_ends_between_two_pieces(void **state)
{
    (void)state;
    put(3, START + 1u, 0, 0, 4u * PIECE);
    assert_true(step(0));
    copies.place[3].abort = START + 1u;
    assert_true(step(0));
    assert_int_equal(pieces, 1);
    assert_true(ended(3, START + 1u, GM_ECANCELLED));
    assert_false(step(0));
    put(3, START + 2u, 1, 0, PIECE); /* and one that was never begun */
    copies.place[3].abort = START + 2u;
    assert_true(step(1));
    assert_int_equal(pieces, 1);
    assert_true(ended(3, START + 2u, GM_ECANCELLED));
    put(3, START + 3u, 1, 0, PIECE);
    assert_true(step(1));
    assert_true(ended(3, START + 3u, GM_OK));
}

static void piece_that_fails_ends_the_copy(void **state)
{
    (void)state;
    put(0, START + 1u, 0, 0, 3u * PIECE);
    put(1, START + 1u, 0, 0, PIECE);
    assert_true(step(0));
    assert_true(step(0));
    assert_true(ended(1, START + 1u, GM_OK));
    piece_status = GM_ESYSTEM;
    assert_true(step(0));
    assert_true(ended(0, START + 1u, GM_ESYSTEM));
    piece_status = GM_OK;
    assert_false(step(0));
}

static void end_that_cannot_be_told_is_said(void **state)
{
    (void)state;
    bool did;
    put(0, START + 1u, 0, 0, PIECE);
    end_status = GM_EDEVICELOST;
    assert_int_equal(gm_copier_step(&copier, 0, &did), GM_EDEVICELOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(copy_is_cut_where_the_hosts_memory_is, setup),
        cmocka_unit_test_setup(copies_take_turns, setup),
        cmocka_unit_test_setup(half_a_request_is_none, setup),
        cmocka_unit_test_setup(cancelled_copy_ends_between_two_pieces, setup),
        cmocka_unit_test_setup(piece_that_fails_ends_the_copy, setup),
        cmocka_unit_test_setup(end_that_cannot_be_told_is_said, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
