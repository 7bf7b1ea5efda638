/* SPDX-License-Identifier: Apache-2.0
 *
 * See loss.h. One thread; what has to come gets a minute.
 */
#include "loss.h"

int wait_for_all(struct gm_client *client, struct gm_job *jobs, int count)
{
    struct gm_failure failure;
    int lost = 0;

    for (int i = 0; i < count; i++) {
        const int status = gm_wait(client, &jobs[i], in_ms(60000));
        gm_job_failure(&jobs[i], &failure);
        if (status != GM_OK && status != GM_EDEVICELOST)
            fail_msg("job %d: %s", i, failure.text);
        lost += status == GM_EDEVICELOST;
    }
    return lost;
}

void assert_device_came_back(struct gm_client *client, pid_t before, uint64_t restarts)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);

    wait_for_stat(client, "devices.0.restarts", restarts, 60000);
    wait_for_stat(client, "daemon.healthy", 1, 60000);
    assert_int_equal(GM_OK, gm_run(client, &nop, in_ms(20000), NULL));
    assert_int_not_equal(before, device_pid(client));
    wait_for_stat(client, "devices.0.queue_depth", 0, 20000);
    assert_books_balance(client);
}
