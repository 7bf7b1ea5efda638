/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for nop: the answer is OK and nothing else.
 */
#include "oracle.h"

void gm_oracle_nop(struct gm_oracle_job *job) { (void)job; }
