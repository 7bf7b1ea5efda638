/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sub-commands share: exit codes, the options that all of them take, and how they reach the daemon. The
 * command is one thread; it uses the installed client library and the tables of proto/ only.
 */
#ifndef GM_COMMAND_H
#define GM_COMMAND_H

#include "gridmill.h"

#include <getopt.h>
#include <stdbool.h>

/* Documented in gridmill(1). */
enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3, EXIT_UNHEALTHY = 4 };

/* C(name, synopsis, help): every sub-command, in the order of the help. */
#define COMMANDS(C)                                                                                                    \
    C(run, "run OP [INPUT]", "run one job")                                                                            \
    C(arena, "arena put|ls|rm", "keep data on a device under a name")                                                  \
    C(ops, "ops [OP]", "list the ops of the daemon")                                                                   \
    C(stats, "stats", "show what the daemon and its devices do")                                                       \
    C(ping, "ping", "measure round trips through the daemon")                                                          \
    C(bench, "bench", "measure what a client process gets")                                                            \
    C(drain, "drain", "refuse new jobs, wait for the accepted ones")                                                   \
    C(version, "version", "print the version")

#define C(name, synopsis, help) int cmd_##name(int argc, char **argv);
COMMANDS(C)
#undef C

/* Options of every sub-command that talks to the daemon. */
struct common {
    const char *socket;
    uint64_t timeout_ns; /* GM_NO_DEADLINE: none */
    bool help, admin;    /* admin: connect to the admin socket */
};

#define COMMON_SHORT "s:h"
enum { OPTION_TIMEOUT = 256, OPTION_FIRST };
#define COMMON_LONG                                                                                                    \
    {"socket", required_argument, NULL, 's'}, {"timeout", required_argument, NULL, OPTION_TIMEOUT},                    \
    {                                                                                                                  \
        "help", no_argument, NULL, 'h'                                                                                 \
    }
#define COMMON_HELP                                                                                                    \
    "  -s, --socket PATH   socket of the daemon (default: $GRIDMILL_SOCKET, then\n"                                    \
    "                      $XDG_RUNTIME_DIR/gridmill/gridmill.sock when it exists,\n"                                  \
    "                      then /run/gridmill/gridmill.sock)\n"                                                        \
    "  --timeout SECONDS   give up after this long\n"                                                                  \
    "  -h, --help          print this help\n"

/* Takes one option that getopt_long returned, when it is a common one. 1: taken; 0: not common; -1: bad, and said
 * so. */
int common_option(struct common *common, int option, const char *argument);

/* "gridmill: " and a message on standard error; usage_error adds where help is. Return the exit code. */
int complain(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The client's last failure in words. */
int complain_last(struct gm_client *client, const char *what);
int exit_code_of(int status);

/* EXIT_DONE with a client, or another exit code after a message. */
int command_connect(const struct common *common, struct gm_client **client);
uint64_t command_deadline(const struct common *common);

/* A whole argument as a number; false when it is none or out of range. */
bool parse_u64(const char *text, uint64_t max, uint64_t *value);
bool parse_f64(const char *text, double *value);

/* Before anything is opened: of the standard descriptors, those that are closed would be given to the next file or
 * socket. What is read from or written to them fails instead, and messages go nowhere. */
void command_begin(void);
/* Why writing to standard output, or reading standard input, failed: errno in words. */
const char *command_stream_error(int fd);
/* Flushes standard output; a full disk or a closed pipe is a failure too. */
int command_finish(int exit_code);

#endif
