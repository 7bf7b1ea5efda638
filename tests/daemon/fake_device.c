/* SPDX-License-Identifier: Apache-2.0
 *
 * A device process that misbehaves on request, for tests of gridmilld: it speaks control.h and lane 0, answers every
 * descriptor with its own element count, and does what the environment variable FAKE_DEVICE says. One thread; its
 * memory is the region.
 *
 *   normal         answers at once
 *   mute           never says ready               fail      says why it cannot start
 *   build          is of another build            exit      exits with status 7 before it is ready
 *   refuse         takes no arena but staging     hang      never completes a job
 *   first          never completes its first job, but all others
 *   slow           completes a job 2 ms after it came
 *   die            exits at the third job, unanswered; journal says it was started
 *   last           answers the third job and exits at once
 *   garbage        sends a message of a wrong size at the third job
 *   deaf           answers no ping after the first job
 *   stuck          ignores STOP                   nogpu     fails as a GPU, works as a CPU
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "errors.h"
#include "source_id.h"

#define MASK (GM_LANE0_SLOTS - 1u)

static uint8_t *region;
static struct gm_lane_header *lane;
static struct gm_desc_slot *sq;
static struct gm_granule *cq;
static uint64_t head, completed, jobs;
static uint64_t held[GM_LANE0_SLOTS], held_count; /* positions that are not answered */
static const char *mode = "normal";
static bool stopping;

static bool is(const char *what)
{
    return strcmp(mode, what) == 0;
}

static void say(struct gm_control *message)
{
    if (send(GM_DEVICE_FD_CONTROL, message, sizeof *message, MSG_NOSIGNAL) != (ssize_t)sizeof *message)
        _exit(2);
}

static void reply(const struct gm_control *request, int status, const char *text)
{
    struct gm_control message = {.type = GM_CONTROL_REPLY, .sequence = request->sequence, .status = status};
    snprintf(message.u.text, sizeof message.u.text, "%s", text);
    say(&message);
}

static void complete(uint64_t position, uint64_t result, int status)
{
    gm_store16_sys(&cq[position & MASK], gm_completion(result, status, 1000, gm_lap(position, lane->slots_log2)));
    completed++;
    gm_fence_sys();
    const struct gm_granule wait = gm_load16_sys(&lane->wait);
    const uint64_t seen = wait.w[0] | (uint64_t)wait.w[1] << 32, one = 1;
    if (wait.w[2] != 0 && completed > seen && write(GM_DEVICE_FD_WAKE, &one, sizeof one) < 0)
        _exit(2);
}

static void start(uint64_t position)
{
    uint32_t *journal = (uint32_t *)(void *)(region + gm_region_journal_offset());
    gm_store_release_sys_u32(&journal[position & MASK], gm_lap(position, lane->slots_log2));
}

static void take(uint64_t position, uint64_t n)
{
    jobs++;
    if (is("hang") || (is("deaf") && jobs > 1) || (is("first") && jobs == 1)) {
        held[held_count++] = position;
        return;
    }
    start(position);
    if (is("slow"))
        usleep(2000);
    if (is("die") && jobs == 3)
        _exit(9);
    if (is("garbage") && jobs == 3 && send(GM_DEVICE_FD_CONTROL, "?", 1, MSG_NOSIGNAL) == 1) {
        held[held_count++] = position;
        return;
    }
    complete(position, n, GM_OK);
    if (is("last") && jobs == 3)
        _exit(9);
}

static bool poll_lane(void)
{
    bool any = false;
    for (;;) {
        uint32_t words[3 * 4];
        const uint32_t lap = gm_lap(head, lane->slots_log2);
        for (uint32_t i = 0; i < 4; i++) {
            const struct gm_granule g = gm_load16_sys(&sq[head & MASK].g[i]);
            if (g.w[3] != lap)
                return any;
            memcpy(&words[3 * i], g.w, 12);
        }
        const uint64_t position = head;
        if ((words[GM_W_OP] & 0xffffu) == GM_DESC_SKIP_MARK) {
            head++;
            continue;
        }
        const bool wide = (words[GM_W_OP] >> 24 & GM_FLAG_WIDE) != 0;
        if (wide && gm_load16_sys(&sq[(head + 1) & MASK].g[3]).w[3] != gm_lap(head + 1, lane->slots_log2))
            return any;
        head += wide ? 2 : 1;
        any = true;
        take(position, gm_desc_get64(words, GM_W_N));
    }
}

static void cancel(const struct gm_control *message)
{
    for (uint64_t i = 0; i < held_count; i++)
        if (held[i] == message->u.position) {
            held[i] = held[--held_count];
            reply(message, GM_OK, "");
            complete(message->u.position, 0, GM_ECANCELLED);
            return;
        }
    reply(message, GM_ENOTFOUND, "no such job");
}

static void control(void)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } space;
    struct gm_control message;
    struct iovec piece = {.iov_base = &message, .iov_len = sizeof message};
    struct msghdr in = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    if (recvmsg(GM_DEVICE_FD_CONTROL, &in, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof message)
        _exit(0);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&in);
    if (header != NULL) {
        int fd;
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
        close(fd);
    }
    switch (message.type) {
    case GM_CONTROL_ARENA_ADD:
        if (is("refuse") && (message.u.arena.flags & GM_ARENA_STAGING) == 0)
            reply(&message, GM_ENOMEM, "the device is full");
        else if (message.u.arena.kind == GM_ARENA_SHARED && header == NULL)
            reply(&message, GM_EINVAL, "no descriptor came");
        else
            reply(&message, GM_OK, "");
        break;
    case GM_CONTROL_PING:
        if (!is("deaf") || jobs == 0)
            reply(&message, GM_OK, "");
        break;
    case GM_CONTROL_CANCEL:
        cancel(&message);
        break;
    case GM_CONTROL_STOP:
        stopping = !is("stuck");
        reply(&message, GM_OK, "");
        break;
    default:
        reply(&message, GM_OK, "");
    }
}

static void ready(void)
{
    struct gm_control message = {.type = is("fail") ? GM_CONTROL_FAILED : GM_CONTROL_READY};
    if (is("fail")) {
        snprintf(message.u.text, sizeof message.u.text, "the fake device has no luck");
        say(&message);
        _exit(1);
    }
    message.u.hello = (struct gm_control_hello){.control_version = GM_CONTROL_VERSION,
                                                .backend = GM_BACKEND_CPU,
                                                .workers = 1,
                                                .threads = 1,
                                                .workspace_bytes = 1 << 20,
                                                .name = "fake",
                                                .pid = (uint32_t)getpid(),
                                                .flags = GM_HELLO_SKIP};
    snprintf(message.u.hello.source_id, sizeof message.u.hello.source_id, "%s", is("build") ? "other" : GM_SOURCE_ID);
    say(&message);
}

int main(int argc, char **argv)
{
    if (getenv("FAKE_DEVICE") != NULL)
        mode = getenv("FAKE_DEVICE");
    for (int i = 1; i < argc; i++)
        if (is("nogpu") && strncmp(argv[i], "cuda", 4) == 0)
            mode = "fail";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is("exit"))
        return 7;
    region = mmap(NULL, gm_region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, GM_DEVICE_FD_REGION, 0);
    if (region == MAP_FAILED)
        return 2;
    lane = (struct gm_lane_header *)(void *)(region + gm_region_lane0_offset());
    sq = (struct gm_desc_slot *)(void *)((uint8_t *)lane + gm_lane_sq_offset());
    cq = (struct gm_granule *)(void *)((uint8_t *)lane + gm_lane_cq_offset(GM_LANE0_SLOTS));
    head = lane->start;
    if (!is("mute"))
        ready();
    while (!stopping) {
        struct pollfd fds[2] = {{.fd = GM_DEVICE_FD_CONTROL, .events = POLLIN},
                                {.fd = GM_DEVICE_FD_DOORBELL, .events = POLLIN}};
        gm_store_relaxed_sys_u32(&lane->asleep, 1);
        gm_fence_sys(); /* store-load: pairs with the fence between publishing and the look at asleep */
        const int wait_ms = poll_lane() ? 0 : -1;
        uint64_t count;
        if (poll(fds, 2, wait_ms) < 0)
            return 2;
        gm_store_relaxed_sys_u32(&lane->asleep, 0);
        if ((fds[1].revents & POLLIN) && read(GM_DEVICE_FD_DOORBELL, &count, sizeof count) < 0)
            return 2;
        poll_lane(); /* first: a cancel may name what came before it */
        if (fds[0].revents & (POLLIN | POLLHUP))
            control();
    }
    return 0;
}
