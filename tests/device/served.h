/* SPDX-License-Identifier: Apache-2.0
 *
 * A device with its server in a thread of this process, and clients with lanes of their own: what gridmilld sends goes
 * over a socketpair, what clients share is real memory, doorbells and pipes. The thread that opened it plays gridmilld;
 * a lane belongs to one thread. Every wait has a deadline and fails the test.
 */
#ifndef GM_TESTS_SERVED_H
#define GM_TESTS_SERVED_H

#include <pthread.h>

#include "harness.h"
#include "serve.h"

#define SERVED_REQUESTS 1024u /* without a reply at one time */

struct served {
    struct gm_harness h;
    struct gm_server *server;
    pthread_t thread;
    int control, result; /* result: how the server ended */
    uint32_t sequence;
    struct {
        uint32_t sequence;
        struct gm_control reply;
    } reply[SERVED_REQUESTS];
};

struct served_lane {
    struct served *s;
    uint8_t *memory;
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint32_t index, session, slots_log2;
    int memory_fd, doorbell_fd, wake_fd, wake_write_fd; /* the last one is given away by served_lane_add */
    uint64_t start, position, reaped;
};

struct served_arena {
    uint32_t *numbers;
    uint64_t count;
    uint32_t handle;
};

/* workers 0: the harness's choice. backend NULL: the harness's; else one that differs from it in what happens around
 * the same device. */
void served_open(struct served *s, const struct gm_backend *backend, uint32_t workers);
/* With everything else that a device can be told. */
void served_open_with(struct served *s, const struct gm_backend *backend, const struct gm_device_config *config);
/* Everything the clients had is dropped before. */
void served_close(struct served *s);

/* Sends a request, and waits for its reply, or for that of one sent before. */
uint32_t served_send(struct served *s, struct gm_control *message, const int *fd, uint32_t fds);
struct gm_control served_reply(struct served *s, uint32_t sequence);
int32_t served_request(struct served *s, struct gm_control *message, const int *fd, uint32_t fds);

/* A lane's memory, sealed, with its descriptors; nobody knows of it yet. */
void served_lane_make(struct served *s, struct served_lane *lane, uint32_t index, uint32_t slots_log2, uint64_t start);
void served_lane_free(struct served_lane *lane);
/* Also again, after a drop or on another process, when everything below start was waited for. */
int32_t served_lane_add(struct served_lane *lane);
int32_t served_lane_drop(struct served_lane *lane);

/* Writes a descriptor and rings when the device says asleep. */
uint64_t served_submit(struct served_lane *lane, const uint32_t *words);
bool served_answered(const struct served_lane *lane, uint64_t position, struct gm_granule *completion);
struct gm_granule served_wait(struct served_lane *lane, uint64_t position); /* by looking */
/* By sleeping on the pipe, as the contract of lane.h says. */
struct gm_granule served_sleep(struct served_lane *lane, uint64_t position);

/* A shared arena of a session that holds 1, 2, 3 ... as u32. */
void served_arena_add(struct served *s, struct served_arena *arena, uint32_t handle, uint32_t session, uint64_t count);
int32_t served_arena_drop(struct served *s, struct served_arena *arena);
void served_sum_words(uint32_t *words, const struct served_arena *arena, uint64_t n);
uint64_t served_sum_expected(uint64_t n);

struct gm_device_counters served_counters(const struct served *s);
uint32_t served_descriptors(void); /* open in this process */

#endif
