/* SPDX-License-Identifier: Apache-2.0
 *
 * The specification and the tables say the same: every table of proto/README.md that follows from a table of the
 * sources is compared word for word, every number of a limit with its value, every method with its heading, and the
 * worked examples with what the encoder writes. `proto_readme --update` writes the tables into it. One thread.
 */
#include "message.h"

#include "lane.h"

static char *readme;

static struct {
    char text[32768];
    size_t size;
} expected;

static void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof expected.text - expected.size;
    const int written = vsnprintf(expected.text + expected.size, room, format, arguments);
    va_end(arguments);
    assert_true(written >= 0 && (size_t)written + 1 < room);
    expected.size += (size_t)written;
    expected.text[expected.size++] = '\n';
    expected.text[expected.size] = '\0';
}

static void errors(void)
{
    line("| name | code | retriable | text |");
    line("|---|---|---|---|");
#define E(name, number, retriable, text) line("| %s | %d | %s | %s |", #name, number, (retriable) ? "yes" : "no", text);
#include "errors.def"
#undef E
}

static void dtypes(void)
{
    line("| dtype | id | bytes | kind |");
    line("|---|---|---|---|");
    for (uint32_t d = 0; d < GM_DTYPE_COUNT; d++) {
        const char kind = gm_dtype_kind(d);
        line("| %s | %u | %u | %s |", gm_dtype_name(d), d, gm_dtype_bytes(d),
             kind == 'u' ? "unsigned" : kind == 'i' ? "signed" : "float");
    }
}

static void ops(void)
{
    line("| id | op | shape | dtypes | result | meaning |");
    line("|---|---|---|---|---|---|");
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        char types[128] = "";
        for (uint32_t d = 0; d < GM_DTYPE_COUNT; d++)
            if ((row.types >> d & 1u) != 0)
                snprintf(types + strlen(types), sizeof types - strlen(types), "%s%s", types[0] ? " " : "",
                         gm_dtype_name(d));
        line("| %u | %s | %s | %s | %s | %s |", op, gm_op_name(op), gm_shape_name(row.shape), types[0] ? types : "none",
             gm_result_kind_name(row.result), gm_op_help(op));
    }
}

/* What a shape's buffers hold, its arguments, and how its descriptor is. */
static void shape(const char *name, struct gm_op_row row, uint32_t number)
{
    char text[400] = "", args[200] = "";
    row.shape = (uint8_t)number;
    gm_shape_fill(number, &row);
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        char field[GM_FIELD_BYTES_MAX];
        gm_buffer_name(&row, i, "", field);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s: %s (%s)", i ? "; " : "", field,
                 gm_buffer_extent_name(&row, i), gm_buffer_content_name(&row, i));
    }
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        if (row.args >> arg & 1u)
            snprintf(args + strlen(args), sizeof args - strlen(args), "%s%s", args[0] ? ", " : "", gm_arg_name(arg));
    line("| %s | %s | %s | %s | %s |", name, text[0] ? text : "none", args[0] ? args : "none",
         row.outputs == 0 ? "-" : row.alias == GM_ALIAS_SAME ? "may be an input" : "overlaps nothing",
         row.wide ? "wide" : "narrow");
}

static void shapes(void)
{
    const struct gm_op_row none = {0};
    line("| shape | buffers: elements (what they are) | arguments | output | descriptor |");
    line("|---|---|---|---|---|");
#define SHAPE(name, inputs, outputs, args, types2, alias, buffer0, buffer1, buffer2)                        \
    shape(#name, none, GM_SHAPE_##name);
#include "ops.def"
#undef SHAPE
}

static const char *place_name(uint32_t place)
{
    static const char *const names[] = {"value 0", "value 1", "value 2", "value 3", "count", "more, bits 0 to 23",
                                        "more, bits 24 to 31", "flag", "flag"};
    return names[place];
}

static void arguments(void)
{
    line("| argument | type | in the descriptor | meaning |");
    line("|---|---|---|---|");
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        line("| %s | %s | %s | %s |", gm_arg_name(arg), gm_arg_type_name(arg), place_name(gm_arg_place(arg)),
             gm_arg_help(arg));
}

static void stats(void)
{
    enum { DAEMON, DEVICE, OP, LANE, USER };
    static const char *const scopes[] = {"daemon", "devices", "ops", "lanes", "users"};
    line("| map | key | kind | unit | meaning |");
    line("|---|---|---|---|---|");
#define COUNTER "counter"
#define GAUGE "gauge"
#define TEXT "text"
#define HISTOGRAM "histogram"
#define S(scope, name, kind, unit, help) line("| %s | %s | %s | %s | %s |", scopes[scope], #name, kind, unit, help);
#include "stats.def"
#undef S
}

static const struct {
    const char *name;
    void (*write)(void);
} tables[] = {{"errors", errors}, {"dtypes", dtypes},       {"ops", ops},
              {"shapes", shapes}, {"arguments", arguments}, {"stats", stats}};
#define TABLES (sizeof tables / sizeof tables[0])

/* Every number that the text may name, and must name. */
#define NUMBERS(N)                                                                                          \
    N(GM_WIRE_VERSION_MIN) N(GM_WIRE_VERSION_MAX) N(GM_CONTROL_VERSION) N(GM_LANE_VERSION) N(GM_DEVICES_MAX)  \
    N(GM_SESSIONS_MAX) N(GM_SESSIONS_ADMIN) N(GM_SESSIONS_PER_UID_DEFAULT)                                   \
    N(GM_INFLIGHT_PER_SESSION_MAX) N(GM_INFLIGHT_MAX)                                                        \
    N(GM_INFLIGHT_PER_UID_DEFAULT) N(GM_ARENAS_PER_UID_DEFAULT) N(GM_LANES_PER_UID_DEFAULT)                  \
    N(GM_FRAME_HEADER) N(GM_FRAME_BYTES_MAX) N(GM_MSGPACK_DEPTH_MAX) N(GM_MSGPACK_ITEMS_MAX)                 \
    N(GM_METHOD_BYTES_MAX) N(GM_NAME_BYTES_MAX) N(GM_FIELD_BYTES_MAX) N(GM_ERROR_TEXT_MAX)                   \
    N(GM_FDS_PER_FRAME_MAX) N(GM_OUTPUT_BYTES_MAX) N(GM_STATS_BYTES_MAX) N(GM_INLINE_BYTES_MAX)              \
    N(GM_BUFFERS_MAX) N(GM_OUTPUTS_MAX) N(GM_ELEMENTS_MAX) N(GM_HIST_BINS_MAX) N(GM_CHANNELS_MAX)          \
    N(GM_HIST_EDGES_MAX) N(GM_ARENAS_MAX) N(GM_ARENAS_PER_SESSION_MAX)                                        \
    N(GM_ARENA_BYTES_MAX) N(GM_ARENA_BYTES_PER_UID_DEFAULT) N(GM_ARENA_ALIGN) N(GM_LANE_SLOTS_MIN)           \
    N(GM_LANE_SLOTS_MAX) N(GM_LANE0_SLOTS) N(GM_LANES_MAX) N(GM_CLIENT_LANE_SLOTS_MAX)                       \
    N(GM_CLIENT_LANE_SLOTS_DEFAULT) N(GM_LANE_ABUSE_MAX) N(GM_CANCELS_MAX) N(GM_COPIES_MAX) N(GM_COPY_PIECE)   \
    N(GM_DESC_SKIP_MARK)                                                                                     \
    N(GM_PING_MS) N(GM_PING_DEADLINE_MS) N(GM_PING_KILL_MS) N(GM_DRAIN_MS_DEFAULT) N(GM_SLOW_READER_MS)       \
    N(GM_W_OP) N(GM_W_SESSION) N(GM_W_ARENA0) N(GM_W_OFFSET0) N(GM_W_N) N(GM_W_ARENA1) N(GM_W_OFFSET1)       \
    N(GM_W_COUNT) N(GM_W_MORE) N(GM_W_WIDE) N(GM_W_VALUE0) N(GM_W_VALUE1) N(GM_W_ARENA2) N(GM_W_OFFSET2)     \
    N(GM_W_VALUE2) N(GM_W_VALUE3) N(GM_DESC_WIDE_MARK) N(GM_FLAG_WIDE) N(GM_FLAG_DESCENDING)                 \
    N(GM_FLAG_EXCLUSIVE) N(GM_LANE_OPEN)                                                                    \
    N(GM_LANE_RECOVERING) N(GM_LANE_LOST) N(GM_LANE_CLOSED) N(GM_LANE_MAGIC)

static const struct {
    const char *name;
    uint64_t value;
} numbers[] = {
#define N(name) {#name, (uint64_t)(name)},
    NUMBERS(N)
#undef N
};
#define NUMBERS_COUNT (sizeof numbers / sizeof numbers[0])

static void tables_are_word_for_word(void **state)
{
    (void)state;
    for (size_t t = 0; t < TABLES; t++) {
        char mark[64];
        expected.size = 0;
        tables[t].write();
        snprintf(mark, sizeof mark, "<!-- table: %s -->\n", tables[t].name);
        const char *text = strstr(readme, mark);
        if (text == NULL)
            fail_msg("README.md has no %s", mark);
        text += strlen(mark);
        if (strncmp(text, expected.text, expected.size) != 0) {
            size_t same = 0;
            while (text[same] == expected.text[same])
                same++;
            while (same > 0 && expected.text[same - 1] != '\n')
                same--;
            fail_msg("table %s: README.md says\n%.100s\ninstead of\n%.100s\n(proto_readme --update corrects it)",
                     tables[t].name, text + same, expected.text + same);
        }
        if (text[expected.size] == '|')
            fail_msg("table %s has rows that nothing stands for", tables[t].name);
    }
}

static bool name_character(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void numbers_are_the_ones_of_the_headers(void **state)
{
    (void)state;
    bool seen[NUMBERS_COUNT] = {false};
    for (const char *at = strstr(readme, "GM_"); at != NULL; at = strstr(at, "GM_")) {
        size_t length = 0, i = 0;
        while (name_character(at[length]))
            length++;
        while (i < NUMBERS_COUNT && (strlen(numbers[i].name) != length || memcmp(numbers[i].name, at, length) != 0))
            i++;
        if (i == NUMBERS_COUNT)
            fail_msg("README.md names %.*s, which no header defines", (int)length, at);
        if (at - readme >= 2 && memcmp(at - 2, "| ", 2) == 0 && memcmp(at + length, " | ", 3) == 0) {
            const uint64_t value = strtoull(at + length + 3, NULL, 0);
            if (value != numbers[i].value)
                fail_msg("README.md says %s is %llu instead of %llu", numbers[i].name, (unsigned long long)value,
                         (unsigned long long)numbers[i].value);
            seen[i] = true;
        }
        at += length;
    }
    for (size_t i = 0; i < NUMBERS_COUNT; i++)
        if (!seen[i])
            fail_msg("README.md has no row for %s", numbers[i].name);
}

static void every_method_has_its_heading(void **state)
{
    (void)state;
    uint32_t headings = 0;
    for (const char *at = strstr(readme, "\n### `"); at != NULL; at = strstr(at + 1, "\n### `"))
        headings++;
    assert_int_equal(headings, GM_METHOD_COUNT);
    for (uint32_t m = 0; m < GM_METHOD_COUNT; m++) {
        char heading[96];
        snprintf(heading, sizeof heading, "\n### `%s`%s\n", gm_method_name(m),
                 gm_method_is_admin(m) ? " (admin socket)" : "");
        if (strstr(readme, heading) == NULL)
            fail_msg("README.md has no heading%s", heading);
    }
}

/* Bytes of a fenced block: the pairs of hexadecimal digits at the beginning of each line. */
static size_t bytes_of(const char *name, uint8_t *bytes, size_t capacity)
{
    char mark[64];
    size_t size = 0;
    snprintf(mark, sizeof mark, "<!-- bytes: %s -->\n```\n", name);
    const char *at = strstr(readme, mark);
    if (at == NULL)
        fail_msg("README.md has no %s", mark);
    for (at += strlen(mark); strncmp(at, "```", 3) != 0;) {
        char *end;
        while (at[0] != ' ' && at[0] != '\n') {
            const char pair[3] = {at[0], at[1], '\0'};
            assert_true(size < capacity);
            bytes[size++] = (uint8_t)strtoul(pair, &end, 16);
            assert_ptr_equal(end, pair + 2);
            at += at[2] == ' ' && at[3] != ' ' ? 3 : 2;
        }
        at = strchr(at, '\n');
        assert_non_null(at);
        at++;
    }
    return size;
}

static void expect_example(const char *name, const struct gm_wire_out *out)
{
    uint8_t bytes[512];
    const size_t size = bytes_of(name, bytes, sizeof bytes);
    if (size != out->size || memcmp(bytes, out->bytes, size) != 0) {
        fprintf(stderr, "%s must be:", name);
        for (size_t i = 0; i < out->size; i++)
            fprintf(stderr, " %02x", out->bytes[i]);
        fail_msg("example %s of README.md is not what the encoder writes", name);
    }
}

static void worked_examples_have_the_bytes_of_the_encoder(void **state)
{
    (void)state;
    static const float data[] = {1, 2, 3, 4};
    uint8_t bytes[512];
    struct gm_wire_out out = {bytes, 0, sizeof bytes, false};
    struct gm_wire_request request = {.id = 0, .method = GM_METHOD_HELLO};
    struct gm_problem problem;

    request.u.hello.version_min = request.u.hello.version_max = 1;
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_OK);
    expect_example("hello", &out);

    request = (struct gm_wire_request){.id = 1, .method = GM_METHOD_SUBMIT};
    request.u.submit.op = GM_OP_sum, request.u.submit.args.dtype = GM_DTYPE_f32, request.u.submit.args.n = 4;
    request.u.submit.buffers = 1;
    request.u.submit.buffer[0] = (struct gm_wire_buffer){GM_PLACE_INLINE, 0, 0, (const uint8_t *)data, sizeof data};
    out.size = 0;
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_OK);
    expect_example("submit", &out);

    const struct gm_wire_done done = {GM_DTYPE_f64, UINT64_C(0x4024000000000000), 0, 2100, 900, 0, {{NULL, 0}}};
    out.size = 0;
    assert_int_equal(gm_wire_encode_done(&out, 1, &done), GM_OK);
    expect_example("done", &out);

    gm_problem_set(&problem, GM_ESIZE, "in[0]", "in[0] has 12 bytes instead of 16");
    out.size = 0;
    assert_int_equal(gm_wire_encode_error(&out, 1, true, &problem), GM_OK);
    expect_example("error", &out);
}

static void put_u64(struct gm_wire_out *out, const char *key, uint64_t v)
{
    gm_wire_put_str(out, key);
    gm_wire_put_u64(out, v);
}

static void the_worked_lane_has_the_bytes_of_the_layout(void **state)
{
    (void)state;
    static struct gm_desc_slot ring[4];
    uint8_t bytes[512];
    uint32_t words[GM_DESC_WORDS] = {GM_OP_sum | (uint32_t)GM_DTYPE_f32 << 16};
    struct gm_wire_out out = {bytes, 0, sizeof bytes, false};
    struct gm_wire_request request = {.id = 2, .method = GM_METHOD_LANE_OPEN};

    request.u.lane_open.slots = 4;
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_OK);
    expect_example("lane.open", &out);

    out.size = 0;
    const size_t start = gm_wire_begin_result(&out, 2);
    gm_wire_put_map(&out, 6);
    put_u64(&out, "lane", gm_wire_lane(0, 1));
    put_u64(&out, "device", 0);
    put_u64(&out, "slots", 4);
    put_u64(&out, "bytes", gm_lane_bytes(4));
    put_u64(&out, "start", 0);
    gm_wire_put_str(&out, "skip");
    gm_wire_put_bool(&out, true);
    assert_int_equal(gm_wire_end(&out, start), GM_OK);
    expect_example("lane", &out);

    words[GM_W_ARENA0] = gm_handle(1, 1);
    gm_desc_put64(words, GM_W_OFFSET0, 64);
    gm_desc_put64(words, GM_W_N, 4);
    gm_desc_store(ring, 2, 5, words, 0);
    assert_int_equal(gm_lane_sq_offset() + 1 * sizeof ring[0], 4160);
    const struct gm_wire_out slot = {(uint8_t *)&ring[1], sizeof ring[1], sizeof ring[1], false};
    expect_example("descriptor", &slot);

    struct gm_granule done = gm_completion(UINT64_C(0x4024000000000000), GM_OK, 1500, gm_lap(5, 2));
    assert_int_equal(gm_lane_cq_offset(4) + 1 * sizeof done, 8208);
    const struct gm_wire_out granule = {(uint8_t *)&done, sizeof done, sizeof done, false};
    expect_example("completion", &granule);
}

static int read_readme(void)
{
    FILE *const file = fopen(GM_README, "rb");
    static char text[262144];
    if (file == NULL)
        return -1;
    const size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    readme = text;
    return size > 0 && size < sizeof text - 1 ? 0 : -1;
}

/* README.md with the tables as they must be, in place. */
static int update(void)
{
    FILE *const file = fopen(GM_README, "wb");
    const char *from = readme;
    if (file == NULL)
        return -1;
    for (const char *mark = strstr(from, "<!-- table: "); mark != NULL; mark = strstr(from, "<!-- table: ")) {
        const char *const rows = strchr(mark, '\n') + 1;
        fwrite(from, 1, (size_t)(rows - from), file);
        for (size_t t = 0; t < TABLES; t++) {
            const char *const name = mark + strlen("<!-- table: ");
            if (strncmp(name, tables[t].name, strlen(tables[t].name)) != 0)
                continue;
            expected.size = 0;
            tables[t].write();
            fwrite(expected.text, 1, expected.size, file);
        }
        for (from = rows; from[0] == '|'; from = strchr(from, '\n') + 1)
            continue;
    }
    fwrite(from, 1, strlen(from), file);
    return fclose(file);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_word_for_word),
        cmocka_unit_test(numbers_are_the_ones_of_the_headers),
        cmocka_unit_test(every_method_has_its_heading),
        cmocka_unit_test(worked_examples_have_the_bytes_of_the_encoder),
        cmocka_unit_test(the_worked_lane_has_the_bytes_of_the_layout),
    };
    if (read_readme() != 0) {
        fprintf(stderr, "cannot read %s\n", GM_README);
        return 1;
    }
    if (argc == 2 && strcmp(argv[1], "--update") == 0)
        return update() == 0 ? 0 : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
