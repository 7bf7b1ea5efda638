/* SPDX-License-Identifier: Apache-2.0
 *
 * What gridmilld and gridmill-device say to each other. Messages go over a SOCK_SEQPACKET socketpair, one fixed
 * struct each, descriptors attached to the message they belong to. Every request (daemon to device) gets exactly one
 * reply with the same sequence number, in any order; events (device to daemon) have sequence 0.
 * The region is the memory both map: counters, worker words, the journal, lane 0 and the admin lane.
 */
#ifndef GM_PROTO_CONTROL_H
#define GM_PROTO_CONTROL_H

#include "lane.h"

/* Descriptors that gridmill-device finds open when it is started. */
#define GM_DEVICE_FD_CONTROL  3 /* the socketpair */
#define GM_DEVICE_FD_REGION   4 /* memfd of gm_region_bytes(), sealed */
#define GM_DEVICE_FD_DOORBELL 5 /* eventfd: daemon to device, rung when header.asleep is set */
#define GM_DEVICE_FD_WAKE     6 /* eventfd: device to daemon, completions for a daemon that sleeps (header.wait) */

enum gm_control_type {
    /* device to daemon */
    GM_CONTROL_READY = 1, /* event: hello below; the kernel answered a self-test job */
    GM_CONTROL_FAILED,    /* event: start-up failed, text says why; the process exits after it */
    GM_CONTROL_REPLY,     /* answer to a request: status, value, text */
    /* daemon to device */
    GM_CONTROL_ARENA_ADD, /* arena; fd attached when kind is shared. Reply: when jobs may use it */
    GM_CONTROL_ARENA_DROP, /* arena.handle. Reply: when nobody on the device can reach the memory any more */
    GM_CONTROL_LANE_ADD,  /* lane; attached: memory, doorbell (read end), wake (write end). Reply: when it is polled */
    GM_CONTROL_LANE_DROP, /* lane.index. Its jobs in flight are cancelled, nothing more is taken from it. Reply: when
                           * nobody on the device can reach its memory any more */
    GM_CONTROL_CANCEL,    /* cancel. Reply status: OK (the job will complete as cancelled, unless it was finishing) or
                           * ENOTFOUND (already complete) */
    GM_CONTROL_PING,      /* Reply: value = dispatcher turns so far; comes through the dispatcher unless asleep */
    GM_CONTROL_PAUSE,     /* stop, housekeeping, relaunch; reply when running again. For tests and `gridmill drain` */
    GM_CONTROL_STOP       /* finish what lane 0 holds, then exit 0; reply before the exit */
};

enum gm_arena_kind { GM_ARENA_SHARED = 0, GM_ARENA_DEVICE = 1 };
enum gm_arena_flag {
    GM_ARENA_READONLY = 1,
    GM_ARENA_STAGING = 2, /* the daemon's own: any session, but named by lane 0 only */
    GM_ARENA_GONE = 4, /* device memory that was lost with an earlier process: no memory, and jobs hear EDEVICELOST */
    GM_ARENA_ALIAS = 8 /* another handle of device memory that is there: gm_control.value is that one's handle. It goes
                        * before the memory does */
};

enum gm_backend_kind { GM_BACKEND_CPU = 1, GM_BACKEND_CUDA = 2 };

enum gm_hello_flag { GM_HELLO_SKIP = 1 }; /* GM_DESC_SKIP_MARK is understood */

struct gm_control_hello {
    char source_id[40];
    uint32_t control_version, backend;
    uint32_t workers, threads; /* worker blocks and threads in each; CPU: threads and 1 */
    uint64_t memory_bytes, workspace_bytes;
    char name[64], uuid[48], detail[64]; /* detail: architecture, driver, path (bulk or plain) */
    uint32_t pid, flags;
    uint64_t engine_bytes; /* copies of so many and more go to the copy engine; 0: none */
};

struct gm_control_arena {
    uint32_t handle, kind, flags, session;
    uint64_t bytes;
};

/* Where a lane's journal is follows from the index; start is the first position to poll, answered how many jobs of the
 * lane were answered before: what a client that sleeps counts from. Both are zero at first but after a restart. The
 * device process believes these and not the header, which the client may write. */
struct gm_control_lane {
    uint32_t index, session, slots_log2, zero;
    uint64_t start, answered;
};

struct gm_control_cancel {
    uint32_t lane, zero;
    uint64_t position;
};

struct gm_control {
    uint32_t type, sequence;
    int32_t status;
    uint32_t zero;
    uint64_t value;
    union {
        struct gm_control_hello hello;
        struct gm_control_arena arena;
        struct gm_control_lane lane;
        struct gm_control_cancel cancel;
        char text[GM_ERROR_TEXT_MAX];
        uint8_t pad[296];
    } u;
};
static_assert(sizeof(struct gm_control_hello) <= 296 && sizeof(struct gm_control) == 320, "same on both sides");

#define GM_CONTROL_FDS_MAX 3u /* attached to one message */

#define GM_REGION_MAGIC 0x524d4721u /* "!GMR" */

/* Counters of a device. The dispatcher stores them; gridmilld reads them without asking, so that stats answer while
 * the device is stopped. Each value is exact but two of them may be from neighbouring moments. */
struct gm_device_counters {
    uint64_t turns;      /* of the dispatcher: moves while the device is awake */
    uint64_t polled;     /* descriptors taken from lanes */
    uint64_t refused;    /* answered with an error by check */
    uint64_t started;    /* jobs whose first ticket was published */
    uint64_t completed;  /* entries returned */
    uint64_t phases;     /* phases published */
    uint64_t tickets;    /* tickets published */
    uint64_t held;       /* turns in which a job waited for entry, credit or workspace */
    uint64_t entries;    /* jobs in flight now */
    uint64_t entries_high;
    uint64_t workspace;  /* bytes reserved now, beyond the entries' own scratch */
    uint64_t workspace_high;
    uint64_t wakes;      /* sleeping clients woken */
    uint64_t launches;   /* of the resident kernel; CPU: of the workers */
    uint64_t parks;      /* stops because nothing was to do */
    uint64_t pauses;     /* stops for housekeeping or by request */
    /* Of client lanes alone: gridmilld counts lane 0 itself, and sees nothing of the others. */
    uint64_t lanes;          /* open now */
    uint64_t lanes_abused;   /* closed because GM_LANE_ABUSE_MAX descriptors in a row were refused */
    uint64_t lane_submitted; /* descriptors taken */
    uint64_t lane_done, lane_failed, lane_rejected, lane_cancelled;
    uint64_t engine_copies; /* jobs given to the copy engine */
    uint64_t engine_full;   /* large enough for it, and done by workers because it had GM_COPIES_MAX */
    uint64_t leases;        /* times that a lane was served by a wing */
    uint64_t op_done[GM_OP_COUNT], op_failed[GM_OP_COUNT]; /* failed: also cancelled ones */
};

/* A worker's word, one granule: w[0], w[1] busy nanoseconds so far; w[2] lane + 1 of the job it is in, or 0;
 * w[3] low half of that job's position. */

/* What the dispatcher notes of a lane in passing. */
struct gm_lane_note {
    uint64_t head;     /* every position below was taken: started, answered or skipped. May lag behind by one poll */
    uint64_t taken;    /* jobs among them; stored together with head, as one granule */
    uint64_t answered; /* jobs of it that were answered. May lag behind by some turns */
    int32_t closed;    /* the error for which the dispatcher closed it; 0: it did not */
    uint32_t pad[9];
};
static_assert(sizeof(struct gm_lane_note) == 64 && offsetof(struct gm_lane_note, taken) == 8, "a sector of its own");

struct gm_region_header {
    uint32_t magic, version;
    uint64_t bytes;
    uint8_t pad0[112];
    struct gm_device_counters counters;
    uint8_t pad1[4096 - 128 - sizeof(struct gm_device_counters)];
};
static_assert(sizeof(struct gm_region_header) == 4096, "a page");
static_assert(offsetof(struct gm_region_header, counters) == 128, "a line of its own");

GM_HD uint64_t gm_region_workers_offset(void) { return sizeof(struct gm_region_header); }
GM_HD uint64_t gm_region_notes_offset(void)
{
    return gm_region_workers_offset() + GM_SHARES_MAX * sizeof(struct gm_granule);
}
/* Journal of a lane: one word for each of its slots. */
GM_HD uint64_t gm_region_journal_offset(uint32_t lane)
{
    const uint64_t first = gm_region_notes_offset() + GM_LANE_TABLE * sizeof(struct gm_lane_note);
    const uint64_t before = lane == 0 ? 0 : GM_LANE0_SLOTS + (uint64_t)(lane - 1u) * GM_CLIENT_LANE_SLOTS_MAX;
    return first + before * sizeof(uint32_t);
}
GM_HD uint64_t gm_region_lane0_offset(void)
{
    return (gm_region_journal_offset(GM_LANE_TABLE) + 4095u) & ~(uint64_t)4095u;
}
GM_HD uint64_t gm_region_admin_offset(void) { return gm_region_lane0_offset() + gm_lane_bytes(GM_LANE0_SLOTS); }
GM_HD uint64_t gm_region_bytes(void) { return gm_region_admin_offset() + gm_lane_bytes(GM_ADMIN_SLOTS); }

/* Journal word of a lane slot: the lap of the last job of that slot that was started. A job at a position is STARTED
 * when the word equals its lap, and answered when its completion granule carries its lap. */

/* Descriptors of the admin lane, which belongs to the device process: word 0 is one of these. */
enum gm_admin_op {
    GM_ADMIN_PING = 0x100,
    GM_ADMIN_LANE_OPEN,   /* lane, addresses of header, rings and journal, slots_log2, session, start */
    GM_ADMIN_LANE_CLOSE,  /* lane. Its jobs are told to abort; EBUSY until the last one is answered */
    GM_ADMIN_ARENA_SET,   /* handle, address, bytes, flags, session */
    GM_ADMIN_ARENA_CLEAR, /* handle. No new job may name it; EBUSY until the last one that does is answered */
    GM_ADMIN_CANCEL,      /* lane, position */
    GM_ADMIN_STOP         /* stop tickets behind everything published, then the kernel returns */
};
enum gm_admin_word {
    GM_A_OP = 0,
    GM_A_INDEX = 1,    /* lane, or arena handle */
    GM_A_SESSION = 2,
    GM_A_ADDRESS = 3,  /* and 4: lane header, arena base */
    GM_A_BYTES = 5,    /* and 6: arena bytes, lane start position */
    GM_A_FLAGS = 7,    /* arena flags | GM_ARENA_HOST; slots_log2 of a lane */
    GM_A_POSITION = 8, /* and 9: position to cancel; address of a lane's journal */
    GM_A_COUNT = 10,   /* and 11: jobs of a lane that were answered before */
};
#define GM_ARENA_CLEARING 0x200u /* the dispatcher's own: cleared, but a job in flight still uses it */
#define GM_ARENA_HOST 0x100u /* the memory is the host's: few shares, and a system fence at completion */

#endif
