/* SPDX-License-Identifier: Apache-2.0
 *
 * Fair queue and lane writing. Loop thread only; work per call is bounded by the window of a device. A flow that took
 * more than its turn owes the rest: it waits until its deficit is paid.
 */
#include "enqueue.h"

#include <assert.h>
#include <unistd.h>

#include "daemon.h"

uint32_t gm_enqueue_cost(uint64_t bytes)
{
    const uint64_t cost = 1u + (bytes >> GM_COST_SHIFT);
    return cost < GM_COST_MAX ? (uint32_t)cost : GM_COST_MAX;
}

/* The flow of a job, in the round. */
static struct gm_flow *gm_enqueue_flow(struct gm_device *v, const struct gm_job *job)
{
    struct gm_flow *flow = &job->session->flow[v->index];
    struct gm_user_flow *user = &job->session->user->flow[v->index];
    if (!gm_list_linked(&user->link))
        gm_list_push(&v->users, &user->link);
    if (!gm_list_linked(&flow->link))
        gm_list_push(&user->sessions, &flow->link);
    return flow;
}

void gm_enqueue_push(struct gm_device *v, struct gm_job *job)
{
    gm_list_push(&gm_enqueue_flow(v, job)->jobs, &job->queue);
    job->state = GM_JOB_QUEUED;
    v->queued++;
}

/* The cost comes back as far as it is a debt: credit for everything that was in the lane would be a turn of that
 * length.
 */
static int32_t gm_enqueue_refund(int32_t deficit, uint32_t cost)
{
    deficit += (int32_t)cost;
    return deficit < GM_QUANTUM ? deficit : GM_QUANTUM;
}

void gm_enqueue_return(struct gm_device *v, struct gm_job *job)
{
    struct gm_flow *flow = gm_enqueue_flow(v, job);
    struct gm_user_flow *user = &job->session->user->flow[v->index];
    gm_list_push(flow->jobs.next, &job->queue);
    flow->deficit = gm_enqueue_refund(flow->deficit, job->cost);
    user->deficit = gm_enqueue_refund(user->deficit, job->cost);
    job->state = GM_JOB_QUEUED;
    v->queued++;
}

/* An empty flow leaves the round; credit that it did not use is lost, debt stays. */
static void gm_flow_settle(struct gm_flow *flow, struct gm_user_flow *user)
{
    if (!gm_list_empty(&flow->jobs))
        return;
    gm_list_remove(&flow->link);
    flow->deficit = flow->deficit < 0 ? flow->deficit : 0;
    if (!gm_list_empty(&user->sessions))
        return;
    gm_list_remove(&user->link);
    user->deficit = user->deficit < 0 ? user->deficit : 0;
}

void gm_enqueue_remove(struct gm_job *job)
{
    struct gm_device *v = job->device;
    assert(job->state == GM_JOB_QUEUED);
    gm_list_remove(&job->queue);
    v->queued--;
    gm_flow_settle(&job->session->flow[v->index], &job->session->user->flow[v->index]);
}

/* The flow whose turn it is: its deficit becomes positive. One in debt gets its quantum and goes to the back; alone, it
 * owes nobody. */
static struct gm_link *gm_turn_of(struct gm_link *list, int32_t *(*deficit)(struct gm_link *))
{
    for (;;) {
        struct gm_link *head = list->next;
        int32_t *credit = deficit(head);
        if (*credit <= 0)
            *credit += GM_QUANTUM;
        if (*credit <= 0 && head->next == list)
            *credit = GM_QUANTUM;
        if (*credit > 0)
            return head;
        gm_list_remove(head);
        gm_list_push(list, head);
    }
}

static int32_t *gm_user_deficit(struct gm_link *link)
{
    return &GM_CONTAINER(link, struct gm_user_flow, link)->deficit;
}

static int32_t *gm_flow_deficit(struct gm_link *link)
{
    return &GM_CONTAINER(link, struct gm_flow, link)->deficit;
}

/* Its turn is over when its credit is spent. */
static void gm_turn_end(struct gm_link *list, struct gm_link *head, int32_t credit)
{
    if (credit > 0 || !gm_list_linked(head))
        return;
    gm_list_remove(head);
    gm_list_push(list, head);
}

struct gm_job *gm_enqueue_next(struct gm_device *v)
{
    if (gm_list_empty(&v->users))
        return NULL;
    struct gm_user_flow *user = GM_CONTAINER(gm_turn_of(&v->users, gm_user_deficit), struct gm_user_flow, link);
    struct gm_flow *flow = GM_CONTAINER(gm_turn_of(&user->sessions, gm_flow_deficit), struct gm_flow, link);
    struct gm_job *job = GM_CONTAINER(flow->jobs.next, struct gm_job, queue);
    user->deficit -= (int32_t)job->cost;
    flow->deficit -= (int32_t)job->cost;
    gm_enqueue_remove(job);
    gm_turn_end(&user->sessions, &flow->link, flow->deficit);
    gm_turn_end(&v->users, &user->link, user->deficit);
    return job;
}

/* The two slots that the widest job may need. A slot is free when the completion of its last job was read. */
static bool gm_lane_has_room(const struct gm_device *v)
{
    return v->slot[v->head & (GM_LANE0_SLOTS - 1u)] == NULL && v->slot[(v->head + 1u) & (GM_LANE0_SLOTS - 1u)] == NULL;
}

/* Steps over slots whose jobs are still running. What is overwritten was read long ago: a descriptor that was not read
 * has only unanswered jobs behind it, and those and the slots skipped among them are less than a lap. */
static bool gm_lane_make_room(struct gm_device *v)
{
    static const uint32_t skip[GM_DESC_WORDS] = {GM_DESC_SKIP_MARK};
    static_assert(4u * GM_WINDOW_JOBS <= GM_LANE0_SLOTS, "two slots a job, and as many skipped");
    while (!gm_lane_has_room(v)) {
        if (!(v->hello.flags & GM_HELLO_SKIP))
            return false;
        gm_desc_store(v->sq, v->lane->slots_log2, v->head, skip, 0);
        v->head++;
    }
    return true;
}

static void gm_lane_put(struct gm_device *v, struct gm_job *job)
{
    job->state = GM_JOB_IN_LANE;
    job->position = v->head;
    for (uint32_t half = 0; half <= (job->wide ? 1u : 0u); half++) {
        v->slot[v->head & (GM_LANE0_SLOTS - 1u)] = job;
        v->head++;
    }
    /* The second half first: the first granule that poll looks at then tells of a whole descriptor. */
    if (job->wide)
        gm_desc_store(v->sq, v->lane->slots_log2, job->position + 1u, job->words, 1);
    gm_desc_store(v->sq, v->lane->slots_log2, job->position, job->words, 0);
    v->flight[v->flight_count++] = job;
    v->flight_cost += job->cost;
}

void gm_enqueue_adapt(struct gm_device *v, uint64_t now)
{
    if (v->queued == 0) {
        v->window_at_ns = 0;
        return;
    }
    const uint64_t elapsed = now - v->window_at_ns;
    if (v->window_at_ns != 0 && elapsed < 2u * GM_WINDOW_NS)
        return;
    if (v->window_at_ns != 0) {
        /* Below two a worker a device with long jobs would idle; above, a window that is done in less than
         * GM_WINDOW_NS grows and a slower one shrinks. */
        const uint64_t floor = GM_WINDOW_FLOOR > 2u * v->hello.workers ? GM_WINDOW_FLOOR : 2u * v->hello.workers;
        uint64_t window = (v->reaped - v->window_reaped) * GM_WINDOW_NS / elapsed;
        window = window < floor ? floor : window;
        v->window = window < GM_WINDOW_JOBS ? (uint32_t)window : GM_WINDOW_JOBS;
    }
    v->window_at_ns = now, v->window_reaped = v->reaped;
}

static bool gm_enqueue_device(struct gm_device *v)
{
    bool any = false;
    while (v->queued != 0 && v->flight_count < v->window && (v->flight_count == 0 || v->flight_cost < GM_WINDOW_COST) &&
           gm_lane_make_room(v)) {
        gm_lane_put(v, gm_enqueue_next(v));
        any = true;
    }
    if (!any)
        return false;
    /* Store-load: pairs with the dispatcher's fence between setting asleep and its last look at the lane. */
    gm_fence_sys();
    if (gm_load_relaxed_sys_u32(&v->lane->asleep) != 0) {
        const uint64_t one = 1;
        const ssize_t rung = write(v->doorbell, &one, sizeof one);
        (void)rung; /* the counter cannot overflow: the device empties it, or is killed by the watchdog */
    }
    return true;
}

bool gm_enqueue_flush(struct gm_daemon *d)
{
    bool any = false;
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        if (v->queued != 0 && gm_device_live(v))
            any |= gm_enqueue_device(v);
    }
    return any;
}
