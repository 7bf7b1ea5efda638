/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile sizes of the op table as constants, for arrays and templates. Nothing else; any thread.
 */
#ifndef GM_OPS_TILE_H
#define GM_OPS_TILE_H

enum gm_tile_bytes {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help) GM_TILE_BYTES_##name = (tile_bytes),
#include "ops.def"
#undef OP
};

#endif
