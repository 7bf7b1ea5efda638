/* SPDX-License-Identifier: Apache-2.0
 *
 * The device program as a process of its own: it is started as gridmilld starts it, dies in all the ways a build with
 * drills knows, and another one goes on with the same region and the same lanes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "served.h"

struct process {
    struct served s; /* control, h.region */
    int region_fd, doorbell_fd, wake_fd;
    pid_t pid;
    const char *log_level, *log; /* NULL: its own; ours */
    const char *engine_bytes;    /* NULL: the backend's default */
};

static const uint32_t nop[GM_DESC_WORDS] = {GM_OP_nop};

/* Beside this program, wherever both were carried. */
static char program[4200];

static void program_find(void)
{
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1u);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    snprintf(program, sizeof program, "%s/gridmill-device-%s", self, gm_harness_is_cuda() ? "cuda" : "cpu");
    if (access(program, X_OK) == 0)
        return;
    fprintf(stderr, "skipped: there is no %s\n", program);
    exit(77);
}

static void header_fill(void *at, uint32_t slots, uint32_t slots_log2)
{
    struct gm_lane_header *header = at;
    header->magic = GM_LANE_MAGIC;
    header->version = GM_LANE_VERSION;
    header->slots = slots;
    header->slots_log2 = slots_log2;
    header->state = GM_LANE_OPEN;
}

/* What outlives a device process. */
static void region_make(struct process *p)
{
    memset(p, 0, sizeof *p);
    p->region_fd = memfd_create("region", MFD_CLOEXEC);
    p->doorbell_fd = eventfd(0, EFD_CLOEXEC);
    p->wake_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(p->region_fd >= 0 && p->doorbell_fd >= 0 && p->wake_fd >= 0);
    assert_int_equal(ftruncate(p->region_fd, (off_t)gm_region_bytes()), 0);
    p->s.h.region = mmap(NULL, gm_region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, p->region_fd, 0);
    assert_true(p->s.h.region != MAP_FAILED);
    struct gm_region_header *header = (struct gm_region_header *)(void *)p->s.h.region;
    header->magic = GM_REGION_MAGIC;
    header->version = GM_CONTROL_VERSION;
    header->bytes = gm_region_bytes();
    header_fill(p->s.h.region + gm_region_lane0_offset(), GM_LANE0_SLOTS, (uint32_t)__builtin_ctz(GM_LANE0_SLOTS));
    header_fill(p->s.h.region + gm_region_admin_offset(), GM_ADMIN_SLOTS, (uint32_t)__builtin_ctz(GM_ADMIN_SLOTS));
}

static void region_free(struct process *p)
{
    munmap(p->s.h.region, gm_region_bytes());
    close(p->region_fd);
    close(p->doorbell_fd);
    close(p->wake_fd);
}

static void run_program(const struct process *p, int control, const char *drill)
{
    const int from[4] = {control, p->region_fd, p->doorbell_fd, p->wake_fd};
    int high[4];
    for (int i = 0; i < 4; i++)
        high[i] = fcntl(from[i], F_DUPFD, 20);
    for (int i = 0; i < 4; i++)
        dup2(high[i], GM_DEVICE_FD_CONTROL + i);
    for (int i = 0; i < 4; i++)
        close(high[i]);
    if (drill)
        setenv("GRIDMILL_DRILL", drill, 1);
    if (p->engine_bytes)
        setenv("GRIDMILL_ENGINE_BYTES", p->engine_bytes, 1);
    if (p->log)
        dup2(open(p->log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    const char *level = p->log_level ? p->log_level : "6";
    if (gm_harness_is_cuda())
        execl(program, program, "--device", "cuda:0", "--log-level", level, (char *)NULL);
    else
        execl(program, program, "--device", "cpu", "--workers", "2", "--log-level", level, (char *)NULL);
    _exit(127);
}

/* Returns its first message. */
static struct gm_control process_begin(struct process *p, const char *drill)
{
    int pair[2];
    struct gm_control m;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    p->s.control = pair[0];
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        run_program(p, pair[1], drill);
    close(pair[1]);
    assert_int_equal(recv(p->s.control, &m, sizeof m, 0), (ssize_t)sizeof m);
    return m;
}

/* Returns when it says ready. */
static void process_start(struct process *p, const char *drill)
{
    const struct gm_control m = process_begin(p, drill);
    if (m.type == GM_CONTROL_FAILED && m.status == GM_ENODEVICE)
        skip();
    if (m.type != GM_CONTROL_READY)
        fail_msg("the device process does not start: %.*s", (int)sizeof m.u.text, m.u.text);
}

/* Waits for the end of the process; its status as wait gives it. */
static int process_end(struct process *p)
{
    int status = 0;
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    close(p->s.control);
    return status;
}

static int process_stop(struct process *p)
{
    struct gm_control m = {.type = GM_CONTROL_STOP};
    assert_int_equal(served_request(&p->s, &m, NULL, 0), GM_OK);
    return process_end(p);
}

/* A new pipe: the process before had the other end of the last one. */
static void lane_add_again(struct served_lane *lane)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    close(lane->wake_fd);
    lane->wake_fd = ends[0];
    lane->wake_write_fd = ends[1];
    lane->start = lane->position;
    assert_int_equal(served_lane_add(lane), GM_OK);
}

/* Every other job is waited for asleep. */
static void lane_works(struct served_lane *lane, uint32_t jobs)
{
    for (uint32_t i = 0; i < jobs; i++) {
        const uint64_t position = served_submit(lane, nop);
        const struct gm_granule c = i % 2u ? served_sleep(lane, position) : served_wait(lane, position);
        assert_int_equal(gm_completion_status(c), GM_OK);
    }
}

static void it_serves_and_ends_in_order(void **state)
{
    (void)state;
    struct process p;
    struct served_lane lane;
    region_make(&p);
    process_start(&p, NULL);
    served_lane_make(&p.s, &lane, 1, 3, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane, 100);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    assert_int_equal(process_stop(&p), 0);
    served_lane_free(&lane);
    region_free(&p);
}

/* Nothing that the dead one left in the region or in the lanes keeps the next one from going on where it was. */
static void next_process_goes_on_with_the_same_lanes(void **state)
{
    (void)state;
    struct process p;
    struct served_lane lane[3];
    region_make(&p);
    process_start(&p, NULL);
    for (uint32_t i = 0; i < 3u; i++) {
        served_lane_make(&p.s, &lane[i], i * 100u + 1u, i + 1u, i * 1000003u);
        assert_int_equal(served_lane_add(&lane[i]), GM_OK);
    }
    for (uint32_t life = 0; life < 4u; life++) {
        for (uint32_t i = 0; i < 3u; i++)
            lane_works(&lane[i], 50u + life);
        assert_int_equal(kill(p.pid, SIGKILL), 0);
        assert_true(WIFSIGNALED(process_end(&p)));
        for (uint32_t i = 0; i < 3u; i++)
            gm_store_relaxed_sys_u32(&lane[i].header->asleep, life & 1u); /* it died at any moment */
        process_start(&p, NULL);
        for (uint32_t i = 0; i < 3u; i++)
            lane_add_again(&lane[i]);
    }
    for (uint32_t i = 0; i < 3u; i++) {
        lane_works(&lane[i], 50);
        assert_int_equal(served_lane_drop(&lane[i]), GM_OK);
        served_lane_free(&lane[i]);
    }
    assert_int_equal(process_stop(&p), 0);
    region_free(&p);
}

/* Descriptors that nobody had read are still there, and are read by the next. */
static void what_was_queued_is_read_by_the_next_process(void **state)
{
    (void)state;
    struct process p;
    struct served_lane lane;
    region_make(&p);
    process_start(&p, NULL);
    served_lane_make(&p.s, &lane, 1, 4, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane, 37);
    assert_int_equal(kill(p.pid, SIGKILL), 0);
    (void)process_end(&p);
    const uint64_t first = lane.position;
    for (uint32_t i = 0; i < 16u; i++)
        (void)served_submit(&lane, nop);
    process_start(&p, NULL);
    lane.position = first;
    lane_add_again(&lane);
    lane.position = first + 16u;
    for (uint32_t i = 0; i < 16u; i++)
        assert_int_equal(gm_completion_status(served_wait(&lane, first + i)), GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    assert_int_equal(process_stop(&p), 0);
    served_lane_free(&lane);
    region_free(&p);
}

static void it_ends_when_gridmilld_is_gone(void **state)
{
    (void)state;
    struct process p;
    struct served_lane lane;
    int status = 0;
    region_make(&p);
    process_start(&p, NULL);
    served_lane_make(&p.s, &lane, 1, 4, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane, 10);
    close(p.s.control);
    assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
    assert_int_equal(status, 0);
    served_lane_free(&lane);
    region_free(&p);
}

/* The client of a lane closes its end of the wake pipe, and goes to sleep: the write that would wake it fails. */
static void wake_that_nobody_can_read_ends_nothing(void **state)
{
    (void)state;
    struct process p;
    struct served_lane gone, lane;
    struct gm_control ping = {.type = GM_CONTROL_PING};
    const uint64_t deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    region_make(&p);
    process_start(&p, NULL);
    served_lane_make(&p.s, &gone, 1, 4, 0);
    served_lane_make(&p.s, &lane, 2, 4, 0);
    assert_int_equal(served_lane_add(&gone), GM_OK);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    close(gone.wake_fd);
    gm_store16_sys(&gone.header->wait, (struct gm_granule){{0, 0, 1, 0}}); /* asleep since before the first answer */
    (void)served_submit(&gone, nop);
    while (served_counters(&p.s).wakes == 0 && gm_harness_now_ms() < deadline) {
        assert_int_equal(waitpid(p.pid, NULL, WNOHANG), 0); /* it lives */
        usleep(100);
    }
    assert_true(served_counters(&p.s).wakes != 0); /* or this test shows nothing */
    assert_int_equal(served_request(&p.s, &ping, NULL, 0), GM_OK);
    lane_works(&lane, 20);
    assert_int_equal(served_lane_drop(&gone), GM_OK);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    assert_int_equal(process_stop(&p), 0); /* not by a signal */
    gone.wake_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* for served_lane_free */
    served_lane_free(&gone);
    served_lane_free(&lane);
    region_free(&p);
}

/* What it says is written when it is important enough. The loudest line it has is that of a message cut short. */
static bool it_says_why_it_ends(const char *log_level)
{
    struct process p;
    char log[] = "/tmp/gridmill-log-XXXXXX", text[4096] = "";
    const int fd = mkstemp(log);
    assert_true(fd >= 0);
    region_make(&p);
    p.log_level = log_level, p.log = log;
    process_start(&p, NULL);
    assert_int_equal(send(p.s.control, "short", 5, MSG_NOSIGNAL), 5);
    assert_int_not_equal(process_end(&p), 0);
    assert_true(read(fd, text, sizeof text - 1) >= 0);
    close(fd);
    unlink(log);
    region_free(&p);
    return strstr(text, "gridmill-device: ") != NULL && strstr(text, "status=") != NULL;
}

static void it_says_what_matters_as_much_as_it_was_told(void **state)
{
    (void)state;
    assert_true(it_says_why_it_ends("3")); /* an error, in syslog(3) */
    assert_false(it_says_why_it_ends("2"));
}

static void size_for_the_copy_engine_is_a_number(void **state)
{
    (void)state;
    struct process p;
    region_make(&p);
    p.engine_bytes = "7.5";
    const struct gm_control m = process_begin(&p, NULL);
    assert_int_equal(m.type, GM_CONTROL_FAILED);
    assert_int_equal(m.status, GM_EINVAL);
    assert_non_null(strstr(m.u.text, "GRIDMILL_ENGINE_BYTES"));
    assert_int_not_equal(process_end(&p), 0);
    region_free(&p);
}

#ifdef GM_DRILLS
/* What a sanitizer makes of a fault, when it is told to abort. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULT_ABORTS true
#elif defined(__has_feature)
#define FAULT_ABORTS (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define FAULT_ABORTS false
#endif

/* Jobs until the process ends: an answer comes for each but the ones it dies of. */
static int work_until_it_ends(struct process *p, struct served_lane *lane, uint32_t *answered)
{
    const uint64_t deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    int status = 0;
    *answered = 0;
    for (;;) {
        struct gm_granule c;
        const uint64_t position = served_submit(lane, nop);
        while (!served_answered(lane, position, &c)) {
            if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
                close(p->s.control);
                return status;
            }
            if (gm_harness_now_ms() > deadline)
                fail_msg("it lives on");
        }
        ++*answered;
    }
}

static void drill_kills(const char *drill, int signal_number, uint32_t least)
{
    struct process p;
    struct served_lane lane;
    uint32_t answered;
    region_make(&p);
    process_start(&p, drill);
    served_lane_make(&p.s, &lane, 1, 4, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    const int status = work_until_it_ends(&p, &lane, &answered);
    printf("# %s: status %#x after %u jobs\n", drill, (unsigned)status, answered);
    assert_true(answered >= least && (gm_harness_is_cuda() || answered < least + 100u));
    const bool aborts = FAULT_ABORTS && signal_number != SIGKILL && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    /* A sanitizer turns a fault into an end of its own, and the fault of a GPU ends nothing but its context. */
    assert_true(aborts || (WIFSIGNALED(status) ? WTERMSIG(status) == signal_number : WEXITSTATUS(status) != 0));
    served_lane_free(&lane);
    region_free(&p);
}

static void drill_ends_the_process_where_it_says(void **state)
{
    (void)state;
    drill_kills("kill-after-jobs=200", SIGKILL, 199);
    drill_kills("abort-in-job=100", SIGSEGV, 100);
    drill_kills("trap-in-job=150", SIGILL, 150);
}

static void stalled_dispatcher_leaves_pings_unanswered(void **state)
{
    (void)state;
    struct process p;
    struct gm_control ping = {.type = GM_CONTROL_PING};
    struct served_lane lane;
    region_make(&p);
    process_start(&p, "stall-dispatcher-after=20");
    served_lane_make(&p.s, &lane, 1, 5, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    lane_works(&lane, 19);
    assert_int_equal(served_request(&p.s, &ping, NULL, 0), GM_OK);
    lane_works(&lane, 1); /* answered, so started in a turn that no ping can be in any more */
    assert_int_equal(served_request(&p.s, &ping, NULL, 0), GM_ETIMEDOUT);
    assert_int_equal(waitpid(p.pid, NULL, WNOHANG), 0);
    assert_int_equal(kill(p.pid, SIGKILL), 0);
    (void)process_end(&p);
    served_lane_free(&lane);
    region_free(&p);
}

static void drill_may_end_it_in_the_middle_of_a_pause(void **state)
{
    (void)state;
    struct process p;
    struct gm_control m = {.type = GM_CONTROL_PAUSE};
    region_make(&p);
    process_start(&p, "exit-in-pause");
    (void)served_send(&p.s, &m, NULL, 0);
    assert_int_equal(process_end(&p), 3 << 8);
    region_free(&p);
}

static void drill_strikes_once_when_told_so(void **state)
{
    (void)state;
    struct process p;
    struct gm_control m = {.type = GM_CONTROL_PAUSE};
    char folder[] = "/tmp/gridmill-drill-XXXXXX", drill[128], path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/once", folder);
    snprintf(drill, sizeof drill, "exit-in-pause,once=%s", path);
    region_make(&p);
    process_start(&p, drill);
    (void)served_send(&p.s, &m, NULL, 0);
    assert_int_equal(process_end(&p), 3 << 8);
    process_start(&p, drill);
    assert_int_equal(served_request(&p.s, &m, NULL, 0), GM_OK);
    assert_int_equal(process_stop(&p), 0);
    unlink(path);
    rmdir(folder);
    region_free(&p);
}

/* It is marked as started, and nobody has answered it: gridmilld will say that it was lost. */
static void process_that_dies_in_a_copy_leaves_it_marked(void **state)
{
    (void)state;
    struct process p;
    struct served_lane lane;
    struct served_arena from;
    struct gm_control add = {.type = GM_CONTROL_ARENA_ADD}, pause = {.type = GM_CONTROL_PAUSE};
    uint32_t words[GM_DESC_WORDS];
    struct gm_granule completion;
    if (gm_harness_is_cuda())
        skip();
    region_make(&p);
    p.engine_bytes = "65536";
    process_start(&p, "hold-copies=1");
    served_lane_make(&p.s, &lane, 1, 4, 0);
    assert_int_equal(served_lane_add(&lane), GM_OK);
    served_arena_add(&p.s, &from, gm_handle(5, 1), GM_HARNESS_SESSION, 2u * GM_COPY_PIECE / sizeof(uint32_t));
    add.u.arena = (struct gm_control_arena){.handle = gm_handle(6, 1), .kind = GM_ARENA_DEVICE,
                                            .session = GM_HARNESS_SESSION, .bytes = 2u * GM_COPY_PIECE};
    assert_int_equal(served_request(&p.s, &add, NULL, 0), GM_OK);
    served_sum_words(words, &from, from.count);
    words[GM_W_OP] = GM_OP_copy | GM_DTYPE_u32 << 16;
    words[GM_W_ARENA1] = gm_handle(6, 1);
    const uint64_t position = served_submit(&lane, words);
    lane_works(&lane, 10); /* so it was taken */
    assert_int_equal(served_request(&p.s, &pause, NULL, 0), GM_OK);
    lane_works(&lane, 2);
    assert_false(served_answered(&lane, position, &completion));
    assert_int_equal(kill(p.pid, SIGKILL), 0);
    (void)process_end(&p);
    const uint32_t *journal = (const uint32_t *)(const void *)(p.s.h.region + gm_region_journal_offset(1));
    assert_int_equal(journal[position], gm_lap(position, lane.slots_log2));
    assert_false(served_answered(&lane, position, &completion));
    p.engine_bytes = NULL;
    process_start(&p, NULL);
    lane_add_again(&lane);
    lane_works(&lane, 10);
    assert_int_equal(served_lane_drop(&lane), GM_OK);
    assert_int_equal(process_stop(&p), 0);
    munmap(from.numbers, from.count * sizeof(uint32_t));
    served_lane_free(&lane);
    region_free(&p);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_serves_and_ends_in_order),
        cmocka_unit_test(next_process_goes_on_with_the_same_lanes),
        cmocka_unit_test(what_was_queued_is_read_by_the_next_process),
        cmocka_unit_test(it_ends_when_gridmilld_is_gone),
        cmocka_unit_test(wake_that_nobody_can_read_ends_nothing),
        cmocka_unit_test(it_says_what_matters_as_much_as_it_was_told),
        cmocka_unit_test(size_for_the_copy_engine_is_a_number),
#ifdef GM_DRILLS
        cmocka_unit_test(drill_ends_the_process_where_it_says),
        cmocka_unit_test(stalled_dispatcher_leaves_pings_unanswered),
        cmocka_unit_test(drill_may_end_it_in_the_middle_of_a_pause),
        cmocka_unit_test(drill_strikes_once_when_told_so),
        cmocka_unit_test(process_that_dies_in_a_copy_leaves_it_marked),
#endif
    };
    program_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
