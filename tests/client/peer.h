/* SPDX-License-Identifier: Apache-2.0
 *
 * A scripted daemon for tests of the client library: a thread that accepts one connection after the other and does on
 * each what the test says, with the protocol's own codec. It can do what gridmilld never does.
 */
#ifndef GM_TESTS_PEER_H
#define GM_TESTS_PEER_H

#include "wire.h"

#include "gridmill.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PEER_BUFFER (GM_FRAME_HEADER + GM_FRAME_BYTES_MAX)

struct peer {
    char folder[64], path[100];
    int listener, stop_fd[2];
    pthread_t thread;
    void (*serve)(struct peer *peer, int fd); /* the connection is closed when it returns */
    uint8_t *body; /* of the last request */
    uint8_t *out_bytes;
    struct gm_wire_out out;
    int connections;
    void *user;
};

void peer_start(struct peer *peer, void (*serve)(struct peer *peer, int fd), void *user);
void peer_stop(struct peer *peer);

/* On the peer's thread. next: false at the end of the connection. */
bool peer_next(struct peer *peer, int fd, struct gm_wire_request *request);
void peer_flush(struct peer *peer, int fd);
void peer_put_result(struct peer *peer, uint32_t id, const char *key, uint64_t value);
void peer_put_done(struct peer *peer, uint32_t id, uint64_t result);
void peer_put_error(struct peer *peer, uint32_t id, bool has_id, int code, const char *field, const char *text);
/* Answers hello, for scripts that begin behind it. */
void peer_hello(struct peer *peer, int fd);
/* Sends what was put together with descriptors. */
void peer_flush_fds(struct peer *peer, int fd, const int *fds, size_t count);

/* Does every request at once: sum of u64 is the number of elements, copy copies, everything else is done. */
void peer_serve_all(struct peer *peer, int fd);

/* On the test's thread. */
struct gm_client *peer_open(struct peer *peer);
struct gm_request nop(void);
uint64_t in_ms(uint64_t ms);

#endif
