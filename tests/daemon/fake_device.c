/* SPDX-License-Identifier: Apache-2.0
 *
 * A device process that misbehaves on request, for tests of gridmilld: it speaks control.h, serves lane 0 and clients'
 * lanes, answers every descriptor with its own element count, and does what the environment variable FAKE_DEVICE says;
 * after "once:" only the first process does, which makes the file that FAKE_DEVICE_ONCE names, after "later:" all but
 * the first. One thread; its memory is the region and the lanes.
 *
 *   normal         answers at once
 *   mute           never says ready               fail      says why it cannot start
 *   build          is of another build            exit      exits with status 7 before it is ready
 *   refuse         takes no arena but staging     nolane    takes no lane
 *   hang           never takes a job              hold      takes and starts jobs, and never completes one
 *   first          never completes its first job, but all others
 *   slow           completes a job 2 ms after it came
 *   die            exits at the third job, unanswered; journal says it was started, and a worker was in it
 *   last           answers the third job and exits at once
 *   lag            dies as die does, at the ninth job; of what came after the second one nothing is in the counters
 *   garbage        sends a message of a wrong size at the third job
 *   deaf           answers no ping after the first job
 *   stuck          ignores STOP                   nogpu     fails as a GPU, works as a CPU
 *   grip           lets go of a lane the second time it is asked
 *   late           takes arenas (but staging) and lanes, and says that it ran out of time
 *   abuse          closes a lane after five refused descriptors in a row
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

#include "fake_device.h"
#include "source_id.h"

const char *fake_mode = "normal";
uint8_t *fake_region;
struct gm_device_counters *fake_counters;
uint64_t fake_jobs;
struct fake_lane fake_lanes[GM_LANE_TABLE];
struct gm_control_arena fake_arenas[GM_ARENAS_MAX];
static bool stopping;
static uint32_t drops;

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

static int arena_add(const struct gm_control *message, int count_of_fds, const char **text)
{
    const struct gm_control_arena *a = &message->u.arena;
    const bool gone = (a->flags & GM_ARENA_GONE) != 0, alias = (a->flags & GM_ARENA_ALIAS) != 0;
    struct gm_control_arena *row = &fake_arenas[gm_handle_index(a->handle) % GM_ARENAS_MAX];
    *text = "bad arena";
    if (row->handle != 0 || a->handle == 0 || (a->kind == GM_ARENA_SHARED) != (count_of_fds == 1) ||
        (gone && (alias || a->kind != GM_ARENA_DEVICE)))
        return GM_EINVAL;
    if (alias && fake_arenas[gm_handle_index((uint32_t)message->value)].handle != (uint32_t)message->value)
        return GM_EARENA;
    *text = "the device is full";
    if (is("refuse") && (a->flags & GM_ARENA_STAGING) == 0)
        return GM_ENOMEM;
    *row = *a;
    *text = "";
    return is("late") && (a->flags & GM_ARENA_STAGING) == 0 ? GM_ETIMEDOUT : GM_OK;
}

static int arena_drop(uint32_t handle)
{
    struct gm_control_arena *row = &fake_arenas[gm_handle_index(handle) % GM_ARENAS_MAX];
    if (handle == 0 || row->handle != handle)
        return GM_EARENA;
    row->handle = 0;
    return GM_OK;
}

static void lane_add(const struct gm_control *message, const int *fds, int count_of_fds)
{
    const struct gm_control_lane *l = &message->u.lane;
    struct fake_lane *lane = &fake_lanes[l->index];
    const uint64_t bytes = gm_lane_bytes(1u << l->slots_log2);
    if (is("nolane")) {
        reply(message, GM_ESYSTEM, "lanes do not work here");
        return;
    }
    if (count_of_fds != 3 || l->index == 0 || l->index > GM_LANES_MAX || lane->memory != NULL || l->zero != 0) {
        reply(message, GM_EINVAL, "bad lane");
        return;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (memory == MAP_FAILED)
        _exit(2);
    *lane = (struct fake_lane){.memory = memory,
                               .log2 = l->slots_log2,
                               .index = l->index,
                               .head = l->start,
                               .taken = l->answered,
                               .completed = l->answered,
                               .doorbell = dup(fds[1]),
                               .wake = dup(fds[2])};
    reply(message, is("late") ? GM_ETIMEDOUT : GM_OK, "");
}

static void lane_drop(const struct gm_control *message)
{
    struct fake_lane *lane = &fake_lanes[message->u.lane.index];
    if (message->u.lane.index == 0 || message->u.lane.index > GM_LANES_MAX || lane->memory == NULL) {
        reply(message, GM_EINVAL, "no such lane");
        return;
    }
    if (is("grip") && drops++ % 2 == 0) {
        reply(message, GM_EBUSY, "not yet");
        return;
    }
    fake_cancel(lane, 0, true);
    munmap(lane->memory, gm_lane_bytes(1u << lane->log2));
    close(lane->doorbell), close(lane->wake);
    lane->memory = NULL;
    reply(message, GM_OK, "");
}

static void control(void)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(GM_CONTROL_FDS_MAX * sizeof(int))];
    } space;
    struct gm_control message;
    int fds[GM_CONTROL_FDS_MAX], count_of_fds = 0, status;
    const char *text;
    struct iovec piece = {.iov_base = &message, .iov_len = sizeof message};
    struct msghdr in = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    if (recvmsg(GM_DEVICE_FD_CONTROL, &in, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof message)
        _exit(0);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&in);
    if (header != NULL) {
        count_of_fds = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(header), (size_t)count_of_fds * sizeof(int));
    }
    switch (message.type) {
    case GM_CONTROL_ARENA_ADD:
        status = arena_add(&message, count_of_fds, &text);
        reply(&message, status, text);
        break;
    case GM_CONTROL_ARENA_DROP:
        reply(&message, arena_drop(message.u.arena.handle), "no such arena");
        break;
    case GM_CONTROL_LANE_ADD:
        lane_add(&message, fds, count_of_fds);
        break;
    case GM_CONTROL_LANE_DROP:
        lane_drop(&message);
        break;
    case GM_CONTROL_PING:
        if (!is("deaf") || fake_jobs == 0)
            reply(&message, GM_OK, "");
        break;
    case GM_CONTROL_CANCEL: {
        const bool found = fake_cancel(&fake_lanes[message.u.cancel.lane], message.u.cancel.position, false);
        reply(&message, found ? GM_OK : GM_ENOTFOUND, found ? "" : "no such job");
        break;
    }
    case GM_CONTROL_STOP:
        stopping = !is("stuck");
        reply(&message, GM_OK, "");
        break;
    default:
        reply(&message, GM_OK, "");
    }
    for (int i = 0; i < count_of_fds; i++)
        close(fds[i]);
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

static void choose_mode(int argc, char **argv)
{
    const char *wanted = getenv("FAKE_DEVICE"), *once = getenv("FAKE_DEVICE_ONCE");
    const bool first = once != NULL && open(once, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) >= 0;
    if (wanted != NULL && strncmp(wanted, "once:", 5) == 0)
        wanted = first ? wanted + 5 : "normal";
    if (wanted != NULL && strncmp(wanted, "later:", 6) == 0)
        wanted = first ? "normal" : wanted + 6;
    if (wanted != NULL)
        fake_mode = wanted;
    for (int i = 1; i < argc; i++)
        if (is("nogpu") && strncmp(argv[i], "cuda", 4) == 0)
            fake_mode = "fail";
}

static void sleep_or_serve(void)
{
    static struct pollfd fds[2 + GM_LANES_MAX];
    nfds_t n = 2;
    uint64_t rung;
    fds[0] = (struct pollfd){.fd = GM_DEVICE_FD_CONTROL, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = GM_DEVICE_FD_DOORBELL, .events = POLLIN};
    for (uint32_t i = 0; i < GM_LANE_TABLE; i++)
        if (fake_lanes[i].memory != NULL) {
            gm_store_relaxed_sys_u32(&header_of(&fake_lanes[i])->asleep, 1);
            if (i != 0)
                fds[n++] = (struct pollfd){.fd = fake_lanes[i].doorbell, .events = POLLIN};
        }
    gm_fence_sys(); /* store-load: pairs with the fence between publishing and the look at asleep */
    const int wait_ms = fake_poll_lanes() ? 0 : -1;
    if (poll(fds, n, wait_ms) < 0)
        _exit(2);
    for (uint32_t i = 0; i < GM_LANE_TABLE; i++)
        if (fake_lanes[i].memory != NULL)
            gm_store_relaxed_sys_u32(&header_of(&fake_lanes[i])->asleep, 0);
    for (nfds_t i = 1; i < n; i++)
        if ((fds[i].revents & POLLIN) && read(fds[i].fd, &rung, sizeof rung) < 0 && errno != EAGAIN)
            _exit(2);
    fake_poll_lanes(); /* first: a cancel may name what came before it */
    if (fds[0].revents & (POLLIN | POLLHUP))
        control();
}

int main(int argc, char **argv)
{
    choose_mode(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is("exit"))
        return 7;
    fake_region = mmap(NULL, gm_region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, GM_DEVICE_FD_REGION, 0);
    if (fake_region == MAP_FAILED)
        return 2;
    fake_counters = &((struct gm_region_header *)(void *)fake_region)->counters;
    fake_lanes[0].memory = fake_region + gm_region_lane0_offset();
    fake_lanes[0].log2 = header_of(&fake_lanes[0])->slots_log2;
    fake_lanes[0].head = header_of(&fake_lanes[0])->start;
    fake_lanes[0].wake = GM_DEVICE_FD_WAKE;
    if (!is("mute"))
        ready();
    while (!stopping)
        sleep_or_serve();
    return 0;
}
