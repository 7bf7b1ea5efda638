/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon of a part of bench_lanes, clients of it, round trips, and its stats. One thread; every wait has a bound.
 */
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

#include "lanes.h"

#define STOP_MS       20000u
#define LANE_NS       UINT64_C(5000000000) /* a lane that was closed may be taken again a moment later */
#define ARGUMENTS_MAX 18u
#define WARM_UP       10000u /* a GPU's clocks rise when it has work */
#define ENOUGH        20u /* so many samples are taken whatever the budget says */

bool gm_lanes_fail(struct gm_lanes *l, const char *what, const char *why)
{
    snprintf(l->text, sizeof l->text, "%s: %.160s", what, why);
    return false;
}

bool gm_lanes_fail_last(struct gm_lanes *l, const char *what, struct gm_client *client)
{
    struct gm_failure failure;
    gm_last_failure(client, &failure);
    snprintf(l->text, sizeof l->text, "%s: %s %.120s", what, gm_status_name(failure.status), failure.text);
    return false;
}

static struct gm_client *open_once(struct gm_lanes *l, enum gm_wait_strategy wait, bool *no_lane)
{
    const struct gm_options options = {.socket = l->server.socket, .name = "bench_lanes", .wait = wait,
                                       .lane_slots = GM_LANE_JOBS, .lane_only = 1,
                                       .deadline_ns = gm_deadline_in(GM_LANES_JOB_NS)};
    struct gm_client *client = NULL;
    struct gm_failure failure;
    if (gm_open(&options, &client, &failure) != GM_OK) {
        (void)gm_lanes_fail(l, "connect", failure.text);
    } else if (gm_lanes(client) == 0) {
        (void)gm_lanes_fail_last(l, "no lane", client);
        gm_close(client);
        client = NULL;
        *no_lane = true;
    }
    return client;
}

struct gm_client *gm_lanes_open(struct gm_lanes *l, enum gm_wait_strategy wait)
{
    const uint64_t end = gm_bench_now_ns() + LANE_NS;
    for (;;) {
        bool no_lane = false;
        struct gm_client *client = open_once(l, wait, &no_lane);
        if (client || !no_lane || gm_bench_now_ns() > end)
            return client;
        gm_bench_sleep_ms(5);
    }
}

static bool answers(struct gm_lanes *l)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN_THEN_SLEEP);
    bool good = client != NULL;
    if (good && gm_run(client, &nop, gm_deadline_in(GM_LANES_JOB_NS), NULL) != GM_OK)
        good = gm_lanes_fail_last(l, "first job", client);
    gm_close(client);
    return good;
}

bool gm_lanes_up(struct gm_lanes *l, const char *const *more)
{
    const char *argv[ARGUMENTS_MAX] = {l->daemon, "--socket", NULL, "--device", l->device, "--log-level", "warn",
                                       "--user-lanes", "256"}; /* all clients are one user's */
    const uint64_t end = gm_bench_now_ns() + (uint64_t)l->start_s * 1000000000u;
    size_t count = 9;
    char last[sizeof l->text];
    if (!gm_process_folder(&l->server))
        return gm_lanes_fail(l, "gridmilld", "no folder in /tmp");
    argv[2] = l->server.socket;
    for (; more && *more && count + 1u < ARGUMENTS_MAX; more++)
        argv[count++] = *more;
    bool ready = false;
    if (gm_process_start(&l->server, (char *const *)argv))
        while (!(ready = answers(l)) && gm_process_alive(&l->server) && gm_bench_now_ns() < end)
            gm_bench_sleep_ms(10);
    if (ready)
        return true;
    memcpy(last, l->text, sizeof last);
    gm_process_show_log(&l->server);
    (void)gm_process_stop(&l->server, STOP_MS / 10u);
    return gm_lanes_fail(l, "gridmilld did not come up", last);
}

bool gm_lanes_down(struct gm_lanes *l, bool good)
{
    if (!good)
        gm_process_show_log(&l->server);
    const int status = gm_process_stop(&l->server, STOP_MS);
    if (good && status != 0) {
        snprintf(l->text, sizeof l->text, "gridmilld ended with status %d", status);
        good = false;
    }
    return good;
}

bool gm_lanes_trip(struct gm_lanes *l, struct gm_client *client, const struct gm_request *request, size_t count,
                   uint64_t budget_ns)
{
    const size_t warm_up = count / 20u < WARM_UP ? count / 20u : WARM_UP;
    const uint64_t start = gm_bench_now_ns();
    uint64_t end = start;
    l->samples.count = 0;
    for (size_t i = 0; i < count + warm_up && (i < warm_up + ENOUGH || end - start < budget_ns); i++) {
        const uint64_t begin = gm_bench_now_ns();
        const int status = gm_run(client, request, begin + GM_LANES_JOB_NS, NULL);
        end = gm_bench_now_ns();
        if (status != GM_OK)
            return gm_lanes_fail_last(l, request->op, client);
        if (i >= warm_up)
            gm_samples_add(&l->samples, end - begin);
    }
    return true;
}

/* ---- stats ---- */

static const msgpack_object *step(const msgpack_object *object, const char *name, size_t size)
{
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        const size_t i = (size_t)(name[0] - '0');
        return size == 1 && i < object->via.array.size ? &object->via.array.ptr[i] : NULL;
    }
    if (object->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < object->via.map.size; i++) {
        const msgpack_object *key = &object->via.map.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == size && memcmp(key->via.str.ptr, name, size) == 0)
            return &object->via.map.ptr[i].val;
    }
    return NULL;
}

static bool stat_of(struct gm_lanes *l, struct gm_client *client, const char *path, uint64_t *value, char *text,
                    size_t size)
{
    msgpack_unpacked unpacked;
    void *bytes = NULL;
    size_t length = 0, at = 0;
    bool found = false;
    if (gm_stats(client, gm_deadline_in(GM_LANES_JOB_NS), &bytes, &length) != GM_OK)
        return gm_lanes_fail_last(l, "stats", client);
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, bytes, length, &at) == MSGPACK_UNPACK_SUCCESS) {
        const msgpack_object *object = &unpacked.data;
        for (const char *name = path; object && *name;) {
            const size_t n = strcspn(name, ".");
            object = step(object, name, n);
            name += n + (name[n] == '.');
        }
        if (object && value && object->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
            *value = object->via.u64, found = true;
        if (object && text && object->type == MSGPACK_OBJECT_STR)
            snprintf(text, size, "%.*s", (int)object->via.str.size, object->via.str.ptr), found = true;
    }
    msgpack_unpacked_destroy(&unpacked);
    gm_free(bytes);
    return found || gm_lanes_fail(l, "stats have no such figure", path);
}

bool gm_lanes_stat(struct gm_lanes *l, struct gm_client *client, const char *path, uint64_t *value)
{
    return stat_of(l, client, path, value, NULL, 0);
}

bool gm_lanes_stat_text(struct gm_lanes *l, struct gm_client *client, const char *path, char *text, size_t size)
{
    return stat_of(l, client, path, NULL, text, size);
}
