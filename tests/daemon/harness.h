/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run the real gridmilld as a child: start it on a path of its own with the fake device, talk to it in
 * raw frames, read its stats, and end it. One test thread; every wait is bounded.
 */
#ifndef GM_TESTS_DAEMON_HARNESS_H
#define GM_TESTS_DAEMON_HARNESS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sys/types.h>

#include <cmocka.h>

#include "limits.h"
#include "wire.h"

#define WAIT_MS 60000 /* of what must come: only a test that fails waits so long */

struct daemon_child {
    pid_t pid;
    const char *program; /* of the build; NULL: gridmilld */
    char folder[64], socket[96], log[96], once[96];
};

struct client {
    int fd;
    uint32_t next_id;
    uint8_t frame[GM_FRAME_HEADER + GM_FRAME_BYTES_MAX];
    size_t size;                      /* of the body of the last frame */
    int passed_fd;                    /* -1, or the first descriptor that came with a frame, the client's to close */
    int passed[GM_FDS_PER_FRAME_MAX]; /* all of them; the others are for whoever asked for them */
    uint32_t passed_count;            /* of the last frame */
};

/* The daemon of a test; set_up and tear_down are those of every test that has one: none, and nothing left of it. */
extern struct daemon_child child;
int set_up(void **state);
int tear_down(void **state);

/* mode: see fake_device.c; "once:" before it: the first process only, later ones are normal. args: more flags, NULL at
 * the end; may be NULL; starting with --device they replace the one cpu device. Does not wait. */
void daemon_spawn(struct daemon_child *child, const char *mode, const char *const *args);
/* Spawns and waits until it serves. */
void daemon_start(struct daemon_child *child, const char *mode, const char *const *args);
/* Waits for its end: exit status, or 128 + signal. */
int daemon_wait(struct daemon_child *child);
/* SIGTERM and wait. */
int daemon_stop(struct daemon_child *child);
/* SIGKILL and wait. */
void daemon_kill(struct daemon_child *child);
/* Removes the folder. */
void daemon_clean(struct daemon_child *child);
bool daemon_log_has(const struct daemon_child *child, const char *text);
/* What a process of another user, OTHER_UID, returns that may open the socket of child. Only root can make one: a test
 * that needs it says so first, and is skipped for others. */
#define OTHER_UID 65534
void needs_root(void);
int as_another_user(int (*what)(void));
/* The same as fork: 0 in that process. */
pid_t other_user_starts(void);
/* Process id of the first device, from stats. */
pid_t daemon_device_pid(const struct daemon_child *child);
/* Stops a process of one thread in its sleep, so that nothing it does is half done, and returns when it stands. */
void process_stop(pid_t pid);

/* Connects and says hello; admin: to the admin socket. */
struct client *client_open(const struct daemon_child *child, bool admin);
struct client *client_raw(const char *path); /* without hello; NULL when nobody listens */
void client_close(struct client *c);
/* A job that does nothing. */
void client_send_nops(struct client *c, int count);
/* Receives count answers: how many were results; the others must have this error. */
int client_receive_done(struct client *c, int count, int error);
void client_send(struct client *c, struct gm_wire_request *request);
/* Next response; false: end of file. Fails the test after WAIT_MS. */
bool client_receive(struct client *c, struct gm_wire_response *response);
/* send + receive of its answer; asserts that the id is the request's. */
void client_call(struct client *c, struct gm_wire_request *request, struct gm_wire_response *response);

/* OK, or the error of a response; and of a call. */
int code_of(const struct gm_wire_response *response);
int client_code(struct client *c, struct gm_wire_request request, struct gm_wire_response *response);
/* One snapshot of stats, for figures that belong together. */
void snapshot(struct client *c, struct gm_wire_response *response);

/* name: "" for none. */
struct gm_wire_request request_create(const char *name, uint64_t bytes, bool device);
/* attach or remove. */
struct gm_wire_request request_by_name(enum gm_method method, const char *name);
struct gm_wire_request request_nop(void);
/* sum of n zeros that ride in the message; bytes must hold 4 n. */
struct gm_wire_request request_sum(const float *values, uint64_t n);
struct gm_wire_request request_of(enum gm_method method);

/* A number or a text from stats: path "daemon.sessions", "devices.0.submitted", "ops.3.done", "limits.inflight". */
uint64_t stats_u64(const struct daemon_child *child, const char *path);
void stats_text(const struct daemon_child *child, const char *path, char *text, size_t size);
/* The same from a response at hand. */
uint64_t response_u64(const struct gm_wire_response *response, const char *path);
uint32_t response_count(const struct gm_wire_response *response, const char *path); /* elements of an array */
void response_text(const struct gm_wire_response *response, const char *path, char *text, size_t size);
/* Waits until the number is there; fails the test after WAIT_MS. */
void stats_wait(const struct daemon_child *child, const char *path, uint64_t value);
/* The same for a text, or a part of it. */
void stats_wait_text(const struct daemon_child *child, const char *path, const char *part);
/* The same for a text in the daemon's log. */
void log_wait(const struct daemon_child *child, const char *text);
/* Waits until the first device was replaced so many times, and asserts that it does jobs. */
void daemon_back(const struct daemon_child *child, uint64_t restarts);
/* In one snapshot, the jobs of the first device add up. */
void stats_add_up(const struct daemon_child *child);

uint64_t now_ms(void);
void sleep_ms(unsigned ms);
/* Path of a program of the build. */
void program_path(const char *name, char *path, size_t size);

#endif
