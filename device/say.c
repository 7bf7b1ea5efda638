/* SPDX-License-Identifier: Apache-2.0
 *
 * See say.h. A line is one write of at most GM_SAY_LINE bytes, so that lines of several processes stay apart.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GM_SAY_LINE 512

static int gm_say_least = LOG_INFO;

void gm_say_up_to(int priority) { gm_say_least = priority; }

void gm_say(int priority, const char *format, ...)
{
    char line[GM_SAY_LINE];
    va_list args;
    if (priority > gm_say_least)
        return;
    /* The journal takes the priority from "<N>" in front; a person at a terminal does not want to see it. */
    int at = getenv("JOURNAL_STREAM") ? snprintf(line, sizeof line, "<%d>", priority) : 0;
    at += snprintf(line + at, sizeof line - (size_t)at, "gridmill-device: ");
    va_start(args, format);
    at += vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    va_end(args);
    if (at > GM_SAY_LINE - 1)
        at = GM_SAY_LINE - 1;
    line[at++] = '\n';
    (void)!write(STDERR_FILENO, line, (size_t)at); /* nothing hangs on it */
}
