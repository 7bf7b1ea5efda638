/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the seed corpus that follows from the tables: a good request for every method, op, type and placement, the
 * responses to them, and a good descriptor for every op and type. Usage: fuzz_seeds DIRECTORY. One thread; some
 * hundred small files.
 */
#include "lane.h"
#include "message.h"

#include <errno.h>
#include <sys/stat.h>

static const char *root;

static bool make_directory(const char *name, char path[4096])
{
    if (snprintf(path, 4096, "%s%s%s", root, name[0] != '\0' ? "/" : "", name) >= 4096)
        return false;
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return false;
}

static bool write_seed(const char *folder, const char *name, const struct message *m)
{
    char path[4096 + 128];
    if (!make_directory(folder, path))
        return false;
    const size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%.100s", name);
    for (char *c = path + length + 1; *c != '\0'; c++)
        *c = *c == ' ' ? '-' : *c;
    FILE *const file = fopen(path, "wb");
    const bool good = file != NULL && fwrite(m->bytes, 1, m->out.size, file) == m->out.size && fclose(file) == 0;
    if (!good)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return good;
}

static bool write_requests(void)
{
    static struct good good[GOOD_REQUESTS_MAX];
    const size_t count = good_requests(good);
    for (size_t i = 0; i < count; i++) {
        struct message m;
        message_request(&m, &good[i].request);
        /* The scan does not look at types of elements: one of each op is enough for it. */
        if (!write_seed("request", good[i].name, &m) || (i % 8 == 0 && !write_seed("scan", good[i].name, &m)))
            return false;
    }
    return true;
}

static void drop_length(struct message *m)
{
    m->out.size -= GM_FRAME_HEADER;
    memmove(m->bytes, m->bytes + GM_FRAME_HEADER, m->out.size);
}

static void put_pair_u64(struct message *m, const char *key, uint64_t v)
{
    gm_wire_put_str(&m->out, key);
    gm_wire_put_u64(&m->out, v);
}

/* Results of lane.open and of arena.list. */
static bool write_results(void)
{
    struct message m;
    message_clear(&m);
    gm_wire_begin_result(&m.out, 7);
    gm_wire_put_map(&m.out, 6);
    put_pair_u64(&m, "lane", 0x10003);
    put_pair_u64(&m, "device", 1);
    put_pair_u64(&m, "slots", 256);
    put_pair_u64(&m, "bytes", 24576);
    put_pair_u64(&m, "start", 0);
    gm_wire_put_str(&m.out, "skip");
    gm_wire_put_bool(&m.out, true);
    drop_length(&m);
    if (!write_seed("response", "lane", &m))
        return false;
    message_clear(&m);
    gm_wire_begin_result(&m.out, 7);
    gm_wire_put_map(&m.out, 1);
    gm_wire_put_str(&m.out, "arenas");
    gm_wire_put_array(&m.out, 2);
    for (uint32_t i = 0; i < 2; i++) {
        gm_wire_put_map(&m.out, 4 + i * 2);
        gm_wire_put_str(&m.out, "name"), gm_wire_put_str(&m.out, "weights");
        put_pair_u64(&m, "bytes", 8192);
        gm_wire_put_str(&m.out, "kind"), gm_wire_put_str(&m.out, i ? "device" : "shared");
        put_pair_u64(&m, "attached", i);
        if (i != 0)
            put_pair_u64(&m, "device", 1), put_pair_u64(&m, "uid", 1000);
    }
    drop_length(&m);
    return write_seed("response", "arenas", &m);
}

static bool write_responses(void)
{
    char name[64];
    for (uint32_t dtype = 0; dtype <= GM_DTYPE_COUNT; dtype++) {
        struct gm_wire_done done = {dtype, 1, 2, 3000, 4000, dtype % 3u, {{NULL, 0}, {NULL, 0}}};
        struct message m;
        if (dtype < GM_DTYPE_COUNT && (GM_SCALAR_TYPES >> dtype & 1u) == 0)
            continue;
        for (uint32_t i = 0; i < done.outputs; i++)
            if (dtype % 2u || i == 0) /* of two, now and then the second one is elsewhere */
                done.out[i] = (struct gm_wire_output){(const uint8_t *)"output", 6};
        message_clear(&m);
        assert_int_equal(gm_wire_encode_done(&m.out, 7, &done), GM_OK);
        drop_length(&m);
        snprintf(name, sizeof name, "done-%u", dtype);
        if (!write_seed("response", name, &m))
            return false;
    }
    if (!write_results())
        return false;
    for (uint32_t has_id = 0; has_id < 2; has_id++) {
        struct gm_problem problem;
        struct message m;
        gm_problem_set(&problem, GM_EBOUNDS, "in[0].offset", "a text");
        message_clear(&m);
        assert_int_equal(gm_wire_encode_error(&m.out, 7, has_id != 0, &problem), GM_OK);
        drop_length(&m);
        snprintf(name, sizeof name, "error-%u", has_id);
        if (!write_seed("response", name, &m))
            return false;
    }
    return true;
}

/* Programs for the encoder: a capacity, then calls. */
static bool write_programs(void)
{
    char name[64];
    for (uint32_t i = 0; i < 16; i++) {
        struct message m;
        message_clear(&m);
        m.out.size = 2 + 24 * i;
        m.bytes[0] = (uint8_t)(i * 16), m.bytes[1] = (uint8_t)i;
        for (size_t k = 2; k < m.out.size; k++)
            m.bytes[k] = (uint8_t)((k * 2654435761u + i) >> 7);
        snprintf(name, sizeof name, "program-%u", i);
        if (!write_seed("frame", name, &m))
            return false;
    }
    return true;
}

/* Slots that carry no job: skip slots before, between and behind jobs, one with words that it does not have, and the
 * first half of a wide descriptor in front of one. */
static bool write_skips(void)
{
    uint32_t words[8][12] = {{GM_DESC_SKIP_MARK}, {GM_OP_nop}, {GM_DESC_SKIP_MARK, 1}, {GM_DESC_SKIP_MARK},
                             {GM_OP_nop}, {GM_DESC_SKIP_MARK}, {GM_OP_fill | (uint32_t)GM_FLAG_WIDE << 24},
                             {GM_DESC_SKIP_MARK}};
    struct message m;
    for (uint32_t slots = 2; slots <= 8; slots += 2) {
        char name[16];
        message_clear(&m);
        m.out.size = slots * sizeof words[0];
        memcpy(m.bytes, words, m.out.size);
        snprintf(name, sizeof name, "skip-%u", slots);
        if (!write_seed("descriptor", name, &m))
            return false;
    }
    return true;
}

/* Slots of a lane, 12 payload words each: every op and type as fuzz_descriptor's first real arena would take it. */
static bool write_descriptors(void)
{
    char name[64];
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
            const struct gm_op_row row = gm_op_row(op);
            uint32_t words[GM_DESC_WORDS] = {0};
            struct message m;
            if (row.shape == GM_SHAPE_NONE ? dtype != 0 : (row.types >> dtype & 1u) == 0)
                continue;
            words[GM_W_OP] = op | dtype << 16 | (row.wide ? GM_FLAG_WIDE : 0u) << 24;
            words[GM_W_WIDE] = row.wide ? GM_DESC_WIDE_MARK : 0;
            gm_desc_put64(words, GM_W_N, row.shape == GM_SHAPE_NONE ? 0 : 8192u * (op + 1u));
            words[GM_W_ARENA0] = words[GM_W_ARENA1] = gm_handle(1, 1);
            gm_desc_put64(words, GM_W_OFFSET1, 1u << 19);
            if (row.shape == GM_SHAPE_HISTOGRAM) {
                words[GM_W_COUNT] = 16;
                gm_desc_put64(words, GM_W_VALUE1, UINT64_C(0x3ff0000000000000)); /* 0.0 to 1.0 */
            }
            message_clear(&m);
            m.out.size = row.wide ? 96 : 48;
            memcpy(m.bytes, words, m.out.size);
            snprintf(name, sizeof name, "op-%u-%u", op, dtype);
            if (!write_seed("descriptor", name, &m))
                return false;
        }
    return true;
}

/* Copies between its arena of host memory and its first real one, both ways, large and small. */
static bool write_copies(void)
{
    const uint32_t host = gm_handle(5, 0xffff), device = gm_handle(1, 1);
    uint32_t words[4][12] = {{0}};
    struct message m;
    for (uint32_t i = 0; i < 4u; i++) {
        words[i][GM_W_OP] = GM_OP_copy | GM_DTYPE_u64 << 16;
        words[i][GM_W_ARENA0] = i % 2u ? device : host;
        words[i][GM_W_ARENA1] = i % 2u ? host : device;
        gm_desc_put64(words[i], GM_W_N, i < 2u ? 8192u : 8u);
        gm_desc_put64(words[i], GM_W_OFFSET0, 4096u * i);
        gm_desc_put64(words[i], GM_W_OFFSET1, 64u * i);
    }
    message_clear(&m);
    m.out.size = sizeof words;
    memcpy(m.bytes, words, sizeof words);
    return write_seed("descriptor", "copies", &m);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    root = argv[1];
    return make_directory("", path) && write_requests() && write_responses() && write_programs() &&
                   write_descriptors() && write_skips() && write_copies()
               ? 0
               : 1;
}
