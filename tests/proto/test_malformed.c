/* SPDX-License-Identifier: Apache-2.0
 *
 * Every good request, spoilt in every way: cut at every byte, keys left out, doubled, added and reordered, values of
 * every wrong type, and every byte replaced by every other. One thread; bodies are shorter than 8 KiB.
 */
#include "../brief.h"
#include "message.h"

#define PAIRS_MAX 16

/* The params of a good request, taken apart. */
struct parts {
    char method[GM_METHOD_BYTES_MAX];
    uint32_t pairs;
    struct {
        char key[32];
        const uint8_t *value;
        size_t size;
    } pair[PAIRS_MAX];
};

static struct good good[GOOD_REQUESTS_MAX];

static void take_apart(const struct message *m, struct parts *parts)
{
    struct gm_cursor c = {m->bytes, m->bytes + m->out.size};
    struct gm_item item;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(gm_cursor_next(&c, &item)); /* the array, type, id, method */
    snprintf(parts->method, sizeof parts->method, "%.*s", (int)item.u, (const char *)item.bytes);
    assert_true(gm_cursor_next(&c, &item));
    parts->pairs = (uint32_t)item.u;
    assert_true(parts->pairs < PAIRS_MAX);
    for (uint32_t i = 0; i < parts->pairs; i++) {
        assert_true(gm_cursor_next(&c, &item));
        snprintf(parts->pair[i].key, sizeof parts->pair[i].key, "%.*s", (int)item.u, (const char *)item.bytes);
        parts->pair[i].value = c.at;
        assert_true(gm_cursor_skip(&c));
        parts->pair[i].size = (size_t)(c.at - parts->pair[i].value);
    }
    assert_ptr_equal(c.at, c.end);
}

static void put_pair(struct message *m, const struct parts *parts, uint32_t i)
{
    gm_wire_put_str(&m->out, parts->pair[i].key);
    message_raw(m, parts->pair[i].value, parts->pair[i].size);
}

/* Calls a spoiler for every good request. */
static void for_each_good(void (*spoil)(const struct good *, const struct message *, const struct parts *))
{
    const size_t count = good_requests(good);
    for (size_t i = 0; i < count; i++) {
        struct message m;
        struct parts parts;
        message_request(&m, &good[i].request);
        take_apart(&m, &parts);
        spoil(&good[i], &m, &parts);
    }
}

static void cut(const struct good *g, const struct message *m, const struct parts *parts)
{
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    (void)parts;
    for (size_t size = 0; size < m->out.size; size++) {
        if (decode_request(m, size, &request, &has_id, &problem) != GM_EPROTO)
            fail_msg("%s cut to %zu bytes: %s", g->name, size, problem.text);
        assert_int_equal(has_id, size >= 3); /* the array, the type, and an id of one byte */
    }
}
static void a_cut_message_is_malformed_wherever_it_is_cut(void **state)
{
    (void)state;
    for_each_good(cut);
}

static void lengthen(const struct good *g, const struct message *m, const struct parts *parts)
{
    struct gm_wire_request request;
    struct gm_problem problem;
    struct message longer = *m;
    bool has_id;
    (void)g, (void)parts;
    longer.out.bytes = longer.bytes;
    gm_wire_put_nil(&longer.out);
    assert_int_equal(decode_request(&longer, longer.out.size, &request, &has_id, &problem), GM_EPROTO);
}
static void trailing_bytes_are_malformed(void **state)
{
    (void)state;
    for_each_good(lengthen);
}

/* GM_ARGS: no argument. */
static uint32_t arg_of(const char *key)
{
    uint32_t arg = 0;
    while (arg < GM_ARGS && strcmp(gm_arg_name(arg), key) != 0)
        arg++;
    return arg;
}

static bool optional(const char *method, const char *key)
{
    static const char *const keys[] = {"client", "device", "kind", "slots"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    if (arg_of(key) != GM_ARGS)
        return gm_arg_type(arg_of(key)) == GM_ARG_FLAG;
    return strcmp(method, "arena.create") == 0 && strcmp(key, "name") == 0;
}

static void leave_out(const struct good *g, const struct message *m, const struct parts *parts)
{
    (void)g, (void)m;
    for (uint32_t out = 0; out < parts->pairs; out++) {
        const char *const key = parts->pair[out].key;
        struct message spoilt;
        message_begin(&spoilt, parts->method, parts->pairs - 1);
        for (uint32_t i = 0; i < parts->pairs; i++)
            if (i != out)
                put_pair(&spoilt, parts, i);
        if (optional(parts->method, key))
            expect_request(&spoilt, GM_OK, "");
        else
            expect_request(&spoilt, GM_EINVAL, key);
    }
}
static void a_missing_key_is_named(void **state)
{
    (void)state;
    for_each_good(leave_out);
}

static void twice(const struct good *g, const struct message *m, const struct parts *parts)
{
    (void)g, (void)m;
    for (uint32_t again = 0; again < parts->pairs; again++) {
        struct message spoilt;
        message_begin(&spoilt, parts->method, parts->pairs + 1);
        for (uint32_t i = 0; i < parts->pairs; i++)
            put_pair(&spoilt, parts, i);
        put_pair(&spoilt, parts, again);
        expect_request(&spoilt, GM_EINVAL, parts->pair[again].key);
    }
}
static void a_key_that_is_there_twice_is_named(void **state)
{
    (void)state;
    for_each_good(twice);
}

static void one_more(const struct good *g, const struct message *m, const struct parts *parts)
{
    static const char *const keys[] = {"x", "Device", "devic", "", "value", "lo", "bins", "in", "bytes", "arena",
                                       "name", "lanes", "fd"};
    (void)g, (void)m;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        struct message spoilt;
        bool known = false;
        for (uint32_t i = 0; i < parts->pairs; i++)
            known = known || strcmp(parts->pair[i].key, keys[k]) == 0;
        if (known)
            continue;
        message_begin(&spoilt, parts->method, parts->pairs + 1);
        gm_wire_put_str(&spoilt.out, keys[k]);
        gm_wire_put_u64(&spoilt.out, 1);
        for (uint32_t i = 0; i < parts->pairs; i++)
            put_pair(&spoilt, parts, i);
        expect_request(&spoilt, GM_EINVAL, keys[k]);
    }
}
static void an_extra_key_is_named(void **state)
{
    (void)state;
    for_each_good(one_more);
}

static void backwards(const struct good *g, const struct message *m, const struct parts *parts)
{
    struct message other;
    (void)g, (void)m;
    message_begin(&other, parts->method, parts->pairs);
    for (uint32_t i = parts->pairs; i-- > 0;)
        put_pair(&other, parts, i);
    expect_request(&other, GM_OK, "");
}
static void keys_come_in_any_order(void **state)
{
    (void)state;
    for_each_good(backwards);
}

/* One value of every kind of item. */
static const struct {
    enum gm_item_type type;
    const char *bytes;
    size_t size;
} samples[] = {
    {GM_ITEM_NIL, "\xc0", 1},           {GM_ITEM_BOOL, "\xc3", 1},          {GM_ITEM_UINT, "\x01", 1},
    {GM_ITEM_INT, "\xff", 1},           {GM_ITEM_F32, "\xca\x3f\x80\x00\x00", 5},
    {GM_ITEM_F64, "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", 9},
    {GM_ITEM_STR, "\xa1?", 2},          {GM_ITEM_BIN, "\xc4\x01?", 3},      {GM_ITEM_EXT, "\xd4\x05?", 3},
    {GM_ITEM_ARRAY, "\x90", 1},         {GM_ITEM_MAP, "\x80", 1},
};
#define SAMPLES (sizeof samples / sizeof samples[0])

/* Which kinds a key takes. */
static uint32_t kinds_of(const char *key)
{
    static const uint32_t numbers = 1u << GM_ITEM_UINT | 1u << GM_ITEM_INT | 1u << GM_ITEM_F32 | 1u << GM_ITEM_F64;
    static const struct {
        const char *key;
        uint32_t kinds;
    } table[] = {
        {"op", 1u << GM_ITEM_STR | 1u << GM_ITEM_UINT},
        {"dtype", 1u << GM_ITEM_STR},
        {"client", 1u << GM_ITEM_STR},
        {"kind", 1u << GM_ITEM_STR},
        {"name", 1u << GM_ITEM_STR},
        {"in", 1u << GM_ITEM_ARRAY},
        {"out", 1u << GM_ITEM_ARRAY},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].key, key) == 0)
            return table[i].kinds;
    switch (arg_of(key) == GM_ARGS ? GM_ARG_COUNT : gm_arg_type(arg_of(key))) {
    case GM_ARG_ELEMENT:
    case GM_ARG_F64:
        return numbers;
    case GM_ARG_FLAG:
        return 1u << GM_ITEM_BOOL;
    case GM_ARG_TYPE:
    case GM_ARG_COMPARE:
        return 1u << GM_ITEM_STR;
    default:
        return 1u << GM_ITEM_UINT;
    }
}

static void wrong_type(const struct good *g, const struct message *m, const struct parts *parts)
{
    (void)g, (void)m;
    for (uint32_t at = 0; at < parts->pairs; at++) {
        for (size_t s = 0; s < SAMPLES; s++) {
            struct message spoilt;
            if ((kinds_of(parts->pair[at].key) >> samples[s].type & 1u) != 0)
                continue;
            message_begin(&spoilt, parts->method, parts->pairs);
            for (uint32_t i = 0; i < parts->pairs; i++) {
                if (i != at) {
                    put_pair(&spoilt, parts, i);
                    continue;
                }
                gm_wire_put_str(&spoilt.out, parts->pair[i].key);
                message_raw(&spoilt, samples[s].bytes, samples[s].size);
            }
            expect_request(&spoilt, GM_EINVAL, parts->pair[at].key);
        }
    }
}
static void a_value_of_the_wrong_type_is_named(void **state)
{
    (void)state;
    for_each_good(wrong_type);
}

static void flip(const struct good *g, const struct message *m, const struct parts *parts)
{
    struct message spoilt = *m;
    (void)g, (void)parts;
    spoilt.out.bytes = spoilt.bytes;
    for (size_t at = 0; at < m->out.size; at++) {
        for (uint32_t byte = 0; byte < 256; byte += at < 8 ? 1 : gm_brief() ? 15 : 5) {
            struct gm_wire_request request;
            struct gm_problem problem;
            bool has_id;
            spoilt.bytes[at] = (uint8_t)byte;
            const int rc = decode_request(&spoilt, spoilt.out.size, &request, &has_id, &problem);
            assert_true(rc <= 0 && rc > -GM_ERRORS_MAX);
        }
        spoilt.bytes[at] = m->bytes[at];
    }
}
static void any_byte_may_be_anything(void **state)
{
    (void)state;
    for_each_good(flip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_message_is_malformed_wherever_it_is_cut),
        cmocka_unit_test(trailing_bytes_are_malformed),
        cmocka_unit_test(a_missing_key_is_named),
        cmocka_unit_test(a_key_that_is_there_twice_is_named),
        cmocka_unit_test(an_extra_key_is_named),
        cmocka_unit_test(keys_come_in_any_order),
        cmocka_unit_test(a_value_of_the_wrong_type_is_named),
        cmocka_unit_test(any_byte_may_be_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
