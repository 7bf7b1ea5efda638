/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the decoder of requests: what it accepts keeps the promises of wire.h, and after being encoded and decoded
 * again it is the same. One thread, no allocation.
 */
#include "fuzz.h"

#include "args.h"

#include <math.h>
#include <string.h>

static bool inside(const uint8_t *part, uint64_t part_size, const uint8_t *data, size_t size)
{
    return part >= data && part_size <= size && (size_t)(part - data) <= size - part_size;
}

static void check_submit(const struct gm_wire_submit *s, const uint8_t *data, size_t size)
{
    const struct gm_op_row row = gm_op_row(s->op);
    must(row.known && s->buffers == (uint32_t)row.inputs + row.outputs);
    must(row.types == GM_NO_TYPES || (row.types >> s->args.dtype & 1u) != 0);
    must(row.places >> GM_AT_TYPE2 & 1u ? (row.types2 >> s->args.type2 & 1u) != 0 : s->args.type2 == 0);
    must(s->args.n <= GM_ELEMENTS_MAX && (!s->has_device || s->device < GM_DEVICES_MAX));
    const enum gm_complaint complaint = gm_args_check(&row, &s->args);
    must(complaint == GM_COMPLAINT_NONE || complaint == GM_COMPLAINT_EMPTY);
    if (row.args >> GM_A_lo & 1u) {
        double lo, hi;
        memcpy(&lo, &s->args.value[0], sizeof lo), memcpy(&hi, &s->args.value[1], sizeof hi);
        must(s->args.count > 0 && s->args.count <= GM_HIST_BINS_MAX && lo < hi && isfinite(hi - lo));
    }
    for (uint32_t i = 0; i < s->buffers; i++) {
        const struct gm_wire_buffer *const b = &s->buffer[i];
        const bool is_input = i < row.inputs;
        const uint64_t need = gm_buffer_bytes(&row, i, &s->args);
        must(b->place == GM_PLACE_ARENA || b->place == GM_PLACE_INLINE);
        if (b->place == GM_PLACE_ARENA) {
            must(need <= GM_ARENA_BYTES_MAX && b->offset <= GM_ARENA_BYTES_MAX - need);
            must(b->offset % gm_buffer_element(&row, i, &s->args) == 0 && b->bytes == NULL);
        } else {
            must(b->size == need && need <= GM_INLINE_BYTES_MAX);
            must(is_input ? inside(b->bytes, b->size, data, size) : b->bytes == NULL);
        }
    }
}

static bool is_name(const char name[GM_NAME_BYTES_MAX])
{
    const size_t size = strnlen(name, GM_NAME_BYTES_MAX);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/')
            return false;
    return size > 0 && size < GM_NAME_BYTES_MAX;
}

static void check_others(const struct gm_wire_request *r)
{
    const uint32_t slots = r->u.lane_open.slots;
    switch (r->method) {
    case GM_METHOD_CANCEL:
        must(r->u.cancel.has_lane ? r->u.cancel.id == 0 : r->u.cancel.lane == 0 && r->u.cancel.position == 0);
        break;
    case GM_METHOD_ARENA_CREATE:
        must(r->u.arena_create.bytes > 0 && r->u.arena_create.bytes <= GM_ARENA_BYTES_MAX);
        must(r->u.arena_create.name[0] == '\0' || is_name(r->u.arena_create.name));
        break;
    case GM_METHOD_ARENA_ATTACH:
        must(is_name(r->u.arena_attach.name));
        break;
    case GM_METHOD_ARENA_REMOVE:
        must(is_name(r->u.arena_remove.name));
        break;
    case GM_METHOD_LANE_OPEN:
        must(!r->u.lane_open.has_device || r->u.lane_open.device < GM_DEVICES_MAX);
        must(slots == 0 || (slots >= GM_LANE_SLOTS_MIN && slots <= GM_CLIENT_LANE_SLOTS_MAX && GM_IS_POW2(slots)));
        break;
    default:
        break;
    }
}

static void check_round_trip(const struct gm_wire_request *request)
{
    static uint8_t first[GM_FRAME_HEADER + GM_FRAME_BYTES_MAX], second[sizeof first];
    struct gm_wire_out a = {first, 0, sizeof first, false}, b = {second, 0, sizeof second, false};
    struct gm_wire_request again;
    struct gm_problem problem;
    bool has_id;
    must(gm_wire_encode_request(&a, request) == GM_OK);
    const int rc = gm_wire_decode_request(first + GM_FRAME_HEADER, a.size - GM_FRAME_HEADER, &again, &has_id, &problem);
    must(rc == GM_OK && has_id && again.id == request->id);
    must(gm_wire_encode_request(&b, &again) == GM_OK);
    must(a.size == b.size && memcmp(first, second, a.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id = false;

    const int rc = gm_wire_decode_request(data, size, &request, &has_id, &problem);
    must_be_whole(&problem, rc);
    if (rc != GM_OK)
        return 0;
    must(has_id && request.method < GM_METHOD_COUNT);
    if (request.method == GM_METHOD_SUBMIT)
        check_submit(&request.u.submit, data, size);
    check_others(&request);
    check_round_trip(&request);
    return 0;
}
