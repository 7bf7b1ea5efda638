/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmilld: entry. Parses the flags and runs the server, in the foreground, on this thread.
 */
#include <stdio.h>

#include "config.h"
#include "errors.h"
#include "server.h"
#include "source_id.h"
#include "version.h"

int main(int argc, char **argv)
{
    static struct gm_config config;
    enum gm_config_action action;
    char error[GM_CONFIG_ERROR];
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
