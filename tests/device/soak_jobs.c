/* SPDX-License-Identifier: Apache-2.0
 *
 * A long run of mixed jobs over lane 0 of a device in this process: a submitter thread with windows that change at
 * random, a checker thread that compares every answer with the one computed beforehand, and outputs that are checked by
 * sums over a prefix of random length. Every counter starts just before its wrap. Bounded by the number of jobs, or by
 * a time; the first wrong, missing or second answer ends it with status 1.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soak_mix.h"

#define SLOTS        GM_LANE0_SLOTS
#define RING_EVERY   16u    /* descriptors between two publications to the checker */
#define TELL_EVERY   8u     /* answers between two publications to the submitter */
/* A window is kept for so many times its size, and at most for so many jobs: a narrow one costs a round trip a job, and
 * would have most of the time if it had as many jobs as a wide one. */
#define WINDOW_LAPS  64u
#define WINDOW_MOST  8192u
#define CLOCK_EVERY  8192u  /* jobs between two looks at the clock */
#define TELL_NS      UINT64_C(10000000000)
#define LINE         64u    /* what two threads write stands on lines of their own */
#define RETURNS      1024u  /* regions on their way from the checker to the submitter */
/* Sixteen laps before the lap wraps to 0: by then every completion slot has been written, as after 2^32 laps. */
#define LANE_START   (UINT64_C(0xffffffef) << 12)
static_assert(RETURNS > 2u * SOAK_REGIONS, "every region fits the queue in both of its states");

struct flight {
    uint32_t job;    /* index into the mix, or of a check: SOAK_CHECK | region */
    uint16_t region; /* that it writes; SOAK_NO_REGION */
    uint16_t cut;
};

/* Shared by submitter and checker; each word has one writer. */
struct soak {
    struct gm_bed *bed;
    struct soak_mix *mix;
    uint64_t jobs, deadline_ns, seed;
    uint32_t failed;
    /* written by the submitter */
    __attribute__((aligned(LINE))) uint64_t head; /* published positions end here */
    uint32_t done;
    __attribute__((aligned(LINE))) struct flight flight[SLOTS];
    /* written by the checker */
    __attribute__((aligned(LINE))) uint64_t tail; /* answered and looked at */
    __attribute__((aligned(LINE))) uint64_t returned; /* regions pushed for the submitter */
    uint32_t returns[RETURNS]; /* region | SOAK_CHECK when its content is still to be checked */
    __attribute__((aligned(LINE))) struct gm_granule seen[SLOTS]; /* completions as they were read; must stay until the
                                                                   * slot is reused */
    /* submitter's own */
    __attribute__((aligned(LINE))) uint64_t taken; /* regions popped */
    uint64_t tail_seen, told_ns;
    uint16_t free_region[2][SOAK_REGIONS];
    uint32_t free_regions[2];
    uint16_t region_job[SOAK_REGIONS];
    uint64_t submitted, nothings, outputs, checks;
    /* checker's own */
    __attribute__((aligned(LINE))) uint64_t answered;
    uint64_t accepted, refused;
};

static void fail(struct soak *s) { gm_store_release_sys_u32(&s->failed, 1); }

static void tell(struct soak *s, uint64_t position, const char *what, struct gm_granule g)
{
    const struct flight *f = &s->flight[position & (SLOTS - 1u)];
    char text[160];
    soak_describe(s->mix, f->job, f->cut, text, sizeof text);
    fprintf(stderr, "soak_jobs: position %llu: %s: %s; status %d, result %#llx, lap %#x\n",
            (unsigned long long)position, text, what, gm_completion_status(g),
            (unsigned long long)gm_completion_result(g), g.w[3]);
    fail(s);
}

/* ---- submitter ---- */

/* The slot must still say what the checker read there, else somebody answered twice. */
static bool slot_clean(struct soak *s, uint64_t position)
{
    struct gm_granule now;
    (void)gm_bed_answered(s->bed, position, &now);
    if (memcmp(&now, &s->seen[position & (SLOTS - 1u)], sizeof now) == 0)
        return true;
    tell(s, position, "a second answer in a slot that was done", now);
    return false;
}

static void put(struct soak *s, const uint32_t *words, struct flight f)
{
    const uint64_t position = s->bed->position;
    const uint32_t slots = words[GM_W_OP] >> 24 & GM_FLAG_WIDE ? 2u : 1u;
    for (uint32_t i = 0; i < slots; i++)
        if (!slot_clean(s, position + i))
            return;
    s->flight[position & (SLOTS - 1u)] = f;
    if (slots == 2)
        s->flight[(position + 1u) & (SLOTS - 1u)].job = SOAK_SECOND_HALF;
    s->bed->position = gm_bed_put(s->bed, position, words);
    s->submitted++;
}

static void publish(struct soak *s)
{
    __atomic_store_n(&s->head, s->bed->position, __ATOMIC_RELEASE);
    if (gm_bed_ring(s->bed) != GM_OK) {
        fprintf(stderr, "soak_jobs: doorbell: %s\n", s->bed->text);
        fail(s);
    }
}

static void put_check(struct soak *s, uint16_t region, uint64_t *random)
{
    uint32_t words[GM_DESC_WORDS];
    const uint16_t cut = (uint16_t)(soak_random(random) % SOAK_CUTS);
    const struct soak_job *job = &s->mix->job[s->region_job[region]];
    soak_check_words(s->mix, job, region, cut, words);
    const struct flight f = {SOAK_CHECK | s->region_job[region], region, cut};
    put(s, words, f);
    s->checks++;
}

static void put_next(struct soak *s, uint64_t *random)
{
    uint64_t r = soak_random(random);
    uint32_t index = s->mix->table[r % SOAK_TABLE];
    const struct soak_job *job = &s->mix->job[index];
    struct flight f = {index, SOAK_NO_REGION, 0};
    if (job->out_words == 0) {
        s->nothings += index == 0;
        put(s, job->words, f);
        return;
    }
    const uint32_t size = job->out_words > SOAK_SMALL_WORDS;
    if (s->free_regions[size] == 0) {
        f.job = 0;
        s->nothings++;
        put(s, s->mix->job[0].words, f);
        return;
    }
    uint32_t words[GM_DESC_WORDS];
    f.region = s->free_region[size][--s->free_regions[size]];
    s->region_job[f.region] = (uint16_t)index;
    soak_output_words(s->mix, job, f.region, words);
    s->outputs++;
    put(s, words, f);
}

/* Whether so many positions would be in flight with another job, which may take two. */
static bool room_in(struct soak *s, uint64_t window)
{
    if (s->bed->position + 2u - s->tail_seen > window)
        s->tail_seen = __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
    return s->bed->position + 2u - s->tail_seen <= window;
}

static void take_returns(struct soak *s, uint64_t *random)
{
    const uint64_t returned = __atomic_load_n(&s->returned, __ATOMIC_ACQUIRE);
    while (s->taken != returned) {
        const uint32_t r = s->returns[s->taken % RETURNS];
        const uint16_t region = (uint16_t)r;
        if (r & SOAK_CHECK) {
            if (!room_in(s, SLOTS))
                return;
            put_check(s, region, random);
        } else {
            const uint32_t size = region >= SOAK_SMALL_REGIONS;
            s->free_region[size][s->free_regions[size]++] = region;
        }
        s->taken++;
    }
}

static uint64_t choose_window(uint64_t *random)
{
    const uint64_t r = soak_random(random);
    const uint32_t log2 = 1u + (uint32_t)(r % 12u); /* up to 4096: the whole lane */
    return (UINT64_C(1) << log2) - (r >> 32) % (UINT64_C(1) << (log2 - 1u));
}

static bool submit_more(struct soak *s)
{
    if (s->submitted >= s->jobs || s->submitted % CLOCK_EVERY != 0)
        return s->submitted < s->jobs;
    const uint64_t now = gm_bed_now_ns();
    if (now - s->told_ns >= TELL_NS) {
        s->told_ns = now;
        printf("# %llu jobs submitted\n", (unsigned long long)s->submitted);
        fflush(stdout);
    }
    return s->deadline_ns == 0 || now < s->deadline_ns;
}

static void *submitter(void *arg)
{
    struct soak *s = arg;
    uint64_t random = s->seed, window = 1, next_window = 0;
    uint32_t puts = 0;
    bool more = true;
    for (;;) {
        if (gm_load_relaxed_sys_u32(&s->failed))
            break;
        take_returns(s, &random);
        more = more && submit_more(s);
        if (more && room_in(s, window < 2u ? 2u : window)) {
            put_next(s, &random);
            if (s->submitted >= next_window) {
                window = choose_window(&random);
                next_window = s->submitted + (window < WINDOW_MOST / WINDOW_LAPS ? window * WINDOW_LAPS : WINDOW_MOST);
            }
            if (++puts % RING_EVERY != 0)
                continue;
        }
        if (s->bed->position != s->head) {
            publish(s);
        } else if (!more && s->free_regions[0] == SOAK_SMALL_REGIONS && s->free_regions[1] == SOAK_LARGE_REGIONS) {
            break;
        } else {
            gm_bed_relax();
            if (s->bed->spins != 0)
                sched_yield();
        }
    }
    gm_store_release_sys_u32(&s->done, 1);
    return NULL;
}

/* ---- checker ---- */

static void give_back(struct soak *s, uint32_t what)
{
    s->returns[s->returned % RETURNS] = what;
    __atomic_store_n(&s->returned, s->returned + 1u, __ATOMIC_RELEASE);
}

static void look(struct soak *s, uint64_t position, struct gm_granule g)
{
    const struct flight *f = &s->flight[position & (SLOTS - 1u)];
    const bool check = (f->job & SOAK_CHECK) != 0;
    const struct soak_job *job = &s->mix->job[f->job & ~SOAK_CHECK];
    const int32_t status = check ? GM_OK : job->status;
    const uint64_t result = check ? job->prefix[f->cut] : job->result;
    s->answered++;
    if (gm_completion_status(g) != status || gm_completion_result(g) != result)
        tell(s, position, "wrong answer", g);
    s->accepted += status == GM_OK;
    s->refused += status != GM_OK;
    if (f->region != SOAK_NO_REGION)
        give_back(s, check ? f->region : SOAK_CHECK | f->region);
}

static void *checker(void *arg)
{
    struct soak *s = arg;
    uint64_t tail = s->tail, head = tail;
    while (!gm_load_relaxed_sys_u32(&s->failed)) {
        if (tail == head) {
            const bool done = gm_load_acquire_sys_u32(&s->done) != 0;
            head = __atomic_load_n(&s->head, __ATOMIC_ACQUIRE);
            if (tail == head && done)
                break;
            if (tail == head) {
                gm_bed_relax();
                if (s->bed->spins != 0)
                    sched_yield();
                continue;
            }
        }
        struct gm_granule g;
        const uint32_t slot = tail & (SLOTS - 1u);
        if (s->flight[slot].job == SOAK_SECOND_HALF) {
            (void)gm_bed_answered(s->bed, tail, &g); /* nobody writes it: still what it was a lap ago */
            if (memcmp(&g, &s->seen[slot], sizeof g) != 0)
                tell(s, tail, "an answer for the second half of a descriptor", g);
        } else if (gm_bed_wait(s->bed, tail, &g) != GM_OK) {
            tell(s, tail, "no answer", g);
        } else {
            s->seen[slot] = g;
            look(s, tail, g);
        }
        tail++;
        if (tail == head || tail % TELL_EVERY == 0)
            __atomic_store_n(&s->tail, tail, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* ---- */

struct options {
    const char *backend, *device;
    uint64_t jobs, seconds, seed;
    uint32_t workers;
};

static bool parse(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'}, {"device", required_argument, NULL, 'd'},
        {"jobs", required_argument, NULL, 'j'},    {"seconds", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},    {"workers", required_argument, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        errno = 0;
        const uint64_t value = c == '?' || c == 'b' || c == 'd' ? 0 : strtoull(optarg, &end, 0);
        if (c == '?' || errno != 0 || (end && (end == optarg || *end != 0)))
            return false;
        if (c == 'b')
            o->backend = optarg;
        else if (c == 'd')
            o->device = optarg;
        else if (c == 'j')
            o->jobs = value;
        else if (c == 't')
            o->seconds = value;
        else if (c == 's')
            o->seed = value;
        else
            o->workers = (uint32_t)value;
    }
    return optind == argc && o->jobs > 0 && o->workers <= GM_SHARES_MAX;
}

/* The device counts too: every job once. */
static bool counters_agree(struct soak *s)
{
    const struct gm_device_counters counters = gm_bed_counters(s->bed), *c = &counters;
    const uint64_t accepted = s->accepted + s->mix->setup_jobs;
    const bool right = c->started == accepted && c->completed == accepted && c->refused == s->refused &&
                       c->entries == 0 && c->workspace == 0;
    if (!right)
        fprintf(stderr,
                "soak_jobs: the device counted started %llu completed %llu refused %llu, left entries %llu workspace "
                "%llu; accepted here %llu, refused %llu\n",
                (unsigned long long)c->started, (unsigned long long)c->completed, (unsigned long long)c->refused,
                (unsigned long long)c->entries, (unsigned long long)c->workspace, (unsigned long long)accepted,
                (unsigned long long)s->refused);
    return right;
}

static bool run(struct soak *s)
{
    pthread_t threads[2];
    s->head = s->tail = s->tail_seen = s->bed->position;
    for (uint32_t i = 0; i < SLOTS; i++) /* what is there before the first job: answers of the setup, or nothing */
        (void)gm_bed_answered(s->bed, i, &s->seen[i]);
    for (uint32_t i = 0; i < SOAK_REGIONS; i++) {
        const uint32_t size = i >= SOAK_SMALL_REGIONS;
        s->free_region[size][s->free_regions[size]++] = (uint16_t)i;
    }
    if (pthread_create(&threads[0], NULL, submitter, s) != 0)
        return false;
    if (pthread_create(&threads[1], NULL, checker, s) != 0) {
        fail(s);
        pthread_join(threads[0], NULL);
        return false;
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return !s->failed;
}

int main(int argc, char **argv)
{
    static struct gm_bed bed;
    static struct soak_mix mix;
    static struct soak s;
    struct options o = {.backend = "cpu", .jobs = 1000000, .seed = 1};
    if (!parse(argc, argv, &o)) {
        fputs("usage: soak_jobs [--backend cpu|cuda] [--device NAME] [--jobs N] [--seconds N] [--seed N] "
              "[--workers N]\n", stderr);
        return 2;
    }
    const struct gm_backend *backend = gm_bed_backend(o.backend);
    if (!backend) {
        fprintf(stderr, "soak_jobs: skipped: this build has no %s backend\n", o.backend);
        return 77;
    }
    const struct gm_device_config config = {
        .device = o.device ? o.device : strcmp(o.backend, "cuda") == 0 ? "cuda:0" : "cpu",
        .workers = o.workers,
        .workspace_bytes = UINT64_C(256) << 20,
        .idle_ns = UINT64_MAX,
        .ticket_start = UINT64_C(0xfffffffd) << 13,
        .inbox_start = UINT64_C(0xfffffffd) << 11,
    };
    int status = gm_bed_open(&bed, backend, &config, LANE_START);
    if (status == GM_OK)
        status = soak_mix_make(&mix, &bed, o.seed);
    if (status != GM_OK) {
        fprintf(stderr, "soak_jobs: %s%s (status %d)\n", status == GM_ENODEVICE ? "skipped: " : "", bed.text, status);
        return status == GM_ENODEVICE ? 77 : 1;
    }
    s.bed = &bed;
    s.mix = &mix;
    s.jobs = o.jobs;
    s.seed = o.seed * UINT64_C(0x9E3779B97F4A7C15) + 1u;
    const uint64_t begin = s.told_ns = gm_bed_now_ns();
    s.deadline_ns = o.seconds ? begin + o.seconds * 1000000000u : 0;
    const bool right = run(&s);
    const double seconds = (double)(gm_bed_now_ns() - begin) / 1e9;
    if (!right)
        return 1; /* workers may still write into everything: the process just ends */
    status = gm_bed_settle(&bed);
    const bool agree = status == GM_OK && s.answered == s.submitted && counters_agree(&s);
    if (status == GM_OK)
        status = gm_bed_close(&bed);
    if (status != GM_OK) {
        fprintf(stderr, "soak_jobs: stop: %s\n", bed.text);
        return 1;
    }
    printf("soak_jobs backend=%s seed=%llu jobs=%llu answered=%llu accepted=%llu refused=%llu nops=%llu outputs=%llu "
           "checked=%llu positions=%llu seconds=%.2f jobs_per_s=%.0f\n",
           o.backend, (unsigned long long)o.seed, (unsigned long long)s.submitted, (unsigned long long)s.answered,
           (unsigned long long)s.accepted, (unsigned long long)s.refused, (unsigned long long)s.nothings,
           (unsigned long long)s.outputs, (unsigned long long)s.checks, (unsigned long long)(s.head - LANE_START),
           seconds, (double)s.submitted / seconds);
    soak_mix_free(&mix);
    return agree ? 0 : 1;
}
