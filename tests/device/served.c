/* SPDX-License-Identifier: Apache-2.0
 *
 * See served.h. The server's thread runs what the device process runs; the waits of clients look first and sleep then,
 * because the machine may have fewer processors than threads.
 */
#include "served.h"

#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LOOKS 200u

/* Lanes and arenas are mapped twice, for the client and for the device, as in life. The thread sanitizer knows memory
 * by its address, so it does not see that a job which a client sent after an answer comes after the job that was
 * answered. What ops do is looked at in the tests that share one mapping: harness.h. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:/device/ops/\n"
           "race:/device/cpu/copies.c\n";
}

static void *serve(void *arg)
{
    struct served *s = arg;
    s->result = gm_server_run(s->server, s->h.text);
    return NULL;
}

void served_open(struct served *s, const struct gm_backend *backend, uint32_t workers)
{
    const struct gm_device_config config = {.idle_ns = UINT64_C(50000000), .workers = workers};
    served_open_with(s, backend, &config);
}

void served_open_with(struct served *s, const struct gm_backend *backend, const struct gm_device_config *config)
{
    int pair[2];
    memset(s, 0, sizeof *s);
    signal(SIGPIPE, SIG_IGN); /* as in the device process */
    gm_harness_open(&s->h, config);
    s->server = calloc(1, sizeof *s->server);
    assert_non_null(s->server);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    s->control = pair[0];
    s->server->backend = backend ? backend : s->h.backend;
    s->server->device = s->h.device;
    s->server->admin = s->h.admin;
    s->server->admin.backend = s->server->backend;
    s->server->control_fd = pair[1];
    s->server->bells_fd = s->h.bells_fd;
    s->server->counters = &((struct gm_region_header *)(void *)s->h.region)->counters;
    assert_int_equal(
        s->h.backend->map(s->h.device, s->h.region, gm_region_bytes(), &s->server->region, s->h.text), GM_OK);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

void served_close(struct served *s)
{
    struct gm_control stop = {.type = GM_CONTROL_STOP};
    assert_int_equal(served_request(s, &stop, NULL, 0), GM_OK);
    pthread_join(s->thread, NULL);
    assert_int_equal(s->result, GM_OK);
    s->h.admin = s->server->admin;
    close(s->server->control_fd);
    close(s->control);
    free(s->server);
    gm_harness_close(&s->h);
}

uint32_t served_send(struct served *s, struct gm_control *message, const int *fd, uint32_t fds)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec io = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    assert_true(fds <= 8);
    message->sequence = ++s->sequence;
    if (fds != 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds * sizeof(int));
        memcpy(CMSG_DATA(c), fd, fds * sizeof(int));
    }
    s->reply[message->sequence % SERVED_REQUESTS].sequence = 0;
    assert_int_equal(sendmsg(s->control, &m, MSG_NOSIGNAL), (ssize_t)sizeof *message);
    return message->sequence;
}

struct gm_control served_reply(struct served *s, uint32_t sequence)
{
    const uint64_t deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    while (s->reply[sequence % SERVED_REQUESTS].sequence != sequence) {
        struct gm_control m;
        struct pollfd p = {.fd = s->control, .events = POLLIN};
        if (gm_harness_now_ms() > deadline)
            fail_msg("no reply to request %u", sequence);
        if (poll(&p, 1, 1000) <= 0)
            continue;
        if (recv(s->control, &m, sizeof m, MSG_DONTWAIT) != (ssize_t)sizeof m)
            fail_msg("the server is gone: %s", strerror(errno));
        assert_int_equal(m.type, GM_CONTROL_REPLY);
        assert_int_not_equal(s->reply[m.sequence % SERVED_REQUESTS].sequence, m.sequence); /* one reply each */
        s->reply[m.sequence % SERVED_REQUESTS].sequence = m.sequence;
        s->reply[m.sequence % SERVED_REQUESTS].reply = m;
    }
    return s->reply[sequence % SERVED_REQUESTS].reply;
}

int32_t served_request(struct served *s, struct gm_control *message, const int *fd, uint32_t fds)
{
    return served_reply(s, served_send(s, message, fd, fds)).status;
}

static int sealed(uint64_t bytes, int seals)
{
    const int fd = memfd_create("served", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

void served_lane_make(struct served *s, struct served_lane *lane, uint32_t index, uint32_t slots_log2, uint64_t start)
{
    const uint64_t bytes = gm_lane_bytes(1u << slots_log2);
    int ends[2];
    memset(lane, 0, sizeof *lane);
    lane->s = s;
    lane->index = index;
    lane->session = GM_HARNESS_SESSION;
    lane->slots_log2 = slots_log2;
    lane->start = lane->position = start;
    lane->memory_fd = sealed(bytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    lane->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, lane->memory_fd, 0);
    lane->doorbell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(lane->memory != MAP_FAILED && lane->doorbell_fd >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    lane->wake_fd = ends[0];
    lane->wake_write_fd = ends[1];
    lane->header = (struct gm_lane_header *)(void *)lane->memory;
    lane->sq = (struct gm_desc_slot *)(void *)(lane->memory + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(void *)(lane->memory + gm_lane_cq_offset(1u << slots_log2));
    lane->header->magic = GM_LANE_MAGIC;
    lane->header->version = GM_LANE_VERSION;
    lane->header->slots = 1u << slots_log2;
    lane->header->slots_log2 = slots_log2;
    lane->header->start = start;
    lane->header->state = GM_LANE_OPEN;
}

void served_lane_free(struct served_lane *lane)
{
    munmap(lane->memory, gm_lane_bytes(1u << lane->slots_log2));
    close(lane->memory_fd);
    close(lane->doorbell_fd);
    close(lane->wake_fd);
    if (lane->wake_write_fd >= 0)
        close(lane->wake_write_fd);
}

int32_t served_lane_add(struct served_lane *lane)
{
    struct gm_control m = {.type = GM_CONTROL_LANE_ADD};
    const int fd[3] = {lane->memory_fd, lane->doorbell_fd, lane->wake_write_fd};
    m.u.lane.index = lane->index;
    m.u.lane.session = lane->session;
    m.u.lane.slots_log2 = lane->slots_log2;
    m.u.lane.start = lane->start;
    m.u.lane.answered = lane->reaped;
    const int32_t status = served_request(lane->s, &m, fd, 3);
    if (status == GM_OK) {
        close(lane->wake_write_fd);
        lane->wake_write_fd = -1;
    }
    return status;
}

int32_t served_lane_drop(struct served_lane *lane)
{
    struct gm_control m = {.type = GM_CONTROL_LANE_DROP};
    m.u.lane.index = lane->index;
    return served_request(lane->s, &m, NULL, 0);
}

uint64_t served_submit(struct served_lane *lane, const uint32_t *words)
{
    const uint64_t one = 1, position = lane->position++;
    gm_desc_store(lane->sq, lane->slots_log2, position, words, 0);
    gm_fence_sys(); /* the client's half of the doorbell: pairs with the fence in gm_park */
    if (gm_load_relaxed_sys_u32(&lane->header->asleep) && write(lane->doorbell_fd, &one, sizeof one) < 0)
        assert_int_equal(errno, EAGAIN);
    return position;
}

bool served_answered(const struct served_lane *lane, uint64_t position, struct gm_granule *completion)
{
    *completion = gm_load16_sys(&lane->cq[position & ((1u << lane->slots_log2) - 1u)]);
    return completion->w[3] == gm_lap(position, lane->slots_log2);
}

struct gm_granule served_wait(struct served_lane *lane, uint64_t position)
{
    const uint64_t deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    struct gm_granule completion;
    for (uint32_t look = 0; !served_answered(lane, position, &completion); look++) {
        sched_yield();
        if (look < LOOKS)
            continue;
        if (gm_harness_now_ms() > deadline)
            fail_msg("lane %u: no answer at position %llu", lane->index, (unsigned long long)position);
        usleep(50);
    }
    lane->reaped++;
    return completion;
}

static void store_wait(struct served_lane *lane, uint32_t sleeps)
{
    const struct gm_granule g = {{(uint32_t)lane->reaped, (uint32_t)(lane->reaped >> 32), sleeps, 0}};
    gm_store16_sys(&lane->header->wait, g);
}

struct gm_granule served_sleep(struct served_lane *lane, uint64_t position)
{
    struct gm_granule completion;
    char bytes[4096];
    while (!served_answered(lane, position, &completion)) {
        struct pollfd p = {.fd = lane->wake_fd, .events = POLLIN};
        store_wait(lane, 1);
        gm_fence_sys(); /* the granule before the last look; the dispatcher looks at both again and again */
        if (!served_answered(lane, position, &completion) && poll(&p, 1, (int)GM_HARNESS_WAIT_MS) != 1)
            fail_msg("lane %u sleeps on position %llu and nobody wakes it", lane->index,
                     (unsigned long long)position);
        while (read(lane->wake_fd, bytes, sizeof bytes) > 0) {
        }
        store_wait(lane, 0);
    }
    lane->reaped++;
    return completion;
}

void served_arena_add(struct served *s, struct served_arena *arena, uint32_t handle, uint32_t session, uint64_t count)
{
    const int fd = sealed(count * sizeof(uint32_t), F_SEAL_SHRINK | F_SEAL_GROW);
    struct gm_control m = {.type = GM_CONTROL_ARENA_ADD};
    arena->count = count;
    arena->handle = handle;
    arena->numbers = mmap(NULL, count * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(arena->numbers != MAP_FAILED);
    for (uint64_t i = 0; i < count; i++)
        arena->numbers[i] = (uint32_t)i + 1u;
    m.u.arena = (struct gm_control_arena){.handle = handle, .session = session, .bytes = count * sizeof(uint32_t)};
    assert_int_equal(served_request(s, &m, &fd, 1), GM_OK);
    close(fd);
}

int32_t served_arena_drop(struct served *s, struct served_arena *arena)
{
    struct gm_control m = {.type = GM_CONTROL_ARENA_DROP};
    m.u.arena.handle = arena->handle;
    const int32_t status = served_request(s, &m, NULL, 0);
    munmap(arena->numbers, arena->count * sizeof(uint32_t));
    return status;
}

void served_sum_words(uint32_t *words, const struct served_arena *arena, uint64_t n)
{
    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    words[GM_W_OP] = GM_OP_sum | GM_DTYPE_u32 << 16;
    words[GM_W_ARENA0] = arena->handle;
    gm_desc_put64(words, GM_W_N, n);
}

uint64_t served_sum_expected(uint64_t n) { return n * (n + 1u) / 2u; }

struct gm_device_counters served_counters(const struct served *s)
{
    struct gm_device_counters counters;
    const struct gm_region_header *header = (const struct gm_region_header *)(const void *)s->h.region;
    const uint64_t *from = (const uint64_t *)(const void *)&header->counters;
    uint64_t *to = (uint64_t *)(void *)&counters;
    for (uint32_t i = 0; i < sizeof counters / sizeof *to; i++)
        to[i] = gm_load_relaxed_sys_u64(&from[i]);
    return counters;
}

uint32_t served_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}
