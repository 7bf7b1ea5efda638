/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's tiles of segmented scans, called without a scheduler, of a job with many more offsets than elements that
 * was cancelled: a share stops looking at its offsets soon. What it must not reach any more faults. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/plan.h"
#include "ops/run.h"

#define OFFSETS 1000000u
#define SHARES  2u
#define SOON    70000u /* offsets */

static void one_share(struct gm_job *job, struct gm_entry *entry, uint32_t share)
{
    struct gm_run run = {.job = job, .entry = entry, .share = share};
    gm_op_segmented_scan_sum_share(&run);
}

static void a_cancelled_job_stops_looking_at_its_offsets(void **state)
{
    static uint32_t in[16], out[16];
    static uint8_t workspace[4096];
    const struct gm_op_row row = gm_op_row(GM_OP_segmented_scan_sum);
    const size_t bytes = OFFSETS * sizeof(uint32_t), page = 4096;
    struct gm_job job = {.op = GM_OP_segmented_scan_sum, .dtype = GM_DTYPE_u32, .type2 = GM_DTYPE_u32, .n = 16,
                         .value = {OFFSETS - 1u}, .workspace = (uintptr_t)workspace};
    struct gm_entry entry = {0};
    uint32_t *offsets = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_true(offsets != MAP_FAILED);
    job.address[0] = (uintptr_t)in, job.address[1] = (uintptr_t)offsets, job.address[2] = (uintptr_t)out;
    const struct gm_plan plan = gm_plan_job(&job, &row, SHARES, SHARES, sizeof workspace, false);
    assert_true(plan.workspace <= sizeof workspace && job.shares == SHARES && job.phases == 2);
    for (uint32_t share = 0; share < SHARES; share++) /* all of it can be read, and is good */
        one_share(&job, &entry, share);
    assert_int_equal(entry.status, GM_OK);
    offsets[OFFSETS - 1u] = 17;
    one_share(&job, &entry, 1);
    assert_int_equal(entry.status, GM_EBOUNDS);
    entry.abort = 1;
    for (uint32_t share = 0; share < SHARES; share++) {
        const size_t from = (OFFSETS / SHARES * share + SOON) * sizeof(uint32_t) / page * page;
        const size_t to = (share + 1u == SHARES ? bytes : OFFSETS / SHARES * sizeof(uint32_t)) / page * page;
        assert_int_equal(mprotect((uint8_t *)offsets + from, to - from, PROT_NONE), 0);
        one_share(&job, &entry, share);
    }
    munmap(offsets, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_cancelled_job_stops_looking_at_its_offsets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
