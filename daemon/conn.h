/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of one client: frames in, frames out, descriptors with their own frame. Knows nothing of sessions or jobs.
 * Loop thread only. Input is bounded by one frame and one read, output by GM_CONN_OUTPUT_MAX; an idle connection owns
 * no buffer.
 */
#ifndef GM_DAEMON_CONN_H
#define GM_DAEMON_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "limits.h"
#include "wire.h"

#define GM_CONN_SCRATCH (32u * 1024u) /* one read; most frames are handled where it put them */
#define GM_CONN_FDS 16u               /* descriptors waiting in the output of one client */
#define GM_CONN_KEEP (16u * 1024u)    /* a buffer larger than this is given back when it is empty */
#define GM_CONN_LAST 1024u            /* room for the goodbye behind a full output buffer */
/* A request of a kind that promises nothing is not handled while so much output is unsent. */
#define GM_CONN_UNSENT_MAX GM_FRAME_BYTES_MAX
/* What was promised, what stood before it, and one answer more: never met while frames that do not fit are held. */
#define GM_CONN_OUTPUT_MAX (GM_OUTPUT_BYTES_MAX + GM_CONN_UNSENT_MAX + GM_FRAME_BYTES_MAX)

struct gm_conn;

/* What all connections of a loop share. */
struct gm_conn_io {
    uv_loop_t *loop;
    /* A whole frame body; it lies in memory of the connection only during the call. May close the connection. false:
     * not now, nothing was done; nothing more is read, and the frame comes again when output was sent. So it may be
     * said only while output is unsent or promised. */
    bool (*on_frame)(struct gm_conn *conn, const uint8_t *body, size_t size);
    /* Whether it is its turn to be read, and then, before every frame, whether it still is. Where it is not any more,
     * the frames that were read wait for gm_conn_later. NULL: always. */
    bool (*may_read)(struct gm_conn *conn);
    bool (*may_go_on)(const struct gm_conn *conn);
    /* Replies are still to come; asked after the peer ended its side. */
    bool (*is_busy)(const struct gm_conn *conn);
    /* The connection is over (the peer left, an error, our goodbye was sent); called once, before on_closed. */
    void (*on_gone)(struct gm_conn *conn, const char *reason);
    /* libuv holds nothing of it any more; the memory may be reused. */
    void (*on_closed)(struct gm_conn *conn);
    uint64_t account_in_max; /* a connection that would make its account's in more than this is ended */
    void *context;
    struct gm_conn *dirty;              /* connections with output of this turn */
    struct gm_conn *resume;             /* held ones that have sent something since */
    struct gm_conn *later, *later_last; /* held ones that wait for their turn, in order */
    uint64_t frames;                    /* that came in so far */
    uint8_t scratch[GM_CONN_SCRATCH];
};

/* Bytes that lie in connections of one owner: input that waits, mostly of frames that are not whole, and output. */
struct gm_conn_account {
    uint64_t in, out;
};

enum gm_conn_state { GM_CONN_OPEN = 1, GM_CONN_GOODBYE, GM_CONN_GONE };

struct gm_conn {
    uv_poll_t poll;
    struct gm_conn_io *io;
    struct gm_conn *dirty_next, *resume_next; /* in resume, or in later */
    enum gm_conn_state state;
    int fd, events;
    bool dirty, slow, ended;
    bool broken; /* it ended because of a malformed frame */
    bool held;   /* its next frame waits until there is room for the answer; it is not read until then */
    bool resuming;
    bool later; /* held until its turn, whatever was sent */
    uint32_t fds_count;
    struct gm_conn_account *account; /* of the owner; NULL: none */
    struct gm_conn_account counted;  /* of this one in it */
    uint64_t promised;               /* bytes of replies that will come at any time; the owner's account */
    /* The one frame that has not arrived whole; while it is held, the frames that were read already. */
    uint8_t *in;
    size_t in_size, in_capacity;
    uint8_t *out;
    size_t out_start, out_end, out_capacity;
    uint64_t out_sent; /* stream position of out_start */
    struct {
        uint64_t at; /* stream position of the frame it belongs to; those of one frame stand together */
        int fd;
    } fds[GM_CONN_FDS];
};

/* Takes the descriptor. OK, or ENOMEM/ESYSTEM (then the descriptor is still the caller's). */
int gm_conn_open(struct gm_conn *conn, struct gm_conn_io *io, int fd);

/* Room for a frame of at most `bytes`; encode into it and commit. false: the connection takes no more output (it left,
 * or it does not read its replies and was told goodbye). */
bool gm_conn_reserve(struct gm_conn *conn, size_t bytes, struct gm_wire_out *out);
/* fd: -1, or a descriptor that travels with this frame and is closed here in every case. */
void gm_conn_commit(struct gm_conn *conn, const struct gm_wire_out *out, int fd);
/* The same with up to GM_FDS_PER_FRAME_MAX of them, which arrive in this order. */
void gm_conn_commit_fds(struct gm_conn *conn, const struct gm_wire_out *out, const int *fds, uint32_t count);

/* Whether a reply of so many bytes fits beside all that is unsent and promised. */
static inline bool gm_conn_fits(const struct gm_conn *conn, uint64_t bytes);
/* Frames that were held, where output was sent since; true: some were handled. */
bool gm_conn_resume_all(struct gm_conn_io *io);
/* The same for a held one whose frame may be handled although no output was sent; at the end of the turn. */
void gm_conn_resume(struct gm_conn *conn);
/* Frames that wait for their turn, where it has come; once a turn. true: some were handled. */
bool gm_conn_later(struct gm_conn_io *io);
/* Goodbye, because it does not read. */
void gm_conn_goodbye_slow(struct gm_conn *conn);

/* Writes what the turn produced, for all connections of the loop. */
void gm_conn_flush_all(struct gm_conn_io *io);
void gm_conn_flush(struct gm_conn *conn);

/* No more input; the output (with a last error frame when problem is not NULL) is written as far as the peer reads
 * it, then the connection is gone. The caller sets the time limit with gm_conn_close. */
void gm_conn_goodbye(struct gm_conn *conn, const struct gm_problem *problem);
void gm_conn_close(struct gm_conn *conn, const char *reason);
/* Gives empty buffers of idle connections back; called now and then. */
void gm_conn_trim(struct gm_conn *conn);

static inline size_t gm_conn_unsent(const struct gm_conn *conn)
{
    return conn->out_end - conn->out_start;
}

static inline bool gm_conn_fits(const struct gm_conn *conn, uint64_t bytes)
{
    return gm_conn_unsent(conn) + conn->promised + bytes <= GM_OUTPUT_BYTES_MAX;
}

#endif
