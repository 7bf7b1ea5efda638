/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy engine of a CPU device: a thread that copies as copier.h tells it. Workers copy as fast, so it is there for
 * whoever asks for it: to test, without a GPU, all that is around a GPU's engine. Sleeps when it has nothing to do.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "cpu.h"
#include "drill.h"

/* Of tests that hold a copy up: says that it is about to copy a piece, and waits for a byte, or that there is nobody to
 * send one. */
static void pass_gate(int gate_fd)
{
    char byte = 0;
    if (gate_fd <= 0 || send(gate_fd, &byte, 1, MSG_NOSIGNAL) != 1)
        return;
    while (recv(gate_fd, &byte, 1, 0) < 0 && errno == EINTR) {
    }
}

static int copy_piece(void *self, uint32_t direction, uint64_t target, uint64_t source, uint64_t bytes)
{
    const struct gm_device *device = self;
    (void)direction;
    pass_gate(device->copy_gate_fd);
    gm_drill_copy();
    memcpy((void *)(uintptr_t)target, (const void *)(uintptr_t)source, bytes);
    return GM_OK;
}

static int copy_end(void *self, uint32_t direction, uint32_t *end, uint32_t value)
{
    struct gm_device *device = self;
    (void)direction;
    gm_store_release_sys_u32(end, value); /* pairs with the acquire in gm_copy_over */
    gm_cpu_ring(device);
    return GM_OK;
}

static void *copier(void *arg)
{
    struct gm_device *device = arg;
    while (__atomic_load_n(&device->copier_leaves, __ATOMIC_ACQUIRE) == 0) {
        bool any = false;
        for (uint32_t direction = 0; direction < GM_COPY_DIRECTIONS; direction++) {
            bool did;
            (void)gm_copier_step(&device->copier, direction, &did); /* never fails here */
            any = any || did;
        }
        while (!any && sem_wait(&device->copies_due) != 0) { /* a signal */
        }
    }
    return NULL;
}

int gm_cpu_copies_open(struct gm_device *device, const struct gm_device_config *config)
{
    static const struct gm_copier_calls calls = {.piece = copy_piece, .end = copy_end};
    gm_copier_init(&device->copier, device->core.copies, config->copy_piece ? config->copy_piece : GM_COPY_PIECE,
                   config->copy_start, &calls, device);
    device->copy_gate_fd = config->copy_gate_fd;
    sem_init(&device->copies_due, 0, 0);
    const int error = pthread_create(&device->copier_thread, NULL, copier, device);
    device->copier_runs = error == 0;
    if (error != 0)
        sem_destroy(&device->copies_due);
    return error;
}

void gm_cpu_copies_tell(struct gm_device *device)
{
    if (device->copier_runs)
        sem_post(&device->copies_due);
}

void gm_cpu_copies_close(struct gm_device *device)
{
    if (!device->copier_runs)
        return;
    __atomic_store_n(&device->copier_leaves, 1, __ATOMIC_RELEASE);
    sem_post(&device->copies_due);
    pthread_join(device->copier_thread, NULL);
    sem_destroy(&device->copies_due);
    device->copier_runs = false;
}
