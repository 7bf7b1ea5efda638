/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags of gridmilld: every one, its bounds, and that a bad value is named. Single thread.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "errors.h"

static struct gm_config config;
static char error[GM_CONFIG_ERROR];

#define ARGS_MAX 40

static int parse(const char *first, ...)
{
    char *argv[ARGS_MAX] = {(char *)(uintptr_t) "gridmilld"};
    enum gm_config_action action;
    int argc = 1;
    va_list args;
    va_start(args, first);
    for (const char *arg = first; arg != NULL; arg = va_arg(args, const char *))
        argv[argc++] = (char *)(uintptr_t)arg;
    va_end(args);
    const int status = gm_config_parse(&config, argc, argv, &action, error);
    return status == GM_OK ? (int)action : status;
}

static void refused(const char *flag, const char *value)
{
    if (parse(flag, value, "--socket", "/tmp/s", NULL) != GM_EINVAL)
        fail_msg("%s %s was taken", flag, value);
    if (strstr(error, flag) == NULL)
        fail_msg("'%s' does not name %s", error, flag);
}

static void every_flag_arrives(void **state)
{
    (void)state;
    assert_int_equal(parse("--socket", "/tmp/g.sock", "--device", "cpu:3", "--device", "cuda:1", "--device", "cpu",
                           "--workers", "7", "--workspace", "64m", "--idle-park-ms", "10", "--memory", "2G", "--quota",
                           "1t", "--user-memory", "1g", "--user-sessions", "1024", "--user-jobs", "16384",
                           "--user-lanes", "1", "--user-arenas", "1023", "--drain-ms", "0", "--spin-us", "50",
                           "--log-level", "debug", "--device-program", "/opt/x", NULL),
                     GM_CONFIG_RUN);
    assert_string_equal(config.socket, "/tmp/g.sock");
    assert_int_equal(config.devices, 3);
    assert_string_equal(config.device[0].name, "cpu");
    assert_int_equal(config.device[0].workers, 3);
    assert_string_equal(config.device[1].name, "cuda:1");
    assert_int_equal(config.device[1].backend, GM_BACKEND_CUDA);
    assert_false(config.device[1].automatic);
    assert_int_equal(config.device[2].workers, 0);
    assert_int_equal(config.workers, 7);
    assert_int_equal(config.workspace, 64 << 20);
    assert_int_equal(config.idle_park_ms, 10);
    assert_int_equal(config.memory, UINT64_C(2) << 30);
    assert_int_equal(config.quota, UINT64_C(1) << 40);
    assert_int_equal(config.user_memory, UINT64_C(1) << 30);
    assert_int_equal(config.user_sessions, 1024);
    assert_int_equal(config.user_jobs, 16384);
    assert_int_equal(config.user_lanes, 1);
    assert_int_equal(config.user_arenas, 1023);
    assert_int_equal(config.drain_ms, 0);
    assert_int_equal(config.spin_us, 50);
    assert_int_equal(config.level, GM_LOG_DEBUG);
    assert_string_equal(config.program, "/opt/x");
}

static void defaults_are_those_of_the_limits(void **state)
{
    (void)state;
    assert_int_equal(parse("--socket", "/tmp/s", NULL), GM_CONFIG_RUN);
    assert_int_equal(config.devices, 1);
    assert_true(config.device[0].automatic);
    assert_int_equal(config.quota, GM_ARENA_BYTES_PER_UID_DEFAULT);
    assert_int_equal(config.user_sessions, GM_SESSIONS_PER_UID_DEFAULT);
    assert_int_equal(config.user_jobs, GM_INFLIGHT_PER_UID_DEFAULT);
    assert_int_equal(config.user_lanes, GM_LANES_PER_UID_DEFAULT);
    assert_int_equal(config.user_arenas, GM_ARENAS_PER_UID_DEFAULT);
    assert_int_equal(config.drain_ms, GM_DRAIN_MS_DEFAULT);
    assert_int_equal(config.idle_park_ms, GM_IDLE_PARK_MS_DEFAULT);
    assert_int_equal(config.level, GM_LOG_INFO);
    assert_int_equal(config.spin_us, GM_SPIN_AUTO);
    assert_true(config.memory > 0);
    assert_int_equal(config.user_memory, config.memory / 4 * 3);
    assert_int_equal(parse("--socket", "/tmp/s", "--memory", "8m", NULL), GM_CONFIG_RUN);
    assert_int_equal(config.user_memory, 6 << 20);
}

static void bad_values_are_refused_and_named(void **state)
{
    (void)state;
    static const char *const devices[] = {"", "gpu", "cpu:", "cpu:0", "cpu:257", "cpu:x", "cuda", "cuda:", "cuda:a/b"};
    static const char *const numbers[] = {"", "-1", "x", "1x", "1.5", " 1", "99999999999999999999", "0x10", "4k"};
    static const char *const sizes[] = {"", "-1", "k", "1kk", "1.5g", "99999999999999999999", "9999999t", "17z"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        refused("--device", devices[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        refused("--workers", numbers[i]);
        refused("--idle-park-ms", numbers[i]);
        refused("--drain-ms", numbers[i]);
        refused("--spin-us", numbers[i]);
        refused("--user-sessions", numbers[i]);
        refused("--user-jobs", numbers[i]);
        refused("--user-lanes", numbers[i]);
        refused("--user-arenas", numbers[i]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        refused("--workspace", sizes[i]);
        refused("--memory", sizes[i]);
        refused("--quota", sizes[i]);
        refused("--user-memory", sizes[i]);
    }
    assert_int_equal(parse("--device", "cpu:256", "--workers", "256", NULL), GM_CONFIG_RUN);
    refused("--log-level", "loud");
    refused("--device-program", "");
    refused("--workers", "0");
    refused("--workers", "257");
    refused("--user-sessions", "0");
    refused("--user-sessions", "1025");
    refused("--user-memory", "4095");
    refused("--user-jobs", "0");
    refused("--user-jobs", "16385");
    refused("--user-lanes", "257");
    refused("--user-arenas", "1024");
}

static void a_gpu_is_named_once(void **state)
{
    (void)state;
    assert_int_equal(parse("--device", "cuda:0", "--device", "cuda:0", NULL), GM_EINVAL);
    assert_int_equal(parse("--device", "auto", "--device", "cuda:0", NULL), GM_EINVAL);
    assert_non_null(strstr(error, "twice"));
}

static void too_many_devices_are_refused(void **state)
{
    (void)state;
    char *argv[2 + 2 * (GM_DEVICES_MAX + 1)] = {(char *)(uintptr_t) "gridmilld"};
    enum gm_config_action action;
    for (uint32_t i = 0; i <= GM_DEVICES_MAX; i++)
        argv[1 + 2 * i] = (char *)(uintptr_t) "--device", argv[2 + 2 * i] = (char *)(uintptr_t) "cpu";
    assert_int_equal(gm_config_parse(&config, 1 + 2 * GM_DEVICES_MAX, argv, &action, error), GM_OK);
    assert_int_equal(config.devices, GM_DEVICES_MAX);
    assert_int_equal(gm_config_parse(&config, 3 + 2 * GM_DEVICES_MAX, argv, &action, error), GM_EINVAL);
    assert_non_null(strstr(error, "16"));
}

static void unknown_flags_missing_values_and_arguments_are_named(void **state)
{
    (void)state;
    assert_int_equal(parse("--nonsense", NULL), GM_EINVAL);
    assert_non_null(strstr(error, "--nonsense"));
    assert_int_equal(parse("--quota", NULL), GM_EINVAL);
    assert_non_null(strstr(error, "--quota"));
    assert_int_equal(parse("start", NULL), GM_EINVAL);
    assert_non_null(strstr(error, "start"));
}

static void actions_need_no_socket(void **state)
{
    (void)state;
    assert_int_equal(parse("--help", NULL), GM_CONFIG_HELP);
    assert_int_equal(parse("--version", NULL), GM_CONFIG_VERSION);
    assert_int_equal(parse("--check-config", "--socket", "/tmp/s", NULL), GM_CONFIG_CHECK);
    assert_int_equal(parse("--check-config", "--workers", "x", NULL), GM_EINVAL);
}

static void socket_lookup_goes_flag_environment_runtime_run(void **state)
{
    (void)state;
    setenv("GRIDMILL_SOCKET", "/tmp/env.sock", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    parse("--socket", "/tmp/flag.sock", NULL);
    assert_string_equal(config.socket, "/tmp/flag.sock");
    parse("--device", "cpu", NULL);
    assert_string_equal(config.socket, "/tmp/env.sock");
    unsetenv("GRIDMILL_SOCKET");
    parse("--device", "cpu", NULL);
    assert_string_equal(config.socket, "/run/user/7/gridmill/gridmill.sock");
    unsetenv("XDG_RUNTIME_DIR");
    parse("--device", "cpu", NULL);
    assert_string_equal(config.socket, "/run/gridmill/gridmill.sock");
}

static void long_paths_are_refused_with_the_limit(void **state)
{
    (void)state;
    static const size_t lengths[] = {101, 102, 107, 108, 140, 4000};
    char path[4096];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(path, 'x', sizeof path);
        path[0] = '/', path[lengths[i]] = 0;
        assert_int_equal(parse("--socket", path, NULL), lengths[i] <= 101 ? (int)GM_CONFIG_RUN : (int)GM_EINVAL);
        if (lengths[i] <= 101) {
            assert_string_equal(config.socket, path);
            continue;
        }
        assert_non_null(strstr(error, "107"));
        assert_non_null(strstr(error, "101"));
    }
    assert_int_equal(parse("--socket", "", NULL), GM_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flag_arrives),
        cmocka_unit_test(defaults_are_those_of_the_limits),
        cmocka_unit_test(bad_values_are_refused_and_named),
        cmocka_unit_test(a_gpu_is_named_once),
        cmocka_unit_test(too_many_devices_are_refused),
        cmocka_unit_test(unknown_flags_missing_values_and_arguments_are_named),
        cmocka_unit_test(actions_need_no_socket),
        cmocka_unit_test(socket_lookup_goes_flag_environment_runtime_run),
        cmocka_unit_test(long_paths_are_refused_with_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
