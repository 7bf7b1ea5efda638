/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of clients: their memory, doorbell and wake pipe come from gridmilld by descriptor and leave in three steps
 * (serve.h). Main thread of the device process; a lane is a row of gm_server.lane.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bells.h"
#include "serve.h"

static int refuse(char *text, const char *what)
{
    snprintf(text, GM_ERROR_TEXT_MAX, "%s", what);
    return GM_EINVAL;
}

/* What the dispatcher and the workers will store to must be there for as long as it is mapped, whatever the client does
 * to its own descriptor: a page that is cut off would end this process. */
static int check_memory(int fd, uint64_t bytes, char *text)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes)
        return refuse(text, "the lane's memory has another size");
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return refuse(text, "the lane's memory is not sealed");
    return GM_OK;
}

static int check_wake(int fd, char *text)
{
    struct stat st;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode) || (flags & O_ACCMODE) == O_RDONLY)
        return refuse(text, "a lane is woken through the write end of a pipe");
    return flags & O_NONBLOCK ? GM_OK : refuse(text, "the lane's wake descriptor blocks");
}

static int map_memory(struct gm_server *server, struct gm_lane_mapping *lane, int fd, uint64_t *address, char *text)
{
    void *host = mmap(NULL, lane->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (host == MAP_FAILED) {
        snprintf(text, GM_ERROR_TEXT_MAX, "mapping a lane: %s", strerror(errno));
        return errno == ENOMEM ? GM_ENOMEM : GM_ESYSTEM;
    }
    const int status = server->backend->map(server->device, host, lane->bytes, address, text);
    if (status != GM_OK)
        munmap(host, lane->bytes);
    else
        lane->host = host;
    return status;
}

static void close_descriptors(struct gm_server *server, uint32_t index)
{
    struct gm_lane_mapping *lane = &server->lane[index];
    server->backend->lane_wake(server->device, index, -1);
    gm_bells_drop(server->bells_fd, lane->doorbell_fd);
    close(lane->wake_fd);
    close(lane->doorbell_fd);
    lane->wake_fd = lane->doorbell_fd = -1;
}

int gm_server_lane_add(struct gm_server *server, const struct gm_control_lane *add, int *fd, char *text)
{
    if (add->index == 0 || add->index > GM_LANES_MAX || server->lane[add->index].host)
        return refuse(text, "the lane is none of a client's, or in use");
    if (add->slots_log2 > 31u || 1u << add->slots_log2 < GM_LANE_SLOTS_MIN ||
        1u << add->slots_log2 > GM_CLIENT_LANE_SLOTS_MAX)
        return refuse(text, "slots of a lane");
    struct gm_lane_mapping *lane = &server->lane[add->index];
    uint64_t address = 0;
    lane->bytes = gm_lane_bytes(1u << add->slots_log2);
    int status = check_memory(fd[0], lane->bytes, text);
    if (status == GM_OK)
        status = check_wake(fd[2], text);
    if (status != GM_OK)
        return status;
    status = gm_bells_add(server->bells_fd, fd[1]);
    if (status != GM_OK) {
        snprintf(text, GM_ERROR_TEXT_MAX, "the lane's doorbell cannot be waited for");
        return status;
    }
    status = map_memory(server, lane, fd[0], &address, text);
    if (status != GM_OK) {
        gm_bells_drop(server->bells_fd, fd[1]);
        return status;
    }
    lane->doorbell_fd = fd[1];
    lane->wake_fd = fd[2];
    fd[1] = fd[2] = -1;
    server->backend->lane_wake(server->device, add->index, lane->wake_fd);
    status = gm_admin_lane_open(&server->admin, add, address, server->region + gm_region_journal_offset(add->index));
    if (status == GM_OK)
        return GM_OK;
    snprintf(text, GM_ERROR_TEXT_MAX, "the scheduler did not take the lane");
    if (status != GM_ETIMEDOUT && status != GM_EDEVICELOST) { /* else it may still take it: everything stays */
        close_descriptors(server, add->index);
        lane->drop = (struct gm_drop){.step = GM_DROP_NONE};
        if (gm_server_drop_jobs_done(server, add->index)) {
            gm_server_lane_unmap(server, add->index, text);
            gm_server_lane_release(server, add->index);
        }
    }
    return status;
}

int gm_server_lane_close(struct gm_server *server, uint32_t index, char *text)
{
    struct gm_lane_mapping *lane = &server->lane[index];
    int status = gm_admin_lane_close(&server->admin, index);
    if (lane->drop.late && status == GM_EINVAL)
        status = GM_OK; /* the try that nobody waited for any more has closed it */
    lane->drop.late |= status == GM_ETIMEDOUT;
    if (status == GM_EBUSY || status == GM_ETIMEDOUT || status == GM_EDEVICELOST)
        return status;
    server->closing--;
    if (status != GM_OK) { /* the table has no such lane; what else is wrong nobody knows, so the memory stays */
        gm_server_drop_answer(server, &lane->drop, status);
        lane->drop.step = GM_DROP_NONE;
        return status;
    }
    close_descriptors(server, index);
    if (gm_server_drop_jobs_done(server, index)) {
        gm_server_lane_unmap(server, index, text);
        gm_server_lane_release(server, index);
    }
    return GM_OK;
}

int gm_server_lane_drop(struct gm_server *server, uint32_t index, uint32_t sequence, char *text)
{
    if (index == 0 || index > GM_LANES_MAX || !server->lane[index].host ||
        server->lane[index].drop.step != GM_DROP_NONE)
        return GM_ENOTFOUND;
    server->lane[index].drop = (struct gm_drop){.step = GM_DROP_JOBS, .answer = true, .sequence = sequence};
    server->closing++;
    (void)gm_server_lane_close(server, index, text);
    return GM_OK;
}

void gm_server_lane_unmap(struct gm_server *server, uint32_t index, char *text)
{
    struct gm_lane_mapping *lane = &server->lane[index];
    lane->drop.status = server->backend->unmap(server->device, lane->host, lane->bytes, text);
}

void gm_server_lane_release(struct gm_server *server, uint32_t index)
{
    struct gm_lane_mapping *lane = &server->lane[index];
    const struct gm_drop drop = lane->drop;
    munmap(lane->host, lane->bytes);
    *lane = (struct gm_lane_mapping){.doorbell_fd = -1, .wake_fd = -1};
    gm_server_drop_answer(server, &drop, drop.status);
}
