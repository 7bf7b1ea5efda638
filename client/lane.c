/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of lanes. gm_open asks for one on each device, all at once; what comes is looked at before
 * it is mapped, so that a daemon that does wrong costs a lane and not the process. Under the client's lock; bounded by
 * the deadline.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FD_MEMORY, FD_DOORBELL, FD_WAKE, FDS };
static_assert(FDS <= GM_FDS_PER_FRAME_MAX, "they come with one frame");

/* Devices that do not answer hold gm_open up for no longer than this. */
#define LANES_NS_MAX UINT64_C(1000000000)

/* Never looked into: only their addresses mean something. */
struct gm_job_inside gm__lane_half, gm__lane_orphan;

static int refuse(struct gm_client *client, int status, const char *text)
{
    return gm__report(&client->last, status, "lane", "%s", text);
}

/* A lap of zero would be there in memory of zeros, so the first use of no slot may have it. */
static bool starts_well(uint64_t start, uint32_t slots_log2)
{
    const uint32_t lap = gm_lap(start, slots_log2);

    return lap != 0 && ((start & ((UINT64_C(1) << slots_log2) - 1u)) == 0 || lap + 1u != 0);
}

static int check_reply(struct gm_client *client, const struct gm_call *call)
{
    const uint64_t slots = call->u.lane.slots;

    if (call->u.lane.handle > UINT32_MAX)
        return refuse(client, GM_EPROTO, "the lane has a number that cannot be");
    if (slots < GM_LANE_SLOTS_MIN || slots > GM_CLIENT_LANE_SLOTS_MAX || !GM_IS_POW2(slots))
        return refuse(client, GM_EPROTO, "the lane has a number of slots that cannot be");
    if (call->u.lane.bytes != gm_lane_bytes((uint32_t)slots) || call->u.lane.device >= GM_DEVICES_MAX)
        return refuse(client, GM_EPROTO, "the lane has a size or a device that cannot be");
    if (!starts_well(call->u.lane.start, (uint32_t)__builtin_ctzll(slots)))
        return refuse(client, GM_EPROTO, "the lane starts at a position that cannot be");
    for (uint32_t i = 0; i < FDS; i++)
        if (call->fds[i] == FD_LOST)
            return refuse(client, GM_EFDS, "no room for the descriptors of the lane");
    for (uint32_t i = 0; i < FDS; i++)
        if (call->fds[i] < 0)
            return refuse(client, GM_EPROTO, "the lane came without its descriptors");
    for (uint32_t i = 0; i < client->lane_count; i++)
        if (client->lanes[i].device == call->u.lane.device)
            return refuse(client, GM_EPROTO, "the device has a lane already");
    return GM_OK;
}

/* Writing to the doorbell must neither block nor raise SIGPIPE, and reading the wake pipe must not block. */
static int check_bells(struct gm_client *client, const int *fds)
{
    struct stat bell, wake;
    const int bell_flags = fcntl(fds[FD_DOORBELL], F_GETFL), wake_flags = fcntl(fds[FD_WAKE], F_GETFL);

    if (fstat(fds[FD_DOORBELL], &bell) != 0 || fstat(fds[FD_WAKE], &wake) != 0 || bell_flags < 0 || wake_flags < 0)
        return gm__report_errno(&client->last, "looking at a lane", errno);
    if (S_ISFIFO(bell.st_mode) || S_ISSOCK(bell.st_mode) || (bell_flags & O_NONBLOCK) == 0)
        return refuse(client, GM_EPROTO, "the doorbell of the lane is no eventfd that does not block");
    if (!S_ISFIFO(wake.st_mode) || (wake_flags & O_NONBLOCK) == 0)
        return refuse(client, GM_EPROTO, "the wake descriptor of the lane is no pipe that does not block");
    return GM_OK;
}

static bool is_identical(const struct gm_lane_header *header, const struct gm_call *call)
{
    return header->magic == GM_LANE_MAGIC && header->version == GM_LANE_VERSION &&
           header->slots == call->u.lane.slots && header->slots_log2 == (uint32_t)__builtin_ctzll(call->u.lane.slots) &&
           header->start == call->u.lane.start;
}

/* A memory file that could shrink would end this process by SIGBUS, so both the size and the seal are looked at. */
static int map_lane(struct gm_client *client, const struct gm_call *call, struct gm_lane_header **header)
{
    const int fd = call->fds[FD_MEMORY], seals = fcntl(fd, F_GET_SEALS);
    const size_t bytes = (size_t)call->u.lane.bytes;
    struct stat st;

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes)
        return refuse(client, GM_EPROTO, "the memory of the lane is not sealed, or too small");
    void *const map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return gm__report_errno(&client->last, "mapping a lane", errno);
    if (!is_identical(map, call)) {
        munmap(map, bytes);
        return refuse(client, GM_EPROTO, "the memory of the lane is another lane's");
    }
    /* A child has no business here; where the kernel cannot do that, no function of ours reaches it there. */
    (void)madvise(map, bytes, MADV_DONTFORK);
    *header = map;
    return GM_OK;
}

static int take_lane(struct gm_client *client, struct gm_call *call)
{
    struct gm_lane *const lane = &client->lanes[client->lane_count];
    struct gm_lane_header *header = NULL;
    const uint32_t slots = (uint32_t)call->u.lane.slots;
    int rc = check_reply(client, call);

    if (rc == GM_OK)
        rc = check_bells(client, call->fds);
    if (rc == GM_OK)
        rc = map_lane(client, call, &header);
    if (rc != GM_OK)
        return rc;
    lane->header = header;
    lane->sq = (struct gm_desc_slot *)(void *)((uint8_t *)header + gm_lane_sq_offset());
    lane->cq = (const struct gm_granule *)(const void *)((const uint8_t *)header + gm_lane_cq_offset(slots));
    lane->slots_log2 = (uint32_t)__builtin_ctz(slots);
    lane->mask = slots - 1u;
    lane->handle = (uint32_t)call->u.lane.handle;
    lane->device = (uint32_t)call->u.lane.device;
    lane->doorbell_fd = call->fds[FD_DOORBELL];
    lane->wake_fd = call->fds[FD_WAKE];
    call->fds[FD_DOORBELL] = call->fds[FD_WAKE] = -1;
    lane->skip = call->u.lane.skip;
    lane->head = lane->read = call->u.lane.start;
    lane->open = true;
    client->lane_count++;
    return GM_OK;
}

/* Without room to say so, it goes with the session. */
void gm__lane_return(struct gm_client *client, uint64_t handle)
{
    struct gm_wire_request request = {.method = GM_METHOD_LANE_CLOSE};

    if (handle > UINT32_MAX)
        return;
    request.u.lane_close.lane = (uint32_t)handle;
    (void)gm__post(client, &request, SLOT_ORPHAN);
}

static void finish_open(struct gm_client *client, struct gm_call *call, uint64_t deadline_ns)
{
    const int rc = gm__call_end(client, call, deadline_ns);

    if (rc == GM_OK && take_lane(client, call) != GM_OK)
        gm__lane_return(client, call->u.lane.handle);
    gm__close_fds(call->fds, GM_FDS_PER_FRAME_MAX);
}

void gm__lanes_open(struct gm_client *client, uint32_t slots, uint64_t deadline_ns)
{
    struct gm_call calls[GM_DEVICES_MAX];
    const uint64_t latest_ns = gm_deadline_in(LANES_NS_MAX);
    const uint32_t devices = client->devices < GM_DEVICES_MAX ? client->devices : GM_DEVICES_MAX;
    uint32_t asked = 0;
    int rc = GM_OK;

    if (latest_ns < deadline_ns)
        deadline_ns = latest_ns;
    for (; asked < devices && rc == GM_OK; asked += rc == GM_OK) {
        struct gm_wire_request request = {.method = GM_METHOD_LANE_OPEN};
        request.u.lane_open.has_device = true;
        request.u.lane_open.device = asked;
        request.u.lane_open.slots = slots;
        calls[asked] = (struct gm_call){0};
        rc = gm__call_begin(client, &request, &calls[asked]);
    }
    gm__conn_push(client);
    for (uint32_t i = 0; i < asked; i++)
        finish_open(client, &calls[i], deadline_ns);
    if (client->lane_count > 0 && gm__event_open(client, &client->last) != GM_OK) {
        for (uint32_t i = 0; i < client->lane_count; i++)
            gm__lane_return(client, client->lanes[i].handle);
        gm__lanes_close(client, true);
    }
    gm__conn_push(client);
}

/* mine: this is the process that opened the client. Elsewhere the addresses of the lanes may hold something else. */
void gm__lanes_close(struct gm_client *client, bool mine)
{
    for (uint32_t i = 0; i < client->lane_count; i++) {
        struct gm_lane *const lane = &client->lanes[i];
        if (mine)
            munmap(lane->header, (size_t)gm_lane_bytes(lane->mask + 1u));
        close(lane->doorbell_fd);
        close(lane->wake_fd);
    }
    client->lane_count = 0;
}

/* What is still open is closed with the daemon too, which keeps a lane that it shut until its client has seen why. */
void gm__lane_end(struct gm_client *client, struct gm_lane *lane, int status, const char *text)
{
    if (!lane->open)
        return;
    lane->open = false;
    lane->armed = false;
    for (uint32_t i = 0; i < lane->pending; i++) {
        struct gm_job_inside *const job = lane->job[lane->flight[i] & lane->mask];
        if (job != &gm__lane_orphan)
            gm__job_fail(client, job, status, text);
    }
    lane->pending = 0;
    gm__event_forget(client, lane);
    if (!client->closed) {
        gm__lane_return(client, lane->handle);
        gm__conn_push(client);
    }
}

int gm_lanes(struct gm_client *client)
{
    const int rc = gm__entry(client);
    int open = 0;

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    for (uint32_t i = 0; i < client->lane_count; i++)
        open += client->lanes[i].open;
    pthread_mutex_unlock(&client->lock);
    return open;
}

bool gm__lanes_use(const struct gm_client *client, uint32_t arena)
{
    for (uint32_t i = 0; i < client->lane_count; i++) {
        const struct gm_lane *const lane = &client->lanes[i];
        for (uint32_t j = 0; j < lane->pending; j++)
            for (uint32_t k = 0; k < GM_BUFFERS_MAX; k++)
                if (lane->arena[lane->flight[j] & lane->mask][k] == arena)
                    return true;
    }
    return false;
}
