/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts a million floats on the GPU, in memory that is shared with it: cc sort.c $(pkg-config --cflags --libs gridmill)
 */
#include <gridmill.h>
#include <stdio.h>

int main(void)
{
    const size_t n = 1000000, bytes = n * sizeof(float);
    struct gm_client *client;
    struct gm_arena *arena;
    struct gm_failure failure;
    struct gm_result result;

    if (gm_open(NULL, &client, &failure) != GM_OK) {
        fprintf(stderr, "gridmill: %s\n", failure.text);
        return 1;
    }
    uint64_t deadline = gm_deadline_in(10ull * 1000 * 1000 * 1000); // of everything below, in nanoseconds
    if (gm_arena_create(client, bytes, GM_MEMORY_SHARED, GM_DEVICE_ANY, deadline, &arena) != GM_OK)
        goto failed;
    float *x = gm_arena_data(arena); // memory that this process, the daemon and the GPU share
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i * 2654435761u % 1000003) / 1000003;

    struct gm_request sort = gm_request("sort", GM_F32, n);
    sort.in[0] = sort.out[0] = gm_in_arena(arena, 0, bytes);
    if (gm_run(client, &sort, deadline, &result) != GM_OK)
        goto failed;
    printf("smallest %g, median %g, largest %g, in %.1f us\n", x[0], x[n / 2], x[n - 1], result.run_ns / 1e3);
    gm_close(client);
    return 0;
failed:
    gm_last_failure(client, &failure);
    fprintf(stderr, "gridmill: %s\n", failure.text);
    gm_close(client);
    return 1;
}
