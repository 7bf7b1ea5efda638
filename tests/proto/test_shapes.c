/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of every shape, over a table of ops that has one of each: every argument by its name goes to its place,
 * missing and foreign ones are named, and buffers have exactly their size. What is expected stands here as literals.
 * One thread, no I/O.
 */
#include "args.h"
#include "message.h"

/* n of all messages; f32, and i64 where there is a second type. */
enum { N = 22 };

/* ---- What is expected ---- */

enum form { REAL, UINT, TRUE, TEXT };

/* Every argument: a value in a message, and what becomes of it where. */
static const struct argument {
    const char *name;
    enum form form;
    double real;
    uint64_t uint;
    const char *text;
    uint32_t place;
    uint64_t bits;
} arguments[] = {
    {"descending", TRUE, 0, 0, NULL, GM_AT_DESCENDING, 2},
    {"exclusive", TRUE, 0, 0, NULL, GM_AT_EXCLUSIVE, 4},
    {"value", REAL, 1.0, 0, NULL, GM_AT_VALUE0, 0x3f800000},
    {"compare", TEXT, 0, 0, "between", GM_AT_COUNT, 6},
    {"high", REAL, 2.0, 0, NULL, GM_AT_VALUE1, 0x40000000},
    {"lower", UINT, 0, 1, NULL, GM_AT_VALUE0, 0x3f800000},
    {"upper", REAL, 2.0, 0, NULL, GM_AT_VALUE1, 0x40000000},
    {"alpha", REAL, -1.0, 0, NULL, GM_AT_VALUE0, 0xbf800000},
    {"beta", REAL, 0.5, 0, NULL, GM_AT_VALUE1, 0x3f000000},
    {"left", REAL, 1.0, 0, NULL, GM_AT_VALUE0, 0x3f800000},
    {"center", REAL, 2.0, 0, NULL, GM_AT_VALUE1, 0x40000000},
    {"right", REAL, 0.5, 0, NULL, GM_AT_VALUE2, 0x3f000000},
    {"lo", REAL, 1.5, 0, NULL, GM_AT_VALUE0, UINT64_C(0x3ff8000000000000)},
    {"hi", REAL, 2.5, 0, NULL, GM_AT_VALUE1, UINT64_C(0x4004000000000000)},
    {"bins", UINT, 0, 10, NULL, GM_AT_COUNT, 10},
    {"lo_y", REAL, -1.0, 0, NULL, GM_AT_VALUE2, UINT64_C(0xbff0000000000000)},
    {"hi_y", UINT, 0, 2, NULL, GM_AT_VALUE3, UINT64_C(0x4000000000000000)},
    {"bins_y", UINT, 0, 3, NULL, GM_AT_COUNT2, 3},
    {"channels", UINT, 0, 3, NULL, GM_AT_COUNT2, 3},
    {"length", UINT, 0, 11, NULL, GM_AT_VALUE0, 11},
    {"segments", UINT, 0, 11, NULL, GM_AT_VALUE0, 11},
    {"width", UINT, 0, 11, NULL, GM_AT_VALUE0, 11},
    {"to", TEXT, 0, 0, "i64", GM_AT_TYPE2, 5},
    {"index", TEXT, 0, 0, "i64", GM_AT_TYPE2, 5},
};
#define ARGUMENTS (sizeof arguments / sizeof *arguments)
static_assert(ARGUMENTS == GM_ARGS, "every argument is here");

/* Every shape: its arguments, bytes of its buffers, and how many of them are inputs and outputs. */
static const struct shape {
    const char *name, *args;
    uint32_t inputs, outputs;
    uint64_t bytes[3], element[3];
} shapes[] = {
    {"fill", "value", 0, 1, {88}, {4}},
    {"map", "", 1, 1, {88, 88}, {4, 4}},
    {"reduce", "", 1, 0, {88}, {4}},
    {"histogram", "bins lo hi", 1, 1, {88, 80}, {4, 8}},
    {"sort", "descending", 1, 1, {88, 88}, {4, 4}},
    {"gather", "length index", 2, 1, {44, 176, 88}, {4, 8, 4}},
    {"scatter", "length index", 2, 1, {88, 176, 44}, {4, 8, 4}},
    {"axpby", "alpha beta", 2, 1, {88, 88, 88}, {4, 4, 4}},
    {"cast", "to", 1, 1, {88, 176}, {4, 8}},
    {"clamp", "lower upper", 1, 1, {88, 88}, {4, 4}},
    {"stencil", "", 1, 1, {88, 88}, {4, 4}},
    {"weighted", "left center right", 1, 1, {88, 88}, {4, 4}},
    {"stencil5", "width", 2, 1, {88, 20, 88}, {4, 4, 4}},
    {"dot", "", 2, 0, {88, 88}, {4, 4}},
    {"count_if", "compare value high", 1, 0, {88}, {4}},
    {"segmented", "segments index", 2, 1, {88, 96, 44}, {4, 8, 4}},
    {"scan", "exclusive", 1, 1, {88, 88}, {4, 4}},
    {"segscan", "segments index exclusive", 2, 1, {88, 96, 88}, {4, 8, 4}},
    {"edges", "bins", 2, 1, {88, 44, 80}, {4, 4, 8}},
    {"channels", "bins lo hi channels", 1, 1, {264, 240}, {4, 8}},
    {"histogram2", "bins lo hi bins_y lo_y hi_y", 2, 1, {88, 88, 240}, {4, 4, 8}},
    {"select", "compare value high", 1, 1, {88, 88}, {4, 4}},
    {"partition", "compare value high", 1, 1, {88, 88}, {4, 4}},
    {"unique", "", 1, 1, {88, 88}, {4, 4}},
    {"runs", "", 1, 2, {88, 88, 176}, {4, 4, 8}},
};
#define SHAPES (sizeof shapes / sizeof *shapes)
static_assert(SHAPES + 1 == GM_SHAPE_COUNT, "every shape with elements is here");
static_assert((int)GM_SHAPE_COUNT == (int)GM_OP_COUNT, "and has an op");

static bool takes(const struct shape *shape, const char *name)
{
    const size_t size = strlen(name);
    for (const char *at = shape->args; (at = strstr(at, name)) != NULL; at += size)
        if ((at == shape->args || at[-1] == ' ') && (at[size] == '\0' || at[size] == ' '))
            return true;
    return false;
}

static bool is_optional(const char *name)
{
    return strcmp(name, "descending") == 0 || strcmp(name, "exclusive") == 0;
}

/* ---- Messages ---- */

/* How a message differs from a good one. */
struct change {
    const char *without, *with, *nil; /* arguments */
    uint32_t buffer;                  /* whose bytes, or offset, are changed */
    int bytes;
    bool in_arenas;
};

static const uint8_t data[512] = {1};

static void put_value(struct message *m, const struct argument *a, bool nil)
{
    gm_wire_put_str(&m->out, a->name);
    if (nil)
        gm_wire_put_nil(&m->out);
    else if (a->form == REAL)
        gm_wire_put_f64(&m->out, a->real);
    else if (a->form == UINT)
        gm_wire_put_u64(&m->out, a->uint);
    else if (a->form == TRUE)
        gm_wire_put_bool(&m->out, true);
    else
        gm_wire_put_str(&m->out, a->text);
}

static bool is(const char *name, const char *other)
{
    return other != NULL && strcmp(name, other) == 0;
}

static bool is_sent(const struct shape *shape, const struct change *change, const char *name)
{
    return (takes(shape, name) && !is(name, change->without)) || is(name, change->with);
}

static void put_buffer(struct message *m, const struct shape *shape, uint32_t i, const struct change *change)
{
    const int by = change->buffer == i ? change->bytes : 0;
    if (change->in_arenas) {
        gm_wire_put_map(&m->out, 2);
        gm_wire_put_str(&m->out, "arena"), gm_wire_put_u64(&m->out, 100 + i);
        gm_wire_put_str(&m->out, "offset"), gm_wire_put_u64(&m->out, (uint64_t)(4096 + by));
    } else if (i < shape->inputs) {
        gm_wire_put_bin(&m->out, data, (size_t)((int64_t)shape->bytes[i] + by));
    } else {
        gm_wire_put_nil(&m->out);
    }
}

static void put_message(struct message *m, const struct shape *shape, uint64_t n, const struct change *change)
{
    uint32_t pairs = 3u + (shape->inputs > 0) + (shape->outputs > 0);
    for (size_t a = 0; a < ARGUMENTS; a++)
        pairs += is_sent(shape, change, arguments[a].name);
    message_begin(m, "submit", pairs);
    gm_wire_put_str(&m->out, "op"), gm_wire_put_str(&m->out, shape->name);
    if (shape->inputs > 0) { /* any order will do */
        gm_wire_put_str(&m->out, "in"), gm_wire_put_array(&m->out, shape->inputs);
        for (uint32_t i = 0; i < shape->inputs; i++)
            put_buffer(m, shape, i, change);
    }
    for (size_t a = ARGUMENTS; a-- > 0;)
        if (is_sent(shape, change, arguments[a].name))
            put_value(m, &arguments[a], is(arguments[a].name, change->nil));
    if (shape->outputs > 0) {
        gm_wire_put_str(&m->out, "out"), gm_wire_put_array(&m->out, shape->outputs);
        for (uint32_t i = shape->inputs; i < shape->inputs + shape->outputs; i++)
            put_buffer(m, shape, i, change);
    }
    gm_wire_put_str(&m->out, "n"), gm_wire_put_u64(&m->out, n);
    gm_wire_put_str(&m->out, "dtype"), gm_wire_put_str(&m->out, "f32");
}

static void expect(const struct shape *shape, const struct change *change, int code, const char *field)
{
    struct message m;
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    put_message(&m, shape, N, change);
    const int rc = decode_request(&m, m.out.size, &request, &has_id, &problem);
    if (rc != code || strcmp(problem.field, field) != 0)
        fail_msg("%s: %s field \"%s\" (%s) instead of %s field \"%s\"", shape->name, gm_error_name(rc), problem.field,
                 problem.text, gm_error_name(code), field);
}

static struct gm_args expected_args(const struct shape *shape)
{
    struct gm_args args = {.n = N, .dtype = GM_DTYPE_f32};
    for (size_t a = 0; a < ARGUMENTS; a++) {
        const struct argument *const argument = &arguments[a];
        if (!takes(shape, argument->name))
            continue;
        if (argument->form == TRUE)
            args.flags |= (uint8_t)argument->bits;
        else if (argument->place == GM_AT_TYPE2)
            args.type2 = (uint8_t)argument->bits;
        else if (argument->place == GM_AT_COUNT)
            args.count = (uint32_t)argument->bits;
        else if (argument->place == GM_AT_COUNT2)
            args.count2 = (uint32_t)argument->bits;
        else
            args.value[argument->place] = argument->bits;
    }
    return args;
}

static void assert_submit(const struct shape *shape, const struct gm_wire_submit *submit, bool in_arenas)
{
    const struct gm_args expected = expected_args(shape), *const args = &submit->args;
    const bool same = args->n == expected.n && args->dtype == expected.dtype && args->type2 == expected.type2 &&
                      args->flags == expected.flags && args->count == expected.count &&
                      args->count2 == expected.count2 &&
                      memcmp(args->value, expected.value, sizeof expected.value) == 0;
    if (!same || strcmp(gm_op_name(submit->op), shape->name) != 0)
        fail_msg("%s: arguments are others than those sent", shape->name);
    assert_int_equal(submit->buffers, shape->inputs + shape->outputs);
    for (uint32_t i = 0; i < submit->buffers; i++)
        if (in_arenas)
            assert_true(submit->buffer[i].arena == 100 + i && submit->buffer[i].offset == 4096);
        else
            assert_int_equal(submit->buffer[i].size, shape->bytes[i]);
}

/* ---- Tests ---- */

static void every_argument_goes_to_its_place_and_back(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (uint32_t in_arenas = 0; in_arenas < 2; in_arenas++) {
            struct message m, again;
            struct gm_wire_request request;
            struct gm_problem problem;
            bool has_id;
            const struct change change = {.in_arenas = in_arenas != 0};
            put_message(&m, &shapes[s], N, &change);
            if (gm_wire_decode_request(m.bytes, m.out.size, &request, &has_id, &problem) != GM_OK)
                fail_msg("%s: %s", shapes[s].name, problem.text);
            assert_submit(&shapes[s], &request.u.submit, in_arenas != 0);
            message_request(&again, &request);
            assert_int_equal(gm_wire_decode_request(again.bytes, again.out.size, &request, &has_id, &problem), GM_OK);
            assert_submit(&shapes[s], &request.u.submit, in_arenas != 0);
        }
}

static void arguments_that_are_missing_are_named(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t a = 0; a < ARGUMENTS; a++) {
            const struct change change = {.without = arguments[a].name};
            const bool missed = takes(&shapes[s], arguments[a].name) && !is_optional(arguments[a].name);
            expect(&shapes[s], &change, missed ? GM_EINVAL : GM_OK, missed ? arguments[a].name : "");
        }
}

static void arguments_of_other_shapes_are_named(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t a = 0; a < ARGUMENTS; a++) {
            const struct change change = {.with = arguments[a].name};
            const bool taken = takes(&shapes[s], arguments[a].name);
            expect(&shapes[s], &change, taken ? GM_OK : GM_EINVAL, taken ? "" : arguments[a].name);
        }
}

static void arguments_of_another_kind_are_named(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t a = 0; a < ARGUMENTS; a++) {
            const struct change change = {.nil = arguments[a].name};
            const bool taken = takes(&shapes[s], arguments[a].name);
            expect(&shapes[s], &change, taken ? GM_EINVAL : GM_OK, taken ? arguments[a].name : "");
        }
}

static void buffers_have_exactly_their_bytes_and_alignment(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (uint32_t i = 0; i < shapes[s].inputs + shapes[s].outputs; i++) {
            const bool is_input = i < shapes[s].inputs;
            char name[24], offset[40];
            snprintf(name, sizeof name, "%s[%u]", is_input ? "in" : "out", is_input ? i : i - shapes[s].inputs);
            snprintf(offset, sizeof offset, "%s.offset", name);
            for (int bytes = -1; bytes <= 1; bytes++) {
                const struct change change = {.buffer = i, .bytes = bytes};
                const bool wrong = is_input && bytes != 0;
                expect(&shapes[s], &change, wrong ? GM_ESIZE : GM_OK, wrong ? name : "");
            }
            for (int bytes = 0; bytes <= 8; bytes += 4) {
                const struct change change = {.buffer = i, .bytes = bytes, .in_arenas = true};
                const bool aligned = (uint64_t)bytes % shapes[s].element[i] == 0;
                expect(&shapes[s], &change, aligned ? GM_OK : GM_EALIGN, aligned ? "" : offset);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_argument_goes_to_its_place_and_back),
        cmocka_unit_test(arguments_that_are_missing_are_named),
        cmocka_unit_test(arguments_of_other_shapes_are_named),
        cmocka_unit_test(arguments_of_another_kind_are_named),
        cmocka_unit_test(buffers_have_exactly_their_bytes_and_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
