/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that are no use: one that stands still is replaced, one that is lost again and again is taken out of service;
 * stats and answers say so. One thread; every wait is bounded.
 */
#include "loss.h"

#include <signal.h>
#include <string.h>

static const struct gm_request *nop(void)
{
    static struct gm_request request;

    request = gm_request("nop", GM_NO_ELEMENT, 0);
    return &request;
}

static void frozen_device_is_unhealthy_and_then_replaced(void **state)
{
    enum { JOBS = 50 };
    static struct gm_job jobs[JOBS];
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    char text[STAT_TEXT_BYTES];

    memset(jobs, 0, sizeof jobs);
    assert_int_equal(1, stat_of(client, "daemon.healthy"));
    freeze_device(client, device);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i]));
    wait_for_stat(client, "daemon.healthy", 0, GM_PING_DEADLINE_MS + 20000);
    stat_text(client, "devices.0.state", text);
    assert_string_equal("unresponsive", text);
    assert_int_equal(0, wait_for_all(client, jobs, JOBS));
    assert_device_came_back(client, device, 1);
    gm_close(client);
}

/* False: it is out of service. */
static bool comes_back(struct gm_client *client, uint64_t restarts)
{
    const uint64_t end_ms = now_ms() + 60000;
    char state[STAT_TEXT_BYTES];

    for (;;) {
        stat_text(client, "devices.0.state", state);
        if (strcmp(state, "lost") == 0)
            return false;
        if (stat_of(client, "devices.0.restarts") == restarts && stat_of(client, "daemon.healthy") == 1)
            return true;
        if (now_ms() > end_ms)
            fail_msg("the device is %s after %u losses", state, (uint32_t)restarts);
        sleep_ms(2);
    }
}

static void device_that_keeps_failing_is_taken_out_of_service(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const uint64_t start_ms = now_ms();
    uint32_t kills = 0;
    char text[STAT_TEXT_BYTES];

    /* On a slow machine the first of them may be out of the window when the last one comes. */
    do {
        kill(device_pid(client), SIGKILL);
        kills++;
    } while (comes_back(client, kills));
    assert_true(kills >= GM_RESTARTS_MAX);
    assert_true(kills == GM_RESTARTS_MAX || now_ms() - start_ms > GM_RESTART_WINDOW_MS);
    stat_text(client, "devices.0.reason", text);
    assert_true(text[0] != '\0');
    assert_int_equal(0, stat_of(client, "daemon.healthy"));
    assert_int_equal(GM_EDEVICELOST, gm_run(client, nop(), in_ms(20000), NULL));
    assert_books_balance(client);
    gm_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frozen_device_is_unhealthy_and_then_replaced, daemon_setup_to_freeze,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(device_that_keeps_failing_is_taken_out_of_service, daemon_setup,
                                        daemon_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
