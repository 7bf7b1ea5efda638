/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines: level, shape, and the bound per event kind. Single thread; stderr goes into a pipe.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

static char text[65536];
static int pipes[2], saved;

static void capture(void)
{
    assert_int_equal(pipe2(pipes, O_NONBLOCK | O_CLOEXEC), 0);
    saved = dup(STDERR_FILENO);
    dup2(pipes[1], STDERR_FILENO);
}

static size_t lines(void)
{
    dup2(saved, STDERR_FILENO);
    close(saved), close(pipes[1]);
    const ssize_t got = read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    text[got > 0 ? got : 0] = 0;
    size_t count = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        count++;
    return count;
}

static time_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void line_has_level_event_and_values_and_is_one_line(void **state)
{
    (void)state;
    gm_log_set_level(GM_LOG_INFO);
    capture();
    gm_log(GM_LOG_DEBUG, "hidden", "x=1");
    gm_log(GM_LOG_WARN, "shown", "client=\"%s\" n=%d", "a\nb\x1b[31m", 3);
    assert_int_equal(lines(), 1);
    assert_string_equal(text, "warn gridmilld: shown client=\"a b [31m\" n=3\n");
}

static void long_line_is_cut(void **state)
{
    (void)state;
    static char name[4000];
    memset(name, 'x', sizeof name - 1);
    capture();
    gm_log(GM_LOG_INFO, "long", "name=%s", name);
    assert_int_equal(lines(), 1);
    assert_true(strlen(text) <= 512);
}

static void a_flood_of_one_kind_is_bounded_and_counted_and_others_pass(void **state)
{
    (void)state;
    const time_t first = seconds();
    capture();
    for (int i = 0; i < 1000; i++)
        gm_log(GM_LOG_INFO, "flood", "i=%d", i);
    gm_log(GM_LOG_INFO, "other", "i=1");
    const size_t count = lines(), begun = 1u + (size_t)(seconds() - first); /* seconds, in part or whole */
    assert_in_range(count, GM_LOG_BURST + 1, begun * GM_LOG_BURST + 1);
    assert_non_null(strstr(text, "other i=1"));
    usleep(1100000);
    capture();
    gm_log(GM_LOG_INFO, "flood", "i=again");
    lines();
    assert_non_null(strstr(text, "suppressed="));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_has_level_event_and_values_and_is_one_line),
        cmocka_unit_test(long_line_is_cut),
        cmocka_unit_test(a_flood_of_one_kind_is_bounded_and_counted_and_others_pass),
    };
    unsetenv("JOURNAL_STREAM");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
