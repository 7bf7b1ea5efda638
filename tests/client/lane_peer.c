/* SPDX-License-Identifier: Apache-2.0
 *
 * See lane_peer.h. What is asserted here is asserted on the test's thread; the other threads abort.
 */
#include "lane_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- The daemon ---- */

static void put_key(struct gm_wire_out *out, const char *key, uint64_t value)
{
    gm_wire_put_str(out, key);
    gm_wire_put_u64(out, value);
}

static void end_frame(struct gm_wire_out *out, size_t start)
{
    if (gm_wire_end(out, start) != GM_OK)
        abort();
}

static void put_hello(struct lane_peer *p, uint32_t id)
{
    struct gm_wire_out *const out = &p->peer.out;
    const size_t start = gm_wire_begin_result(out, id);

    gm_wire_put_map(out, 3);
    put_key(out, "version", 1);
    put_key(out, "devices", p->devices);
    put_key(out, "lanes", GM_LANES_MAX);
    end_frame(out, start);
}

static void open_lane(struct lane_peer *p, int fd, const struct gm_wire_request *request)
{
    struct gm_wire_out *const out = &p->peer.out;
    const uint32_t device = request->u.lane_open.device;

    if (p->silent)
        return;
    if (p->refusal != GM_OK || device >= p->devices) {
        peer_put_error(&p->peer, request->id, true, p->refusal, "device", "no lane for you");
        peer_flush(&p->peer, fd);
        return;
    }
    const struct fake_lane *const lane = &p->lane[device];
    struct lane_reply reply = {
        .lane = gm_wire_lane(device, 7), .device = device, .slots = p->slots, .bytes = gm_lane_bytes(p->slots),
        .start = lane->header->start, .count = FAKE_FDS,
        .fds = {lane->memory_fd, lane->doorbell_fd, lane->wake_fds[0]}};
    if (p->twist != NULL)
        p->twist(p, &reply);
    const size_t start = gm_wire_begin_result(out, request->id);
    gm_wire_put_map(out, 6);
    put_key(out, "lane", reply.lane);
    put_key(out, "device", reply.device);
    put_key(out, "slots", reply.slots);
    put_key(out, "bytes", reply.bytes);
    put_key(out, "start", reply.start);
    gm_wire_put_str(out, "skip");
    gm_wire_put_bool(out, p->skip);
    end_frame(out, start);
    peer_flush_fds(&p->peer, fd, reply.fds, reply.count);
}

static int make_memory(uint64_t bytes)
{
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        abort();
    return fd;
}

/* Device memory has no descriptor; each arena has a handle of its own. */
static void make_arena(struct lane_peer *p, int fd, const struct gm_wire_request *request)
{
    struct gm_wire_out *const out = &p->peer.out;
    const uint64_t bytes = (request->u.arena_create.bytes + GM_ARENA_ALIGN - 1) / GM_ARENA_ALIGN * GM_ARENA_ALIGN;
    const int memory = request->u.arena_create.device_memory ? -1 : make_memory(bytes);
    const size_t start = gm_wire_begin_result(out, request->id);

    gm_wire_put_map(out, 2);
    put_key(out, "arena", gm_handle(__atomic_add_fetch(&p->arenas, 1, __ATOMIC_SEQ_CST), 1));
    put_key(out, "bytes", bytes);
    end_frame(out, start);
    peer_flush_fds(&p->peer, fd, &memory, memory >= 0);
    if (memory >= 0)
        close(memory);
}

static void count(uint32_t *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

static void take_cancel(struct lane_peer *p, const struct gm_wire_request *request)
{
    if (request->u.cancel.has_lane) {
        __atomic_store_n(&p->cancel_lane, request->u.cancel.lane, __ATOMIC_SEQ_CST);
        __atomic_store_n(&p->cancel_position, request->u.cancel.position, __ATOMIC_SEQ_CST);
    }
    peer_put_result(&p->peer, request->id, NULL, 0);
    count(&p->cancels);
}

static void serve_one(struct lane_peer *p, int fd, const struct gm_wire_request *request)
{
    switch (request->method) {
    case GM_METHOD_HELLO:
        put_hello(p, request->id);
        break;
    case GM_METHOD_LANE_OPEN:
        count(&p->opens);
        open_lane(p, fd, request);
        break;
    case GM_METHOD_ARENA_CREATE:
        make_arena(p, fd, request);
        break;
    case GM_METHOD_SUBMIT:
        if (p->serves_submits)
            peer_put_done(&p->peer, request->id, request->u.submit.args.n);
        count(&p->submits);
        break;
    case GM_METHOD_CANCEL:
        take_cancel(p, request);
        break;
    case GM_METHOD_LANE_CLOSE:
    case GM_METHOD_ARENA_FREE:
        peer_put_result(&p->peer, request->id, NULL, 0);
        count(request->method == GM_METHOD_LANE_CLOSE ? &p->closes : &p->frees);
        break;
    default:
        peer_put_result(&p->peer, request->id, NULL, 0);
    }
    peer_flush(&p->peer, fd);
}

static void serve(struct peer *peer, int fd)
{
    struct lane_peer *const p = peer->user;
    struct gm_wire_request request;

    __atomic_store_n(&p->connection, fd, __ATOMIC_RELEASE);
    while (peer_next(peer, fd, &request))
        serve_one(p, fd, &request);
}

static void make_lane(struct lane_peer *p, struct fake_lane *lane, uint32_t device, uint64_t start)
{
    const uint64_t bytes = gm_lane_bytes(p->slots);

    lane->device = device;
    lane->slots_log2 = (uint32_t)__builtin_ctz(p->slots);
    lane->memory_fd = make_memory(bytes);
    lane->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(0, pipe2(lane->wake_fds, O_CLOEXEC | O_NONBLOCK));
    uint8_t *const map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, lane->memory_fd, 0);
    assert_true(map != MAP_FAILED);
    lane->header = (struct gm_lane_header *)(void *)map;
    lane->sq = (struct gm_desc_slot *)(void *)(map + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(void *)(map + gm_lane_cq_offset(p->slots));
    lane->head = start;
    lane->woken_at = UINT64_MAX;
    lane->header->magic = GM_LANE_MAGIC;
    lane->header->version = GM_LANE_VERSION;
    lane->header->slots = p->slots;
    lane->header->slots_log2 = lane->slots_log2;
    lane->header->start = start;
    lane->header->state = GM_LANE_OPEN;
}

void lanes_make(struct lane_peer *p, uint32_t devices, uint32_t slots, uint64_t start)
{
    memset(p, 0, sizeof *p);
    p->devices = devices;
    p->slots = slots;
    p->serves_submits = true;
    for (uint32_t i = 0; i < devices; i++)
        make_lane(p, &p->lane[i], i, start);
}

void lanes_serve(struct lane_peer *p)
{
    peer_start(&p->peer, serve, p);
}

void lanes_start(struct lane_peer *p, uint32_t devices, uint32_t slots, uint64_t start)
{
    lanes_make(p, devices, slots, start);
    lanes_serve(p);
}

void lanes_stop(struct lane_peer *p)
{
    peer_stop(&p->peer);
    for (uint32_t i = 0; i < p->devices; i++) {
        struct fake_lane *const lane = &p->lane[i];
        munmap(lane->header, gm_lane_bytes(p->slots));
        close(lane->memory_fd);
        close(lane->doorbell_fd);
        close(lane->wake_fds[0]);
        if (lane->wake_fds[1] >= 0)
            close(lane->wake_fds[1]);
    }
}

struct gm_client *lanes_open(struct lane_peer *p, struct gm_options options)
{
    struct gm_client *client = NULL;
    struct gm_failure failure;

    options.socket = p->peer.path;
    options.deadline_ns = in_ms(60000);
    if (gm_open(&options, &client, &failure) != GM_OK)
        fail_msg("gm_open: %s", failure.text);
    return client;
}

void lanes_hang_up(struct lane_peer *p)
{
    shutdown(__atomic_load_n(&p->connection, __ATOMIC_ACQUIRE), SHUT_RDWR);
}

void lanes_await(const uint32_t *counter, uint32_t least)
{
    const uint64_t deadline_ns = in_ms(20000);

    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < least) {
        if (gm_now_ns() > deadline_ns)
            fail_msg("%u of %u came", __atomic_load_n(counter, __ATOMIC_SEQ_CST), least);
        usleep(200);
    }
}

/* ---- The device ---- */

static bool read_half(const struct fake_lane *lane, uint64_t position, uint32_t *words)
{
    const struct gm_desc_slot *const slot = &lane->sq[position & ((UINT64_C(1) << lane->slots_log2) - 1)];
    const uint32_t lap = gm_lap(position, lane->slots_log2);

    for (uint32_t i = 0; i < 4; i++) {
        const struct gm_granule g = gm_load16_sys(&slot->g[i]);
        if (g.w[3] != lap)
            return false;
        memcpy(&words[i * 3], g.w, 12);
    }
    return true;
}

bool fake_take(struct fake_lane *lane, uint32_t *words, uint64_t *position)
{
    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    for (;;) {
        if (!read_half(lane, lane->head, words))
            return false;
        if ((words[GM_W_OP] & 0xffff) != GM_DESC_SKIP_MARK)
            break;
        lane->skips++;
        lane->head++;
    }
    const bool wide = (words[GM_W_OP] >> 24 & GM_FLAG_WIDE) != 0;
    if (wide && !read_half(lane, lane->head + 1, &words[12]))
        return false;
    *position = lane->head;
    lane->head += wide ? 2 : 1;
    return true;
}

void fake_answer(struct fake_lane *lane, uint64_t position, uint64_t result, int32_t status, uint64_t run_ns)
{
    struct gm_granule *const slot = &lane->cq[position & ((UINT64_C(1) << lane->slots_log2) - 1)];

    gm_store16_sys(slot, gm_completion(result, status, run_ns, gm_lap(position, lane->slots_log2)));
    lane->completed++;
}

void fake_wake(struct fake_lane *lane)
{
    gm_fence_sys();
    const struct gm_granule wait = gm_load16_sys(&lane->header->wait);
    const uint64_t reaped = wait.w[0] | (uint64_t)wait.w[1] << 32;

    if (wait.w[2] != 1 || (int64_t)(lane->completed - reaped) <= 0 || lane->woken_at == reaped)
        return;
    lane->woken_at = reaped;
    if (write(lane->wake_fds[1], "", 1) != 1 && errno != EAGAIN)
        abort();
}

void fake_do(struct fake_lane *lane, uint64_t result)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    assert_true(fake_take(lane, words, &position));
    fake_answer(lane, position, result, GM_OK, 1000);
    fake_wake(lane);
}

void fake_state(struct fake_lane *lane, enum gm_lane_state state, int reason)
{
    gm_store_relaxed_sys_u32((uint32_t *)(void *)&lane->header->reason, (uint32_t)reason);
    gm_store_release_sys_u32(&lane->header->state, state);
}
