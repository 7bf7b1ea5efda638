/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines on stderr: "<level> gridmilld: event key=value". One line per event, rate-limited per event kind, never
 * with payloads. Loop thread only; a fixed table of event kinds bounds it.
 */
#ifndef GM_DAEMON_LOG_H
#define GM_DAEMON_LOG_H

enum gm_log_level { GM_LOG_ERROR, GM_LOG_WARN, GM_LOG_INFO, GM_LOG_DEBUG, GM_LOG_LEVELS };

/* Lines of one event kind in one second; more are counted and reported with the next line of the kind. */
#define GM_LOG_BURST 20u

void gm_log_set_level(enum gm_log_level level);
const char *gm_log_level_name(enum gm_log_level level);
/* The number of a level in syslog(3). */
int gm_log_priority(enum gm_log_level level);
/* -1: no such level. */
int gm_log_level_by_name(const char *name);

/* event: a string literal, the kind that is rate-limited. */
void gm_log(enum gm_log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
