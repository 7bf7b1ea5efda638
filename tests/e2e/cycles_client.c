/* SPDX-License-Identifier: Apache-2.0
 *
 * See cycles.h. A client that finds something wrong writes it down and ends; every wait is bounded.
 */
#include "cycles.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define JOBS_MOST 24u

struct stage *stage;

static _Noreturn void give_up(const char *what, int status)
{
    if (!atomic_exchange(&stage->failed, true))
        snprintf(stage->failure, sizeof stage->failure, "%s: %s", what, gm_status_name(status));
    _exit(1);
}

static void must(const char *what, int status)
{
    if (status != GM_OK)
        give_up(what, status);
}

/* A device process that gets no processor for seconds is given up on: it is asked again. */
static bool again(int status, uint64_t end_ms)
{
    return status == GM_ETIMEDOUT && now_ms() < end_ms;
}

static struct gm_client *open_client(uint32_t slots)
{
    const struct gm_options options = {.socket = stage->socket, .deadline_ns = in_ms(WAIT_MS), .lane_slots = slots};
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct gm_client *client;
    struct gm_failure why;

    for (;;) {
        must("gm_open", gm_open(&options, &client, NULL));
        if (gm_lanes(client) == 1)
            return client;
        gm_last_failure(client, &why);
        if (!again(why.status, end_ms))
            give_up("no lane", why.status);
        gm_close(client);
    }
}

static struct gm_arena *create_arena(struct gm_client *client, uint64_t bytes)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct gm_arena *arena;
    int status;

    do
        status = gm_arena_create(client, bytes, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(WAIT_MS), &arena);
    while (again(status, end_ms));
    must("gm_arena_create", status);
    return arena;
}

/* ---- The others ---- */

static void record(uint64_t ns)
{
    const uint32_t phase = stage->phase;
    const uint64_t at = ns / BUCKET_NS;

    stage->bucket[phase][at < BUCKETS ? at : BUCKETS - 1u]++;
    stage->taken[phase]++;
    if (ns > stage->longest_ns[phase])
        stage->longest_ns[phase] = ns;
}

_Noreturn void witness_live(void)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_client *const client = open_client(0);

    while (!stage->over) {
        const uint64_t start_ns = gm_now_ns();
        must("a job of the witness", gm_run(client, &nop, in_ms(WAIT_MS), NULL));
        record(gm_now_ns() - start_ns);
        usleep(100);
    }
    gm_close(client);
    _exit(0);
}

_Noreturn void load_live(void)
{
    enum { WINDOW = 16, ELEMENTS = 4096 };
    static struct gm_job jobs[WINDOW];
    struct gm_client *const client = open_client(0);
    struct gm_request sum = gm_request("sum", GM_U32, ELEMENTS);
    struct gm_arena *const arena = create_arena(client, ELEMENTS * 4u);
    struct gm_result result;

    ((uint32_t *)gm_arena_data(arena))[ELEMENTS - 1] = 7;
    sum.in[0] = gm_in_arena(arena, 0, ELEMENTS * 4u);
    while (!stage->over) {
        for (uint32_t i = 0; i < WINDOW; i++)
            must("gm_submit of the load", gm_submit(client, &sum, &jobs[i]));
        for (uint32_t i = 0; i < WINDOW; i++) {
            must("a job of the load", gm_wait(client, &jobs[i], in_ms(WAIT_MS)));
            if (gm_job_result(&jobs[i], &result) != GM_OK || result.value.u64 != 7)
                give_up("a wrong sum", GM_OK);
        }
    }
    gm_close(client);
    _exit(0);
}

/* ---- A cycle ---- */

static void die_if(enum step now, enum step death)
{
    if (now == death)
        kill(getpid(), SIGKILL);
}

static struct gm_arena *make_arena(struct gm_client *client, struct rng *rng, uint32_t *elements)
{
    *elements = random_from(rng, 1, 1u << random_from(rng, 4, 16));
    struct gm_arena *const arena = create_arena(client, (uint64_t)*elements * 4u);
    uint32_t *const numbers = gm_arena_data(arena);
    for (uint32_t i = 0; i < *elements; i++) {
        if (numbers[i] != 0)
            give_up("memory of somebody before", GM_OK);
        numbers[i] = i + 1u;
    }
    return arena;
}

static void see(struct gm_job *job, uint64_t n)
{
    struct gm_result result;

    must("a job", gm_job_result(job, &result));
    if (result.value.u64 != n * (n + 1u) / 2u)
        give_up("a wrong sum", GM_OK);
    stage->jobs++;
}

_Noreturn void cycle(struct rng rng, enum step death)
{
    static const uint32_t slots[] = {0, 2, 16, 64};
    static struct gm_job jobs[JOBS_MOST];
    uint32_t elements, sent = 0;
    uint64_t n[JOBS_MOST];

    struct gm_client *const client = open_client(slots[random_below(&rng, 4)]);
    die_if(STEP_CONNECTED, death);
    struct gm_arena *const arena = make_arena(client, &rng, &elements);
    die_if(STEP_ARENA, death);
    const uint32_t count = random_from(&rng, 1, JOBS_MOST), wait = random_below(&rng, count + 1u);
    for (; sent < count; sent++) {
        n[sent] = random_from(&rng, 1, elements);
        struct gm_request sum = gm_request("sum", GM_U32, n[sent]);
        sum.in[0] = gm_in_arena(arena, 0, n[sent] * 4u);
        must("gm_submit", gm_submit(client, &sum, &jobs[sent]));
    }
    die_if(STEP_SUBMITTED, death);
    for (uint32_t i = 0; i < wait; i++) {
        must("gm_wait", gm_wait(client, &jobs[i], in_ms(WAIT_MS)));
        see(&jobs[i], n[i]);
    }
    die_if(STEP_WAITED, death);
    for (uint32_t i = wait; i < count && random_one_in(&rng, 2); i++) { /* what is left ends with the client */
        must("gm_wait", gm_wait(client, &jobs[i], in_ms(WAIT_MS)));
        see(&jobs[i], n[i]);
    }
    if (random_one_in(&rng, 2)) {
        const int rc = gm_arena_free(arena, in_ms(WAIT_MS));
        if (rc != GM_OK && rc != GM_EBUSY && rc != GM_ETIMEDOUT)
            give_up("gm_arena_free", rc);
    }
    die_if(STEP_END, death);
    gm_close(client);
    _exit(0);
}
