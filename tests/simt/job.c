/* SPDX-License-Identifier: Apache-2.0
 *
 * See job.h. The descriptor stands in the dispatcher's stage, and one arena covers all addresses; everything from there
 * to the entry is done by the code of device/core.
 */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "core/init.h"
#include "core/start.h"

#define LANE 1u
#define SESSION 7u
#define SLOTS 4u

static struct gm_core core;
static struct gm_disp disp;
static struct gm_granule completions[SLOTS];
static uint32_t journal[SLOTS];
static struct gm_entry entry;

static void open_core(const struct gm_simt_setting *setting)
{
    static bool opened;
    core.workers = setting->workers;
    core.host_shares = GM_HOST_SHARES;
    core.workspace_bytes = UINT64_C(1) << 32;
    core.looks_back = setting->looks_back;
    if (!opened) {
        for (uint32_t op = 0; op < GM_OP_COUNT; op++)
            disp.op_row[op] = gm_op_row(op);
        disp.lane[LANE].session = SESSION;
        disp.lane[LANE].slots_log2 = 2;
        disp.lane[LANE].cq = completions;
        disp.lane[LANE].journal = journal;
        opened = true;
    }
    disp.arena[0] = (struct gm_arena_row){
        .bytes = UINT64_MAX, .session = SESSION, .generation = 1, .flags = setting->host ? GM_ARENA_HOST : 0};
}

/* Into the first slots of the stage. */
static void stage(const struct gm_case *c, void *const buffer[GM_BUFFERS_MAX])
{
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_args args = gm_case_args(c);
    uint32_t words[GM_DESC_WORDS] = {c->op};
    gm_args_put(words, &row, &args);
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        words[gm_buffer_word(i)] = gm_handle(0, 1);
        gm_desc_put64(words, gm_buffer_word(i) + 1u, (uint64_t)(uintptr_t)buffer[i]);
    }
    memset(disp.stage, 0, sizeof disp.stage);
    for (uint32_t w = 0; w < GM_DESC_WORDS; w++)
        disp.stage[w / 3u].w[w % 3u] = words[w];
}

/* The job in its entry; one that lies in its slot leaves an entry with anything in it. */
static bool start(const struct gm_case *c, struct gm_job *job, const struct gm_simt_setting *setting)
{
    const bool in_slot = gm_slot_fits(job);
    uint64_t state = setting->seed ^ c->seed;
    void *workspace = NULL;
    if (posix_memalign(&workspace, 256, job->workspace_bytes + (job->workspace_bytes == 0)) != 0)
        abort();
    memset(workspace, gm_random(&state) & 1u ? 0xff : (int)(gm_random(&state) & 0xffu), job->workspace_bytes);
    job->workspace = (uint64_t)(uintptr_t)workspace;
    job->entry = 0;
    memset(&entry, 0xee, sizeof entry);
    if (in_slot)
        entry.job = *job;
    else
        gm_start_entry(&disp, &entry, &disp.lane[LANE], job, 1, 0);
    gm_start_clear(job, !in_slot);
    return in_slot;
}

static void order_shares(uint32_t *share, uint32_t shares, const struct gm_simt_setting *setting, uint64_t *state)
{
    for (uint32_t i = 0; i < shares; i++)
        share[i] = setting->shares == GM_SIMT_SHARES_FALLING ? shares - 1u - i : i;
    for (uint32_t i = shares; i > 1u && setting->shares == GM_SIMT_SHARES_SHUFFLED; i--) {
        const uint32_t k = (uint32_t)(gm_random(state) % i), last = share[i - 1u];
        share[i - 1u] = share[k];
        share[k] = last;
    }
}

static bool run_phases(const struct gm_simt_setting *setting, bool in_slot, struct gm_simt_answer *answer, char *why,
                       size_t size)
{
    static uint32_t share[GM_SHARES_MAX];
    const uint32_t shares = entry.job.shares, phases = entry.job.phases;
    uint64_t state = setting->seed;
    for (uint32_t phase = 0; phase < phases; phase++) {
        const struct gm_simt_phase run = {.entry = &entry,
                                          .share = share,
                                          .shares = shares,
                                          .blocks = setting->blocks,
                                          .bulk = setting->bulk,
                                          .order = setting->order,
                                          .seed = gm_random(&state),
                                          .disturb = setting->disturb,
                                          .in_slot = in_slot};
        order_shares(share, shares, setting, &state);
        if (!gm_simt_phase_run(&run, answer, why, size))
            return false;
        if (answer->finished != 1) {
            snprintf(why, size, "%u shares of phase %u were the last", answer->finished, phase);
            return false;
        }
        if (answer->status != GM_OK)
            break;
        /* As the last share and the dispatcher hand over to the next phase. */
        entry.arrived = (uint64_t)(phase + 1u) << 32;
        entry.next_tile = shares;
        entry.job.phase = (uint8_t)(phase + 1u);
    }
    return true;
}

static uint32_t shares_at_most(const struct gm_simt_setting *setting)
{
    return setting->host && setting->workers > GM_HOST_SHARES ? GM_HOST_SHARES : setting->workers;
}

bool gm_simt_job_run(const struct gm_case *c, void *const buffer[GM_BUFFERS_MAX], const struct gm_simt_setting *setting,
                     int32_t *status, uint64_t *result, char *why, size_t size)
{
    const struct gm_op_row row = gm_op_row(c->op);
    struct gm_words wide = {{0}};
    struct gm_job job = {0};
    struct gm_plan plan = {0, 0};
    struct gm_simt_answer answer = {0, 0, 0};
    open_core(setting);
    stage(c, buffer);
    if (row.wide)
        wide = gm_poll_words(&disp, 1);
    *result = 0;
    *status = gm_check(&core, &disp, LANE, 0, gm_poll_words(&disp, 0), row.wide != 0, wide, &job, &plan);
    if (*status != GM_OK)
        return true;
    if (setting->sorted && row.work == GM_WORK_HISTOGRAM && gm_hist_many(&job) && gm_plan_hist_sortable(&job, &row))
        job.workspace_bytes = gm_plan_hist_many(&job, shares_at_most(setting), true);
    const bool good = run_phases(setting, start(c, &job, setting), &answer, why, size);
    free((void *)(uintptr_t)job.workspace);
    *status = answer.status;
    *result = answer.result;
    return good;
}
