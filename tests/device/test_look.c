/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks that others take for the dispatcher: when a lane goes, nobody is on the way to it any more. The rig steps those
 * who look one at a time, so each has to be waited for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "rig.h"

static void open_two_lanes(struct rig *rig)
{
    const struct gm_core_shape shape = {.tickets_log2 = 4, .entries_log2 = 3, .workers = 2, .host_shares = 2,
                                        .idle_ns = UINT64_MAX, .workspace_bytes = 1u << 20};
    rig_open(rig, &shape);
    rig_lane_open(rig, 0, 2, 0);
    rig_lane_open(rig, 1, 2, 0);
}

static void a_close_is_answered_when_looks_on_their_way_have_ended(void **state)
{
    (void)state;
    struct rig rig;
    open_two_lanes(&rig);
    rig_awaited = 0;
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    assert_true(rig_awaited >= rig.box->lookers + 1u);
    rig_close(&rig);
}

static void stillness_is_everybodys(void **state)
{
    (void)state;
    struct rig rig;
    open_two_lanes(&rig);
    rig_awaited = 0;
    gm_box_still(&rig.fetch);
    assert_int_equal(gm_aim_width(rig.box->aim), 0);
    for (uint32_t i = 0; i < GM_SIDE_COUNT; i++)
        assert_int_equal(rig.box->side_at[i], 0);
    for (uint32_t i = 0; i < rig.box->lookers; i++)
        assert_int_equal(rig.box->look[i].seen, rig.box->aimed);
    assert_int_equal(rig.box->side.seen, rig.box->side_aimed);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_close_is_answered_when_looks_on_their_way_have_ended),
        cmocka_unit_test(stillness_is_everybodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
