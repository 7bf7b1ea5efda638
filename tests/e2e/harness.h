/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the real gridmilld as a child in a folder of its own, and talks to it through the client library or with raw
 * bytes. GRIDMILL_TEST_DEVICE names the device (default cpu), so the same tests run on a GPU. One thread; the child is
 * killed when the test process ends.
 */
#ifndef GM_E2E_HARNESS_H
#define GM_E2E_HARNESS_H

#include "wire.h"

#include "gridmill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/types.h>

#include <cmocka.h>

#define DAEMON_ARGUMENTS_MAX 16

/* Sanitizers keep freed memory for a while and open descriptors of their own when they please. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

struct daemon {
    pid_t pid; /* 0: not running */
    char folder[64];
    char socket[200];
    char log[100];
    const char *arguments[DAEMON_ARGUMENTS_MAX]; /* beside the socket and the device */
    unsigned long descriptors; /* not 0: its limit */
};

/* For cmocka: *state is a struct daemon that runs. */
int daemon_setup(void **state);
/* The same; its device is soon asleep, for freeze_device. */
int daemon_setup_to_freeze(void **state);
int daemon_teardown(void **state);

/* A folder and a socket path in it; nothing runs yet. */
void daemon_init(struct daemon *d);
void daemon_remove(struct daemon *d);
/* Starts it without waiting. */
void daemon_spawn(struct daemon *d);
/* Starts it and waits until it does a job. */
void daemon_start(struct daemon *d);
/* The exit status, or 128 + the signal. -1: it still runs after the time. */
int daemon_wait(struct daemon *d, uint64_t ms);
/* SIGTERM, and the exit status must be 0. */
void daemon_stop(struct daemon *d);
void daemon_kill(struct daemon *d);
/* Whether a line of its log holds this text. */
bool daemon_logged(const struct daemon *d, const char *text);

struct gm_client *daemon_open(const struct daemon *d);
/* Everything of this one goes by the socket. */
struct gm_client *daemon_open_without_lanes(const struct daemon *d);
uint64_t in_ms(uint64_t ms);
uint64_t now_ms(void);
void sleep_ms(uint64_t ms);

/* A figure of stats: "daemon.sessions", "devices.0.done", "ops.3.failed". */
uint64_t stat_of(struct gm_client *client, const char *path);
/* A text figure, "devices.0.state". */
#define STAT_TEXT_BYTES 128
void stat_text(struct gm_client *client, const char *path, char text[STAT_TEXT_BYTES]);
/* Waits until the figure has this value. */
void wait_for_stat(struct gm_client *client, const char *path, uint64_t value, uint64_t ms);
/* The jobs that device 0 got are all accounted for; while nothing is sent or answered. */
void assert_books_balance(struct gm_client *client);

/* Raw connections. */
struct frame {
    uint8_t *bytes; /* with the length */
    size_t size;
};
int raw_connect(const struct daemon *d);
/* Connected and greeted. */
int raw_session(const struct daemon *d);
void raw_send(int fd, const void *bytes, size_t size);
/* A response within the time; false: end of the connection. Its memory is reused by the next call. */
bool raw_receive(int fd, uint64_t ms, struct gm_wire_response *response);
/* One encoded request; the caller frees bytes. */
struct frame raw_encode(const struct gm_wire_request *request);
/* A sum over four numbers in the message: the result is 10. */
struct frame raw_sum(uint32_t id);

/* True when the condition of a test holds within the time. */
bool eventually(bool (*holds)(void *argument), void *argument, uint64_t ms);
size_t descriptors_of(pid_t pid);
/* CPU time that the process has used, in ms. */
uint64_t cpu_ms_of(pid_t pid);
/* The device process of the daemon. */
pid_t device_pid(struct gm_client *client);
/* Stops a process, and returns when every thread of it stands still. */
void freeze(pid_t pid);
void thaw(pid_t pid);
/* Stops device 0 of the daemon, so that no job is taken or answered before thaw. A kernel on a GPU runs on when its
 * process stands still, and is started again by nobody else: so it has to be asleep first. Nothing may be under way. */
void freeze_device(struct gm_client *watcher, pid_t device);
bool on_gpu(void);

#endif
