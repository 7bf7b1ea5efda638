/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.open and lane.close: memory, doorbell and wake pipe of a lane, and its way to the device and back. Loop thread.
 * A lane's memory and index are used again only after the device has let go of them, whatever its client does.
 */
#include "lanes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "request.h"
#include "server.h"

void gm_lane_wake(const struct gm_lane *lane)
{
    const ssize_t woken = write(lane->wake, "", 1);
    (void)woken; /* full: readable anyway; no reader: nobody to wake */
}

/* ---- the end ---- */

static void gm_lane_close_fds(struct gm_lane *lane)
{
    int *fds[] = {&lane->fd, &lane->doorbell, &lane->wake, &lane->wake_read};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* The last step: memory, quota and the entry itself. */
static void gm_lane_release(struct gm_lane *lane)
{
    struct gm_device *v = lane->device;
    struct gm_daemon *d = v->daemon;
    struct gm_session *session = lane->session;
    if (lane->memory != NULL)
        munmap(lane->memory, lane->bytes);
    /* Pages go back although a child of the client may have them mapped. When the daemon ends its clients still read
     * the last answers there. */
    if (lane->fd >= 0 && d->phase < GM_PHASE_STOPPING)
        (void)!fallocate(lane->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)lane->bytes);
    gm_lane_close_fds(lane);
    gm_server_fd_free(d);
    gm_user_pay_back(d, session->user, lane->bytes, true);
    gm_lane_count(lane, &session->user->counted.lane_submitted, &session->user->counted.lane_answered);
    session->lane[v->index] = 0;
    session->lanes--, session->user->lanes[v->index]--;
    v->clients--;
    lane->phase = GM_LANE_UNUSED;
    lane->session = NULL, lane->memory = NULL;
    if (lane->answer) {
        lane->answer = false;
        gm_request_ok(session, lane->request);
    }
    gm_session_settle(session);
}

void gm_lane_refuse(struct gm_lane *lane, int status, const char *text)
{
    struct gm_problem problem;
    if (lane->answer) {
        lane->answer = false;
        gm_problem_set(&problem, status, "", "%s", text != NULL && text[0] != 0 ? text : gm_error_text(status));
        gm_request_error(lane->session, lane->request, &problem);
    }
    lane->phase = GM_LANE_DROPPING;
    gm_lane_let_go(lane);
}

/* Nobody but its client can reach the memory any more. */
static void gm_lane_let_gone(struct gm_lane *lane)
{
    lane->held = false;
    if (lane->phase == GM_LANE_DROPPING)
        gm_lane_release(lane);
}

static void gm_lane_dropped(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    struct gm_lane *lane = context;
    (void)tag;
    lane->asked = false;
    if (reply == NULL || reply->status == GM_OK)
        gm_lane_let_gone(lane);
    else /* asked again by the tick: an index that the device still uses cannot be given to anybody */
        gm_log(GM_LOG_WARN, "lane_drop", "device=%" PRIu32 " lane=%" PRIu32 " status=%s text=\"%s\"", v->index,
               lane->index, gm_error_name(reply->status), reply->u.text);
}

void gm_lane_let_go(struct gm_lane *lane)
{
    struct gm_control drop = {.type = GM_CONTROL_LANE_DROP};
    if (lane->asked)
        return; /* when that reply is here */
    if (!lane->held) {
        gm_lane_let_gone(lane);
        return;
    }
    drop.u.lane.index = lane->index;
    const int status = gm_device_request(lane->device, &drop, -1, gm_lane_dropped, lane, 0);
    lane->asked = status == GM_OK;
    if (status == GM_EDEVICELOST)
        gm_lane_let_gone(lane);
}

void gm_lane_shut(struct gm_lane *lane, int reason)
{
    struct gm_lane_header *header = gm_lane_header(lane);
    gm_store_relaxed_sys_u32((uint32_t *)(void *)&header->reason, (uint32_t)reason);
    gm_store_release_sys_u32(&header->state, GM_LANE_CLOSED); /* release: the reason, and every answer before it */
    gm_lane_wake(lane);
    lane->phase = GM_LANE_SHUT;
    gm_lane_let_go(lane);
}

struct gm_lane *gm_lane_find(struct gm_session *session, uint32_t handle)
{
    struct gm_devices *devices = &session->daemon->devices;
    const uint32_t device = gm_wire_lane_device(handle), index = gm_wire_lane_index(handle);
    if (device >= devices->count || index == 0 || session->lane[device] != index)
        return NULL;
    struct gm_lane *lane = &devices->device[device].client[index];
    return lane->phase == GM_LANE_TAPPED || lane->phase == GM_LANE_SHUT ? lane : NULL;
}

void gm_lane_close(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_problem problem;
    struct gm_lane *lane = gm_lane_find(session, request->u.lane_close.lane);
    if (lane == NULL) {
        gm_problem_set(&problem, GM_ENOTFOUND, "lane", "no such lane in this session");
        gm_request_error(session, request->id, &problem);
        return;
    }
    lane->request = request->id, lane->answer = true;
    if (lane->phase == GM_LANE_TAPPED)
        gm_store_release_sys_u32(&gm_lane_header(lane)->state, GM_LANE_CLOSED);
    lane->phase = GM_LANE_DROPPING;
    gm_lane_let_go(lane);
}

bool gm_lanes_asked(const struct gm_session *session)
{
    const struct gm_devices *devices = &session->daemon->devices;
    for (uint32_t i = 0; i < devices->count && session->lanes != 0; i++)
        if (session->lane[i] != 0 && devices->device[i].client[session->lane[i]].answer)
            return true;
    return false;
}

void gm_lanes_leave(struct gm_session *session)
{
    struct gm_devices *devices = &session->daemon->devices;
    for (uint32_t i = 0; i < devices->count && session->lanes != 0; i++) {
        struct gm_lane *lane = &devices->device[i].client[session->lane[i]];
        if (session->lane[i] == 0)
            continue;
        lane->answer = false;
        lane->phase = GM_LANE_DROPPING;
        gm_lane_let_go(lane);
    }
}

/* ---- the beginning ---- */

/* Ours stay open: the next process of the device gets them too. */
static int gm_lane_fds_for_client(struct gm_lane *lane, int fds[GM_FDS_PER_FRAME_MAX])
{
    fds[0] = fcntl(lane->fd, F_DUPFD_CLOEXEC, 0);
    fds[1] = fds[0] < 0 ? -1 : fcntl(lane->doorbell, F_DUPFD_CLOEXEC, 0);
    if (fds[1] < 0) {
        if (fds[0] >= 0)
            close(fds[0]);
        return GM_EFDS;
    }
    fds[2] = lane->wake_read;
    lane->wake_read = -1;
    return GM_OK;
}

static void gm_lane_opened(struct gm_lane *lane)
{
    struct gm_session *session = lane->session;
    struct gm_wire_out out;
    int fds[GM_FDS_PER_FRAME_MAX];
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL, &out))
        return; /* the session is leaving, and takes it along */
    if (gm_lane_fds_for_client(lane, fds) != GM_OK) {
        gm_lane_refuse(lane, GM_EFDS, NULL);
        return;
    }
    lane->answer = false;
    const size_t start = gm_wire_begin_result(&out, lane->request);
    gm_wire_put_map(&out, 6);
    gm_wire_put_str(&out, "lane"), gm_wire_put_u64(&out, gm_wire_lane(lane->device->index, lane->index));
    gm_wire_put_str(&out, "device"), gm_wire_put_u64(&out, lane->device->index);
    gm_wire_put_str(&out, "slots"), gm_wire_put_u64(&out, UINT64_C(1) << lane->slots_log2);
    gm_wire_put_str(&out, "bytes"), gm_wire_put_u64(&out, lane->bytes);
    gm_wire_put_str(&out, "start"), gm_wire_put_u64(&out, lane->start);
    gm_wire_put_str(&out, "skip"), gm_wire_put_bool(&out, (lane->device->hello.flags & GM_HELLO_SKIP) != 0);
    const int status = gm_wire_end(&out, start);
    assert(status == GM_OK);
    gm_conn_commit_fds(&session->conn, &out, fds, 3);
}

static void gm_lane_added(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    struct gm_lane *lane = context;
    const bool new = lane->phase == GM_LANE_ADDING, wanted = new || lane->phase == GM_LANE_TAPPED;
    lane->asked = false;
    /* One that ran out of time may still take it, and has to let go like one that did. */
    if (reply == NULL || (reply->status != GM_OK && reply->status != GM_ETIMEDOUT))
        lane->held = false;
    if (!wanted) {
        gm_lane_let_go(lane);
    } else if (reply == NULL) {
        return; /* the next process of the device gets it, or gm_lanes_lost ends it */
    } else if (reply->status == GM_OK) {
        gm_store_release_sys_u32(&gm_lane_header(lane)->state, GM_LANE_OPEN);
        lane->phase = GM_LANE_TAPPED;
        if (new)
            gm_lane_opened(lane);
    } else {
        gm_log(GM_LOG_WARN, "lane_refused", "device=%" PRIu32 " session=%" PRIu32 " status=%s text=\"%s\"", v->index,
               lane->session->id, gm_error_name(reply->status), reply->u.text);
        if (new)
            gm_lane_refuse(lane, reply->status, reply->u.text);
        else
            gm_lane_shut(lane, reply->status);
    }
    if (tag != 0)
        gm_restart_refilled(v);
}

int gm_lane_add(struct gm_lane *lane, uint32_t tag)
{
    const int fds[GM_CONTROL_FDS_MAX] = {lane->fd, lane->doorbell, lane->wake};
    struct gm_control add = {.type = GM_CONTROL_LANE_ADD};
    add.u.lane = (struct gm_control_lane){.index = lane->index,
                                          .session = lane->session->id,
                                          .slots_log2 = lane->slots_log2,
                                          .start = lane->start,
                                          .answered = lane->answered};
    const int status = gm_device_request_fds(lane->device, &add, fds, 3, gm_lane_added, lane, tag);
    if (status == GM_OK)
        lane->asked = lane->held = true;
    return status;
}

static int gm_lane_errno(void)
{
    return errno == EMFILE || errno == ENFILE ? GM_EFDS : errno == ENOMEM ? GM_ENOMEM : GM_ESYSTEM;
}

/* Memory and descriptors. It is small, so it is made here and not in the pool. */
static int gm_lane_make(struct gm_lane *lane)
{
    int ends[2];
    lane->fd = gm_memfd("gridmill-lane", lane->bytes, true);
    if (lane->fd < 0)
        return lane->fd;
    void *memory = mmap(NULL, lane->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, lane->fd, 0);
    if (memory == MAP_FAILED)
        return GM_ENOMEM;
    lane->memory = memory;
    lane->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* A pipe, whose ends do not share their flags: no client can make the device's end block. */
    if (lane->doorbell < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return gm_lane_errno();
    lane->wake_read = ends[0], lane->wake = ends[1];
    (void)fcntl(lane->wake, F_SETPIPE_SZ, 4096); /* one byte says everything */
    return GM_OK;
}

static int gm_lane_admit(struct gm_session *session, const struct gm_device *v, uint64_t bytes,
                         struct gm_problem *problem)
{
    const struct gm_daemon *d = session->daemon;
    if (session->lane[v->index] != 0)
        return gm_problem_set(problem, GM_EQUOTA, "", "a connection has one lane on a device");
    if (session->user->lanes[v->index] >= d->config.user_lanes) {
        session->user->counted.refused++;
        return gm_problem_set(problem, GM_EQUOTA, "", "the user has %u of %u lanes on the device (--user-lanes)",
                              session->user->lanes[v->index], d->config.user_lanes);
    }
    if (v->clients >= GM_LANES_MAX)
        return gm_problem_set(problem, GM_EQUOTA, "", "all %u lanes of the device are in use, %u by the user",
                              GM_LANES_MAX, session->user->lanes[v->index]);
    return gm_user_admit(session, bytes, true, "slots", problem);
}

/* One that is up before one that is coming back, one where the user may have another lane before one where he may not,
 * then the one with the fewest. */
static bool gm_lane_better(const struct gm_session *session, const struct gm_device *v, const struct gm_device *than)
{
    if (than == NULL || gm_device_live(v) != gm_device_live(than))
        return than == NULL || gm_device_live(v);
    const uint32_t most = session->daemon->config.user_lanes, *has = session->user->lanes;
    if ((has[v->index] < most) != (has[than->index] < most))
        return has[v->index] < most;
    return v->clients < than->clients;
}

/* The device that the message names; else the best one. */
static int gm_lane_device(struct gm_session *session, const struct gm_wire_request *request, struct gm_device **chosen,
                          struct gm_problem *problem)
{
    struct gm_devices *devices = &session->daemon->devices;
    const bool named = request->u.lane_open.has_device;
    if (named && request->u.lane_open.device >= devices->count)
        return gm_problem_set(problem, GM_ENODEVICE, "device", "there are %u devices", devices->count);
    for (uint32_t i = 0; i < devices->count; i++) {
        struct gm_device *v = &devices->device[i];
        if ((!named || request->u.lane_open.device == i) && gm_device_serves(v) && gm_lane_better(session, v, *chosen))
            *chosen = v;
    }
    return *chosen != NULL ? GM_OK : gm_problem_set(problem, GM_EDEVICELOST, "device", "the device is out of service");
}

static struct gm_lane *gm_lane_new(struct gm_session *session, struct gm_device *v, uint32_t slots, uint64_t bytes)
{
    struct gm_daemon *d = session->daemon;
    uint32_t index = 1;
    while (v->client[index].phase != GM_LANE_UNUSED)
        index++; /* there is one: they are counted */
    struct gm_lane *lane = &v->client[index];
    *lane = (struct gm_lane){.device = v,
                             .session = session,
                             .phase = GM_LANE_ADDING,
                             .index = index,
                             .slots_log2 = (uint32_t)__builtin_ctz(slots),
                             .bytes = bytes,
                             .fd = -1,
                             .doorbell = -1,
                             .wake = -1,
                             .wake_read = -1};
    session->lane[v->index] = (uint16_t)index;
    session->lanes++, session->user->lanes[v->index]++;
    v->clients++;
    gm_user_pay(d, session->user, bytes, true);
    return lane;
}

static int gm_lane_check(struct gm_session *session, const struct gm_wire_request *request, uint32_t slots,
                         struct gm_device **v, struct gm_problem *problem)
{
    struct gm_daemon *d = session->daemon;
    if (d->draining)
        return gm_problem_set(problem, GM_EDRAINING, "", "%s", gm_error_text(GM_EDRAINING));
    if (!GM_IS_POW2(slots) || slots < GM_LANE_SLOTS_MIN || slots > GM_CLIENT_LANE_SLOTS_MAX)
        return gm_problem_set(problem, GM_ESIZE, "slots", "a power of two, %u to %u", GM_LANE_SLOTS_MIN,
                              GM_CLIENT_LANE_SLOTS_MAX);
    int status = gm_lane_device(session, request, v, problem);
    if (status == GM_OK && (status = gm_lane_admit(session, *v, gm_lane_bytes(slots), problem)) != GM_OK)
        d->counters.rejected_quota++;
    return status;
}

void gm_lane_open(struct gm_session *session, const struct gm_wire_request *request)
{
    const uint32_t slots = request->u.lane_open.slots != 0 ? request->u.lane_open.slots : GM_CLIENT_LANE_SLOTS_DEFAULT;
    struct gm_device *v = NULL;
    struct gm_problem problem;
    if (gm_lane_check(session, request, slots, &v, &problem) != GM_OK) {
        gm_request_error(session, request->id, &problem);
        return;
    }
    struct gm_lane *lane = gm_lane_new(session, v, slots, gm_lane_bytes(slots));
    lane->request = request->id, lane->answer = true;
    int status = gm_lane_make(lane);
    if (status == GM_OK) {
        gm_region_lane(v, lane->index, lane->memory, slots);
        lane->noted = true;
        lane->start = gm_lane_header(lane)->start, lane->answered = 0;
        lane->first = lane->sampled_to = lane->seen_head = lane->seen_end = lane->start;
        status = gm_lane_add(lane, 0);
    }
    /* A device that is coming back gets it with the others. */
    if (status != GM_OK && !(status == GM_EDEVICELOST && gm_device_recovering(v)))
        gm_lane_refuse(lane, status, NULL);
}
