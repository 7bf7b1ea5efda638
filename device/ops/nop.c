/* SPDX-License-Identifier: Apache-2.0
 *
 * nop: does nothing, the whole way: ticket, worker, arrive, completion.
 */
#include "run.h"

void gm_op_nop_share(struct gm_run *run) { (void)run; }

void gm_op_nop_finish(struct gm_run *run) { (void)run; }
