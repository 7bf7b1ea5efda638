/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill drain: through the admin socket, the daemon refuses new jobs and finishes the accepted ones. One thread;
 * bounded by the timeout.
 */
#include "command.h"

#include <stdio.h>

static void print_help(void)
{
    fputs("usage: gridmill drain [OPTION...]\n\n"
          "Tells the daemon to refuse new jobs, and waits until the accepted ones are finished. Uses the admin\n"
          "socket, which belongs to the user that runs the daemon: the socket's path and \".admin\".\n\n" COMMON_HELP,
          stdout);
}

int cmd_drain(int argc, char **argv)
{
    static const struct option options[] = {COMMON_LONG, {0}};
    struct common common = {.timeout_ns = UINT64_C(60000000000), .admin = true};
    struct gm_client *client = NULL;
    int option;

    while ((option = getopt_long(argc, argv, COMMON_SHORT, options, NULL)) != -1)
        if (common_option(&common, option, optarg) <= 0)
            return usage_error("drain", "wrong usage of drain");
    if (optind != argc)
        return usage_error("drain", "drain takes no arguments");
    if (common.help) {
        print_help();
        return EXIT_DONE;
    }
    int rc = command_connect(&common, &client);
    if (rc == EXIT_DONE && gm_drain(client, command_deadline(&common)) != GM_OK)
        rc = complain_last(client, "drain");
    gm_close(client);
    return rc;
}
