/* SPDX-License-Identifier: Apache-2.0
 *
 * What gridmilld may say to a device and what it hears: right messages, wrong ones, descriptors that are not what they
 * should be, and drops that wait for jobs and for a stop. A backend that wants a stop before it unmaps stands for CUDA.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "served.h"

#define NUMBERS 1024u

static const uint32_t nop[GM_DESC_WORDS] = {GM_OP_nop};

static struct served device;

/* The CPU's, but unmapping wants a stop; counts starts, and may fail to map; whom it would wake is kept. */
static struct gm_backend strict;
static uint32_t starts, unmapped_while_running, unmaps, fail_maps, good_maps, unmap_ms;
static uint32_t quiets, quiet_while_running, unmaps_not_quiet;
static bool quiet;
static int wake_fd[GM_LANE_TABLE];

static int strict_start(struct gm_device *d, char *text)
{
    starts++;
    quiet = false;
    return gm_backend_cpu.start(d, text);
}
static int strict_map(struct gm_device *d, void *host, uint64_t bytes, uint64_t *address, char *text)
{
    if (fail_maps == 0 || good_maps-- != 0)
        return gm_backend_cpu.map(d, host, bytes, address, text);
    fail_maps--;
    good_maps = 0;
    snprintf(text, GM_ERROR_TEXT_MAX, "no room to register");
    return GM_ENOMEM;
}
static int strict_unmap(struct gm_device *d, void *host, uint64_t bytes, char *text)
{
    unmaps++;
    unmapped_while_running += gm_backend_cpu.running(d);
    unmaps_not_quiet += !quiet;
    if (unmap_ms != 0)
        usleep(unmap_ms * 1000u);
    return gm_backend_cpu.unmap(d, host, bytes, text);
}
static int strict_before_unmap(struct gm_device *d, char *text)
{
    (void)text;
    quiets++;
    quiet_while_running += gm_backend_cpu.running(d);
    quiet = true;
    return GM_OK;
}
static void strict_lane_wake(struct gm_device *d, uint32_t lane, int fd)
{
    wake_fd[lane] = fd;
    gm_backend_cpu.lane_wake(d, lane, fd);
}

static void open_strict(uint32_t workers)
{
    if (gm_harness_is_cuda())
        skip();
    strict = gm_backend_cpu;
    strict.start = strict_start;
    strict.map = strict_map;
    strict.unmap = strict_unmap;
    strict.lane_wake = strict_lane_wake;
    strict.unmap_needs_stop = true;
    strict.before_unmap = strict_before_unmap;
    starts = unmapped_while_running = unmaps = fail_maps = good_maps = unmap_ms = 0;
    quiets = quiet_while_running = unmaps_not_quiet = 0;
    quiet = false;
    served_open(&device, &strict, workers);
}

static void lane_works(struct served_lane *lane)
{
    for (uint32_t i = 0; i < 20u; i++)
        assert_int_equal(gm_completion_status(served_wait(lane, served_submit(lane, nop))), GM_OK);
}

static void lane_index_in_use_or_out_of_range_is_refused(void **state)
{
    (void)state;
    struct served_lane lane, other;
    served_open(&device, NULL, 0);
    served_lane_make(&device, &lane, 7, 3, 0);
    served_lane_make(&device, &other, 7, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    const uint32_t before = served_descriptors();
    assert_int_equal(served_lane_add(&other), GM_EINVAL);
    static const uint32_t outside[] = {0, GM_LANES_MAX + 1u, GM_LANE_TABLE, UINT32_MAX};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        other.index = outside[i];
        assert_int_equal(served_lane_add(&other), GM_EINVAL);
        assert_int_equal(served_lane_drop(&other), GM_ENOTFOUND);
    }
    assert_int_equal(served_descriptors(), before);
    lane_works(&lane);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_ENOTFOUND);
    other.index = 7;
    assert_int_equal(served_lane_add(&other), GM_OK); /* free for the next */
    lane_works(&other);
    assert_int_equal(served_lane_drop(&other), GM_OK);
    served_lane_free(&lane);
    served_lane_free(&other);
    served_close(&device);
}

/* The message of a good lane with some of its descriptors replaced (-1: as it is), and a number of them. */
static int32_t add_with(const struct served_lane *lane, int memory, int doorbell, int wake, uint32_t slots_log2,
                        uint32_t fds)
{
    struct gm_control m = {.type = GM_CONTROL_LANE_ADD};
    const int fd[6] = {memory >= 0 ? memory : lane->memory_fd,
                       doorbell >= 0 ? doorbell : lane->doorbell_fd,
                       wake >= 0 ? wake : lane->wake_write_fd,
                       lane->doorbell_fd,
                       lane->doorbell_fd,
                       lane->doorbell_fd};
    m.u.lane.index = lane->index;
    m.u.lane.session = lane->session;
    m.u.lane.slots_log2 = slots_log2;
    return served_request(lane->s, &m, fd, fds);
}

static int file_of(uint64_t bytes, unsigned flags, int seals)
{
    const int fd = memfd_create("test", flags | MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void wrong_descriptors_are_refused_and_none_stays(void **state)
{
    (void)state;
    const uint64_t bytes = gm_lane_bytes(8);
    const int both = F_SEAL_SHRINK | F_SEAL_GROW;
    struct served_lane lane;
    int blocking[2];
    served_open(&device, NULL, 0);
    served_lane_make(&device, &lane, 3, 3, 0);
    assert_int_equal(pipe2(blocking, O_CLOEXEC), 0);
    const int memory[] = {file_of(bytes, MFD_ALLOW_SEALING, 0),
                          file_of(bytes, MFD_ALLOW_SEALING, F_SEAL_SHRINK),
                          file_of(bytes, MFD_ALLOW_SEALING, F_SEAL_GROW),
                          file_of(bytes, 0, 0),
                          file_of(bytes - 4096u, MFD_ALLOW_SEALING, both),
                          file_of(bytes + 4096u, MFD_ALLOW_SEALING, both),
                          file_of(0, MFD_ALLOW_SEALING, both),
                          dup(lane.wake_write_fd),
                          dup(lane.doorbell_fd)};
    const uint32_t before = served_descriptors();
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        assert_int_equal(add_with(&lane, memory[i], -1, -1, 3, 3), GM_EINVAL);
    assert_int_equal(add_with(&lane, -1, lane.memory_fd, -1, 3, 3), GM_EINVAL);        /* cannot ring */
    assert_int_equal(add_with(&lane, -1, -1, lane.wake_fd, 3, 3), GM_EINVAL);          /* the reader's end */
    assert_int_equal(add_with(&lane, -1, -1, blocking[1], 3, 3), GM_EINVAL);
    assert_int_equal(add_with(&lane, -1, -1, lane.memory_fd, 3, 3), GM_EINVAL);
    assert_int_equal(add_with(&lane, -1, -1, lane.doorbell_fd, 3, 3), GM_EINVAL);
    for (uint32_t fds = 0; fds <= 6u; fds++)
        if (fds != 3u)
            assert_int_equal(add_with(&lane, -1, -1, -1, 3, fds), GM_EINVAL);
    static const uint32_t logs[] = {0, 7, 10, 11, 31, 32, UINT32_MAX};
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++)
        assert_int_equal(add_with(&lane, -1, -1, -1, logs[i], 3), GM_EINVAL);
    assert_int_equal(served_descriptors(), before);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        close(memory[i]);
    close(blocking[0]);
    close(blocking[1]);
    served_lane_free(&lane);
    served_close(&device);
}

static void lack_of_descriptors_is_an_answer_and_not_an_end(void **state)
{
    (void)state;
    struct served_lane lane;
    struct rlimit limit, less;
    served_open(&device, NULL, 0);
    served_lane_make(&device, &lane, 3, 3, 0);
    const uint32_t before = served_descriptors();
    const int next = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    less = limit;
    less.rlim_cur = (rlim_t)next + 1u; /* room for one, if there is no gap below */
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    assert_int_equal(served_lane_add(&lane), GM_EFDS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(served_descriptors(), before);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

static void message_without_descriptors_takes_none(void **state)
{
    (void)state;
    static const uint32_t types[] = {GM_CONTROL_PING, GM_CONTROL_PAUSE, GM_CONTROL_LANE_DROP, GM_CONTROL_CANCEL, 999};
    served_open(&device, NULL, 0);
    const uint32_t before = served_descriptors();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct gm_control m = {.type = types[i]};
        assert_int_equal(served_request(&device, &m, &device.h.doorbell_fd, 1), GM_EINVAL);
    }
    struct gm_control arena = {.type = GM_CONTROL_ARENA_ADD};
    arena.u.arena = (struct gm_control_arena){.handle = gm_handle(0, 1), .bytes = 4096};
    assert_int_equal(served_request(&device, &arena, NULL, 0), GM_EINVAL);
    struct gm_control unknown = {.type = 999};
    assert_int_equal(served_request(&device, &unknown, NULL, 0), GM_EMETHOD);
    assert_int_equal(served_descriptors(), before);
    served_close(&device);
}

static void failed_registration_leaves_nothing_behind(void **state)
{
    (void)state;
    struct served_lane lane;
    open_strict(0);
    served_lane_make(&device, &lane, 9, 4, 0);
    const uint32_t before = served_descriptors();
    fail_maps = 1;
    assert_int_equal(served_lane_add(&lane), GM_ENOMEM);
    assert_int_equal(served_descriptors(), before);
    assert_int_equal(served_lane_drop(&lane), GM_ENOTFOUND);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    assert_int_equal(unmaps, 1);
    served_lane_free(&lane);
    served_close(&device);
}

static void drop_is_answered_when_a_stop_has_let_go_of_the_memory(void **state)
{
    (void)state;
    struct served_lane lane;
    struct served_arena arena;
    open_strict(2);
    for (uint32_t round = 1; round <= 3u; round++) {
        served_arena_add(&device, &arena, gm_handle(5, round), GM_HARNESS_SESSION, NUMBERS);
        served_lane_make(&device, &lane, 4, 3, 0);
        assert_int_equal(served_lane_add(&lane), GM_OK);
        lane_works(&lane);
        assert_true(wake_fd[4] >= 0);
        assert_int_equal(served_lane_drop(&lane), GM_OK);
        assert_int_equal(wake_fd[4], -1); /* closed now: the number may soon be another file's */
        assert_int_equal(unmaps, 2u * round - 1u);
        assert_int_equal(served_arena_drop(&device, &arena), GM_OK);
        assert_int_equal(unmaps, 2u * round);
        served_lane_free(&lane);
    }
    assert_int_equal(unmapped_while_running, 0);
    served_close(&device);
}

/* All that a mass exit of clients drops, while one that stays goes on working. */
static void burst_of_drops_shares_pauses(void **state)
{
    (void)state;
    static struct served_lane lane[GM_LANES_MAX];
    static uint32_t sequence[GM_LANES_MAX];
    open_strict(2);
    for (uint32_t i = 0; i < GM_LANES_MAX; i++) {
        served_lane_make(&device, &lane[i], i + 1u, 1, 0);
        assert_int_equal(served_lane_add(&lane[i]), GM_OK);
    }
    lane_works(&lane[0]);
    const uint32_t before = starts;
    struct gm_control ping = {.type = GM_CONTROL_PING};
    for (uint32_t i = 1; i < GM_LANES_MAX; i++) {
        struct gm_control m = {.type = GM_CONTROL_LANE_DROP};
        m.u.lane.index = i + 1u;
        sequence[i] = served_send(&device, &m, NULL, 0);
    }
    for (uint32_t i = 1; i < GM_LANES_MAX; i++)
        assert_int_equal(served_reply(&device, sequence[i]).status, GM_OK);
    assert_int_equal(served_request(&device, &ping, NULL, 0), GM_OK);
    /* One, unless the machine was so slow that the burst was not over when the first had waited long enough, or that
     * nothing could be done in the time of a pause. */
    const uint32_t pauses = starts - before;
    printf("# %u drops, %u pauses\n", GM_LANES_MAX - 1u, pauses);
    assert_true(pauses >= 1u && pauses <= GM_LANES_MAX / 2u);
    assert_int_equal(unmaps, GM_LANES_MAX - 1u);
    assert_int_equal(unmapped_while_running, 0);
    lane_works(&lane[0]);
    assert_int_equal(served_lane_drop(&lane[0]), GM_OK);
    for (uint32_t i = 0; i < GM_LANES_MAX; i++)
        served_lane_free(&lane[i]);
    served_close(&device);
}

/* Clients that come and go one after another do not stop the device more often than it is good for the others. */
static void pauses_keep_their_distance(void **state)
{
    (void)state;
    struct served_lane lane;
    open_strict(2);
    const uint64_t begin = gm_harness_now_ms();
    for (uint32_t round = 0; round < 6u; round++) {
        served_lane_make(&device, &lane, 4, 3, 0);
        assert_int_equal(served_lane_add(&lane), GM_OK);
        assert_int_equal(served_lane_drop(&lane), GM_OK);
        served_lane_free(&lane);
    }
    assert_true(gm_harness_now_ms() - begin >= 5u * 19u);
    served_close(&device);
}

/* Nobody is kept waiting for all that a mass exit leaves to do. */
static void slow_drops_do_not_share_a_pause(void **state)
{
    (void)state;
    enum { LANES = 12 };
    static struct served_lane lane[LANES + 1];
    uint32_t sequence[LANES];
    open_strict(2);
    for (uint32_t i = 0; i <= LANES; i++) {
        served_lane_make(&device, &lane[i], i + 1u, 1, 0);
        assert_int_equal(served_lane_add(&lane[i]), GM_OK);
    }
    const uint32_t before = starts;
    unmap_ms = 5; /* far more than a pause may work */
    for (uint32_t i = 0; i < LANES; i++) {
        struct gm_control m = {.type = GM_CONTROL_LANE_DROP};
        m.u.lane.index = i + 1u;
        sequence[i] = served_send(&device, &m, NULL, 0);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(served_reply(&device, sequence[i]).status, GM_OK);
        lane_works(&lane[LANES]);
    }
    assert_int_equal(starts - before, LANES);
    assert_int_equal(unmaps, LANES);
    assert_int_equal(unmapped_while_running, 0);
    assert_int_equal(served_lane_drop(&lane[LANES]), GM_OK);
    for (uint32_t i = 0; i <= LANES; i++)
        served_lane_free(&lane[i]);
    served_close(&device);
}

/* Letting go of large memory takes long: others go on between its pieces. */
static void large_memory_is_let_go_of_in_pieces(void **state)
{
    (void)state;
    enum { PIECES = 5 };
    struct served_lane lane;
    struct served_arena arena;
    uint32_t words[GM_DESC_WORDS];
    const uint64_t count = PIECES * NUMBERS - NUMBERS / 2u;
    open_strict(2);
    strict.piece_bytes = NUMBERS * sizeof(uint32_t);
    served_lane_make(&device, &lane, 1, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    served_arena_add(&device, &arena, gm_handle(3, 1), GM_HARNESS_SESSION, count);
    served_sum_words(words, &arena, count);
    assert_true(gm_completion_result(served_wait(&lane, served_submit(&lane, words))) == served_sum_expected(count));
    const uint32_t before = starts;
    unmap_ms = 5;
    assert_int_equal(served_arena_drop(&device, &arena), GM_OK);
    assert_int_equal(unmaps, PIECES);
    assert_int_equal(starts - before, PIECES);
    assert_int_equal(unmapped_while_running, 0);
    lane_works(&lane);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

static void memory_that_cannot_be_mapped_whole_is_not_mapped_at_all(void **state)
{
    (void)state;
    struct served_lane lane;
    struct served_arena arena;
    struct gm_control m = {.type = GM_CONTROL_ARENA_ADD};
    open_strict(2);
    strict.piece_bytes = NUMBERS * sizeof(uint32_t);
    served_lane_make(&device, &lane, 1, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    const int fd = file_of(4u * strict.piece_bytes, MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_GROW);
    const uint32_t before = served_descriptors();
    m.u.arena = (struct gm_control_arena){
        .handle = gm_handle(3, 1), .session = GM_HARNESS_SESSION, .bytes = 4u * strict.piece_bytes};
    fail_maps = 1;
    good_maps = 2;
    assert_int_equal(served_request(&device, &m, &fd, 1), GM_ENOMEM);
    assert_int_equal(unmaps, 2);
    assert_int_equal(unmapped_while_running, 0);
    assert_int_equal(served_descriptors(), before);
    close(fd);
    lane_works(&lane);
    served_arena_add(&device, &arena, gm_handle(3, 1), GM_HARNESS_SESSION, 4u * NUMBERS); /* the handle is free */
    assert_int_equal(served_arena_drop(&device, &arena), GM_OK);
    assert_int_equal(unmaps, 6);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    served_close(&device);
}

/* What an unmap would wait for is over before anybody has to stop. */
static void device_is_made_quiet_before_it_stops(void **state)
{
    (void)state;
    struct served_lane lane;
    struct gm_control pause = {.type = GM_CONTROL_PAUSE};
    open_strict(2);
    for (uint32_t round = 1; round <= 3u; round++) {
        served_lane_make(&device, &lane, 4, 3, 0);
        assert_int_equal(served_lane_add(&lane), GM_OK);
        assert_int_equal(served_request(&device, &pause, NULL, 0), GM_OK); /* nothing to unmap */
        assert_int_equal(quiets, round - 1u);
        assert_int_equal(served_lane_drop(&lane), GM_OK);
        served_lane_free(&lane);
        assert_int_equal(quiets, round);
    }
    assert_int_equal(quiet_while_running, 3);
    assert_int_equal(unmaps, 3);
    assert_int_equal(unmaps_not_quiet, 0);
    served_close(&device);
}

static void jobs_go_on_over_pauses(void **state)
{
    (void)state;
    struct served_lane lane;
    struct served_arena arena;
    uint32_t words[GM_DESC_WORDS];
    served_open(&device, NULL, 0);
    served_arena_add(&device, &arena, gm_handle(2, 1), GM_HARNESS_SESSION, NUMBERS);
    served_lane_make(&device, &lane, 4, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    for (uint32_t i = 0; i < 50u; i++) {
        struct gm_control pause = {.type = GM_CONTROL_PAUSE};
        uint64_t position[8];
        for (uint32_t k = 0; k < 8u; k++) {
            served_sum_words(words, &arena, i * 8u + k + 1u);
            position[k] = served_submit(&lane, words);
        }
        assert_int_equal(served_request(&device, &pause, NULL, 0), GM_OK);
        for (uint32_t k = 0; k < 8u; k++)
            assert_true(gm_completion_result(served_wait(&lane, position[k])) == served_sum_expected(i * 8u + k + 1u));
    }
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    served_lane_free(&lane);
    assert_int_equal(served_arena_drop(&device, &arena), GM_OK);
    served_close(&device);
}

static void every_ping_counts_turns(void **state)
{
    (void)state;
    uint64_t last = 0;
    served_open(&device, NULL, 0);
    for (uint32_t i = 0; i < 50u; i++) {
        struct gm_control m = {.type = GM_CONTROL_PING};
        const struct gm_control reply = served_reply(&device, served_send(&device, &m, NULL, 0));
        assert_int_equal(reply.status, GM_OK);
        assert_true(reply.value > last);
        last = reply.value;
    }
    served_close(&device);
}

/* A process that is started in the place of another finds that one's commands in the region. */
static void commands_of_an_earlier_process_mean_nothing(void **state)
{
    (void)state;
    uint8_t *region = mmap(NULL, gm_region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(region != MAP_FAILED);
    uint8_t *lane = region + gm_region_admin_offset();
    struct gm_lane_header *header = (struct gm_lane_header *)(void *)lane;
    header->slots_log2 = 6;
    const uint64_t rings = gm_lane_sq_offset(), bytes = gm_lane_bytes(GM_ADMIN_SLOTS);
    memset(lane + rings, 0x55, bytes - rings);
    memset(lane - 64, 0x55, 64);
    gm_admin_clear(region);
    for (uint64_t i = rings; i < bytes; i++)
        assert_int_equal(lane[i], 0);
    assert_int_equal(header->slots_log2, 6);
    assert_int_equal(lane[-1], 0x55);
    munmap(region, gm_region_bytes());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lane_index_in_use_or_out_of_range_is_refused),
        cmocka_unit_test(wrong_descriptors_are_refused_and_none_stays),
        cmocka_unit_test(lack_of_descriptors_is_an_answer_and_not_an_end),
        cmocka_unit_test(message_without_descriptors_takes_none),
        cmocka_unit_test(failed_registration_leaves_nothing_behind),
        cmocka_unit_test(drop_is_answered_when_a_stop_has_let_go_of_the_memory),
        cmocka_unit_test(burst_of_drops_shares_pauses),
        cmocka_unit_test(pauses_keep_their_distance),
        cmocka_unit_test(slow_drops_do_not_share_a_pause),
        cmocka_unit_test(large_memory_is_let_go_of_in_pieces),
        cmocka_unit_test(memory_that_cannot_be_mapped_whole_is_not_mapped_at_all),
        cmocka_unit_test(device_is_made_quiet_before_it_stops),
        cmocka_unit_test(jobs_go_on_over_pauses),
        cmocka_unit_test(every_ping_counts_turns),
        cmocka_unit_test(commands_of_an_earlier_process_mean_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
