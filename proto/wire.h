/* SPDX-License-Identifier: Apache-2.0
 *
 * msgpack <-> fixed structs, for both ends of the socket. A frame is a 4-byte big-endian length and one msgpack-RPC
 * message: [0, id, method, params] or [1, id, error, result]; params and results are maps (README.md is the
 * specification). Decoding never allocates: gm_wire_scan bounds depth and the total of items of the whole body first,
 * then the message is walked once and its fields are copied; binary data stays where it is, in the caller's frame.
 * Encoding writes into the caller's memory and fails by flag, not by allocation. No global state: any thread.
 */
#ifndef GM_PROTO_WIRE_H
#define GM_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "errors.h"
#include "limits.h"
#include "ops.h"

/* M(enumerator, wire name, admin socket only) */
#define GM_METHODS(M)                                                                                       \
    M(HELLO, "hello", 0)                                                                                    \
    M(SUBMIT, "submit", 0)                                                                                  \
    M(CANCEL, "cancel", 0)                                                                                  \
    M(STATS, "stats", 0)                                                                                    \
    M(OPS, "ops", 0)                                                                                        \
    M(PING, "ping", 0)                                                                                      \
    M(ARENA_CREATE, "arena.create", 0)                                                                      \
    M(ARENA_FREE, "arena.free", 0)                                                                          \
    M(ARENA_ATTACH, "arena.attach", 0)                                                                      \
    M(ARENA_LIST, "arena.list", 0)                                                                          \
    M(ARENA_REMOVE, "arena.remove", 0)                                                                      \
    M(LANE_OPEN, "lane.open", 0)                                                                            \
    M(LANE_CLOSE, "lane.close", 0)                                                                          \
    M(DRAIN, "drain", 1)                                                                                    \
    M(PAUSE, "pause", 1)

enum gm_method {
#define M(name, text, admin) GM_METHOD_##name,
    GM_METHODS(M)
#undef M
    GM_METHOD_COUNT
};

/* What was wrong with a message: an error number, the field it names ("params.in[0].offset" has field "offset"), and
 * a sentence. Zeroed by the functions that fill it. */
struct gm_problem {
    int code;
    char field[GM_FIELD_BYTES_MAX];
    char text[GM_ERROR_TEXT_MAX];
};

/* One buffer of a request: either a place in an arena, or bytes in the frame (input), or "in the reply" (output). */
enum gm_place { GM_PLACE_NONE = 0, GM_PLACE_ARENA, GM_PLACE_INLINE };
struct gm_wire_buffer {
    enum gm_place place;
    uint32_t arena;
    uint64_t offset;
    const uint8_t *bytes; /* inline input: inside the decoded frame */
    uint64_t size;        /* of the inline input */
};

struct gm_wire_submit {
    uint32_t op;
    bool has_device;
    uint32_t device;     /* index in stats order */
    struct gm_args args; /* complete and good after decoding */
    uint32_t buffers;    /* inputs then outputs, as the op's shape says; always complete after decoding */
    struct gm_wire_buffer buffer[GM_BUFFERS_MAX];
};

struct gm_wire_request {
    uint32_t id;
    enum gm_method method;
    union {
        struct {
            uint32_t version_min, version_max;
            char client[GM_NAME_BYTES_MAX];
        } hello;
        struct gm_wire_submit submit;
        struct {
            bool has_lane; /* a job of the session's own lane, by its position, instead of a submit by its id */
            uint32_t id;
            uint32_t lane;
            uint64_t position;
        } cancel;
        struct {
            bool has_device, device_memory; /* device_memory: kind "device" instead of "shared" */
            uint32_t device;
            uint64_t bytes;
            char name[GM_NAME_BYTES_MAX]; /* "": none */
        } arena_create;
        struct {
            char name[GM_NAME_BYTES_MAX];
        } arena_attach, arena_remove;
        struct {
            bool has_device;
            uint32_t device;
            uint32_t slots; /* 0: GM_CLIENT_LANE_SLOTS_DEFAULT; else a power of two */
        } lane_open;
        struct {
            uint32_t lane; /* gm_wire_lane */
        } lane_close;
        struct {
            uint32_t arena;
        } arena_free;
        struct {
            bool has_device;
            uint32_t device;
        } pause;
    } u;
};

/* Number of a lane in messages: the device and the lane's index in it, so that it names a lane of the whole daemon. */
static inline uint32_t gm_wire_lane(uint32_t device, uint32_t index) { return device << 16 | index; }
static inline uint32_t gm_wire_lane_device(uint32_t lane) { return lane >> 16; }
static inline uint32_t gm_wire_lane_index(uint32_t lane) { return lane & 0xffffu; }
static_assert(GM_LANES_MAX < 65536 && GM_DEVICES_MAX <= 65536, "both halves fit");

/* Result of a submit. */
struct gm_wire_done {
    uint32_t result_dtype; /* GM_DTYPE_COUNT: the op has no result */
    uint64_t result;       /* bits of that type, zero-extended */
    uint32_t device;
    uint64_t wait_ns, run_ns; /* accepted to started; started to complete */
    uint32_t outputs;         /* of the op, when any of them is inline; else 0 */
    struct gm_wire_output {
        const uint8_t *bytes; /* inside the decoded frame; NULL: it lies in an arena */
        uint64_t size;
    } out[GM_OUTPUTS_MAX];
};

struct gm_wire_response {
    uint32_t id;
    bool failed;
    struct gm_problem problem; /* when failed */
    const uint8_t *result;     /* the raw msgpack of the result map when not failed, inside the frame */
    size_t result_bytes;
};

/* Bounds depth and items of one msgpack value that must fill the body exactly. OK, EPROTO, ETOODEEP, ETOOMANY. */
int gm_wire_scan(const uint8_t *body, size_t size, struct gm_problem *problem);

/* Decodes a request body (without the length). On error, id is set when the message had one (and *has_id says so), so
 * that the answer can carry it; the connection survives everything but EPROTO, ETOODEEP and ETOOMANY. Unknown keys in
 * params are errors that name the key; so are missing and duplicate ones. */
int gm_wire_decode_request(const uint8_t *body, size_t size, struct gm_wire_request *request, bool *has_id,
                           struct gm_problem *problem);

/* Decodes a response body; then, for the methods with typed results, the result. */
int gm_wire_decode_response(const uint8_t *body, size_t size, struct gm_wire_response *response,
                            struct gm_problem *problem);
int gm_wire_decode_done(const struct gm_wire_response *response, struct gm_wire_done *done, struct gm_problem *problem);
/* A value by key from a flat result map: hello ("version", "session"), arena.create ("arena", "bytes") ... A text is
 * cut to the capacity where a character begins. EPROTO when the key is missing or of another type. */
int gm_wire_result_u64(const struct gm_wire_response *response, const char *key, uint64_t *value,
                       struct gm_problem *problem);
int gm_wire_result_bool(const struct gm_wire_response *response, const char *key, bool *value,
                        struct gm_problem *problem);
int gm_wire_result_text(const struct gm_wire_response *response, const char *key, char *text, size_t capacity,
                        struct gm_problem *problem);

/* One row of arena.list. */
struct gm_wire_arena {
    char name[GM_NAME_BYTES_MAX];
    uint64_t bytes;
    bool device_memory, has_uid;
    uint32_t device;   /* of device memory */
    uint32_t attached; /* handles on it, the creator's included */
    uint32_t uid;      /* on the admin socket */
};
/* The first capacity rows; *count is how many there are. */
int gm_wire_decode_arenas(const struct gm_wire_response *response, struct gm_wire_arena *arenas, uint32_t capacity,
                          uint32_t *count, struct gm_problem *problem);

/* Output. bytes[0..capacity) is the caller's; when something did not fit, overflow is set and size stays valid. */
struct gm_wire_out {
    uint8_t *bytes;
    size_t size, capacity;
    bool overflow;
};

/* Primitives, for stats and the like; each appends one msgpack item. */
void gm_wire_put_map(struct gm_wire_out *out, uint32_t pairs);
void gm_wire_put_array(struct gm_wire_out *out, uint32_t items);
void gm_wire_put_str(struct gm_wire_out *out, const char *text);
void gm_wire_put_u64(struct gm_wire_out *out, uint64_t v);
void gm_wire_put_i64(struct gm_wire_out *out, int64_t v);
void gm_wire_put_f64(struct gm_wire_out *out, double v);
void gm_wire_put_bool(struct gm_wire_out *out, bool v);
void gm_wire_put_nil(struct gm_wire_out *out);
void gm_wire_put_bin(struct gm_wire_out *out, const void *bytes, size_t size);
/* A scalar given as element bits: integer or float by its type (f32 and f64 keep their width, f16 and bf16 go as
 * f32). */
void gm_wire_put_scalar(struct gm_wire_out *out, uint32_t dtype, uint64_t bits);

/* Frames. begin leaves room for the length and returns the frame's start; end fills the length in and returns 0, or
 * ETOOLARGE (and removes the frame again) when it overflowed or is larger than GM_FRAME_BYTES_MAX. */
size_t gm_wire_begin(struct gm_wire_out *out);
int gm_wire_end(struct gm_wire_out *out, size_t start);

/* Whole messages, each one frame. A response with a result: begin_result, put the map, gm_wire_end. */
int gm_wire_encode_request(struct gm_wire_out *out, const struct gm_wire_request *request);
int gm_wire_encode_error(struct gm_wire_out *out, uint32_t id, bool has_id, const struct gm_problem *problem);
size_t gm_wire_begin_result(struct gm_wire_out *out, uint32_t id);
int gm_wire_encode_done(struct gm_wire_out *out, uint32_t id, const struct gm_wire_done *done);

const char *gm_method_name(uint32_t method);
bool gm_method_is_admin(uint32_t method);
const char *gm_error_name(int code); /* "EBUSY"; "E?" for a number that is none */
const char *gm_error_text(int code);
bool gm_error_is_retriable(int code);
const char *gm_op_name(uint32_t op);      /* NULL for none */
const char *gm_op_help(uint32_t op);
const char *gm_dtype_name(uint32_t dtype); /* NULL for none */
const char *gm_shape_name(uint32_t shape);
int gm_op_by_name(const char *name, size_t size); /* -1: none */
int gm_dtype_by_name(const char *name, size_t size);

/* What is wrong with arguments, in words. Returns the error. */
int gm_complaint_problem(struct gm_problem *problem, uint32_t complaint);
/* What a job of this op failed with on its device, which knows no more than the status: where that is about what a
 * buffer holds, the field is the buffer. For those who had checked the rest themselves. Returns the status. */
int gm_failure_problem(struct gm_problem *problem, const struct gm_op_row *row, int status);
/* An argument's name, its gm_arg_type and gm_arg_place, and what it means. */
const char *gm_arg_name(uint32_t arg);
uint32_t gm_arg_type(uint32_t arg);
uint32_t gm_arg_place(uint32_t arg);
const char *gm_arg_help(uint32_t arg);
bool gm_arg_is_optional(uint32_t arg); /* may be left out, and is zero then */
const char *gm_compare_name(uint32_t compare); /* NULL for none */
int gm_compare_by_name(const char *name, size_t size); /* -1: none */
/* The name of a buffer in errors: "in[0]", "out[1]" of an op; and with the name of a member behind it. */
const char *gm_arg_type_name(uint32_t arg); /* what it is in messages */
const char *gm_result_kind_name(uint32_t kind);
/* How many elements a buffer has, and what they are, in words of this row's arguments. */
const char *gm_buffer_extent_name(const struct gm_op_row *row, uint32_t i);
const char *gm_buffer_content_name(const struct gm_op_row *row, uint32_t i);
void gm_buffer_name(const struct gm_op_row *row, uint32_t i, const char *member, char name[GM_FIELD_BYTES_MAX]);

/* Fills a problem: printf form. Returns code. */
int gm_problem_set(struct gm_problem *problem, int code, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
