/* SPDX-License-Identifier: Apache-2.0
 *
 * What the thread sanitizer is not to report of a device process; linked only into a build for it. Two jobs that a
 * client gives one after the other are ordered by what it saw of the first in its lane, and the client is another
 * process, which the sanitizer of this one does not see; jobs that a client gives at once to the same memory are its
 * own business. The tests of the device call ops in one process and over one mapping, and look at all they do.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:/device/ops/\n"; }
