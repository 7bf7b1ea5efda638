/* SPDX-License-Identifier: Apache-2.0
 *
 * libgridmill: jobs for gridmilld, over its Unix socket and over lanes. This is the one installed header; it includes
 * nothing but the C library and compiles as C11 and as C++11.
 *
 * Ways of a job. A lane is memory shared with one device, which reads jobs from it and writes their completions into
 * it: no daemon, no message, no system call. gm_open opens one on each device. The same calls use it by themselves: a
 * job goes by the lane when all its buffers lie in arenas and the lane has room, else by the socket. What it does, and
 * what it says when it fails, is the same.
 *
 * Results. A function that returns int returns GM_OK or one of the negative numbers of enum gm_status. What went
 * wrong, in words, is kept: gm_job_failure for a job, gm_last_failure for everything else of a client.
 *
 * Threads. A client may be used from any number of threads at once, and every function here may be called from any of
 * them, with three rules: gm_close is the last call, made when no other thread is inside a function of that client; a
 * job is waited for by one thread at a time; an arena is freed when no other thread uses it. Several threads may wait
 * for different jobs: one of them reads the socket for all. Where many threads submit much, a client for each of them
 * is faster than the lock of one.
 *
 * Time. Every call that can block takes a deadline: nanoseconds of CLOCK_MONOTONIC, absolute. GM_NO_DEADLINE waits for
 * ever, 0 does not wait at all. Signals neither end a wait nor lengthen it. When the daemon dies or closes the
 * connection, everything that is pending completes with GM_ECLOSED at once; a client never reconnects by itself.
 *
 * Memory. gm_open maps what a client needs, about 2.8 MiB of address space of which only the used pages are backed;
 * gm_submit, gm_poll, gm_next and gm_wait allocate nothing. A lane adds 24 KiB of memory shared with the device, at 256
 * slots, and two descriptors; a client has two descriptors, and a third when it has lanes. The library starts no
 * threads, installs no signal handlers, raises no SIGPIPE, prints nothing, leaves nothing to run at exit, and its
 * descriptors are close-on-exec.
 *
 * Fork. The client belongs to the process that opened it. In a child made by fork every call returns GM_EFORKED; the
 * child may call gm_close, which takes nothing from the parent. Shared arenas stay visible in the child; lanes do not.
 */
#ifndef GRIDMILL_H
#define GRIDMILL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GM_API __attribute__((visibility("default")))
#else
#define GM_API
#endif

#define GM_VERSION_MAJOR 0
#define GM_VERSION_MINOR 1
#define GM_VERSION_PATCH 0

#define GM_NO_DEADLINE UINT64_MAX
#define GM_DEVICE_ANY  (-1)

/* Data of one job that may ride in its message, each way and together; more goes through an arena. */
#define GM_INLINE_BYTES 1048576u
/* Jobs of one client that may be pending at once on the socket; more is GM_EBUSY. */
#define GM_PENDING_JOBS 1024u
/* The most that may be pending in one lane: its slots. */
#define GM_LANE_JOBS 1024u
/* For gm_options.lane_slots. */
#define GM_NO_LANE UINT32_MAX

#ifndef GM_PROTO_ERRORS_H /* the daemon's own sources make the same enumerators from their table */
enum gm_status {
    GM_OK = 0,
    GM_EINVAL = -1,       /* invalid argument */
    GM_EOP = -2,          /* unknown op */
    GM_EDTYPE = -3,       /* the op does not take this element type */
    GM_ESIZE = -4,        /* size out of range */
    GM_EBOUNDS = -5,      /* out of bounds: a buffer, or an index or offset in one */
    GM_EARENA = -6,       /* no such arena in this session */
    GM_ESTALE = -7,       /* arena was freed */
    GM_EREADONLY = -8,    /* output buffer in a read-only arena */
    GM_EALIGN = -9,       /* offset is not a multiple of the element size */
    GM_EEMPTY = -10,      /* no elements: the result is undefined */
    GM_EOVERFLOW = -11,   /* a result does not fit its type */
    GM_EBUSY = -12,       /* too many jobs in flight, or no room for the message; gm_poll or gm_wait, then again */
    GM_EQUOTA = -13,      /* quota used up */
    GM_ENOMEM = -14,      /* out of memory */
    GM_EWORKSPACE = -15,  /* the job needs more workspace than the device has */
    GM_ECANCELLED = -16,  /* cancelled */
    GM_ETIMEDOUT = -17,   /* deadline passed */
    GM_EDEVICELOST = -18, /* the device was lost while the job ran, or is out of service */
    GM_ENODEVICE = -19,   /* no such device */
    GM_EDRAINING = -20,   /* the daemon is draining */
    GM_EPROTO = -21,      /* malformed message */
    GM_EVERSION = -22,    /* no common protocol version */
    GM_ETOOLARGE = -23,   /* message too large */
    GM_ETOODEEP = -24,    /* message nested too deeply */
    GM_ETOOMANY = -25,    /* message has too many items */
    GM_EMETHOD = -26,     /* unknown method */
    GM_ECONNECT = -27,    /* cannot reach the daemon */
    GM_ECLOSED = -28,     /* connection closed; whether pending jobs ran is unknown */
    GM_EFORKED = -29,     /* connection belongs to the parent process */
    GM_EPERM = -30,       /* not permitted on this socket */
    GM_ENOTFOUND = -31,   /* no such job */
    GM_EFDS = -32,        /* out of file descriptors */
    GM_ESYSTEM = -33,     /* system call failed */
    GM_EINTERNAL = -34,   /* internal error */
    GM_EALIAS = -35,      /* an output overlaps another buffer */
    GM_EAGAIN = -36       /* not finished yet */
};
#endif

/* Element types. f16 and bf16 are 2 bytes, the others what their names say. */
enum gm_element {
    GM_U8 = 0,
    GM_I8 = 1,
    GM_U32 = 2,
    GM_I32 = 3,
    GM_U64 = 4,
    GM_I64 = 5,
    GM_F16 = 6,
    GM_BF16 = 7,
    GM_F32 = 8,
    GM_F64 = 9,
    GM_NO_ELEMENT = 255 /* the op has no elements, or no result */
};

struct gm_client; /* a connection to a daemon */
struct gm_arena;  /* memory of this client that jobs may use */

/* What went wrong: the number, the field of the request it is about ("" for none), and a sentence. */
struct gm_failure {
    int status;
    char field[32];
    char text[160];
};

/* ---- Errors. Any thread, no client. ---- */

/* "GM_EBUSY"; "GM_E?" for a number that is none. */
GM_API const char *gm_status_name(int status);
/* The meaning in a few words. */
GM_API const char *gm_strerror(int status);
/* Non-zero when the same request, unchanged, may succeed later. */
GM_API int gm_retriable(int status);

/* Numbers of element types by name ("f32"), and back. -1 and NULL for none. */
GM_API int gm_element_by_name(const char *name);
GM_API const char *gm_element_name(uint32_t element);
/* Bytes of one element; 0 for none. */
GM_API size_t gm_element_bytes(uint32_t element);

/* "0.1.0", of the library that is loaded. */
GM_API const char *gm_version(void);

/* Now on the clock of deadlines, and now plus a time (which saturates at GM_NO_DEADLINE). */
GM_API uint64_t gm_now_ns(void);
GM_API uint64_t gm_deadline_in(uint64_t timeout_ns);

/* ---- Connection ---- */

/* How gm_wait and gm_run wait for a job: they look at its completion in the lane, or at the socket, which is a system
 * call each time but spares the sleep and the wake. A process that may use no more than two processors does not look at
 * the socket unless wait or spin_ns asks for it. Calls that are no jobs look at the socket for 50 us at the most. */
enum gm_wait_strategy {
    GM_WAIT_SPIN_THEN_SLEEP = 0, /* look for spin_ns, then sleep */
    GM_WAIT_SPIN = 1,            /* look until it is there: the shortest, and a whole processor for as long */
    GM_WAIT_EVENT = 2            /* sleep at once */
};

/* Zero means the default everywhere. */
struct gm_options {
    const char *socket;   /* path; default: see gm_open */
    const char *name;     /* of this client, for the daemon's log, up to 63 bytes; default: the program's name */
    uint64_t deadline_ns; /* of gm_open; default: 5 s from now */
    int admin;            /* non-zero: the admin socket beside it, which has the same path and ".admin" */
    uint64_t spin_ns;     /* of GM_WAIT_SPIN_THEN_SLEEP; default: 50 us */
    uint32_t lane_slots;  /* of each lane, a power of two from 2 to GM_LANE_JOBS; default: 256, and no lanes on the
                           * admin socket. GM_NO_LANE: everything goes by the socket */
    enum gm_wait_strategy wait;
    uint32_t lane_only;   /* non-zero: a job that finds its lane full is GM_EBUSY instead of going by the socket */
    uint32_t reserved0;   /* zero */
    uint64_t reserved[1]; /* zero */
};

/* Connects, says hello, and opens a lane on each device. A device or a daemon that gives no lane is no failure: its
 * jobs go by the socket, and gm_last_failure says why until another call fails. Programs that run no job on a
 * device, or few, do not need lanes: GM_NO_LANE. The socket is the first of: options->socket, the variable
 * GRIDMILL_SOCKET, $XDG_RUNTIME_DIR/gridmill/gridmill.sock when XDG_RUNTIME_DIR is set, /run/gridmill/gridmill.sock;
 * of the last two the first that exists, else the first. options may be NULL. On success *client is yours until
 * gm_close. On failure *client is NULL and, when failure is not NULL, it says why: GM_ECONNECT (nobody listens there,
 * or not for you), GM_EINVAL (the path is longer than the 107 bytes that a Unix socket address holds, or empty; or an
 * option is wrong), GM_EVERSION, GM_ETIMEDOUT, GM_EFDS, GM_ENOMEM, GM_ESYSTEM, or what the daemon answered. */
GM_API int gm_open(const struct gm_options *options, struct gm_client **client, struct gm_failure *failure);

/* Ends the session, frees the client and every arena of it. Jobs that are pending are yours again, with GM_ECLOSED
 * unless their completion was there; memory of yours is not written after this. Jobs of a lane that run at this moment
 * come to their end on the device: memory that others see, that of a named arena, may still be written until then. NULL
 * is allowed. The last call on a client, from any thread. */
GM_API void gm_close(struct gm_client *client);

/* Lanes that are open now. One that the daemon closes, or whose device is out of service, is gone for good: its pending
 * jobs complete with GM_ECLOSED or GM_EDEVICELOST, and later ones go by the socket. */
GM_API int gm_lanes(struct gm_client *client);

/* Copies what the last failing call on this client failed with; status GM_OK when none has. */
GM_API void gm_last_failure(struct gm_client *client, struct gm_failure *failure);

/* ---- Event loops ---- */

/* The descriptor to wait on; it stays the client's. Negative: GM_EFORKED. With lanes it is an epoll descriptor of the
 * socket and of what the devices wake by, and from the first call on the devices are asked for a wake whenever jobs are
 * pending: a program that only ever looks, with gm_poll, is faster without this call. When a thread waits inside
 * gm_wait, that thread takes what arrives: a client that is driven by an event loop is best left to the loop. */
GM_API int gm_fd(struct gm_client *client);
/* What to wait for on it, in the words of poll(2): POLLIN, or POLLIN | POLLOUT while output waits. (An epoll descriptor
 * is readable also when there is room for output.) Ask again after each submit and poll. */
GM_API int gm_events(struct gm_client *client);
/* Takes the completions that are there, sends and receives what can be without blocking. It leaves gm_fd's descriptor
 * unreadable until there is more. Returns GM_OK, or GM_ECLOSED when the connection has ended (every pending job has
 * completed then). Follow it with gm_next until that returns NULL, or gm_next_batch until it returns 0. */
GM_API int gm_poll(struct gm_client *client);

/* ---- Arenas ---- */

enum gm_memory {
    GM_MEMORY_SHARED = 0, /* mapped here and usable on the devices */
    GM_MEMORY_DEVICE = 1  /* memory of one device; reached by jobs only */
};

/* Asks the daemon for an arena, zeroed, of at least this many bytes, and maps it when it is shared. device matters for
 * GM_MEMORY_DEVICE. The arena is the client's: gm_close frees it when gm_arena_free did not. GM_EQUOTA, GM_ENOMEM,
 * GM_ESIZE, GM_ENODEVICE, GM_EDEVICELOST, GM_ETIMEDOUT (the daemon's answer is awaited in the background and the
 * arena given back), GM_EBUSY, GM_ECLOSED. */
GM_API int gm_arena_create(struct gm_client *client, uint64_t bytes, enum gm_memory memory, int device,
                           uint64_t deadline_ns, struct gm_arena **arena);
/* Gives an arena back. GM_OK, and also GM_ECLOSED: the arena and its memory are gone. GM_EBUSY (jobs that use it are
 * pending) and GM_ETIMEDOUT: it still exists, try again. NULL is allowed. */
GM_API int gm_arena_free(struct gm_arena *arena, uint64_t deadline_ns);
/* The mapped memory; NULL for device memory. Page-aligned. */
GM_API void *gm_arena_data(const struct gm_arena *arena);
GM_API uint64_t gm_arena_bytes(const struct gm_arena *arena);

/* Named arenas live in the daemon, for all clients of one user, until gm_arena_remove and the last gm_arena_free (or
 * gm_close) of those who have them. A name has 1 to 63 bytes of UTF-8, without '/' and control characters.
 *
 * Like gm_arena_create; GM_EINVAL with field "name" also when the name exists. Jobs of this client may write it. */
GM_API int gm_arena_create_named(struct gm_client *client, const char *name, uint64_t bytes, enum gm_memory memory,
                                 int device, uint64_t deadline_ns, struct gm_arena **arena);
/* Another handle on it, to be freed as any other: read-only, for jobs (GM_EREADONLY) and for this process.
 * GM_ENOTFOUND: the user has no arena of this name. */
GM_API int gm_arena_attach(struct gm_client *client, const char *name, uint64_t deadline_ns, struct gm_arena **arena);
/* Takes the name away: nobody attaches any more, and the memory goes with the last handle on it. */
GM_API int gm_arena_remove(struct gm_client *client, const char *name, uint64_t deadline_ns);
/* The user's named arenas (on the admin socket: everybody's), as one msgpack map that the protocol describes. On
 * success *bytes points to *size bytes that are yours: gm_free. */
GM_API int gm_arena_list(struct gm_client *client, uint64_t deadline_ns, void **bytes, size_t *size);

/* ---- Jobs ---- */

/* One buffer of a request: bytes in an arena from offset on, or memory of yours, which rides in the messages. Bytes is
 * how much the job may touch; a job that needs more is refused with GM_EBOUNDS. */
struct gm_buffer {
    const struct gm_arena *arena; /* NULL: data */
    uint64_t offset;
    const void *data; /* an output's data is written */
    uint64_t bytes;
};

static inline struct gm_buffer gm_in_arena(const struct gm_arena *arena, uint64_t offset, uint64_t bytes)
{
    struct gm_buffer buffer;
    memset(&buffer, 0, sizeof buffer);
    buffer.arena = arena;
    buffer.offset = offset;
    buffer.bytes = bytes;
    return buffer;
}

/* Memory of the caller, at most GM_INLINE_BYTES used, all inputs together and all outputs together. An input is copied
 * by gm_submit; an output is written when the completion is read from the socket, and must stay valid until the job is
 * complete. Where the result says how many elements are written, the rest of the memory stays as it is. */
static inline struct gm_buffer gm_in_memory(const void *data, uint64_t bytes)
{
    struct gm_buffer buffer;
    memset(&buffer, 0, sizeof buffer);
    buffer.data = data;
    buffer.bytes = bytes;
    return buffer;
}

/* Comparisons of elements with value, or with value and high, both included. */
enum gm_comparison {
    GM_EQ,
    GM_NE,
    GM_LT,
    GM_LE,
    GM_GT,
    GM_GE,
    GM_BETWEEN,
    GM_OUTSIDE
};

/* What to do. Start from gm_request, which zeroes what an op does not need; `gridmill ops` lists ops, what they take
 * and what their buffers hold. Arguments that no op takes together share their memory. Where a uint64_t stands for a
 * number of the element type, it holds the element's bits: integers convert by themselves, since what lies above these
 * bits is ignored; see gm_bits_f32. In C++ the type is `struct gm_request`: a function has the same name. */
struct gm_request {
    const char *op;   /* "sum" */
    uint32_t dtype;   /* enum gm_element; GM_NO_ELEMENT for ops without elements */
    int32_t device;   /* index, or GM_DEVICE_ANY: where the arenas are, else the shortest queue */
    uint64_t n;       /* elements of the input; fill: of the output; histograms of channels: pixels */
    union {
        uint64_t value;    /* fill; operand of compare */
        uint64_t lower;    /* clamp */
        uint64_t alpha;    /* axpby: factor of in[0] */
        uint64_t left;     /* weighted stencils: of the element before */
        double lo;         /* histograms: lower edge of the first bin */
        uint64_t length;   /* gather, scatter: elements of the buffer that indices go into */
        uint64_t segments; /* segmented ops */
        uint64_t width;    /* two-dimensional ops: elements of a row */
    };
    union {
        uint64_t high;   /* compare: second operand of GM_BETWEEN and GM_OUTSIDE */
        uint64_t upper;  /* clamp */
        uint64_t beta;   /* axpby: factor of in[1] */
        uint64_t center; /* weighted stencils: of the element itself */
        double hi;       /* histograms: upper edge of the last bin */
    };
    union {
        uint64_t right; /* weighted stencils: of the element behind */
        double lo_y;    /* histograms of two inputs: as lo, for the second */
    };
    double hi_y;
    union {
        uint32_t bins;    /* histograms */
        uint32_t compare; /* enum gm_comparison */
    };
    union {
        uint32_t bins_y;   /* histograms of two inputs */
        uint32_t channels; /* histograms of channels */
    };
    union {
        uint32_t to;    /* cast: enum gm_element of the output */
        uint32_t index; /* enum gm_element of indices and offsets */
    };
    int32_t descending; /* sort: non-zero for descending */
    int32_t exclusive;  /* scans: non-zero for exclusive */
    uint32_t pad;       /* zero */
    struct gm_buffer in[2], out[2];
    uint64_t reserved[4]; /* zero */
};

static inline struct gm_request gm_request(const char *op, uint32_t dtype, uint64_t n)
{
    struct gm_request request;
    memset(&request, 0, sizeof request);
    request.op = op;
    request.dtype = dtype;
    request.device = GM_DEVICE_ANY;
    request.n = n;
    return request;
}

/* Element bits for gm_request.value; integers convert by themselves. */
static inline uint64_t gm_bits_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint64_t gm_bits_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A job in flight. The memory is yours: zero it before its first use, leave it in place from gm_submit until gm_wait,
 * gm_next or gm_close has given it back, then use it again as you like. */
struct gm_job {
    void *user; /* yours */
    uint64_t opaque[48];
};

/* What a completed job says. The result is of type dtype: GM_NO_ELEMENT when the op has none. Of f16 and bf16 it is the
 * bits, in the low half of u32, and in u64 too: C has no such types. */
struct gm_result {
    uint32_t dtype;
    uint32_t device; /* that ran it */
    union {
        uint64_t u64;
        int64_t i64;
        uint32_t u32;
        int32_t i32;
        uint8_t u8;
        float f32;
        double f64;
    } value;
    uint64_t wait_ns; /* by the socket: accepted to started; by a lane: submitted to taken here, less run_ns */
    uint64_t run_ns;  /* started to complete */
};

/* Queues a job and sends what can be sent; never blocks. On GM_OK the job is the library's until it has been given
 * back. On failure it is not: GM_EBUSY (GM_PENDING_JOBS pending, the output buffer is full, or the lane is full and
 * lane_only), GM_EOP, GM_EDTYPE, GM_ESIZE, GM_EBOUNDS, GM_EALIGN, GM_EALIAS, GM_EARENA, GM_EREADONLY, GM_EINVAL,
 * GM_ENODEVICE, GM_ECLOSED; gm_last_failure names the field. The daemon or the device checks again, and more: refusals
 * arrive as the status of the job. Jobs complete in any order. */
GM_API int gm_submit(struct gm_client *client, const struct gm_request *request, struct gm_job *job);
/* The same for several jobs, with one write, and one look after the device, for all of them. They are accepted in order
 * up to the first failure, whose status is returned; *accepted says how many were. */
GM_API int gm_submit_batch(struct gm_client *client, const struct gm_request *requests, struct gm_job *const *jobs,
                           size_t count, size_t *accepted);
/* Waits for one job and returns its status; the job is yours again. GM_ETIMEDOUT here is special when the job itself
 * is still pending (gm_job_status says GM_EAGAIN): the job and its buffers stay the library's, wait again or cancel
 * and wait. GM_EINVAL: another thread waits for it, or it is not pending on this client. */
GM_API int gm_wait(struct gm_client *client, struct gm_job *job, uint64_t deadline_ns);
/* The next job that has completed and that nobody has been given yet, in the order in which completions were taken, or
 * NULL. It is yours again. Looks neither at the socket nor at lanes: see gm_poll. Jobs that a thread waits for are left
 * to that thread. */
GM_API struct gm_job *gm_next(struct gm_client *client);
/* The same for up to count jobs at once; how many there were. */
GM_API size_t gm_next_batch(struct gm_client *client, struct gm_job **jobs, size_t count);
/* Asks for a pending job to be cancelled; never blocks. The job still completes, with GM_ECANCELLED or, when it was
 * too late, with its result. GM_ENOTFOUND: it is not pending. GM_EBUSY: no room for the message. */
GM_API int gm_cancel(struct gm_client *client, struct gm_job *job);
/* gm_submit and gm_wait. When the deadline passes it returns GM_ETIMEDOUT, and the job is cancelled and forgotten:
 * memory of the caller is not touched any more, but buffers in arenas may still be written until the daemon has stopped
 * the job (gm_arena_free says GM_EBUSY until then). result may be NULL. */
GM_API int gm_run(struct gm_client *client, const struct gm_request *request, uint64_t deadline_ns,
                  struct gm_result *result);

/* GM_EAGAIN while pending, else the status. Any thread, without a lock; everything the job wrote is visible when the
 * answer is not GM_EAGAIN. The job is the library's until gm_wait or gm_next has given it back, whatever this says. */
GM_API int gm_job_status(const struct gm_job *job);
/* The result of a completed job; returns its status, and zeroes *result unless that is GM_OK. */
GM_API int gm_job_result(const struct gm_job *job, struct gm_result *result);
/* What a completed job failed with. */
GM_API void gm_job_failure(const struct gm_job *job, struct gm_failure *failure);

/* ---- The daemon ---- */

/* One message there and back through the daemon, not the device. */
GM_API int gm_ping(struct gm_client *client, uint64_t deadline_ns);
/* The daemon's figures, and its table of ops: one msgpack map each, as the protocol describes them. On success *bytes
 * points to *size bytes of msgpack that are yours: gm_free. */
GM_API int gm_stats(struct gm_client *client, uint64_t deadline_ns, void **bytes, size_t *size);
GM_API int gm_ops(struct gm_client *client, uint64_t deadline_ns, void **bytes, size_t *size);
GM_API void gm_free(void *bytes);
/* Tells the daemon to refuse new jobs, and waits until the accepted ones are finished; the daemon stays, and SIGTERM
 * ends it. On the admin socket only: GM_EPERM. */
GM_API int gm_drain(struct gm_client *client, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
