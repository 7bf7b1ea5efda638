/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages, common options and the connection of the sub-commands. One thread; nothing here is called after a failure
 * was reported but the way out.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool was_closed[STDERR_FILENO + 1];

void command_begin(void)
{
    /* The wrong way round, so that the standard ones of these do not work. */
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDWR};

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        was_closed[fd] = true;
        (void)!open("/dev/null", flags[fd]); /* the lowest that is free is this one */
    }
}

const char *command_stream_error(int fd)
{
    return was_closed[fd] ? "it is closed" : strerror(errno);
}

static void say(const char *format, va_list arguments)
{
    fputs("gridmill: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int complain(int exit_code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return exit_code;
}

int usage_error(const char *command, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    fprintf(stderr, "Try `gridmill %s --help`.\n", command);
    return EXIT_USAGE;
}

int exit_code_of(int status)
{
    if (status == GM_OK)
        return EXIT_DONE;
    return status == GM_ECLOSED || status == GM_ECONNECT ? EXIT_UNREACHABLE : EXIT_FAILED;
}

int complain_last(struct gm_client *client, const char *what)
{
    struct gm_failure failure;

    gm_last_failure(client, &failure);
    return complain(exit_code_of(failure.status), "%s: %s (%s)", what, failure.text, gm_status_name(failure.status));
}

static bool parse_seconds(const char *text, uint64_t *ns)
{
    double seconds;

    if (!parse_f64(text, &seconds) || !(seconds > 0) || seconds > 1e9)
        return false;
    *ns = (uint64_t)(seconds * 1e9);
    return true;
}

int common_option(struct common *common, int option, const char *argument)
{
    switch (option) {
    case 's':
        common->socket = argument;
        return 1;
    case 'h':
        common->help = true;
        return 1;
    case OPTION_TIMEOUT:
        if (parse_seconds(argument, &common->timeout_ns))
            return 1;
        complain(EXIT_USAGE, "--timeout: \"%s\" is no number of seconds", argument);
        return -1;
    default:
        return 0;
    }
}

uint64_t command_deadline(const struct common *common)
{
    return gm_deadline_in(common->timeout_ns);
}

int command_connect(const struct common *common, struct gm_client **client)
{
    const uint64_t at_most_ns = UINT64_C(5000000000);
    const struct gm_options options = {
        .socket = common->socket,
        .admin = common->admin,
        .lane_slots = GM_NO_LANE, /* a lane costs more than the few jobs of a command would win */
        .deadline_ns = gm_deadline_in(common->timeout_ns < at_most_ns ? common->timeout_ns : at_most_ns)};
    struct gm_failure failure;

    if (gm_open(&options, client, &failure) == GM_OK)
        return EXIT_DONE;
    return complain(EXIT_UNREACHABLE, "cannot reach the daemon: %s (%s)", failure.text,
                    gm_status_name(failure.status));
}

bool parse_u64(const char *text, uint64_t max, uint64_t *value)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    const unsigned long long parsed = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || parsed > max)
        return false;
    *value = parsed;
    return true;
}

bool parse_f64(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

int command_finish(int exit_code)
{
    /* Whatever failed has said why, perhaps just this. */
    if ((fflush(stdout) == 0 && !ferror(stdout)) || exit_code == EXIT_FAILED)
        return exit_code;
    return complain(exit_code == EXIT_DONE ? EXIT_FAILED : exit_code, "writing to standard output: %s",
                    command_stream_error(STDOUT_FILENO));
}
