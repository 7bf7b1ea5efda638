/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker thread of the CPU device: draw, run, arrive, for ever, until a stop ticket. Holds one ticket at a time and
 * never waits for another worker.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arrive.h"
#include "core/complete.h"
#include "cpu.h"
#include "core/draw.h"
#include "core/journal.h"
#include "drill.h"
#include "run.h"

/* The lap of a ticket slot's first granule; a worker sleeps on it. */
static uint32_t *lap_word(const struct gm_core *core, uint64_t ticket)
{
    return &gm_slot_at(core, ticket)->g[0].w[3];
}

static void wait_for_slot(struct gm_worker *w, uint64_t ticket, struct gm_drawn *drawn)
{
    struct gm_device *device = w->device;
    const struct gm_core *core = &device->core;
    if (gm_draw_try(core, ticket, drawn))
        return;
    gm_journal_worker(core, w->index, w->busy_ns, 0, 0);
    for (const uint64_t end = gm_now_ns() + device->spin_ns; gm_now_ns() < end;) {
        if (gm_draw_try(core, ticket, drawn))
            return;
        __builtin_ia32_pause();
    }
    uint32_t *waiting = &device->waiting[gm_slot_index(core, ticket)];
    for (;;) {
        const uint32_t seen = gm_load_relaxed_u32(lap_word(core, ticket));
        gm_store_relaxed_u32(waiting, 1);
        gm_fence_sys(); /* pairs with the fence between publication and the look at waiting in wake_workers */
        if (gm_draw_try(core, ticket, drawn))
            return;
        /* Where the first granule is there and the others are on their way, its lap does not change again: a sleep that
         * began behind the wake would have no end. */
        if (seen != gm_lap(ticket, core->tickets_log2))
            syscall(SYS_futex, lap_word(core, ticket), FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
}

static void op_share(struct gm_run *run)
{
    switch (run->job->op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_op_##name##_share(run);                                                                                     \
        break;
#include "ops.def"
#undef OP
    }
}

static void op_finish(struct gm_run *run)
{
    switch (run->job->op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_op_##name##_finish(run);                                                                                    \
        break;
#include "ops.def"
#undef OP
    }
}

/* After the last share of a phase: the next phase, or the answer. */
static void finish_phase(struct gm_device *device, struct gm_run *run, struct gm_entry *entry)
{
    const struct gm_job *job = run->job;
    int32_t status = run->in_slot ? run->status : (int32_t)gm_load_relaxed_u32((uint32_t *)&entry->status);
    if (gm_run_aborted(run))
        status = GM_ECANCELLED;
    if (status == GM_OK && (job->marks & GM_MARK_FINISH)) {
        op_finish(run);
        status = run->status;
    }
    if (status == GM_OK && job->phase + 1u < job->phases) {
        gm_arrive_next_phase(&device->core, entry, job);
    } else {
        gm_complete(job, run->result, status);
        gm_inbox_push(&device->core, gm_inbox_word(gm_inbox_answered(status), job));
    }
    gm_cpu_ring(device);
}

static void run_share(struct gm_worker *w, const struct gm_drawn *drawn)
{
    const struct gm_core *core = &w->device->core;
    const uint32_t index = gm_ticket_entry(drawn->word), share = gm_ticket_share(drawn->word);
    const bool in_slot = gm_ticket_inline(drawn->word);
    struct gm_entry *entry = gm_entry_at(core, index);
    const struct gm_job job = in_slot ? gm_drawn_job(core, drawn) : entry->job;
    struct gm_run run = {.job = &job, .entry = entry, .share = in_slot ? 0 : share, .in_slot = in_slot,
                         .aborted = in_slot && share == GM_SHARE_ABORTED};
    if (in_slot ? job.entry != index
                : (entry->generation & 0xffu) != gm_ticket_generation(drawn->word) || share >= job.shares) {
        fprintf(stderr, "gridmill-device: ticket for entry %u names another job\n", index);
        abort(); /* an invariant of the scheduler is gone; nothing this process answers could be trusted */
    }
    const uint64_t begin = gm_now_ns();
    gm_journal_worker(core, w->index, w->busy_ns, job.lane + 1u, job.position);
    gm_drill_job(job.lane, job.position);
    op_share(&run);
    if (gm_arrive(entry, &job))
        finish_phase(w->device, &run, entry);
    w->busy_ns += gm_now_ns() - begin;
}

void *gm_cpu_worker(void *arg)
{
    struct gm_worker *w = arg;
    const struct gm_core *core = &w->device->core;
    __atomic_fetch_add(&w->device->checked_in, 1, __ATOMIC_RELEASE);
    for (;;) {
        const uint64_t ticket = gm_draw(core);
        struct gm_drawn drawn;
        wait_for_slot(w, ticket, &drawn);
        gm_ack(core, ticket);
        if (gm_ticket_entry(drawn.word) == GM_STOP_ENTRY)
            break;
        run_share(w, &drawn);
    }
    gm_journal_worker(core, w->index, w->busy_ns, 0, 0);
    return NULL;
}
