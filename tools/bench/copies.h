/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of copies between memory of the host and of a device, which ours and the copy engine's are measured at.
 */
#ifndef GM_BENCH_COPIES_H
#define GM_BENCH_COPIES_H

#define GM_COPIES_LOG2_MIN  12u /* 4 KiB, and then 16 times as much each time */
#define GM_COPIES_LOG2_STEP 4u
#define GM_COPIES_LOG2_MAX  28u /* 256 MiB */

#endif
