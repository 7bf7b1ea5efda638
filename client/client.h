/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a client, shared by the files of the library. Everything in struct gm_client is guarded by its lock
 * unless it says otherwise; functions here are called with the lock held unless they say otherwise. What awaits a
 * reply has a slot in a fixed table; the slot and its generation are the id of the request on the wire.
 */
#ifndef GM_CLIENT_H
#define GM_CLIENT_H

#include "args.h"
#include "lane.h"
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
static_assert(FDS_KEPT_MAX >= 2 * GM_FDS_PER_FRAME_MAX, "those of a frame that is being read, and of the next");
#define FD_LOST (-2)    /* in place of a descriptor that the kernel dropped: this process has no room for more */

static_assert(GM_PENDING_JOBS == GM_INFLIGHT_PER_SESSION_MAX && GM_PENDING_JOBS < SLOTS, "the daemon's bound is ours");
static_assert(GM_INLINE_BYTES == GM_INLINE_BYTES_MAX, "the header tells the protocol's bound");
static_assert(GM_LANE_JOBS == GM_CLIENT_LANE_SLOTS_MAX, "the header tells the protocol's bound");

/* A thread that waits: looks at its lane without the lock; or asleep on cond, or in poll when it is the reader. */
struct gm_waiter {
    bool sleeps; /* cond is there, and the waiter in the client's list */
    pthread_cond_t cond;
    struct gm_waiter *next, *previous;
};

/* Something that awaits a reply: the first member of jobs and calls. */
struct gm_pending {
    /* GM_EAGAIN until complete. Stored with release after everything else of the completion; pairs with the acquire in
     * gm_job_status, which takes no lock. */
    _Atomic int status;
    uint32_t slot; /* NO_SLOT: a job in a lane */
    struct gm_waiter *waiter;
};

/* What struct gm_job holds. What a job in a lane touches comes first. */
struct gm_job_inside {
    struct gm_pending pending;
    struct gm_client *client; /* NULL: the caller's; else pending, or complete and not yet given back */
    struct gm_job_inside *next, *previous; /* in the client's list of completed jobs */
    struct gm_lane *lane; /* that it went by; NULL: the socket */
    uint64_t position;    /* in the lane */
    struct gm_result result; /* wait_ns of a pending job in a lane: when it was submitted */
    struct gm_inline_out {
        void *memory;     /* for an output that comes with the answer */
        uint64_t bytes;   /* exactly so many; 0: it does not */
        uint32_t element; /* not 0: as many elements of so many bytes as the result says, and bytes at most */
    } out[GM_OUTPUTS_MAX];
    struct gm_failure failure; /* set when it failed */
    uint32_t op; /* of a job in a lane */
};
static_assert(sizeof(struct gm_job_inside) <= sizeof(((struct gm_job *)0)->opaque), "the caller's memory holds it");

/* A blocking call, on its caller's stack. */
struct gm_call {
    struct gm_pending pending;
    enum gm_method method;
    struct gm_problem problem;
    void *copy; /* stats, ops, arena.list: the result, from malloc */
    size_t copy_bytes;
    int fds[GM_FDS_PER_FRAME_MAX]; /* that came with the reply; -1 or FD_LOST behind them */
    union {
        struct {
            uint64_t devices, lanes;
        } hello;
        struct {
            uint64_t handle, bytes;
            enum gm_memory memory;
            int device; /* ARENA_SOMEWHERE when the reply does not say */
        } arena; /* arena.create, arena.attach */
        struct {
            uint64_t handle, device, slots, bytes, start;
            bool skip;
        } lane; /* lane.open */
    } u;
};

/* ORPHAN: a job whose caller went away, or a cancel: the reply is dropped. ORPHAN_ARENA, ORPHAN_LANE: something that
 * nobody waits for any more: it is given back when it comes. */
enum gm_slot_kind {
    SLOT_FREE,
    SLOT_JOB,
    SLOT_CALL,
    SLOT_ORPHAN,
    SLOT_ORPHAN_JOB,
    SLOT_ORPHAN_ARENA,
    SLOT_ORPHAN_LANE
};

struct gm_slot {
    uint32_t generation;
    uint32_t next_free;
    enum gm_slot_kind kind;
    struct gm_pending *pending; /* JOB, CALL */
};

#define SPIN_NS_DEFAULT UINT64_C(50000) /* less than a sleep and a wake by a GPU cost */

#define ARENA_EVERYWHERE (-1) /* shared: on every device */
#define ARENA_SOMEWHERE  (-2) /* the daemon knows */

struct gm_arena {
    struct gm_client *client;
    struct gm_arena *next, *previous;
    uint32_t handle;
    enum gm_memory memory;
    int device;
    bool readonly;
    uint64_t bytes;
    void *map; /* shared: mapped here */
};

/* A lane as the client sees it. Its slots are indices into job[]; positions are those of lane.h. */
struct gm_lane {
    /* Constant while the client is open: threads that spin read them without the lock. */
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    const struct gm_granule *cq;
    uint32_t slots_log2, mask;
    uint32_t handle, device;
    int doorbell_fd, wake_fd;
    bool skip; /* GM_DESC_SKIP_MARK is understood */

    bool open;  /* may be used; else nothing is pending in it */
    bool armed; /* header.wait asks for a wake */
    uint64_t head;   /* next position to write */
    uint64_t read;   /* every position below was read by the device: a job behind it was answered */
    uint64_t reaped; /* completions read so far */
    uint32_t pending; /* jobs that were not answered, in flight[] in the order of submission */
    uint64_t flight[GM_CLIENT_LANE_SLOTS_MAX];
    /* Whose the completion slot is: NULL when it is free, gm__lane_half for the second half of a wide descriptor,
     * gm__lane_orphan for a job whose caller went away. */
    struct gm_job_inside *job[GM_CLIENT_LANE_SLOTS_MAX];
    /* What those jobs use. The descriptor does not tell: a skip may stand in its place by now. */
    uint32_t arena[GM_CLIENT_LANE_SLOTS_MAX][GM_BUFFERS_MAX];
};

#define OP_CACHE 64u /* a power of two */
static_assert(GM_OP_COUNT <= 255, "an op is a byte there");

struct gm_client {
    pthread_mutex_t lock;
    /* A page that fork gives the child as zeroes; holds 1 in the process that opened the client. Read without the
     * lock: it never changes while the client is open. */
    const unsigned char *mine;
    pid_t pid; /* where the kernel cannot do that: of the process that opened it; else 0 */
    int fd;
    int wake_fd; /* an eventfd: ends the reader's poll early, and turns an event loop's attention to completions */
    bool wake_raised; /* it is readable */
    bool closed; /* nothing is pending any more; failure says why */
    struct gm_failure closing; /* the reason the daemon gave for closing, or what broke */
    struct gm_failure last;

    struct gm_waiter *waiters;  /* every thread that waits, in order of arrival */
    struct gm_waiter *reader;   /* the one of them that is in poll, without the lock */
    bool reader_wants_output;   /* that poll also waits for room */
    struct gm_job_inside *completed_first, *completed_last;
    struct gm_arena *arenas;

    /* How threads wait: looking for so long, UINT64_MAX for ever; yielding where processors are few. */
    uint64_t spin_ns, socket_spin_ns; /* at a completion in a lane; at the socket */
    bool spin_yields;
    bool lane_only;    /* a full lane is busy, instead of the socket */
    int event_fd;      /* epoll: the socket and the wake pipes; -1 without lanes */
    bool event_driven; /* gm_fd was called: lanes with pending jobs are armed whenever the lock is free */
    bool event_output; /* event_fd also waits for room in the socket */
    uint64_t looked_ns; /* when gm_poll last looked at the socket */
    uint32_t rings;    /* bits of lanes with new descriptors whose device was not looked after yet */
    uint32_t lane_count;
    struct gm_lane lanes[GM_DEVICES_MAX];

    uint8_t op_cache[OP_CACHE];
    struct gm_op_row op_row[GM_OP_COUNT];
    uint8_t result_dtype[GM_OP_COUNT][GM_DTYPE_COUNT + 1]; /* in the words of gm_result; the last: no elements */
    uint32_t devices; /* of the daemon */

    uint32_t jobs;    /* slots of jobs and orphaned jobs */
    uint32_t awaited; /* slots that are taken */
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

/* What is on the way of every job in a lane is inlined there; what is rarely needed is kept out of the way. */
#define GM_HOT static inline __attribute__((always_inline))
#define GM_RARE __attribute__((noinline))

/* error.c. report returns status. report_problem keeps a problem's field and text; the others take printf form. */
int gm__report(struct gm_failure *failure, int status, const char *field, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));
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
/* The descriptors of the frame that is being read, in order; what does not come is -1, or FD_LOST. */
void gm__conn_take_fds(struct gm_client *client, int *fds, uint32_t count);
void gm__conn_drop_fds(struct gm_client *client);
void gm__close_fds(int *fds, uint32_t count);

/* reply.c: one frame's body. GM_OK, or the reason, also in client->closing, why the connection cannot go on. */
int gm__reply(struct gm_client *client, const uint8_t *body, size_t size);

/* wait.c. wait returns GM_OK when complete, else GM_ETIMEDOUT or GM_EINVAL. job: what is pending, when it is one. */
int gm__wait(struct gm_client *client, struct gm_pending *pending, const struct gm_job_inside *job,
             uint64_t deadline_ns);
void gm__wake_waiter(struct gm_client *client, struct gm_waiter *waiter); /* that sleeps */
void gm__wake_reader(struct gm_client *client);
void gm__wake_raise(struct gm_client *client);
bool gm__wake_lower(struct gm_client *client); /* false: the descriptor is broken */

GM_HOT void gm__complete(struct gm_client *client, struct gm_pending *pending, int status)
{
    struct gm_waiter *const waiter = pending->waiter;

    /* Release: pairs with the acquire in gm_job_status. */
    atomic_store_explicit(&pending->status, status, memory_order_release);
    if (waiter != NULL && waiter->sleeps)
        gm__wake_waiter(client, waiter);
}

/* call.c: sends a request and waits for its reply. The status, with the failure kept as the client's last. begin queues
 * it, and end waits for what was begun with GM_OK and pushed. */
int gm__call(struct gm_client *client, struct gm_wire_request *request, struct gm_call *call, uint64_t deadline_ns);
int gm__call_begin(struct gm_client *client, struct gm_wire_request *request, struct gm_call *call);
int gm__call_end(struct gm_client *client, struct gm_call *call, uint64_t deadline_ns);
/* Queues a request whose reply nobody awaits. */
int gm__post(struct gm_client *client, struct gm_wire_request *request, enum gm_slot_kind kind);

/* check.c: a request that this side finds nothing wrong with. */
struct gm_checked {
    const struct gm_op_row *row;
    uint32_t op, dtype; /* GM_DTYPE_COUNT: the op has no elements */
    int32_t device;     /* GM_DEVICE_ANY, or the one that was asked for or has its arenas */
    bool by_lane;       /* nothing rides in a message, and the arenas are where it shall run */
    struct gm_args args;           /* but for n and dtype only of ops that take some */
    uint64_t bytes[GM_BUFFERS_MAX]; /* of each buffer */
};
/* What the jobs of one call mostly have in common, from those before; zeroes for the first. Within a call the caller's
 * texts do not change, so the same pointer is the same name. */
struct gm_batch {
    uint64_t now_ns;
    const char *op_name; /* that is op */
    uint32_t op;
    int32_t device;       /* for which lane was picked */
    struct gm_lane *lane; /* NULL: none that the next job would get as well */
};

int gm__check(struct gm_client *client, const struct gm_request *request, struct gm_batch *batch,
              struct gm_checked *checked, struct gm_failure *failure);

/* submit.c: queues one job; what it fails with is the client's last failure. gm__submit_end sends what was queued and
 * rings where a device sleeps. */
int gm__job_queue(struct gm_client *client, const struct gm_request *request, struct gm_job_inside *job,
                  struct gm_batch *batch);
void gm__submit_end(struct gm_client *client);

/* lane.c */
extern struct gm_job_inside gm__lane_half, gm__lane_orphan;
/* Opens a lane on each device. What cannot be opened is left out; the last reason is the client's last failure. */
void gm__lanes_open(struct gm_client *client, uint32_t slots, uint64_t deadline_ns);
void gm__lanes_close(struct gm_client *client, bool mine);
void gm__lane_return(struct gm_client *client, uint64_t handle); /* tells the daemon that nobody wants it */
/* A lane of no further use: what is pending in it fails. */
void gm__lane_end(struct gm_client *client, struct gm_lane *lane, int status, const char *text);
/* Whether a job that was not answered uses this arena. */
bool gm__lanes_use(const struct gm_client *client, uint32_t arena);

/* lane_put.c */
struct gm_lane *gm__lane_pick(struct gm_client *client, int32_t device);
/* Writes a descriptor. GM_EBUSY: no room. */
int gm__lane_put(struct gm_client *client, struct gm_lane *lane, const struct gm_request *request,
                 const struct gm_checked *checked, struct gm_job_inside *job, uint64_t now_ns);
void gm__lanes_ring(struct gm_client *client);

/* lane_reap.c: what is complete is taken; the number of completions. drain empties the wake pipe of an open lane; arm
 * asks for a wake wherever something is pending, looks once more, and leaves it safe to sleep. */
uint32_t gm__lane_reap(struct gm_client *client, struct gm_lane *lane);
uint32_t gm__lanes_reap(struct gm_client *client);
void gm__lane_drain(struct gm_client *client, struct gm_lane *lane);
void gm__lanes_arm(struct gm_client *client);
void gm__lanes_rest(struct gm_client *client); /* arm when somebody sleeps or may, else disarm */
void gm__lane_wait_store(struct gm_lane *lane, bool armed);

/* event.c */
int gm__event_open(struct gm_client *client, struct gm_failure *failure);
void gm__event_output(struct gm_client *client); /* output waits, or none does any more */
void gm__event_kick(struct gm_client *client); /* after completions were taken that the event loop does not know of */
void gm__event_forget(struct gm_client *client, const struct gm_lane *lane);

/* job.c */
static inline struct gm_job_inside *gm__inside(struct gm_job *job)
{
    return (struct gm_job_inside *)job->opaque;
}
static inline struct gm_job *gm__outside(struct gm_job_inside *job)
{
    return (struct gm_job *)((char *)job - offsetof(struct gm_job, opaque));
}
/* At the end of the list of completed jobs. */
GM_HOT void gm__job_finish(struct gm_client *client, struct gm_job_inside *job, int status)
{
    job->next = NULL;
    job->previous = client->completed_last;
    if (client->completed_last != NULL)
        client->completed_last->next = job;
    else
        client->completed_first = job;
    client->completed_last = job;
    gm__complete(client, &job->pending, status);
}
void gm__job_complete(struct gm_client *client, struct gm_job_inside *job, const struct gm_wire_response *response);
struct gm_job *gm__job_give_back(struct gm_client *client, struct gm_job_inside *job);
void gm__job_fail(struct gm_client *client, struct gm_job_inside *job, int status, const char *text);

/* arena.c */
void gm__arenas_unmap(struct gm_client *client);

#endif
