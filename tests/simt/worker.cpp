/* SPDX-License-Identifier: Apache-2.0
 *
 * See worker.h. A block's pipe lives as long as the program, as it does in the resident kernel; its scratch holds
 * something else before every share. GM_SIMT_OPS names the ops whose tiles are here (CMakeLists.txt).
 */
#include "vocabulary.h"

#include "core/arrive.h"
#include "cuda/pipeline.cuh"
#include "ops/run.cuh"

#include "bulk.h"
#include "worker.h"

static_assert(GM_CUDA_THREADS == GM_SIMT_THREADS && GM_BLOCK_WARPS == GM_SIMT_WARPS, "one shape");

namespace
{

struct worker {
    struct gm_job job;
    struct gm_run run;
    bool stop, last;
};

struct worker workers[GM_SIMT_BLOCKS];
const struct gm_simt_phase *phase;
uint32_t taken;
struct gm_simt_answer answered;
bool opened;

void op_share(uint32_t op, struct gm_run *run)
{
    switch (op) {
#define OP(name)                                                                                                       \
    case GM_OP_##name:                                                                                                 \
        gm_op_##name##_share(run);                                                                                     \
        break;
#include GM_SIMT_OPS
#undef OP
    }
}

void op_finish(uint32_t op, struct gm_run *run)
{
    switch (op) {
#define OP(name)                                                                                                       \
    case GM_OP_##name:                                                                                                 \
        gm_op_##name##_finish(run);                                                                                    \
        break;
#include GM_SIMT_OPS
#undef OP
    }
}

/* The next share, or the end of the phase. One thread. */
void fetch(struct worker *w)
{
    static const uint8_t before[] = {0x00, 0xff, 0xa5, 0x7f};
    w->stop = taken == phase->shares;
    if (w->stop)
        return;
    memset(gm_dynamic, before[gm_simt_random() % sizeof before], GM_BLOCK_SCRATCH);
    w->job = phase->entry->job;
    w->run.job = &w->job;
    w->run.entry = phase->entry;
    w->run.share = phase->share[taken++];
    w->run.bulk = phase->bulk;
    w->run.aborted = phase->in_slot ? 0 : gm_load_relaxed_u32(&phase->entry->abort);
    w->run.result = 0;
    w->run.status = GM_OK;
}

/* The end of a share, by the whole block. */
void finish(struct worker *w)
{
    const struct gm_job *job = &w->job;
    struct gm_entry *entry = w->run.entry;
    int32_t before = GM_OK;
    if (threadIdx.x == 0)
        w->last = gm_arrive(entry, job);
    __syncthreads();
    if (!w->last)
        return;
    if (job->shares != 1 || job->tiles > 1)
        before = gm_load_relaxed_u32(&entry->abort) != 0 ? (int32_t)GM_ECANCELLED : entry->status;
    if (before == GM_OK && (job->marks & GM_MARK_FINISH)) {
        op_finish(job->op, &w->run);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        answered.finished++;
        answered.status = before != GM_OK ? before : w->run.status;
        answered.result = w->run.result;
    }
}

void work(void *context)
{
    struct worker *w = (struct worker *)context;
    for (;;) {
        if (threadIdx.x == 0)
            fetch(w);
        __syncthreads();
        if (w->stop)
            break;
        op_share(w->job.op, &w->run);
        __syncthreads();
        finish(w);
        __syncthreads();
    }
}

/* Once in the life of a block. */
void open_pipe(void *context)
{
    struct worker *w = (struct worker *)context;
    if (threadIdx.x == 0)
        gm_pipe_init(&w->run.pipe);
}

} // namespace

void gm_simt_workers_open(void)
{
    if (opened)
        return;
    opened = true;
    gm_simt_open(GM_BLOCK_SCRATCH);
    struct gm_simt_launch launch = {GM_SIMT_BLOCKS, GM_SIMT_RISING, 1, open_pipe, {}, NULL};
    char why[256];
    for (uint32_t i = 0; i < GM_SIMT_BLOCKS; i++)
        launch.context[i] = &workers[i];
    if (!gm_simt_launch(&launch, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
}

bool gm_simt_has(uint32_t op)
{
    switch (op) {
#define OP(name) case GM_OP_##name:
#include GM_SIMT_OPS
#undef OP
        return true;
    }
    return false;
}
uint32_t gm_simt_blocks_most(void)
{
    return GM_SIMT_BLOCKS;
}
uint32_t gm_simt_orders(void)
{
    return GM_SIMT_ORDERS;
}

bool gm_simt_phase_run(const struct gm_simt_phase *a_phase, struct gm_simt_answer *answer, char *why, size_t size)
{
    struct gm_simt_launch launch = {a_phase->blocks, (enum gm_simt_order)a_phase->order, a_phase->seed, work, {},
                                    a_phase->disturb};
    gm_simt_workers_open();
    phase = a_phase;
    taken = 0;
    memset(&answered, 0, sizeof answered);
    for (uint32_t i = 0; i < launch.blocks; i++)
        launch.context[i] = &workers[i];
    if (!gm_simt_launch(&launch, why, size)) {
        opened = false; /* nobody knows what the blocks hold */
        return false;
    }
    *answer = answered;
    if (gm_simt_bulk_left() != 0) {
        snprintf(why, size, "a bulk copy was asked for that nobody waited for");
        return false;
    }
    return true;
}
