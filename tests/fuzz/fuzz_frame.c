/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the encoder: the input is a program of put calls into an output of fuzzed capacity. Whatever the program, no
 * byte beyond the capacity is written, a frame's length is the length of its body, and a frame that failed leaves no
 * trace; a program that builds one whole value builds one that the scan reads. One thread; one allocation per run.
 */
#include "fuzz.h"

struct program {
    const uint8_t *at, *end;
    uint64_t left; /* items that open containers miss: 0 when the value is whole */
};

static uint8_t next(struct program *p) { return p->at < p->end ? *p->at++ : 0; }

static uint64_t next_u64(struct program *p)
{
    uint64_t v = 0;
    for (uint32_t bytes = next(p) % 9; bytes > 0; bytes--)
        v = v << 8 | next(p);
    return v;
}

static void put_something(struct program *p, struct gm_wire_out *out)
{
    static const uint32_t scalars[] = {GM_DTYPE_u8,  GM_DTYPE_i8,  GM_DTYPE_u32, GM_DTYPE_i32,
                                       GM_DTYPE_u64, GM_DTYPE_i64, GM_DTYPE_f32, GM_DTYPE_f64,
                                       GM_DTYPE_f16, GM_DTYPE_bf16};
    const uint8_t what = next(p);
    char text[64];
    double d;
    uint64_t v;

    p->left--;
    switch (what % 10) {
    case 0:
        v = next(p) % 20;
        gm_wire_put_map(out, (uint32_t)v);
        p->left += 2 * v;
        break;
    case 1:
        v = next(p);
        gm_wire_put_array(out, (uint32_t)v);
        p->left += v;
        break;
    case 2:
        v = next(p) % sizeof text;
        memset(text, (int)(what % 26 + 'a'), v);
        text[v] = '\0';
        gm_wire_put_str(out, text);
        break;
    case 3:
        gm_wire_put_u64(out, next_u64(p));
        break;
    case 4:
        gm_wire_put_i64(out, (int64_t)next_u64(p));
        break;
    case 5:
        v = next_u64(p);
        memcpy(&d, &v, sizeof d);
        gm_wire_put_f64(out, d);
        break;
    case 6:
        gm_wire_put_bool(out, (what & 128) != 0);
        break;
    case 7:
        gm_wire_put_nil(out);
        break;
    case 8:
        v = (uint64_t)(p->end - p->at) < 300 ? (uint64_t)(p->end - p->at) : 300;
        gm_wire_put_bin(out, p->at, v);
        p->at += v;
        break;
    default:
        gm_wire_put_scalar(out, scalars[next(p) % (sizeof scalars / sizeof *scalars)], next_u64(p));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program p = {data, data + size, 0};
    const size_t capacity = (size_t)next(&p) << 4 | (next(&p) & 15u);
    struct gm_wire_out out = {malloc(capacity + 1), 0, capacity, false};
    must(out.bytes != NULL);
    out.bytes[capacity] = 0xa5;

    while (p.at < p.end) {
        struct gm_problem problem = {0};
        const size_t start = gm_wire_begin(&out);
        p.left = 1;
        while (p.left > 0 && p.left < GM_MSGPACK_ITEMS_MAX && p.at < p.end)
            put_something(&p, &out);
        const bool fits = !out.overflow;
        must(out.size <= capacity && out.bytes[capacity] == 0xa5);
        const size_t whole = out.size;
        must(gm_wire_end(&out, start) == (fits ? GM_OK : GM_ETOOLARGE));
        must(out.size == (fits ? whole : start) && !out.overflow);
        if (!fits)
            continue;
        const uint8_t *const f = out.bytes + start;
        const uint32_t length = (uint32_t)f[0] << 24 | (uint32_t)f[1] << 16 | (uint32_t)f[2] << 8 | f[3];
        must(length == whole - start - GM_FRAME_HEADER);
        const int rc = gm_wire_scan(f + GM_FRAME_HEADER, length, &problem);
        must(rc != GM_EPROTO || p.left > 0);
        must(rc != GM_OK || p.left == 0);
    }
    free(out.bytes);
    return 0;
}
