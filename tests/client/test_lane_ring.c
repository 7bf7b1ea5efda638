/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring itself: whatever the sizes, the order of answers and the moment at which the device looks, every job is read
 * once, in order, whole, and answered once; and one long job does not hold up what comes behind it where slots may be
 * skipped; a job is written so that a device may look at any moment. The device is the test, so a seed repeats a run.
 */
#include "lane_peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct lane_peer p;
static struct gm_client *client;
static struct gm_arena *arena;

static void begin(uint32_t slots, uint64_t start, bool skip)
{
    lanes_make(&p, 1, slots, start);
    p.skip = skip;
    lanes_serve(&p);
    client = lanes_open(&p, (struct gm_options){.lane_only = 1});
    assert_int_equal(GM_OK, gm_arena_create(client, 65536, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
}

static void end(void)
{
    gm_close(client);
    lanes_stop(&p);
}

static struct gm_request request_of(uint64_t tag, bool wide)
{
    struct gm_request request = gm_request(wide ? "fill" : "sum", GM_U8, tag % 60000);

    if (!wide)
        request.dtype = GM_U32, request.n = tag % 15000;
    request.in[0] = gm_in_arena(arena, 0, 65536);
    if (wide)
        request.out[0] = request.in[0], request.in[0] = gm_in_arena(NULL, 0, 0);
    request.value = tag;
    return request;
}

static void one_long_job_holds_nothing_up(void **state)
{
    const uint32_t sizes[] = {2, 4, 16};
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    (void)state;
    for (size_t s = 0; s < 3; s++) {
        struct gm_job long_job = {0}, job = {0};
        begin(sizes[s], 0, true);
        const struct gm_request request = request_of(1, false);
        assert_int_equal(GM_OK, gm_submit(client, &request, &long_job));
        assert_true(fake_take(&p.lane[0], words, &position));
        for (int i = 0; i < 200; i++) {
            assert_int_equal(GM_OK, gm_submit(client, &request, &job));
            fake_do(&p.lane[0], 3);
            assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
        }
        assert_true(p.lane[0].skips > 200 / sizes[s]);
        assert_int_equal(GM_EAGAIN, gm_job_status(&long_job));
        fake_answer(&p.lane[0], position, 4, GM_OK, 1);
        assert_int_equal(GM_OK, gm_wait(client, &long_job, in_ms(20000)));
        end();
    }
}

static void without_skips_the_lane_waits_for_the_oldest(void **state)
{
    struct gm_job jobs[5];
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    (void)state;
    begin(4, 0, false);
    memset(jobs, 0, sizeof jobs);
    const struct gm_request request = request_of(1, false);
    assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[0]));
    assert_true(fake_take(&p.lane[0], words, &position));
    for (int i = 1; i < 4; i++) {
        assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[i]));
        fake_do(&p.lane[0], 0);
    }
    assert_int_equal(GM_EBUSY, gm_submit(client, &request, &jobs[4]));
    fake_answer(&p.lane[0], position, 0, GM_OK, 1);
    assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[4]));
    end();
}

/* A wide job that needs both slots of the smallest lane, while a long one holds one of them: it waits, nothing is
 * skipped in vain, and afterwards the lane goes on. */
static void skips_are_only_written_in_front_of_a_job(void **state)
{
    struct gm_job jobs[3];
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    (void)state;
    begin(2, 0, true);
    memset(jobs, 0, sizeof jobs);
    const struct gm_request narrow = request_of(1, false), wide = request_of(2, true);
    assert_int_equal(GM_OK, gm_submit(client, &narrow, &jobs[0]));
    assert_true(fake_take(&p.lane[0], words, &position));
    for (int i = 0; i < 10; i++)
        assert_int_equal(GM_EBUSY, gm_submit(client, &wide, &jobs[1]));
    fake_answer(&p.lane[0], position, 0, GM_OK, 1);
    assert_int_equal(GM_OK, gm_submit(client, &wide, &jobs[1]));
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &jobs[1], in_ms(20000)));
    assert_int_equal(GM_OK, gm_submit(client, &narrow, &jobs[2]));
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &jobs[2], in_ms(20000)));
    end();
}

/* ---- At the moment of a store ---- */

static uint8_t *guarded; /* a page of descriptors, as the client has it */
static bool first_half_was_there;

/* The device looks at the lane once more, finds nothing, and sleeps; then the store is done. */
static void on_store(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    const struct fake_lane *const lane = &p.lane[0];
    const uint64_t last = (uint64_t)4096 / sizeof(struct gm_desc_slot) - 1u;

    first_half_was_there = gm_load_relaxed_sys_u32(&lane->sq[last].g[0].w[3]) == gm_lap(last, lane->slots_log2);
    gm_store_relaxed_sys_u32(&lane->header->asleep, 1);
    if (mprotect(guarded, 4096, PROT_READ | PROT_WRITE) != 0)
        abort();
}

/* The client's own mapping of the lane: there are two in this process, and the other one is the test's. */
static uint8_t *mapping_of_the_client(void)
{
    FILE *const maps = fopen("/proc/self/maps", "r");
    unsigned long long from, inode;
    uint8_t *found = NULL;
    char line[512];
    struct stat st;

    assert_non_null(maps);
    assert_int_equal(0, fstat(p.lane[0].memory_fd, &st));
    while (fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%llx-%*x %*s %*x %*s %llu", &from, &inode) == 2 && inode == (unsigned long long)st.st_ino &&
            (uint8_t *)(uintptr_t)from != (uint8_t *)p.lane[0].header)
            found = (uint8_t *)(uintptr_t)from;
    fclose(maps);
    assert_non_null(found);
    return found;
}

/* The next store to a page of descriptors calls on_store, once. */
static void guard(uint64_t page, struct sigaction *before)
{
    struct sigaction action = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO | SA_RESETHAND};

    guarded = mapping_of_the_client() + gm_lane_sq_offset() + page * 4096;
    assert_int_equal(0, sigaction(SIGSEGV, &action, before));
    assert_int_equal(0, mprotect(guarded, 4096, PROT_READ));
}

static uint64_t rings(void)
{
    uint64_t rung = 0;

    return read(p.lane[0].doorbell_fd, &rung, sizeof rung) == sizeof rung ? rung : 0;
}

static void device_that_falls_asleep_as_a_job_is_written_is_rung_for(void **state)
{
    struct gm_job job = {0};
    struct sigaction before;

    (void)state;
    begin(16, 0, false);
    const struct gm_request request = request_of(1, false);
    guard(0, &before);
    assert_int_equal(GM_OK, gm_submit(client, &request, &job));
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(1, gm_load_relaxed_sys_u32(&p.lane[0].header->asleep));
    assert_int_equal(1, rings());
    end();
}

static void second_half_is_written_before_the_first(void **state)
{
    static struct gm_job jobs[64];
    struct sigaction before;

    (void)state;
    begin(128, 0, false); /* two pages: the wide one lies across */
    const struct gm_request narrow = request_of(1, false), wide = request_of(7, true);
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 63; i++)
        assert_int_equal(GM_OK, gm_submit(client, &narrow, &jobs[i]));
    guard(1, &before);
    assert_int_equal(GM_OK, gm_submit(client, &wide, &jobs[63]));
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(1, rings()); /* the store was seen */
    assert_false(first_half_was_there);
    end();
}

/* ---- By seed ---- */

#define KEPT 64u /* jobs that may be pending at once */

struct run {
    uint32_t random;
    struct gm_job jobs[KEPT];
    uint64_t tag[KEPT]; /* 0: the job is free */
    uint64_t submitted, read, taken; /* tags so far; jobs taken by the client */
    struct {
        uint64_t position, tag;
    } running[KEPT];
    uint32_t runs;
    uint32_t busy;
};

static uint32_t next(struct run *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 17;
    r->random ^= r->random << 5;
    return r->random;
}

static bool is_wide(uint64_t tag)
{
    return tag % 7 == 0 || tag % 11 == 3;
}

static void submit_some(struct run *r)
{
    for (uint32_t i = next(r) % 4; i > 0; i--) {
        uint32_t k = 0;
        while (k < KEPT && r->tag[k] != 0)
            k++;
        if (k == KEPT)
            return;
        const struct gm_request request = request_of(r->submitted + 1, is_wide(r->submitted + 1));
        const int rc = gm_submit(client, &request, &r->jobs[k]);
        r->busy += rc == GM_EBUSY;
        if (rc == GM_EBUSY)
            return;
        assert_int_equal(GM_OK, rc);
        r->tag[k] = ++r->submitted;
    }
}

/* The device reads the next few: exactly those that were submitted next. */
static void read_some(struct run *r)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    for (uint32_t i = next(r) % 4; i > 0 && fake_take(&p.lane[0], words, &position); i--) {
        const uint64_t tag = ++r->read;
        const struct gm_request request = request_of(tag, is_wide(tag));
        assert_true(tag <= r->submitted);
        assert_int_equal(request.n, words[GM_W_N]);
        if (is_wide(tag))
            assert_int_equal(tag, words[GM_W_VALUE0]);
        assert_int_equal(is_wide(tag), (words[GM_W_OP] >> 24) & 1);
        assert_true(r->runs < KEPT);
        r->running[r->runs].position = position;
        r->running[r->runs++].tag = tag;
    }
}

/* One of those that run, any; the oldest seldom, so that some run for many laps. */
static void answer_some(struct run *r)
{
    for (uint32_t i = next(r) % 4; i > 0 && r->runs > 0; i--) {
        const uint32_t least = next(r) % 16 != 0 && r->runs > 1;
        const uint32_t k = least + next(r) % (r->runs - least);
        fake_answer(&p.lane[0], r->running[k].position, r->running[k].tag, GM_OK, 1);
        for (uint32_t j = k; j + 1 < r->runs; j++)
            r->running[j] = r->running[j + 1];
        r->runs--;
    }
}

static void take_some(struct run *r)
{
    struct gm_result result;
    struct gm_job *job;

    if (next(r) % 2 == 0)
        return;
    assert_int_equal(GM_OK, gm_poll(client));
    while ((job = gm_next(client)) != NULL) {
        const size_t k = (size_t)(job - r->jobs);
        assert_int_equal(GM_OK, gm_job_result(job, &result));
        if (!is_wide(r->tag[k]))
            assert_int_equal(r->tag[k], result.value.u64);
        if (r->tag[k] == 0 || r->tag[k] > r->read)
            fail_msg("job %zu has tag %u, %u were read", k, (uint32_t)r->tag[k], (uint32_t)r->read);
        r->tag[k] = 0;
        r->taken++;
    }
}

static void every_job_is_read_once_and_answered_once(void **state)
{
    static struct run r;

    (void)state;
    for (uint32_t seed = 1; seed <= 24; seed++) {
        const uint32_t slots = 1u << (1 + seed % 5);
        const bool skip = seed % 4 != 0;
        /* Near the end of the laps. Memory of zeros answers for lap 0 where no answer was written before: that slot
         * can only be skipped. */
        const uint64_t start = seed % 3 == 0 && skip ? ((UINT64_C(1) << 32) - 2) * slots : seed % 3 * slots;
        memset(&r, 0, sizeof r);
        r.random = seed * 2654435761u;
        begin(slots, start, skip);
        for (uint32_t step = 0; step < 4000; step++) {
            submit_some(&r);
            read_some(&r);
            answer_some(&r);
            take_some(&r);
        }
        for (uint32_t step = 0; r.taken < r.submitted; step++) {
            assert_true(step < 100000);
            read_some(&r);
            answer_some(&r);
            take_some(&r);
        }
        if (r.submitted < 300 || r.busy == 0)
            fail_msg("seed %u: %u jobs, busy %u times", seed, (uint32_t)r.submitted, r.busy);
        assert_true(r.submitted == r.read);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_long_job_holds_nothing_up),
        cmocka_unit_test(without_skips_the_lane_waits_for_the_oldest),
        cmocka_unit_test(skips_are_only_written_in_front_of_a_job),
        cmocka_unit_test(device_that_falls_asleep_as_a_job_is_written_is_rung_for),
        cmocka_unit_test(second_half_is_written_before_the_first),
        cmocka_unit_test(every_job_is_read_once_and_answered_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
