/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags, environment and defaults of gridmilld. Runs once on the main thread before the loop; every value is checked
 * here, so that nothing later has to doubt it.
 */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"
#include "version.h"

/* F(enumerator, flag, argument, help) */
#define GM_ARGS(F)                                                                                                     \
    F(SOCKET, "socket", "PATH",                                                                                        \
      "Unix socket (default: $GRIDMILL_SOCKET, $XDG_RUNTIME_DIR/gridmill/gridmill.sock, "                              \
      "/run/gridmill/gridmill.sock); PATH.admin is the admin socket")                                                  \
    F(DEVICE, "device", "NAME", "auto, cpu, cpu:WORKERS, cuda:INDEX or cuda:UUID; repeat for several (default: auto)") \
    F(WORKERS, "workers", "N", "threads of a cpu device without a number (default: one for each processor)")           \
    F(WORKSPACE, "workspace", "BYTES", "workspace of a device (default: its choice)")                                  \
    F(IDLE_PARK, "idle-park-ms", "N", "idle time after which a device sleeps (default: 2000)")                         \
    F(MEMORY, "memory", "BYTES", "budget of all shared arenas (default: half of the free memory)")                     \
    F(QUOTA, "quota", "BYTES", "arena bytes of one user, shared and on devices (default: 8g)")                         \
    F(USER_MEMORY, "user-memory", "BYTES", "shared arenas of one user (default: 3/4 of --memory)")                     \
    F(USER_SESSIONS, "user-sessions", "N", "connections of one user (default: half of what all may have)")             \
    F(USER_JOBS, "user-jobs", "N", "jobs of one user in flight (default: 3/4 of what all may have)")                   \
    F(USER_LANES, "user-lanes", "N", "lanes of one user on a device (default: 3/4 of what all may have)")              \
    F(USER_ARENAS, "user-arenas", "N", "arenas of one user (default: 3/4 of what all may have)")                       \
    F(DRAIN, "drain-ms", "N", "time that accepted jobs get after SIGTERM (default: 30000)")                            \
    F(SPIN, "spin-us", "N", "how long to look for a completion before sleeping (default: 100, 0 where CPUs are few)")  \
    F(LOG_LEVEL, "log-level", "LEVEL", "error, warn, info or debug (default: info)")                                   \
    F(PROGRAM, "device-program", "PATH",                                                                               \
      "folder with the device programs, or one program (default: beside gridmilld, else libexec)")                     \
    F(CHECK, "check-config", NULL, "print the effective configuration and exit")                                       \
    F(VERSION, "version", NULL, "print the version and exit")                                                          \
    F(HELP, "help", NULL, "print this and exit")

static_assert(GM_IDLE_PARK_MS_DEFAULT == 2000 && GM_DRAIN_MS_DEFAULT == 30000, "as the help says");
static_assert(GM_ARENA_BYTES_PER_UID_DEFAULT == 8ull << 30, "as the help says");

enum gm_arg_id {
    GM_ARG_BASE = 0x100,
#define F(id, flag, argument, help) GM_ARG_##id,
    GM_ARGS(F)
#undef F
};

static const struct option gm_options[] = {
#define F(id, flag, argument, help) {flag, (argument) != NULL ? required_argument : no_argument, NULL, GM_ARG_##id},
    GM_ARGS(F)
#undef F
        {NULL, 0, NULL, 0}};

void gm_config_help(void)
{
    printf(
        "usage: gridmilld [flags]\n\nServes GPU primitives to the processes of this machine, in the foreground.\n\n");
#define F(id, flag, argument, help)                                                                                    \
    printf("  --%s%s%s\n        %s\n", flag, (argument) != NULL ? " " : "", (argument) != NULL ? (argument) : "", help);
    GM_ARGS(F)
#undef F
    printf("\nBYTES may end in k, m, g or t, powers of 1024.\nSIGTERM and SIGINT finish the accepted jobs and exit 0; "
           "a second one does not wait. SIGUSR1 logs the "
           "sessions and devices.\nExit status: 0 stopped, 1 failed, 2 bad flags, 3 already running.\n");
}

bool gm_config_bytes(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "kmgt";
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    uint32_t shift = 0;
    if (*end != 0) {
        const char lower = (char)(*end | 0x20);
        const char *suffix = strchr(suffixes, lower);
        if (suffix == NULL || lower == 0 || end[1] != 0)
            return false;
        shift = 10u * (uint32_t)(suffix - suffixes + 1);
    }
    if (value > UINT64_MAX >> shift)
        return false;
    *bytes = (uint64_t)value << shift;
    return true;
}

static int gm_config_u32(const char *flag, const char *text, uint32_t low, uint32_t high, uint32_t *value, char *error)
{
    uint64_t wide;
    if (strspn(text, "0123456789") != strlen(text) || !gm_config_bytes(text, &wide) || wide < low || wide > high) {
        snprintf(error, GM_CONFIG_ERROR, "--%s %s: not a number from %" PRIu32 " to %" PRIu32, flag, text, low, high);
        return GM_EINVAL;
    }
    *value = (uint32_t)wide;
    return GM_OK;
}

static int gm_config_size(const char *flag, const char *text, uint64_t low, uint64_t *value, char *error)
{
    if (!gm_config_bytes(text, value) || *value < low || *value > GM_ARENA_BYTES_MAX) {
        snprintf(error, GM_CONFIG_ERROR,
                 "--%s %s: not a size from %" PRIu64 " to %" PRIu64 " bytes (a number, then k, m, g or t)", flag, text,
                 low, (uint64_t)GM_ARENA_BYTES_MAX);
        return GM_EINVAL;
    }
    return GM_OK;
}

static int gm_config_add_device(struct gm_config *config, const char *text, char *error)
{
    if (config->devices == GM_DEVICES_MAX) {
        snprintf(error, GM_CONFIG_ERROR, "--device %s: more than %u devices", text, GM_DEVICES_MAX);
        return GM_EINVAL;
    }
    struct gm_config_device *device = &config->device[config->devices];
    memset(device, 0, sizeof *device);
    device->backend = GM_BACKEND_CPU;
    if (strcmp(text, "auto") == 0) {
        device->automatic = true, device->backend = GM_BACKEND_CUDA;
        memcpy(device->name, "cuda:0", sizeof "cuda:0");
    } else if (strcmp(text, "cpu") == 0) {
        memcpy(device->name, "cpu", sizeof "cpu");
    } else if (strncmp(text, "cpu:", 4) == 0) {
        memcpy(device->name, "cpu", sizeof "cpu");
        if (gm_config_u32("device", text + 4, 1, GM_CPU_WORKERS_MAX, &device->workers, error) != GM_OK) {
            snprintf(error, GM_CONFIG_ERROR, "--device %s: cpu:N takes 1 to %u workers", text, GM_CPU_WORKERS_MAX);
            return GM_EINVAL;
        }
    } else if (strncmp(text, "cuda:", 5) == 0 && text[5] != 0 && strlen(text) < sizeof device->name &&
               strspn(text + 5, "0123456789abcdefABCDEFGPUMIG-") == strlen(text + 5)) {
        device->backend = GM_BACKEND_CUDA;
        memcpy(device->name, text, strlen(text) + 1u);
    } else {
        snprintf(error, GM_CONFIG_ERROR, "--device %.64s: not auto, cpu, cpu:N, cuda:INDEX or cuda:UUID", text);
        return GM_EINVAL;
    }
    for (uint32_t i = 0; i < config->devices; i++)
        if (device->backend == GM_BACKEND_CUDA && strcmp(config->device[i].name, device->name) == 0) {
            snprintf(error, GM_CONFIG_ERROR, "--device %s: named twice; a GPU has one owner", text);
            return GM_EINVAL;
        }
    config->devices++;
    return GM_OK;
}

static int gm_config_flag(struct gm_config *config, int flag, const char *text, enum gm_config_action *action,
                          const char **socket, char *error)
{
    int level;
    switch (flag) {
    case GM_ARG_SOCKET:
        *socket = text;
        return GM_OK;
    case GM_ARG_DEVICE:
        return gm_config_add_device(config, text, error);
    case GM_ARG_WORKERS:
        return gm_config_u32("workers", text, 1, GM_CPU_WORKERS_MAX, &config->workers, error);
    case GM_ARG_WORKSPACE:
        return gm_config_size("workspace", text, 1u << 20, &config->workspace, error);
    case GM_ARG_IDLE_PARK:
        return gm_config_u32("idle-park-ms", text, 1, 86400000, &config->idle_park_ms, error);
    case GM_ARG_MEMORY:
        return gm_config_size("memory", text, GM_ARENA_ALIGN, &config->memory, error);
    case GM_ARG_QUOTA:
        return gm_config_size("quota", text, GM_ARENA_ALIGN, &config->quota, error);
    case GM_ARG_USER_MEMORY:
        return gm_config_size("user-memory", text, GM_ARENA_ALIGN, &config->user_memory, error);
    case GM_ARG_USER_SESSIONS:
        return gm_config_u32("user-sessions", text, 1, GM_SESSIONS_MAX, &config->user_sessions, error);
    case GM_ARG_USER_JOBS:
        return gm_config_u32("user-jobs", text, 1, GM_INFLIGHT_MAX, &config->user_jobs, error);
    case GM_ARG_USER_LANES:
        return gm_config_u32("user-lanes", text, 1, GM_LANES_MAX, &config->user_lanes, error);
    case GM_ARG_USER_ARENAS:
        return gm_config_u32("user-arenas", text, 1, GM_ARENAS_MAX - 1u, &config->user_arenas, error);
    case GM_ARG_DRAIN:
        return gm_config_u32("drain-ms", text, 0, 86400000, &config->drain_ms, error);
    case GM_ARG_SPIN:
        return gm_config_u32("spin-us", text, 0, 1000000, &config->spin_us, error);
    case GM_ARG_LOG_LEVEL:
        level = gm_log_level_by_name(text);
        if (level < 0) {
            snprintf(error, GM_CONFIG_ERROR, "--log-level %.64s: not error, warn, info or debug", text);
            return GM_EINVAL;
        }
        config->level = (enum gm_log_level)level;
        return GM_OK;
    case GM_ARG_PROGRAM:
        if (text[0] == 0 || strlen(text) + 32 >= sizeof config->program) {
            snprintf(error, GM_CONFIG_ERROR, "--device-program: an empty path, or one of more than %zu bytes",
                     sizeof config->program - 33);
            return GM_EINVAL;
        }
        memcpy(config->program, text, strlen(text) + 1u);
        return GM_OK;
    default:
        *action = flag == GM_ARG_HELP ? GM_CONFIG_HELP : flag == GM_ARG_VERSION ? GM_CONFIG_VERSION : GM_CONFIG_CHECK;
        return GM_OK;
    }
}

static int gm_config_socket(struct gm_config *config, const char *flag, char *error)
{
    char path[GM_PATH_BYTES];
    const char *source = "--socket", *environment = getenv("GRIDMILL_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
    const size_t limit = GM_SOCKET_PATH_MAX - strlen(GM_ADMIN_SUFFIX);
    int length;
    if (flag != NULL) {
        length = snprintf(path, sizeof path, "%s", flag);
    } else if (environment != NULL && environment[0] != 0) {
        source = "GRIDMILL_SOCKET";
        length = snprintf(path, sizeof path, "%s", environment);
    } else if (runtime != NULL && runtime[0] != 0) {
        source = "XDG_RUNTIME_DIR";
        length = snprintf(path, sizeof path, "%s/gridmill/gridmill.sock", runtime);
    } else {
        length = snprintf(path, sizeof path, "/run/gridmill/gridmill.sock");
    }
    if (length == 0) {
        snprintf(error, GM_CONFIG_ERROR, "%s: the path is empty", source);
        return GM_EINVAL;
    }
    if ((size_t)length > limit) {
        snprintf(error, GM_CONFIG_ERROR,
                 "%s: the path has %d bytes; a Unix socket path has at most %u, and %zu of them are left for it "
                 "because " GM_ADMIN_SUFFIX " is added for the admin socket",
                 source, length, GM_SOCKET_PATH_MAX, limit);
        return GM_EINVAL;
    }
    memcpy(config->socket, path, (size_t)length + 1);
    return GM_OK;
}

int gm_config_parse(struct gm_config *config, int argc, char **argv, enum gm_config_action *action,
                    char error[GM_CONFIG_ERROR])
{
    const char *socket = NULL;
    int status = GM_OK, flag;
    memset(config, 0, sizeof *config);
    config->idle_park_ms = GM_IDLE_PARK_MS_DEFAULT, config->drain_ms = GM_DRAIN_MS_DEFAULT;
    config->spin_us = GM_SPIN_AUTO;
    config->quota = GM_ARENA_BYTES_PER_UID_DEFAULT, config->level = GM_LOG_INFO;
    config->user_sessions = GM_SESSIONS_PER_UID_DEFAULT, config->user_jobs = GM_INFLIGHT_PER_UID_DEFAULT;
    config->user_lanes = GM_LANES_PER_UID_DEFAULT, config->user_arenas = GM_ARENAS_PER_UID_DEFAULT;
    *action = GM_CONFIG_RUN;
    error[0] = 0;
    optind = 0, opterr = 0;
    while (status == GM_OK && (flag = getopt_long(argc, argv, "+:", gm_options, NULL)) != -1) {
        if (flag == '?' || flag == ':') {
            snprintf(error, GM_CONFIG_ERROR, "%s: %s", argv[optind - 1],
                     flag == ':' ? "needs a value" : "no such flag, or a value it does not take; see --help");
            return GM_EINVAL;
        }
        status = gm_config_flag(config, flag, optarg, action, &socket, error);
    }
    if (status != GM_OK || *action == GM_CONFIG_HELP || *action == GM_CONFIG_VERSION)
        return status;
    if (optind < argc) {
        snprintf(error, GM_CONFIG_ERROR, "%.64s: gridmilld takes flags only; see --help", argv[optind]);
        return GM_EINVAL;
    }
    if (config->devices == 0)
        status = gm_config_add_device(config, "auto", error);
    if (config->memory == 0)
        config->memory = gm_memory_budget();
    if (config->user_memory == 0)
        config->user_memory = config->memory / 4u * 3u;
    return status != GM_OK ? status : gm_config_socket(config, socket, error);
}

/* choice: what decides instead of a number. */
static void gm_config_print_number(const char *flag, uint64_t number, const char *choice)
{
    if (choice != NULL)
        printf("%s (%s)\n", flag, choice);
    else
        printf("%s %" PRIu64 "\n", flag, number);
}

void gm_config_print(const struct gm_config *config)
{
    printf("socket %s\nadmin-socket %s" GM_ADMIN_SUFFIX "\n", config->socket, config->socket);
    for (uint32_t i = 0; i < config->devices; i++) {
        const struct gm_config_device *device = &config->device[i];
        printf("device %s", device->automatic ? "auto" : device->name);
        if (device->workers != 0)
            printf(":%" PRIu32, device->workers);
        printf("\n");
    }
    gm_config_print_number("workers", config->workers, config->workers == 0 ? "one for each processor" : NULL);
    gm_config_print_number("workspace", config->workspace, config->workspace == 0 ? "the device's choice" : NULL);
    gm_config_print_number("spin-us", config->spin_us,
                           config->spin_us == GM_SPIN_AUTO ? "100, or 0 where processors are few" : NULL);
    printf("idle-park-ms %" PRIu32 "\nmemory %" PRIu64 "\nquota %" PRIu64 "\n", config->idle_park_ms, config->memory,
           config->quota);
    printf("user-memory %" PRIu64 "\nuser-sessions %" PRIu32 "\nuser-jobs %" PRIu32 "\nuser-lanes %" PRIu32
           "\nuser-arenas %" PRIu32 "\n",
           config->user_memory, config->user_sessions, config->user_jobs, config->user_lanes, config->user_arenas);
    printf("drain-ms %" PRIu32 "\nlog-level %s\n", config->drain_ms, gm_log_level_name(config->level));
    printf("device-program %s\n",
           config->program[0] != 0 ? config->program : "(beside gridmilld, or in " GM_LIBEXECDIR ")");
}

bool gm_config_program(const struct gm_config *config, uint32_t backend, char *path, size_t size)
{
    const char *name = backend == GM_BACKEND_CUDA ? "gridmill-device-cuda" : "gridmill-device-cpu";
    char self[GM_PATH_BYTES];
    struct stat status;
    int length;
    if (config->program[0] != 0) {
        const bool folder = stat(config->program, &status) == 0 && S_ISDIR(status.st_mode);
        length =
            folder ? snprintf(path, size, "%s/%s", config->program, name) : snprintf(path, size, "%s", config->program);
        return length > 0 && (size_t)length < size && access(path, X_OK) == 0;
    }
    const ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    if (got > 0) {
        self[got] = 0;
        *strrchr(self, '/') = 0;
        length = snprintf(path, size, "%s/%s", self, name);
        if (length > 0 && (size_t)length < size && access(path, X_OK) == 0)
            return true;
        /* An installation that was moved, or made below another root, keeps its own device programs. */
        length = snprintf(path, size, "%s/" GM_LIBEXEC_FROM_SBIN "/%s", self, name);
        if (length > 0 && (size_t)length < size && access(path, X_OK) == 0)
            return true;
    }
    length = snprintf(path, size, "%s/%s", GM_LIBEXECDIR, name);
    return length > 0 && (size_t)length < size && access(path, X_OK) == 0;
}
