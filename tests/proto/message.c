/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of the protocol's tests, see message.h. One thread; bodies are bounded by struct message.
 */
#include "message.h"

#include "args.h"

void message_clear(struct message *m)
{
    m->out = (struct gm_wire_out){m->bytes, 0, sizeof m->bytes, false};
}

void message_raw(struct message *m, const void *bytes, size_t size)
{
    assert_true(size <= m->out.capacity - m->out.size);
    memcpy(m->bytes + m->out.size, bytes, size);
    m->out.size += size;
}

void message_begin(struct message *m, const char *method, uint32_t pairs)
{
    message_clear(m);
    gm_wire_put_array(&m->out, 4);
    gm_wire_put_u64(&m->out, 0);
    gm_wire_put_u64(&m->out, 7);
    gm_wire_put_str(&m->out, method);
    gm_wire_put_map(&m->out, pairs);
}

void message_request(struct message *m, const struct gm_wire_request *request)
{
    message_clear(m);
    assert_int_equal(gm_wire_encode_request(&m->out, request), GM_OK);
    m->out.size -= GM_FRAME_HEADER;
    memmove(m->bytes, m->bytes + GM_FRAME_HEADER, m->out.size);
}

static uint8_t *exact_copy(const struct message *m, size_t size)
{
    uint8_t *const copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, m->bytes, size);
    return copy;
}

int decode_request(const struct message *m, size_t size, struct gm_wire_request *request, bool *has_id,
                   struct gm_problem *problem)
{
    uint8_t *const copy = exact_copy(m, size);
    const int rc = gm_wire_decode_request(copy, size, request, has_id, problem);
    free(copy);
    assert_int_equal(rc, problem->code);
    if (rc != GM_OK)
        assert_true(problem->text[0] != '\0');
    return rc;
}

int decode_response(const struct message *m, size_t size, struct gm_wire_response *response,
                    struct gm_problem *problem)
{
    uint8_t *const copy = exact_copy(m, size);
    const int rc = gm_wire_decode_response(copy, size, response, problem);
    free(copy);
    assert_int_equal(rc, problem->code);
    return rc;
}

int scan(const struct message *m, size_t size, struct gm_problem *problem)
{
    uint8_t *const copy = exact_copy(m, size);
    memset(problem, 0, sizeof *problem);
    const int rc = gm_wire_scan(copy, size, problem);
    free(copy);
    assert_int_equal(rc, problem->code);
    return rc;
}

void expect_request(const struct message *m, int code, const char *field)
{
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id = false;

    const int rc = decode_request(m, m->out.size, &request, &has_id, &problem);
    if (rc != code || strcmp(problem.field, field) != 0)
        fail_msg("%s field \"%s\" (%s) instead of %s field \"%s\"", gm_error_name(rc), problem.field, problem.text,
                 gm_error_name(code), field);
    assert_true(has_id);
    assert_int_equal(request.id, 7);
}

static const uint8_t inline_data[256] = {1, 2, 3, 4, 5, 6, 7, 8};

static struct gm_wire_buffer a_buffer(bool in_arena, bool is_input, uint32_t index, uint64_t bytes)
{
    struct gm_wire_buffer buffer = {.place = in_arena ? GM_PLACE_ARENA : GM_PLACE_INLINE};
    if (in_arena) {
        buffer.arena = 0x10000u + index;
        buffer.offset = UINT64_C(4096) * (index + 1);
    } else {
        buffer.bytes = is_input ? inline_data : NULL;
        buffer.size = bytes;
    }
    return buffer;
}

static uint64_t f64_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Good ones, every argument another value, for inputs that all fit inline_data. */
static struct gm_args some_args(const struct gm_op_row *row, uint32_t dtype)
{
    struct gm_args args = {.n = sizeof inline_data / 32u, .dtype = (uint8_t)dtype};

    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        if (!gm_args_takes(row, arg))
            continue;
        const uint32_t place = gm_arg_place(arg), type = gm_arg_type(arg);
        if (type == GM_ARG_FLAG)
            args.flags |= gm_place_flag(place);
        else if (type == GM_ARG_TYPE)
            args.type2 = (uint8_t)__builtin_ctz(row->types2);
        else if (type == GM_ARG_COMPARE)
            args.count = GM_COMPARE_between;
        else if (place == GM_AT_COUNT)
            args.count = 10u;
        else if (place == GM_AT_COUNT2)
            args.count2 = 3u;
        else if (type == GM_ARG_F64)
            args.value[place] = f64_bits((place & 1u) != 0 ? 2.25 : -1.5);
        else
            args.value[place] = type == GM_ARG_ELEMENT ? 42u + place : 1u;
    }
    return args;
}

static struct gm_wire_request a_submit(uint32_t op, uint32_t dtype, bool in_arena)
{
    const struct gm_op_row row = gm_op_row(op);
    struct gm_wire_request request = {.id = 7, .method = GM_METHOD_SUBMIT};
    struct gm_wire_submit *const s = &request.u.submit;

    s->op = op;
    s->has_device = true;
    s->device = 3;
    if (dtype < GM_DTYPE_COUNT)
        s->args = some_args(&row, dtype);
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++)
        s->buffer[s->buffers++] = a_buffer(in_arena, i < row.inputs, i, gm_buffer_bytes(&row, i, &s->args));
    return request;
}

static void add(struct good *list, size_t *count, const struct gm_wire_request *request, const char *what)
{
    assert_true(*count < GOOD_REQUESTS_MAX);
    snprintf(list[*count].name, sizeof list[*count].name, "%s", what);
    list[*count].request = *request;
    (*count)++;
}

/* The lowest and the highest type that an op takes: in between messages differ by a name. */
static bool is_end(uint32_t types, uint32_t dtype)
{
    return (types >> dtype & 1u) != 0 && ((types & ((1u << dtype) - 1u)) == 0 || types >> (dtype + 1u) == 0);
}

static void add_submits(struct good *list, size_t *count)
{
    char what[64];
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        for (uint32_t dtype = 0; dtype <= GM_DTYPE_COUNT; dtype++) {
            const bool fits = dtype < GM_DTYPE_COUNT ? is_end(row.types, dtype) : row.types == GM_NO_TYPES;
            for (uint32_t in_arena = 0; fits && in_arena < 2; in_arena++) {
                const struct gm_wire_request request = a_submit(op, dtype, in_arena != 0);
                snprintf(what, sizeof what, "submit %s %s %s", gm_op_name(op),
                         dtype < GM_DTYPE_COUNT ? gm_dtype_name(dtype) : "-", in_arena ? "arena" : "inline");
                add(list, count, &request, what);
            }
        }
    }
}

static void set_name(char name[GM_NAME_BYTES_MAX], const char *text)
{
    snprintf(name, GM_NAME_BYTES_MAX, "%s", text);
}

static void fill_in(struct gm_wire_request *request)
{
    switch (request->method) {
    case GM_METHOD_HELLO:
        request->u.hello.version_min = 1, request->u.hello.version_max = 9;
        set_name(request->u.hello.client, "test \xc3\xa9");
        break;
    case GM_METHOD_CANCEL:
        request->u.cancel.id = UINT32_MAX;
        break;
    case GM_METHOD_ARENA_CREATE:
        request->u.arena_create.bytes = UINT64_C(1) << 33;
        request->u.arena_create.device_memory = request->u.arena_create.has_device = true;
        request->u.arena_create.device = 15;
        break;
    case GM_METHOD_ARENA_FREE:
        request->u.arena_free.arena = 0x30005;
        break;
    case GM_METHOD_ARENA_ATTACH:
        set_name(request->u.arena_attach.name, "w\xc3\xa9ights");
        break;
    case GM_METHOD_ARENA_REMOVE:
        set_name(request->u.arena_remove.name, "a name of sixty-three bytes, which is all that a name may have.");
        break;
    case GM_METHOD_LANE_OPEN:
        request->u.lane_open.has_device = true;
        request->u.lane_open.device = 2;
        request->u.lane_open.slots = 1024;
        break;
    case GM_METHOD_LANE_CLOSE:
        request->u.lane_close.lane = UINT32_MAX;
        break;
    case GM_METHOD_PAUSE:
        request->u.pause.has_device = true;
        request->u.pause.device = 1;
        break;
    default:
        break;
    }
}

/* The second forms of methods that have two. */
static void add_second_forms(struct good *list, size_t *count)
{
    struct gm_wire_request cancel = {.id = 7, .method = GM_METHOD_CANCEL};
    cancel.u.cancel.has_lane = true;
    cancel.u.cancel.lane = 0x20003;
    cancel.u.cancel.position = UINT64_MAX;
    add(list, count, &cancel, "cancel in a lane");
    struct gm_wire_request create = {.id = 7, .method = GM_METHOD_ARENA_CREATE};
    create.u.arena_create.bytes = 1;
    set_name(create.u.arena_create.name, "weights");
    add(list, count, &create, "arena.create with a name");
    const struct gm_wire_request open = {.id = 7, .method = GM_METHOD_LANE_OPEN};
    add(list, count, &open, "lane.open of the daemon's choice");
}

size_t good_requests(struct good *list)
{
    size_t count = 0;
    for (uint32_t method = 0; method < GM_METHOD_COUNT; method++) {
        struct gm_wire_request request = {.id = 7, .method = (enum gm_method)method};
        if (method == GM_METHOD_SUBMIT) {
            add_submits(list, &count);
            continue;
        }
        fill_in(&request);
        add(list, &count, &request, gm_method_name(method));
    }
    add_second_forms(list, &count);
    return count;
}
