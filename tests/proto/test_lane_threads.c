/* SPDX-License-Identifier: Apache-2.0
 *
 * Message passing through a lane's rings between two threads: every descriptor and the data it points to are whole,
 * in order, across the wrap of the laps. A client thread submits and reaps, the test's thread polls and completes;
 * bounded by a count of jobs. Under ThreadSanitizer it also proves that the accessors order the data.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "errors.h"
#include "lane.h"

#define LOG2  2u
#define SLOTS (1u << LOG2)
#define JOBS  20000u

/* Laps pass through 0xffffffff, 0 and 1 in the middle of the run. */
static const uint64_t first = (UINT64_C(0xffffffff) << LOG2) - JOBS / 2;

struct shared {
    _Alignas(64) struct gm_desc_slot sq[SLOTS];
    _Alignas(64) struct gm_granule cq[SLOTS];
    uint64_t data[SLOTS];  /* plain memory: the descriptor's release covers it */
    uint64_t reply[SLOTS]; /* plain memory: the completion's release covers it */
    uint64_t wrong;        /* by the client; read after it was joined */
    bool odd_wide;         /* every other descriptor takes two slots */
};

static uint64_t mix(uint64_t position)
{
    position = (position ^ position >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return position ^ position >> 27;
}

static bool wide(const struct shared *s, uint64_t job) { return s->odd_wide && job % 2 == 1; }

static struct gm_granule await(const struct gm_granule *g, uint32_t lap)
{
    struct gm_granule v = gm_load16_sys(g);
    while (v.w[3] != lap) {
        sched_yield();
        v = gm_load16_sys(g);
    }
    return v;
}

static void reap(struct shared *s, uint64_t position)
{
    const uint32_t slot = (uint32_t)(position % SLOTS);
    const struct gm_granule g = await(&s->cq[slot], gm_lap(position, LOG2));
    s->wrong += gm_completion_result(g) != mix(position + 1) || s->reply[slot] != mix(position + 2) ||
                gm_completion_status(g) != -(int32_t)(position % GM_ERRORS_MAX);
}

static void *client(void *argument)
{
    struct shared *const s = argument;
    uint64_t position = first, oldest = first, oldest_job = 0;
    for (uint64_t job = 0; job < JOBS; job++) {
        const uint32_t width = wide(s, job) ? 2 : 1;
        uint32_t words[GM_DESC_WORDS];
        while (position + width - oldest > SLOTS) {
            reap(s, oldest);
            oldest += wide(s, oldest_job++) ? 2 : 1;
        }
        for (uint32_t i = 0; i < GM_DESC_WORDS; i++)
            words[i] = (uint32_t)mix(position * GM_DESC_WORDS + i);
        s->data[position % SLOTS] = mix(position);
        if (width == 2)
            gm_desc_store(s->sq, LOG2, position + 1, words, 1);
        gm_desc_store(s->sq, LOG2, position, words, 0);
        position += width;
    }
    for (; oldest < position; oldest += wide(s, oldest_job++) ? 2 : 1)
        reap(s, oldest);
    return NULL;
}

/* Counts the words of half a descriptor that are not what the client wrote. */
static uint64_t wrong_words(struct shared *s, uint64_t position, uint32_t half)
{
    const uint64_t at = position + half;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const struct gm_granule g = await(&s->sq[at % SLOTS].g[i], gm_lap(at, LOG2));
        for (uint32_t k = 0; k < 3; k++)
            wrong += g.w[k] != (uint32_t)mix(position * GM_DESC_WORDS + half * 12 + 3 * i + k);
    }
    return wrong;
}

static void pass_messages(bool odd_wide)
{
    static struct shared s;
    pthread_t thread;
    uint64_t wrong = 0, position = first;

    memset(&s, 0, sizeof s);
    s.odd_wide = odd_wide;
    assert_int_equal(pthread_create(&thread, NULL, client, &s), 0);
    for (uint64_t job = 0; job < JOBS; job++) {
        const uint32_t slot = (uint32_t)(position % SLOTS);
        wrong += wrong_words(&s, position, 0);
        if (wide(&s, job))
            wrong += wrong_words(&s, position, 1);
        wrong += s.data[slot] != mix(position);
        s.reply[slot] = mix(position + 2);
        gm_store16_sys(&s.cq[slot], gm_completion(mix(position + 1), -(int32_t)(position % GM_ERRORS_MAX), job,
                                                  gm_lap(position, LOG2)));
        position += wide(&s, job) ? 2 : 1;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
    assert_int_equal(s.wrong, 0);
}

static void every_message_arrives_whole_with_its_data(void **state)
{
    (void)state;
    pass_messages(false);
}

static void wide_messages_arrive_whole_too(void **state)
{
    (void)state;
    pass_messages(true);
}

/* The doorbell: after publishing, a client looks at asleep; before sleeping, the dispatcher sets it and looks at the
 * ring. With the fence on both sides, at least one of them sees the other. */
static struct {
    _Alignas(64) uint32_t published;
    _Alignas(64) uint32_t asleep;
    _Alignas(64) uint32_t round;
    uint32_t client_saw;
} bell;

/* A round is two turns of the scheduler where processors are short, so the clock ends it too. */
#define ROUNDS       20000u
#define ROUNDS_LEAST 200u
#define ROUNDS_S     5
#define LAST         UINT32_MAX

static void *ringer(void *argument)
{
    (void)argument;
    for (uint32_t round = 1;; round++) {
        uint32_t now;
        while ((now = gm_load_acquire_u32(&bell.round)) != 2 * round) {
            if (now == LAST)
                return NULL;
            sched_yield();
        }
        gm_store_release_sys_u32(&bell.published, round);
        gm_fence_sys(); /* pairs with the fence of the sleeper */
        bell.client_saw = gm_load_relaxed_sys_u32(&bell.asleep) == round;
        gm_store_release_u32(&bell.round, 2 * round + 1);
    }
}

static void the_sleeper_or_the_ringer_sees_the_other(void **state)
{
    (void)state;
    pthread_t thread;
    uint32_t lost = 0;
    const time_t end = time(NULL) + ROUNDS_S;
    memset(&bell, 0, sizeof bell);
    assert_int_equal(pthread_create(&thread, NULL, ringer, NULL), 0);
    for (uint32_t round = 1; round <= ROUNDS_LEAST || (round <= ROUNDS && time(NULL) < end); round++) {
        gm_store_release_u32(&bell.round, 2 * round);
        gm_store_relaxed_sys_u32(&bell.asleep, round);
        gm_fence_sys(); /* pairs with the fence of the ringer */
        const bool sleeper_saw = gm_load_acquire_sys_u32(&bell.published) == round;
        while (gm_load_acquire_u32(&bell.round) != 2 * round + 1)
            sched_yield();
        lost += !sleeper_saw && !bell.client_saw;
    }
    gm_store_release_u32(&bell.round, LAST);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_arrives_whole_with_its_data),
        cmocka_unit_test(wide_messages_arrive_whole_too),
        cmocka_unit_test(the_sleeper_or_the_ringer_sees_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
