/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to `ops`: the catalogue, straight from ops.def. Loop thread only.
 */
#include "daemon.h"
#include "request.h"

/* Of one op: its keys, and a help text that stays far below this. */
#define GM_OPS_ROW 2048u

static const char *gm_result_kind_name(uint32_t kind)
{
    static const char *const names[] = {"none", "same", "wide", "count"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "none";
}

static void gm_put_dtypes(struct gm_wire_out *out, uint32_t types)
{
    gm_wire_put_array(out, (uint32_t)__builtin_popcount(types));
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
        if (types & (1u << dtype))
            gm_wire_put_str(out, gm_dtype_name(dtype));
}

void gm_request_ops(struct gm_session *session, uint32_t id)
{
    struct gm_wire_out out;
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL + GM_OP_COUNT * GM_OPS_ROW, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 1);
    gm_wire_put_str(&out, "ops"), gm_wire_put_array(&out, GM_OP_COUNT);
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        gm_wire_put_map(&out, 9);
        gm_wire_put_str(&out, "id"), gm_wire_put_u64(&out, op);
        gm_wire_put_str(&out, "name"), gm_wire_put_str(&out, gm_op_name(op));
        gm_wire_put_str(&out, "shape"), gm_wire_put_str(&out, gm_shape_name(row.shape));
        gm_wire_put_str(&out, "inputs"), gm_wire_put_u64(&out, row.inputs);
        gm_wire_put_str(&out, "outputs"), gm_wire_put_u64(&out, row.outputs);
        gm_wire_put_str(&out, "dtypes"), gm_put_dtypes(&out, row.types);
        gm_wire_put_str(&out, "result"), gm_wire_put_str(&out, gm_result_kind_name(row.result));
        gm_wire_put_str(&out, "help"), gm_wire_put_str(&out, gm_op_help(op));
        gm_wire_put_str(&out, "tile_bytes"), gm_wire_put_u64(&out, row.tile_bytes);
    }
    if (gm_wire_end(&out, start) == GM_OK)
        gm_conn_commit(&session->conn, &out, -1);
}
