/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients' lanes on a device that serves: they come, work, sleep, go and misbehave, and one honest session beside them
 * gets every answer right.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "drill.h"
#include "served.h"

#define HONEST_LANE    1u
#define HONEST_SESSION 100u
#define NUMBERS        1024u
#define CHURN          1200u /* on a GPU every drop waits for a pause, so there: */
#define CHURN_CUDA     330u
#define RINGS          50000u /* jobs of each of two clients */

static const uint32_t nop[GM_DESC_WORDS] = {GM_OP_nop};

static struct served device;

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

struct honest {
    struct served_lane lane;
    struct served_arena arena;
    pthread_t thread;
    uint32_t stop, seed;
    uint64_t jobs, wrong; /* jobs: atomic */
};

/* Sums of different lengths, one to four at a time, each answer compared. */
static void *be_honest(void *arg)
{
    struct honest *h = arg;
    uint32_t words[GM_DESC_WORDS];
    while (__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE) == 0) {
        uint64_t position[4], n[4];
        const uint32_t burst = next_random(&h->seed) % 4u + 1u;
        for (uint32_t i = 0; i < burst; i++) {
            n[i] = next_random(&h->seed) % NUMBERS + 1u;
            served_sum_words(words, &h->arena, n[i]);
            position[i] = served_submit(&h->lane, words);
        }
        for (uint32_t i = 0; i < burst; i++) {
            const struct gm_granule c = served_wait(&h->lane, position[i]);
            if (gm_completion_status(c) != GM_OK || gm_completion_result(c) != served_sum_expected(n[i]))
                h->wrong++;
            __atomic_fetch_add(&h->jobs, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void honest_begin(struct honest *h)
{
    memset(h, 0, sizeof *h);
    h->seed = 1;
    served_arena_add(&device, &h->arena, gm_handle(0, 1), HONEST_SESSION, NUMBERS);
    served_lane_make(&device, &h->lane, HONEST_LANE, 3, 0);
    h->lane.session = HONEST_SESSION;
    assert_int_equal(served_lane_add(&h->lane), GM_OK);
    assert_int_equal(pthread_create(&h->thread, NULL, be_honest, h), 0);
}

static void honest_did(struct honest *h, uint64_t jobs)
{
    while (__atomic_load_n(&h->jobs, __ATOMIC_RELAXED) < jobs)
        sched_yield(); /* its own waits have deadlines */
}

static void honest_end(struct honest *h)
{
    honest_did(h, 100);
    __atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
    pthread_join(h->thread, NULL);
    assert_int_equal(h->wrong, 0);
    assert_int_equal(served_lane_drop(&h->lane), GM_OK);
    served_lane_free(&h->lane);
    assert_int_equal(served_arena_drop(&device, &h->arena), GM_OK);
}

/* A client for a moment: a few jobs, of which it waits for none, some or all. */
static void visit(struct served_lane *lane, uint32_t *seed)
{
    const uint32_t slots = 1u << lane->slots_log2, jobs = next_random(seed) % (slots + 1u);
    uint64_t first = lane->position;
    for (uint32_t i = 0; i < jobs; i++)
        served_submit(lane, nop);
    if (jobs != 0 && next_random(seed) % 2u)
        for (uint32_t i = 0; i < jobs; i++)
            assert_int_equal(gm_completion_status(served_wait(lane, first + i)), GM_OK);
}

static void lanes_come_and_go_beside_an_honest_session(void **state)
{
    (void)state;
    static struct served_lane lane[GM_LANES_MAX + 1u];
    static struct honest honest;
    static uint32_t sequence[GM_LANES_MAX + 1u];
    const uint32_t churn = gm_harness_is_cuda() ? CHURN_CUDA : CHURN;
    uint32_t seed = 20240229, open = 0, most = 0;
    served_open(&device, NULL, 0);
    const uint32_t before = served_descriptors();
    honest_begin(&honest);
    for (uint32_t i = 0; i < churn; i++) {
        const uint32_t index = i < GM_LANES_MAX - 1u ? i + 2u : next_random(&seed) % (GM_LANES_MAX - 1u) + 2u;
        struct served_lane *l = &lane[index];
        if (!l->memory) {
            served_lane_make(&device, l, index, next_random(&seed) % 5u + 1u, next_random(&seed));
            assert_int_equal(served_lane_add(l), GM_OK);
            most = ++open > most ? open : most;
            visit(l, &seed);
        } else {
            assert_int_equal(served_lane_drop(l), GM_OK);
            served_lane_free(l);
            memset(l, 0, sizeof *l);
            open--;
        }
    }
    assert_int_equal(most, GM_LANES_MAX - 1u);
    for (uint32_t index = 2; index <= GM_LANES_MAX; index++) {
        struct gm_control m = {.type = GM_CONTROL_LANE_DROP};
        m.u.lane.index = index;
        sequence[index] = lane[index].memory ? served_send(&device, &m, NULL, 0) : 0;
    }
    for (uint32_t index = 2; index <= GM_LANES_MAX; index++)
        if (lane[index].memory) {
            assert_int_equal(served_reply(&device, sequence[index]).status, GM_OK);
            served_lane_free(&lane[index]);
            memset(&lane[index], 0, sizeof lane[index]);
        }
    const uint64_t jobs = __atomic_load_n(&honest.jobs, __ATOMIC_RELAXED);
    printf("# %llu honest jobs beside %u openings and closings\n", (unsigned long long)jobs, churn);
    honest_end(&honest);
    assert_int_equal(served_descriptors(), before);
    served_close(&device);
}

/* Once the drop is answered nobody writes to the memory any more, however much was in flight. */
static void dropped_lane_is_let_go_of_while_its_jobs_run(void **state)
{
    (void)state;
    static struct honest honest;
    struct served_arena big;
    uint32_t words[GM_DESC_WORDS], finished = 0, cancelled = 0;
    served_open(&device, NULL, 2);
    honest_begin(&honest);
    served_arena_add(&device, &big, gm_handle(1, 1), GM_HARNESS_SESSION, UINT64_C(1) << 20);
    for (uint32_t round = 0; round < 30u; round++) {
        struct served_lane lane;
        served_lane_make(&device, &lane, 2, 6, 0);
        assert_int_equal(served_lane_add(&lane), GM_OK);
        served_sum_words(words, &big, big.count);
        for (uint32_t i = 0; i < 64u; i++)
            served_submit(&lane, words);
        assert_int_equal(served_lane_drop(&lane), GM_OK);
        uint8_t *copy = malloc(gm_lane_bytes(64));
        assert_non_null(copy);
        memcpy(copy, lane.memory, gm_lane_bytes(64));
        for (uint32_t i = 0; i < 64u; i++) {
            struct gm_granule c;
            if (!served_answered(&lane, i, &c))
                continue;
            finished += gm_completion_status(c) == GM_OK;
            cancelled += gm_completion_status(c) == GM_ECANCELLED;
            if (gm_completion_status(c) == GM_OK)
                assert_true(gm_completion_result(c) == served_sum_expected(big.count));
            else
                assert_int_equal(gm_completion_status(c), GM_ECANCELLED);
        }
        usleep(2000);
        assert_memory_equal(copy, lane.memory, gm_lane_bytes(64));
        free(copy);
        served_lane_free(&lane);
    }
    printf("# %u finished, %u cancelled\n", finished, cancelled);
    assert_int_equal(served_arena_drop(&device, &big), GM_OK);
    honest_end(&honest);
    served_close(&device);
}

static void sleeping_client_is_woken_for_every_job(void **state)
{
    (void)state;
    struct served_lane lane;
    served_open(&device, NULL, 0);
    served_lane_make(&device, &lane, 5, 2, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    for (uint32_t i = 0; i < 2000u; i++)
        assert_int_equal(gm_completion_status(served_sleep(&lane, served_submit(&lane, nop))), GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

struct sleeper {
    struct served_lane lane;
    pthread_t thread;
    uint32_t jobs;
};

static void *sleep_and_wake(void *arg)
{
    struct sleeper *s = arg;
    for (uint32_t i = 0; i < s->jobs; i++)
        (void)served_sleep(&s->lane, served_submit(&s->lane, nop));
    return NULL;
}

/* Several at once, so that one turn wakes more than one. */
static void sleepers_of_many_lanes_are_all_woken(void **state)
{
    (void)state;
    static struct sleeper sleeper[16];
    served_open(&device, NULL, 0);
    for (uint32_t i = 0; i < 16u; i++) {
        served_lane_make(&device, &sleeper[i].lane, i * 17u + 1u, 1, 0);
        sleeper[i].jobs = 300;
        assert_int_equal(served_lane_add(&sleeper[i].lane), GM_OK);
    }
    for (uint32_t i = 0; i < 16u; i++)
        assert_int_equal(pthread_create(&sleeper[i].thread, NULL, sleep_and_wake, &sleeper[i]), 0);
    for (uint32_t i = 0; i < 16u; i++)
        pthread_join(sleeper[i].thread, NULL);
    for (uint32_t i = 0; i < 16u; i++) {
        assert_int_equal(sleeper[i].lane.reaped, 300);
        assert_int_equal(served_lane_drop(&sleeper[i].lane), GM_OK);
        served_lane_free(&sleeper[i].lane);
    }
    served_close(&device);
}

/* A client that asks to be woken and never reads: its pipe fills, it can still be woken by it, and nobody waits. */
static void full_wake_pipe_holds_nobody(void **state)
{
    (void)state;
    static struct honest honest;
    struct served_lane lane;
    char block[4096] = {0};
    struct gm_granule c;
    served_open(&device, NULL, 0);
    honest_begin(&honest);
    served_lane_make(&device, &lane, 2, 2, 0);
    while (write(lane.wake_write_fd, block, sizeof block) > 0) {
    }
    assert_int_equal(served_lane_add(&lane), GM_OK);
    for (uint64_t i = 0; i < 200u; i++) {
        const struct gm_granule wait = {{(uint32_t)i, 0, 1, 0}};
        gm_store16_sys(&lane.header->wait, wait);
        (void)served_wait(&lane, served_submit(&lane, nop));
    }
    struct pollfd p = {.fd = lane.wake_fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 1);
    while (read(lane.wake_fd, block, sizeof block) > 0) {
    }
    c = served_sleep(&lane, served_submit(&lane, nop));
    assert_int_equal(gm_completion_status(c), GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    honest_end(&honest);
    served_close(&device);
}

/* Its own rings fail from then on, so it waits for the next that somebody else gives; the others notice nothing. */
static void doorbell_at_its_maximum_silences_its_owner_only(void **state)
{
    (void)state;
    static struct honest honest;
    struct served_lane lane;
    const uint64_t most = UINT64_MAX - 1u, one = 1;
    served_open(&device, NULL, 0);
    served_lane_make(&device, &lane, 2, 2, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    assert_int_equal(write(lane.doorbell_fd, &most, sizeof most), (ssize_t)sizeof most);
    assert_int_equal(write(lane.doorbell_fd, &one, sizeof one), -1);
    assert_int_equal(fcntl(lane.doorbell_fd, F_SETFL, 0), 0); /* and blocks whoever would read or write it */
    honest_begin(&honest);
    honest_did(&honest, 2000);
    honest_end(&honest);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

static void rings_of_two_slots_lose_nothing(void **state)
{
    (void)state;
    struct served_lane lane;
    struct served_arena arena;
    uint32_t words[GM_DESC_WORDS];
    served_open(&device, NULL, 0);
    served_arena_add(&device, &arena, gm_handle(3, 9), GM_HARNESS_SESSION, NUMBERS);
    served_lane_make(&device, &lane, GM_LANES_MAX, 1, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    for (uint64_t i = 0; i < 3000u; i++) {
        const uint64_t n[2] = {i % NUMBERS + 1u, (i * 7u) % NUMBERS + 1u};
        uint64_t position[2];
        for (uint32_t k = 0; k < 2u; k++) {
            served_sum_words(words, &arena, n[k]);
            position[k] = served_submit(&lane, words);
        }
        for (uint32_t k = 0; k < 2u; k++)
            assert_true(gm_completion_result(served_wait(&lane, position[k])) == served_sum_expected(n[k]));
    }
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    assert_int_equal(served_arena_drop(&device, &arena), GM_OK);
    served_close(&device);
}

/* The lap word goes through its wrap; a lane may also be added again at any position, as after a restart. */
static void laps_wrap_in_rings_of_every_size(void **state)
{
    (void)state;
    served_open(&device, NULL, 0);
    for (uint32_t log2 = 1; log2 <= 6u; log2++) {
        struct served_lane lane;
        const uint32_t slots = 1u << log2;
        served_lane_make(&device, &lane, 2, log2, ((UINT64_C(1) << 32) - 3u) << log2);
        assert_int_equal(served_lane_add(&lane), GM_OK);
        for (uint32_t i = 0; i < 6u * slots; i++) {
            const uint64_t position = served_submit(&lane, nop);
            assert_int_equal(gm_completion_status(served_wait(&lane, position)), GM_OK);
        }
        assert_int_equal(served_lane_drop(&lane), GM_OK);
        lane.start = lane.position;
        int ends[2];
        assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
        close(lane.wake_fd);
        lane.wake_fd = ends[0];
        lane.wake_write_fd = ends[1];
        assert_int_equal(served_lane_add(&lane), GM_OK);
        for (uint32_t i = 0; i < 3u * slots; i++)
            assert_int_equal(gm_completion_status(served_wait(&lane, served_submit(&lane, nop))), GM_OK);
        assert_int_equal(served_lane_drop(&lane), GM_OK);
        served_lane_free(&lane);
    }
    served_close(&device);
}

struct ringer {
    struct served_lane lane;
    pthread_t thread;
    uint32_t seed, jobs, stop;
};

/* One job at a time, with pauses of any length between: the dispatcher goes to sleep at every point of it. */
static void *ring_at_random(void *arg)
{
    struct ringer *r = arg;
    for (uint32_t i = 0; i < r->jobs || __atomic_load_n(&r->stop, __ATOMIC_RELAXED) == 0; i++) {
        (void)served_wait(&r->lane, served_submit(&r->lane, nop));
        for (uint32_t k = next_random(&r->seed) % 64u; k > 0; k--)
            (void)gm_load_relaxed_u32(&r->seed);
    }
    return NULL;
}

/* At least so many jobs each, and until the dispatcher has slept so many times: else nothing was shown. */
static void ring(uint32_t jobs, uint64_t parks)
{
    static struct ringer ringer[2];
    served_open(&device, NULL, 2);
    for (uint32_t i = 0; i < 2u; i++) {
        ringer[i].seed = i + 1u;
        ringer[i].jobs = jobs;
        ringer[i].stop = 0;
        served_lane_make(&device, &ringer[i].lane, i + 1u, 2, 0);
        assert_int_equal(served_lane_add(&ringer[i].lane), GM_OK);
    }
    const uint64_t before = served_counters(&device).parks, deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    for (uint32_t i = 0; i < 2u; i++)
        assert_int_equal(pthread_create(&ringer[i].thread, NULL, ring_at_random, &ringer[i]), 0);
    while (served_counters(&device).parks - before < parks && gm_harness_now_ms() < deadline)
        usleep(1000);
    for (uint32_t i = 0; i < 2u; i++)
        __atomic_store_n(&ringer[i].stop, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < 2u; i++)
        pthread_join(ringer[i].thread, NULL);
    const uint64_t parked = served_counters(&device).parks - before;
    printf("# %llu jobs, %llu parks\n", (unsigned long long)(ringer[0].lane.reaped + ringer[1].lane.reaped),
           (unsigned long long)parked);
    assert_true(parked >= parks);
    for (uint32_t i = 0; i < 2u; i++) {
        assert_true(ringer[i].lane.reaped >= jobs);
        assert_int_equal(served_lane_drop(&ringer[i].lane), GM_OK);
        served_lane_free(&ringer[i].lane);
    }
    served_close(&device);
}

static void no_ring_is_lost_while_the_dispatcher_parks(void **state)
{
    (void)state;
    ring(RINGS, gm_harness_is_cuda() ? 0 : 100);
}

#ifdef GM_DRILLS
/* The moment between the last look and the sleep, made so long that most rings come in it. */
static void ring_before_the_dispatcher_sleeps_is_kept(void **state)
{
    (void)state;
    gm_drill = (struct gm_drill){.kind = GM_DRILL_SLOW_PARK, .at = 300};
    ring(500, 100);
    gm_drill.kind = GM_DRILL_NONE;
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_come_and_go_beside_an_honest_session),
        cmocka_unit_test(dropped_lane_is_let_go_of_while_its_jobs_run),
        cmocka_unit_test(sleeping_client_is_woken_for_every_job),
        cmocka_unit_test(sleepers_of_many_lanes_are_all_woken),
        cmocka_unit_test(full_wake_pipe_holds_nobody),
        cmocka_unit_test(doorbell_at_its_maximum_silences_its_owner_only),
        cmocka_unit_test(rings_of_two_slots_lose_nothing),
        cmocka_unit_test(laps_wrap_in_rings_of_every_size),
        cmocka_unit_test(no_ring_is_lost_while_the_dispatcher_parks),
#ifdef GM_DRILLS
        cmocka_unit_test(ring_before_the_dispatcher_sleeps_is_kept),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
