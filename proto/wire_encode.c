/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes messages with msgpack-c's packer into memory of the caller. Any thread; bounded by the capacity of the
 * output, and what does not fit sets a flag and writes nothing more.
 */
#include "args.h"
#include "wire_cursor.h"

#include <msgpack/pack.h>
#include <string.h>

/* The packer's write callback. */
static int append(void *data, const char *bytes, size_t size)
{
    struct gm_wire_out *const out = data;
    if (out->overflow || size > out->capacity - out->size) {
        out->overflow = true;
        return -1;
    }
    if (size > 0)
        memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
    return 0;
}

static msgpack_packer packer(struct gm_wire_out *out)
{
    const msgpack_packer pk = {out, append};
    return pk;
}

void gm_wire_put_map(struct gm_wire_out *out, uint32_t pairs)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_map(&pk, pairs);
}

void gm_wire_put_array(struct gm_wire_out *out, uint32_t items)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_array(&pk, items);
}

void gm_wire_put_str(struct gm_wire_out *out, const char *text)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_str_with_body(&pk, text, strlen(text));
}

void gm_wire_put_u64(struct gm_wire_out *out, uint64_t v)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_uint64(&pk, v);
}

void gm_wire_put_i64(struct gm_wire_out *out, int64_t v)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_int64(&pk, v);
}

void gm_wire_put_f64(struct gm_wire_out *out, double v)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_double(&pk, v);
}

void gm_wire_put_bool(struct gm_wire_out *out, bool v)
{
    msgpack_packer pk = packer(out);
    if (v)
        msgpack_pack_true(&pk);
    else
        msgpack_pack_false(&pk);
}

void gm_wire_put_nil(struct gm_wire_out *out)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_nil(&pk);
}

void gm_wire_put_bin(struct gm_wire_out *out, const void *bytes, size_t size)
{
    msgpack_packer pk = packer(out);
    msgpack_pack_bin_with_body(&pk, bytes, size);
}

/* f16 or bf16 as f32: exact, payloads of NaNs included. */
static uint32_t half_as_f32(uint32_t dtype, uint32_t bits)
{
    const uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    uint32_t narrow;
    float f;
    if (dtype == GM_DTYPE_bf16)
        return sign | rest << 16;
    if (rest >= 0x7c00u)
        return sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    if (rest >= 0x400u)
        return sign | ((rest << 13) + (112u << 23)); /* by as much do the two biases differ */
    f = (float)rest * 0x1p-24f;
    memcpy(&narrow, &f, sizeof narrow);
    return sign | narrow;
}

void gm_wire_put_scalar(struct gm_wire_out *out, uint32_t dtype, uint64_t bits)
{
    const uint32_t unused = 64 - 8 * gm_dtype_bytes(dtype); /* high bits that the element does not have */
    msgpack_packer pk = packer(out);
    const bool half = dtype == GM_DTYPE_f16 || dtype == GM_DTYPE_bf16;
    const uint32_t narrow = half ? half_as_f32(dtype, (uint32_t)bits) : (uint32_t)bits;
    float f;
    double d;

    assert(dtype < GM_DTYPE_COUNT && (GM_SCALAR_TYPES >> dtype & 1u) != 0);
    if (dtype == GM_DTYPE_f32 || half) {
        memcpy(&f, &narrow, sizeof f);
        msgpack_pack_float(&pk, f);
    } else if (dtype == GM_DTYPE_f64) {
        memcpy(&d, &bits, sizeof d);
        msgpack_pack_double(&pk, d);
    } else if (gm_dtype_kind(dtype) == 'i') {
        msgpack_pack_int64(&pk, (int64_t)(bits << unused) >> unused);
    } else {
        msgpack_pack_uint64(&pk, bits << unused >> unused);
    }
}

size_t gm_wire_begin(struct gm_wire_out *out)
{
    static const char room[GM_FRAME_HEADER];
    const size_t start = out->size;
    append(out, room, sizeof room);
    return start;
}

int gm_wire_end(struct gm_wire_out *out, size_t start)
{
    const size_t size = out->size - start;
    if (out->overflow || size > GM_FRAME_HEADER + GM_FRAME_BYTES_MAX) {
        out->size = start;
        out->overflow = false;
        return GM_ETOOLARGE;
    }
    const uint32_t body = (uint32_t)(size - GM_FRAME_HEADER);
    for (uint32_t i = 0; i < GM_FRAME_HEADER; i++)
        out->bytes[start + i] = (uint8_t)(body >> (24 - 8 * i));
    return GM_OK;
}

static void put_key_u64(struct gm_wire_out *out, const char *key, uint64_t v)
{
    gm_wire_put_str(out, key);
    gm_wire_put_u64(out, v);
}

static void put_key_str(struct gm_wire_out *out, const char *key, const char *text)
{
    gm_wire_put_str(out, key);
    gm_wire_put_str(out, text);
}

static void put_hello(struct gm_wire_out *out, const struct gm_wire_request *request)
{
    const bool has_client = request->u.hello.client[0] != '\0';
    gm_wire_put_map(out, has_client ? 3 : 2);
    put_key_u64(out, "version_min", request->u.hello.version_min);
    put_key_u64(out, "version_max", request->u.hello.version_max);
    if (has_client)
        put_key_str(out, "client", request->u.hello.client);
}

static void put_buffer(struct gm_wire_out *out, const struct gm_wire_buffer *buffer, bool is_input)
{
    if (buffer->place == GM_PLACE_ARENA) {
        gm_wire_put_map(out, 2);
        put_key_u64(out, "arena", buffer->arena);
        put_key_u64(out, "offset", buffer->offset);
    } else if (is_input && buffer->place == GM_PLACE_INLINE) {
        gm_wire_put_bin(out, buffer->bytes, buffer->size);
    } else {
        gm_wire_put_nil(out);
    }
}

static bool is_set(uint32_t arg, const struct gm_args *args)
{
    if (arg == GM_A_high)
        return gm_compare_takes_high(args->count);
    return gm_arg_type(arg) != GM_ARG_FLAG || (args->flags & gm_place_flag(gm_arg_place(arg))) != 0;
}

static void put_arg(struct gm_wire_out *out, uint32_t arg, const struct gm_args *args)
{
    const uint32_t place = gm_arg_place(arg);
    const uint64_t bits = place == GM_AT_COUNT ? args->count : place == GM_AT_COUNT2 ? args->count2
                          : place <= GM_AT_VALUE3 ? args->value[place - GM_AT_VALUE0] : 0;
    gm_wire_put_str(out, gm_arg_name(arg));
    switch (gm_arg_type(arg)) {
    case GM_ARG_ELEMENT:
        gm_wire_put_scalar(out, args->dtype, bits);
        break;
    case GM_ARG_F64:
        gm_wire_put_f64(out, gm_f64_of(bits));
        break;
    case GM_ARG_FLAG:
        gm_wire_put_bool(out, true);
        break;
    case GM_ARG_TYPE:
        gm_wire_put_str(out, gm_dtype_name(args->type2));
        break;
    case GM_ARG_COMPARE:
        gm_wire_put_str(out, gm_compare_name(args->count));
        break;
    default:
        gm_wire_put_u64(out, bits);
        break;
    }
}

static void put_args(struct gm_wire_out *out, const struct gm_op_row *row, const struct gm_args *args)
{
    put_key_str(out, "dtype", gm_dtype_name(args->dtype));
    put_key_u64(out, "n", args->n);
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        if (gm_args_takes(row, arg) && is_set(arg, args))
            put_arg(out, arg, args);
}

static uint32_t keys_of(const struct gm_op_row *row, const struct gm_args *args)
{
    uint32_t keys = 2u; /* dtype, n */
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        keys += gm_args_takes(row, arg) && is_set(arg, args);
    return row->types != GM_NO_TYPES ? keys : 0u;
}

static void put_submit(struct gm_wire_out *out, const struct gm_wire_submit *submit)
{
    const struct gm_op_row row = gm_op_row(submit->op);

    gm_wire_put_map(out, 1u + submit->has_device + keys_of(&row, &submit->args) + (row.inputs > 0) + (row.outputs > 0));
    put_key_str(out, "op", gm_op_name(submit->op));
    if (submit->has_device)
        put_key_u64(out, "device", submit->device);
    if (row.types != GM_NO_TYPES)
        put_args(out, &row, &submit->args);
    if (row.inputs > 0) {
        gm_wire_put_str(out, "in");
        gm_wire_put_array(out, row.inputs);
        for (uint32_t i = 0; i < row.inputs; i++)
            put_buffer(out, &submit->buffer[i], true);
    }
    if (row.outputs > 0) {
        gm_wire_put_str(out, "out");
        gm_wire_put_array(out, row.outputs);
        for (uint32_t i = 0; i < row.outputs; i++)
            put_buffer(out, &submit->buffer[row.inputs + i], false);
    }
}

static void put_arena_create(struct gm_wire_out *out, const struct gm_wire_request *request)
{
    const bool has_device = request->u.arena_create.has_device;
    const bool has_name = request->u.arena_create.name[0] != '\0';
    gm_wire_put_map(out, 2u + has_device + has_name);
    put_key_u64(out, "bytes", request->u.arena_create.bytes);
    put_key_str(out, "kind", request->u.arena_create.device_memory ? "device" : "shared");
    if (has_device)
        put_key_u64(out, "device", request->u.arena_create.device);
    if (has_name)
        put_key_str(out, "name", request->u.arena_create.name);
}

static void put_cancel(struct gm_wire_out *out, const struct gm_wire_request *request)
{
    gm_wire_put_map(out, request->u.cancel.has_lane ? 2 : 1);
    if (!request->u.cancel.has_lane) {
        put_key_u64(out, "id", request->u.cancel.id);
        return;
    }
    put_key_u64(out, "lane", request->u.cancel.lane);
    put_key_u64(out, "position", request->u.cancel.position);
}

static void put_lane_open(struct gm_wire_out *out, const struct gm_wire_request *request)
{
    const bool has_device = request->u.lane_open.has_device, has_slots = request->u.lane_open.slots != 0;
    gm_wire_put_map(out, 0u + has_device + has_slots);
    if (has_device)
        put_key_u64(out, "device", request->u.lane_open.device);
    if (has_slots)
        put_key_u64(out, "slots", request->u.lane_open.slots);
}

static void put_params(struct gm_wire_out *out, const struct gm_wire_request *request)
{
    switch (request->method) {
    case GM_METHOD_HELLO:
        put_hello(out, request);
        break;
    case GM_METHOD_SUBMIT:
        put_submit(out, &request->u.submit);
        break;
    case GM_METHOD_CANCEL:
        put_cancel(out, request);
        break;
    case GM_METHOD_ARENA_CREATE:
        put_arena_create(out, request);
        break;
    case GM_METHOD_ARENA_FREE:
        gm_wire_put_map(out, 1);
        put_key_u64(out, "arena", request->u.arena_free.arena);
        break;
    case GM_METHOD_ARENA_ATTACH:
        gm_wire_put_map(out, 1);
        put_key_str(out, "name", request->u.arena_attach.name);
        break;
    case GM_METHOD_ARENA_REMOVE:
        gm_wire_put_map(out, 1);
        put_key_str(out, "name", request->u.arena_remove.name);
        break;
    case GM_METHOD_LANE_OPEN:
        put_lane_open(out, request);
        break;
    case GM_METHOD_LANE_CLOSE:
        gm_wire_put_map(out, 1);
        put_key_u64(out, "lane", request->u.lane_close.lane);
        break;
    case GM_METHOD_PAUSE:
        gm_wire_put_map(out, request->u.pause.has_device ? 1 : 0);
        if (request->u.pause.has_device)
            put_key_u64(out, "device", request->u.pause.device);
        break;
    case GM_METHOD_ARENA_LIST:
    case GM_METHOD_STATS:
    case GM_METHOD_OPS:
    case GM_METHOD_PING:
    case GM_METHOD_DRAIN:
    case GM_METHOD_COUNT:
        gm_wire_put_map(out, 0);
        break;
    }
}

/* What cannot be written down at all; everything else is for the decoder to judge. */
static int check_encodable(const struct gm_wire_request *request)
{
    if (gm_method_name(request->method) == NULL)
        return GM_EMETHOD;
    if (request->method != GM_METHOD_SUBMIT)
        return GM_OK;
    const struct gm_op_row row = gm_op_row(request->u.submit.op);
    if (!row.known)
        return GM_EOP;
    const struct gm_args *const args = &request->u.submit.args;
    if (row.types != GM_NO_TYPES && (args->dtype >= GM_DTYPE_COUNT || (row.types >> args->dtype & 1u) == 0))
        return GM_EDTYPE;
    if ((row.places >> GM_AT_TYPE2 & 1u) != 0 &&
        (args->type2 >= GM_DTYPE_COUNT || (row.types2 >> args->type2 & 1u) == 0))
        return GM_EDTYPE;
    return gm_args_takes(&row, GM_A_compare) && args->count >= GM_COMPARE_COUNT ? GM_EINVAL : GM_OK;
}

int gm_wire_encode_request(struct gm_wire_out *out, const struct gm_wire_request *request)
{
    const int rc = check_encodable(request);
    if (rc != GM_OK)
        return rc;
    const size_t start = gm_wire_begin(out);
    gm_wire_put_array(out, 4);
    gm_wire_put_u64(out, 0);
    gm_wire_put_u64(out, request->id);
    gm_wire_put_str(out, gm_method_name(request->method));
    put_params(out, request);
    return gm_wire_end(out, start);
}

int gm_wire_encode_error(struct gm_wire_out *out, uint32_t id, bool has_id, const struct gm_problem *problem)
{
    const size_t start = gm_wire_begin(out);
    gm_wire_put_array(out, 4);
    gm_wire_put_u64(out, 1);
    if (has_id)
        gm_wire_put_u64(out, id);
    else
        gm_wire_put_nil(out);
    gm_wire_put_map(out, 5);
    gm_wire_put_str(out, "code");
    gm_wire_put_i64(out, problem->code);
    put_key_str(out, "name", gm_error_name(problem->code));
    put_key_str(out, "text", problem->text[0] != '\0' ? problem->text : gm_error_text(problem->code));
    put_key_str(out, "field", problem->field);
    gm_wire_put_str(out, "retriable");
    gm_wire_put_bool(out, gm_error_is_retriable(problem->code));
    gm_wire_put_nil(out);
    return gm_wire_end(out, start);
}

size_t gm_wire_begin_result(struct gm_wire_out *out, uint32_t id)
{
    const size_t start = gm_wire_begin(out);
    gm_wire_put_array(out, 4);
    gm_wire_put_u64(out, 1);
    gm_wire_put_u64(out, id);
    gm_wire_put_nil(out);
    return start;
}

/* One output is a bin; of several, each is a bin, or nil when it lies in an arena. */
static void put_outputs(struct gm_wire_out *out, const struct gm_wire_done *done)
{
    if (done->outputs > 1)
        gm_wire_put_array(out, done->outputs);
    for (uint32_t i = 0; i < done->outputs; i++)
        if (done->out[i].bytes != NULL)
            gm_wire_put_bin(out, done->out[i].bytes, done->out[i].size);
        else
            gm_wire_put_nil(out);
}

int gm_wire_encode_done(struct gm_wire_out *out, uint32_t id, const struct gm_wire_done *done)
{
    const bool has_result = done->result_dtype < GM_DTYPE_COUNT, has_out = done->outputs != 0;
    const size_t start = gm_wire_begin_result(out, id);
    gm_wire_put_map(out, 3u + 2u * has_result + has_out);
    if (has_result) {
        gm_wire_put_str(out, "result");
        gm_wire_put_scalar(out, done->result_dtype, done->result);
        put_key_str(out, "dtype", gm_dtype_name(done->result_dtype));
    }
    put_key_u64(out, "device", done->device);
    put_key_u64(out, "wait_ns", done->wait_ns);
    put_key_u64(out, "run_ns", done->run_ns);
    if (has_out) {
        gm_wire_put_str(out, "out");
        put_outputs(out, done);
    }
    return gm_wire_end(out, start);
}
