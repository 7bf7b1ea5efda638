/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill: the command of people and scripts. Finds the sub-command and runs it on the one thread there is; data goes
 * to standard output, everything else to standard error.
 */
#include "command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void print_help(FILE *to)
{
    fputs("usage: gridmill COMMAND [OPTION...]\n\nGPU primitives from the running gridmilld.\n\n", to);
#define C(name, synopsis, help) fprintf(to, "  %-16s%s\n", synopsis, help);
    COMMANDS(C)
#undef C
    fputs("\n`gridmill COMMAND --help` tells more.\n"
          "\nExit codes: 0 done; 1 the job or request failed; 2 wrong usage; 3 cannot reach the daemon;\n"
          "4 (stats) the daemon is not healthy.\n",
          to);
}

int cmd_version(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        puts("usage: gridmill version\n\nPrints the version of this command and of its library; so does --version.");
        return EXIT_DONE;
    }
    if (argc > 1)
        return usage_error("version", "version takes no arguments");
    printf("gridmill %s\n", gm_version());
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {
#define C(name, synopsis, help) {#name, cmd_##name},
        COMMANDS(C)
#undef C
    };

    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    command_begin();
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return command_finish(EXIT_DONE);
    }
    if (strcmp(argv[1], "--version") == 0)
        return command_finish(cmd_version(1, argv));
    /* A reader that goes away shows as a write error, which command_finish reports. */
    sigaction(SIGPIPE, &ignore, NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return command_finish(commands[i].run(argc - 1, argv + 1));
    return complain(EXIT_USAGE, "unknown command \"%s\"; `gridmill --help` lists them", argv[1]);
}
