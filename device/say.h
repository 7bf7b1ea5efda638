/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device process has to say to people: lines on stderr, which it shares with gridmilld, below whose events it is
 * quiet. Any thread, after the first one chose how much.
 */
#ifndef GM_DEVICE_SAY_H
#define GM_DEVICE_SAY_H

#include <syslog.h> /* LOG_ERR, LOG_WARNING, LOG_INFO: how much a line matters */

/* Says nothing that matters less; before, what matters less than LOG_INFO. */
void gm_say_up_to(int priority);
/* One line, without its end. */
void gm_say(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
