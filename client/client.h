/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a client, shared by the files of the library. Everything in struct gm_client is guarded by its lock
 * unless it says otherwise; functions here are called with the lock held unless they say otherwise. What awaits a
 * reply has a slot in a fixed table; the slot and its generation are the id of the request on the wire.
 */
#ifndef GM_CLIENT_H
#define GM_CLIENT_H

#include "wire.h"

#include "gridmill.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define SLOT_BITS 11u
#define SLOTS     (1u << SLOT_BITS) /* jobs, and as many calls and cancels beside them */
#define NO_SLOT   UINT32_MAX

#define INPUT_BYTES  (GM_FRAME_HEADER + GM_FRAME_BYTES_MAX)
#define OUTPUT_BYTES (GM_FRAME_HEADER + GM_FRAME_BYTES_MAX + 131072u) /* the largest frame, and many small ones */
#define FDS_KEPT_MAX 8u /* descriptors received whose frames have not been read yet */
#define FD_LOST (-2)    /* in place of a descriptor that the kernel dropped: this process has no room for more */

static_assert(GM_PENDING_JOBS == GM_INFLIGHT_PER_SESSION_MAX && GM_PENDING_JOBS < SLOTS, "the daemon's bound is ours");
static_assert(GM_INLINE_BYTES == GM_INLINE_BYTES_MAX, "the header tells the protocol's bound");

/* A thread that waits: asleep on cond, or in poll when it is the client's reader. */
struct gm_waiter {
    pthread_cond_t cond;
    struct gm_waiter *next, *previous;
};

/* Something that awaits a reply: the first member of jobs and calls. */
struct gm_pending {
    /* GM_EAGAIN until complete. Stored with release after everything else of the completion; pairs with the acquire in
     * gm_job_status, which takes no lock. */
    _Atomic int status;
    uint32_t slot;
    struct gm_waiter *waiter;
};

/* What struct gm_job holds. */
struct gm_job_inside {
    struct gm_pending pending;
    struct gm_client *client; /* NULL: the caller's; else pending, or complete and not yet given back */
    struct gm_job_inside *next, *previous; /* in the client's list of completed jobs */
    void *out;          /* memory for the inline output, or NULL */
    uint64_t out_bytes; /* exactly so many */
    struct gm_result result;
    struct gm_failure failure;
};
static_assert(sizeof(struct gm_job_inside) <= sizeof(((struct gm_job *)0)->opaque), "the caller's memory holds it");

/* A blocking call, on its caller's stack. */
struct gm_call {
    struct gm_pending pending;
    enum gm_method method;
    struct gm_problem problem;
    void *copy; /* stats, ops: the result, from malloc */
    size_t copy_bytes;
    uint64_t arena, arena_bytes; /* arena.create */
    int fd;
};

/* ORPHAN: a job whose caller went away, or a cancel: the reply is dropped. ORPHAN_ARENA: an arena.create that nobody
 * waits for any more: the arena is given back when it comes. */
enum gm_slot_kind { SLOT_FREE, SLOT_JOB, SLOT_CALL, SLOT_ORPHAN, SLOT_ORPHAN_JOB, SLOT_ORPHAN_ARENA };

struct gm_slot {
    uint32_t generation;
    uint32_t next_free;
    enum gm_slot_kind kind;
    struct gm_pending *pending; /* JOB, CALL */
};

struct gm_arena {
    struct gm_client *client;
    struct gm_arena *next, *previous;
    uint32_t handle;
    enum gm_memory memory;
    uint64_t bytes;
    void *map; /* shared: mapped here */
};

struct gm_client {
    pthread_mutex_t lock;
    /* A page that fork gives the child as zeroes; holds 1 in the process that opened the client. Read without the
     * lock: it never changes while the client is open. */
    const unsigned char *mine;
    pid_t pid; /* where the kernel cannot do that: of the process that opened it; else 0 */
    int fd;
    int wake_fd; /* ends the reader's poll early */
    bool closed; /* nothing is pending any more; failure says why */
    struct gm_failure closing; /* the reason the daemon gave for closing, or what broke */
    struct gm_failure last;

    struct gm_waiter *waiters;  /* every thread that waits, in order of arrival */
    struct gm_waiter *reader;   /* the one of them that is in poll, without the lock */
    bool reader_wants_output;   /* that poll also waits for room */
    struct gm_job_inside *completed_first, *completed_last;
    struct gm_arena *arenas;

    uint32_t jobs; /* slots of jobs and orphaned jobs */
    uint32_t slot_free;
    struct gm_slot slots[SLOTS];

    int fds[FDS_KEPT_MAX];
    uint32_t fds_kept;
    uint8_t *memory; /* one mapping: mine, input, output */
    uint8_t *input;
    size_t input_bytes;
    struct gm_wire_out output; /* [sent, size) waits to be sent */
    size_t sent;
};

/* error.c. report returns status. report_problem keeps a problem's field and text; the others take printf form. */
int gm__report(struct gm_failure *failure, int status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int gm__report_problem(struct gm_failure *failure, const struct gm_problem *problem);
int gm__report_errno(struct gm_failure *failure, const char *what, int error);

/* GM_EFORKED in a child of the process that opened the client; without the lock, before it is taken. */
int gm__entry(const struct gm_client *client);

/* slots.c */
void gm__slots_init(struct gm_client *client);
uint32_t gm__slot_take(struct gm_client *client, enum gm_slot_kind kind, struct gm_pending *pending);
void gm__slot_return(struct gm_client *client, uint32_t slot);
uint32_t gm__slot_id(const struct gm_client *client, uint32_t slot);
uint32_t gm__slot_by_id(const struct gm_client *client, uint32_t id);
/* Fails everything that is pending, and closes the connection for good. Keeps the first reason. */
void gm__fail_all(struct gm_client *client, int status, const char *text);

/* conn.c. exchange sends and receives what can be without blocking; prepare makes room for bytes of output. Both GM_OK
 * or a status. */
int gm__conn_exchange(struct gm_client *client);
void gm__conn_flush(struct gm_client *client);
void gm__conn_push(struct gm_client *client); /* flush, and tell the reader when the rest must wait for room */
int gm__conn_prepare(struct gm_client *client, size_t bytes);
bool gm__conn_has_output(const struct gm_client *client);
int gm__conn_take_fd(struct gm_client *client); /* -1: none; FD_LOST */
void gm__conn_drop_fds(struct gm_client *client);

/* reply.c: one frame's body. GM_OK, or the reason, also in client->closing, why the connection cannot go on. */
int gm__reply(struct gm_client *client, const uint8_t *body, size_t size);

/* wait.c. wait returns GM_OK when complete, else GM_ETIMEDOUT or GM_EINVAL. */
int gm__wait(struct gm_client *client, struct gm_pending *pending, uint64_t deadline_ns);
void gm__complete(struct gm_client *client, struct gm_pending *pending, int status);
void gm__wake_reader(struct gm_client *client);

/* call.c: sends a request and waits for its reply. The status, with the failure kept as the client's last. */
int gm__call(struct gm_client *client, struct gm_wire_request *request, struct gm_call *call, uint64_t deadline_ns);
/* Queues a request whose reply nobody awaits. */
int gm__post(struct gm_client *client, struct gm_wire_request *request, enum gm_slot_kind kind);

/* submit.c: queues one job; what it fails with is the client's last failure. */
int gm__job_queue(struct gm_client *client, const struct gm_request *request, struct gm_job_inside *job);

/* job.c */
static inline struct gm_job_inside *gm__inside(struct gm_job *job)
{
    return (struct gm_job_inside *)job->opaque;
}
void gm__job_complete(struct gm_client *client, struct gm_job_inside *job, const struct gm_wire_response *response);
void gm__job_fail(struct gm_client *client, struct gm_job_inside *job, int status, const char *text);

/* arena.c */
void gm__arenas_unmap(struct gm_client *client);

#endif
