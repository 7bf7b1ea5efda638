/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmilld: entry. Parses the flags and runs the server, in the foreground, on this thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "config.h"
#include "errors.h"
#include "server.h"
#include "source_id.h"
#include "version.h"

/* Whoever starts the daemon without a standard descriptor would have it given to a socket or to the loop, which libuv
 * refuses to close, and written to by the first message. The device processes inherit them. */
static void open_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR); /* the lowest that is free */
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    static struct gm_config config;
    enum gm_config_action action;
    char error[GM_CONFIG_ERROR];
    open_standard_descriptors();
    if (gm_config_parse(&config, argc, argv, &action, error) != GM_OK) {
        fprintf(stderr, "gridmilld: %s\n", error);
        return GM_EXIT_USAGE;
    }
    switch (action) {
    case GM_CONFIG_HELP:
        gm_config_help();
        return GM_EXIT_OK;
    case GM_CONFIG_VERSION:
        printf("gridmilld %s (source %s)\n", GM_VERSION, GM_SOURCE_ID);
        return GM_EXIT_OK;
    case GM_CONFIG_CHECK:
        gm_config_print(&config);
        return GM_EXIT_OK;
    case GM_CONFIG_RUN:
        break;
    }
    return gm_server_run(&config);
}
