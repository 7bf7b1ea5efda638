/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to `ops`: the catalogue, straight from ops.def. Loop thread only.
 */
#include "daemon.h"
#include "request.h"

#include <assert.h>
#include <string.h>

#define GM_OPS_ROW  512u /* of an op, an argument and a buffer: keys, numbers and short words; texts are counted */
#define GM_OPS_ITEM 96u

/* At least the bytes that an op takes in the answer. */
static size_t gm_ops_bytes(uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);
    size_t bytes = GM_OPS_ROW + strlen(gm_op_help(op));
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        bytes += row.args >> arg & 1u ? GM_OPS_ITEM + strlen(gm_arg_help(arg)) : 0;
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++)
        bytes += GM_OPS_ITEM + strlen(gm_buffer_extent_name(&row, i)) + strlen(gm_buffer_content_name(&row, i));
    return bytes;
}

static void gm_put_dtypes(struct gm_wire_out *out, uint32_t types)
{
    gm_wire_put_array(out, (uint32_t)__builtin_popcount(types));
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
        if (types & (1u << dtype))
            gm_wire_put_str(out, gm_dtype_name(dtype));
}

static void gm_put_arguments(struct gm_wire_out *out, const struct gm_op_row *row)
{
    gm_wire_put_array(out, (uint32_t)__builtin_popcount(row->args));
    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        if ((row->args >> arg & 1u) == 0)
            continue;
        gm_wire_put_map(out, 4);
        gm_wire_put_str(out, "name"), gm_wire_put_str(out, gm_arg_name(arg));
        gm_wire_put_str(out, "type"), gm_wire_put_str(out, gm_arg_type_name(arg));
        gm_wire_put_str(out, "optional"), gm_wire_put_bool(out, gm_arg_is_optional(arg));
        gm_wire_put_str(out, "help"), gm_wire_put_str(out, gm_arg_help(arg));
    }
}

static void gm_put_buffers(struct gm_wire_out *out, const struct gm_op_row *row)
{
    char name[GM_FIELD_BYTES_MAX];
    gm_wire_put_array(out, (uint32_t)row->inputs + row->outputs);
    for (uint32_t i = 0; i < (uint32_t)row->inputs + row->outputs; i++) {
        gm_buffer_name(row, i, "", name);
        gm_wire_put_map(out, 3);
        gm_wire_put_str(out, "name"), gm_wire_put_str(out, name);
        gm_wire_put_str(out, "extent"), gm_wire_put_str(out, gm_buffer_extent_name(row, i));
        gm_wire_put_str(out, "content"), gm_wire_put_str(out, gm_buffer_content_name(row, i));
    }
}

void gm_request_ops(struct gm_session *session, uint32_t id)
{
    struct gm_wire_out out;
    size_t bytes = GM_REPLY_SMALL;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        bytes += gm_ops_bytes(op);
    if (!gm_conn_reserve(&session->conn, bytes, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 1);
    gm_wire_put_str(&out, "ops"), gm_wire_put_array(&out, GM_OP_COUNT);
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        gm_wire_put_map(&out, 12);
        gm_wire_put_str(&out, "id"), gm_wire_put_u64(&out, op);
        gm_wire_put_str(&out, "name"), gm_wire_put_str(&out, gm_op_name(op));
        gm_wire_put_str(&out, "shape"), gm_wire_put_str(&out, gm_shape_name(row.shape));
        gm_wire_put_str(&out, "inputs"), gm_wire_put_u64(&out, row.inputs);
        gm_wire_put_str(&out, "outputs"), gm_wire_put_u64(&out, row.outputs);
        gm_wire_put_str(&out, "dtypes"), gm_put_dtypes(&out, row.types);
        gm_wire_put_str(&out, "dtypes2"), gm_put_dtypes(&out, row.types2);
        gm_wire_put_str(&out, "arguments"), gm_put_arguments(&out, &row);
        gm_wire_put_str(&out, "buffers"), gm_put_buffers(&out, &row);
        gm_wire_put_str(&out, "result"), gm_wire_put_str(&out, gm_result_kind_name(row.result));
        gm_wire_put_str(&out, "help"), gm_wire_put_str(&out, gm_op_help(op));
        gm_wire_put_str(&out, "tile_bytes"), gm_wire_put_u64(&out, row.tile_bytes);
    }
    const int status = gm_wire_end(&out, start);
    assert(status == GM_OK); /* reserved for what was counted */
    gm_conn_commit(&session->conn, &out, -1);
}
