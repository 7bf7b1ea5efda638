/* SPDX-License-Identifier: Apache-2.0
 *
 * A scripted daemon that gives lanes, and the device's side of them for tests to play: by hand, one descriptor and one
 * completion at a time, or by a thread that keeps the dispatcher's protocol of doorbell and wake. The lanes exist
 * before the daemon's thread does, so a test may look at them at any time.
 */
#ifndef GM_TESTS_LANE_PEER_H
#define GM_TESTS_LANE_PEER_H

#include "peer.h"

#include "lane.h"

#define FAKE_DEVICES_MAX 4u
#define FAKE_FDS         3u

struct fake_lane {
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint32_t slots_log2, device;
    int memory_fd, doorbell_fd;
    int wake_fds[2];
    uint64_t head;      /* next position to read */
    uint64_t completed; /* jobs answered */
    uint64_t woken_at;  /* what the sleeper had reaped when it was last woken */
    uint32_t skips;     /* read so far */
};

/* The answer to lane.open, for tests that make it wrong. */
struct lane_reply {
    uint64_t lane, device, slots, bytes, start;
    int fds[2 * FAKE_FDS];
    size_t count;
};

struct lane_peer {
    struct peer peer;
    uint32_t devices, slots;
    bool skip;
    struct fake_lane lane[FAKE_DEVICES_MAX];
    void (*twist)(struct lane_peer *p, struct lane_reply *reply);
    int refusal;           /* of lane.open; GM_OK: none */
    bool silent;           /* about lane.open */
    bool serves_submits;   /* jobs that come by the socket; else they wait for ever */
    void *user;
    /* Seen on the socket: written by the peer's thread, with atomics. */
    int connection; /* descriptor of it */
    uint32_t opens, closes, submits, cancels, frees, arenas;
    uint32_t cancel_lane;
    uint64_t cancel_position;
};

/* slots: of every lane, whatever the client asks for. Positions begin at start. */
void lanes_start(struct lane_peer *p, uint32_t devices, uint32_t slots, uint64_t start);
/* Like lanes_start, for what is to be set before the daemon's thread runs. */
void lanes_make(struct lane_peer *p, uint32_t devices, uint32_t slots, uint64_t start);
void lanes_serve(struct lane_peer *p);
void lanes_stop(struct lane_peer *p);
struct gm_client *lanes_open(struct lane_peer *p, struct gm_options options);
/* The daemon ends this connection, as when it dies. */
void lanes_hang_up(struct lane_peer *p);
/* Waits, for 20 s at most, until a number that the peer's thread counts is at least so much. */
void lanes_await(const uint32_t *counter, uint32_t least);

/* The device by hand. take: the next whole descriptor that is no skip, and its position; false when there is none. */
bool fake_take(struct fake_lane *lane, uint32_t *words, uint64_t *position);
void fake_answer(struct fake_lane *lane, uint64_t position, uint64_t result, int32_t status, uint64_t run_ns);
/* Wakes the client when it sleeps and has not reaped everything. */
void fake_wake(struct fake_lane *lane);
/* Takes the next descriptor, which must be there, and answers with a result of the test's. */
void fake_do(struct fake_lane *lane, uint64_t result);
void fake_state(struct fake_lane *lane, enum gm_lane_state state, int reason);

/* The device as a thread, for every lane of the peer: sums answer with n, everything is done in an order of its own, as
 * fast as it goes; it sleeps when there is nothing to do. */
struct fake_device {
    struct lane_peer *p;
    pthread_t thread;
    uint32_t window; /* jobs kept back, to answer in another order */
    uint32_t stop;   /* atomic */
    uint64_t jobs;
};
void device_start(struct fake_device *device, struct lane_peer *p, uint32_t window);
void device_await_sleep(const struct fake_device *device);
void device_stop(struct fake_device *device);

#endif
