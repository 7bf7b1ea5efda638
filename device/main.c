/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill-device: owns one device for gridmilld, which starts it with the descriptors named in control.h. Opens the
 * backend it was built with, proves that the device answers, says ready, and serves the control socket until that
 * closes. One thread beside the backend's own.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bells.h"
#include "drill.h"
#include "say.h"
#include "selftest.h"
#include "serve.h"
#include "source_id.h"

#ifndef GM_BACKEND
#error "the build names the backend"
#endif

static struct gm_server server;

static int parse_u64(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno != 0 || end == text || *end != 0 ? GM_EINVAL : GM_OK;
}

static int parse(int argc, char **argv, struct gm_device_config *config)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},       {"workers", required_argument, NULL, 'w'},
        {"workspace", required_argument, NULL, 's'},    {"idle-park-ms", required_argument, NULL, 'i'},
        {"log-level", required_argument, NULL, 'l'},    {"plain", no_argument, NULL, 'p'},
        {"version", no_argument, NULL, 'v'},            {NULL, 0, NULL, 0},
    };
    uint64_t value = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        const bool number = c == 'w' || c == 's' || c == 'i' || c == 'l';
        if (c == '?' || (number && parse_u64(optarg, &value) != GM_OK))
            return GM_EINVAL;
        if (c == 'd')
            config->device = optarg;
        else if (c == 'w')
            config->workers = (uint32_t)value;
        else if (c == 's')
            config->workspace_bytes = value;
        else if (c == 'i')
            config->idle_ns = value * 1000000u;
        else if (c == 'l')
            gm_say_up_to((int)value);
        else if (c == 'p')
            config->plain = true;
        else if (c == 'v')
            return puts("gridmill-device " GM_SOURCE_ID) < 0 ? GM_ESYSTEM : GM_EAGAIN;
    }
    return optind == argc ? GM_OK : GM_EINVAL;
}

/* For measurements and tests, and gridmilld hands its environment on: from which size on copies between host and device
 * memory go to the copy engine. 0: none does. */
static int engine_bytes(struct gm_device_config *config)
{
    const char *text = getenv("GRIDMILL_ENGINE_BYTES");
    if (!text)
        return GM_OK;
    const int status = parse_u64(text, &config->copy_bytes);
    if (config->copy_bytes == 0)
        config->copy_bytes = UINT64_MAX;
    return status;
}

/* The backend, its kernel, lane 0 and a proof that it answers. */
static int bring_up(struct gm_device_config *config, struct gm_control_hello *hello, char *text)
{
    uint8_t *region = mmap(NULL, gm_region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, GM_DEVICE_FD_REGION, 0);
    if (region == MAP_FAILED) {
        snprintf(text, GM_ERROR_TEXT_MAX, "region: %s", strerror(errno));
        return GM_ESYSTEM;
    }
    const struct gm_region_header *header = (const struct gm_region_header *)(const void *)region;
    if (header->magic != GM_REGION_MAGIC || header->version != GM_CONTROL_VERSION ||
        header->bytes != gm_region_bytes()) {
        snprintf(text, GM_ERROR_TEXT_MAX, "region of another version");
        return GM_EVERSION;
    }
    config->region = region;
    server.bells_fd = config->bells_fd = gm_bells_open();
    if (server.bells_fd < 0 || gm_bells_add(server.bells_fd, GM_DEVICE_FD_DOORBELL) != GM_OK) {
        snprintf(text, GM_ERROR_TEXT_MAX, "doorbells: %s", strerror(errno));
        return GM_EFDS;
    }
    gm_admin_clear(region);
    int status = GM_BACKEND.open(config, &server.device, hello, text);
    if (status != GM_OK)
        return status;
    status = GM_BACKEND.start(server.device, text);
    if (status != GM_OK)
        return status;
    gm_admin_init(&server.admin, &GM_BACKEND, server.device, region);
    const struct gm_lane_header *header0 = (const struct gm_lane_header *)(void *)(region + gm_region_lane0_offset());
    const struct gm_control_lane lane0 = {.slots_log2 = header0->slots_log2, .start = header0->start};
    status = GM_BACKEND.map(server.device, region, gm_region_bytes(), &server.region, text);
    if (status == GM_OK)
        status = gm_admin_lane_open(&server.admin, &lane0, server.region + gm_region_lane0_offset(),
                                    server.region + gm_region_journal_offset(0));
    if (status == GM_OK)
        status = gm_selftest(&server.admin, text);
    return status;
}

/* The end of the process. What was stopped in order is given back first. Anything else must not meet an exit handler:
 * CUDA's would wait for a kernel that runs on, or for a device that is lost. */
static int leave(int status)
{
    if (status == GM_OK && !server.backend->running(server.device)) {
        server.backend->close(server.device);
        return 0;
    }
    _exit(status == GM_ECLOSED ? 0 : 1);
}

int main(int argc, char **argv)
{
    struct gm_device_config config = {.device = GM_BACKEND_NAME,
                                      .idle_ns = GM_IDLE_PARK_MS_DEFAULT * UINT64_C(1000000),
                                      .wake_fd = GM_DEVICE_FD_WAKE};
    char text[GM_ERROR_TEXT_MAX] = "";
    int status = parse(argc, argv, &config);
    if (status == GM_EAGAIN)
        return 0;
    if (status != GM_OK) {
        fprintf(stderr, "gridmill-device is started by gridmilld; see gridmilld(8)\n");
        return 2;
    }
    /* Never outlives the daemon; a terminal's ^C is the daemon's to answer, which then drains this process. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    gm_drill_init();
    status = engine_bytes(&config);
    if (status != GM_OK) {
        gm_server_send_failed(GM_DEVICE_FD_CONTROL, status, "GRIDMILL_ENGINE_BYTES is no number of bytes");
        return 1;
    }
    struct gm_control_hello hello = {.control_version = GM_CONTROL_VERSION, .pid = (uint32_t)getpid()};
    snprintf(hello.source_id, sizeof hello.source_id, "%s", GM_SOURCE_ID);
    server.backend = &GM_BACKEND;
    server.control_fd = GM_DEVICE_FD_CONTROL;
    status = bring_up(&config, &hello, text);
    if (status != GM_OK) {
        gm_server_send_failed(server.control_fd, status, text[0] ? text : "start-up failed");
        return leave(status);
    }
    server.counters = &((struct gm_region_header *)config.region)->counters;
    status = gm_server_send_ready(server.control_fd, &hello);
    if (status == GM_OK)
        status = gm_server_run(&server, text);
    if (status != GM_OK && status != GM_ECLOSED)
        gm_say(LOG_ERR, "%s status=%d", text[0] ? text : "control socket", status);
    return leave(status);
}
