/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines on stderr, one write each, rate-limited per event kind. Loop thread only; bounded by a table of
 * GM_LOG_KINDS kinds (more share the last entry) and by lines of GM_LOG_LINE bytes.
 */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define GM_LOG_KINDS 64u
#define GM_LOG_LINE 512u

struct gm_log_kind {
    const char *event;
    time_t second;
    uint32_t lines, suppressed;
};

static enum gm_log_level gm_log_threshold = GM_LOG_INFO;
static struct gm_log_kind gm_log_kinds[GM_LOG_KINDS];

static const char *const gm_log_names[GM_LOG_LEVELS] = {"error", "warn", "info", "debug"};

void gm_log_set_level(enum gm_log_level level)
{
    gm_log_threshold = level;
}

const char *gm_log_level_name(enum gm_log_level level)
{
    return gm_log_names[level];
}

int gm_log_priority(enum gm_log_level level)
{
    static const int priorities[GM_LOG_LEVELS] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    return priorities[level];
}

int gm_log_level_by_name(const char *name)
{
    for (int i = 0; i < GM_LOG_LEVELS; i++)
        if (strcmp(name, gm_log_names[i]) == 0)
            return i;
    return -1;
}

static struct gm_log_kind *gm_log_kind_of(const char *event)
{
    for (uint32_t i = 0; i < GM_LOG_KINDS; i++) {
        struct gm_log_kind *kind = &gm_log_kinds[i];
        if (kind->event == NULL)
            kind->event = event;
        if (kind->event == event || strcmp(kind->event, event) == 0)
            return kind;
    }
    return &gm_log_kinds[GM_LOG_KINDS - 1];
}

static bool gm_log_admit(struct gm_log_kind *kind, uint32_t *suppressed)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *suppressed = 0;
    if (strncmp(kind->event, "dump", 4) == 0)
        return true; /* asked for, and bounded by the tables */
    if (now.tv_sec != kind->second) {
        *suppressed = kind->suppressed;
        kind->second = now.tv_sec, kind->lines = 0, kind->suppressed = 0;
    }
    if (kind->lines >= GM_LOG_BURST) {
        kind->suppressed++;
        return false;
    }
    kind->lines++;
    return true;
}

void gm_log(enum gm_log_level level, const char *event, const char *format, ...)
{
    /* The journal takes the priority from "<N>" in front; a person at a terminal does not want to see it. */
    char line[GM_LOG_LINE];
    uint32_t suppressed;
    if (level > gm_log_threshold || !gm_log_admit(gm_log_kind_of(event), &suppressed))
        return;
    int at = getenv("JOURNAL_STREAM") != NULL ? snprintf(line, sizeof line, "<%d>", gm_log_priority(level)) : 0;
    at += snprintf(line + at, sizeof line - (size_t)at, "%s gridmilld: %s ", gm_log_names[level], event);
    va_list args;
    va_start(args, format);
    at += vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    va_end(args);
    if (suppressed != 0 && at < (int)sizeof line)
        at += snprintf(line + at, sizeof line - (size_t)at, " suppressed=%u", suppressed);
    if (at > (int)sizeof line - 2)
        at = (int)sizeof line - 2;
    for (int i = 0; i < at; i++)
        if ((unsigned char)line[i] < 0x20)
            line[i] = ' '; /* names come from clients: a line stays one line */
    line[at++] = '\n';
    /* A log that cannot be written must not stop the service. */
    const ssize_t written = write(STDERR_FILENO, line, (size_t)at);
    (void)written;
}
