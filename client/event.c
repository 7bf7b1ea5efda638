/* SPDX-License-Identifier: Apache-2.0
 *
 * A client in an event loop: one descriptor to wait on, and what to do when it is readable. With lanes the descriptor
 * is an epoll of the socket and of the pipes that devices wake by. Any thread.
 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A program that does nothing but poll lanes looks at the socket so often: there is news on it only when the daemon
 * goes. */
#define LOOK_NS UINT64_C(1000000)

static bool watch(struct gm_client *client, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    return epoll_ctl(client->event_fd, operation, fd, &event) == 0;
}

int gm__event_open(struct gm_client *client, struct gm_failure *failure)
{
    client->event_fd = epoll_create1(EPOLL_CLOEXEC);
    bool done = client->event_fd >= 0 && watch(client, EPOLL_CTL_ADD, client->fd, EPOLLIN) &&
                watch(client, EPOLL_CTL_ADD, client->wake_fd, EPOLLIN);
    for (uint32_t i = 0; i < client->lane_count && done; i++)
        done = watch(client, EPOLL_CTL_ADD, client->lanes[i].wake_fd, EPOLLIN);
    return done ? GM_OK : gm__report_errno(failure, "making an epoll descriptor", errno);
}

void gm__event_output(struct gm_client *client)
{
    const bool output = gm__conn_has_output(client);

    if (!client->event_driven || output == client->event_output)
        return;
    if (watch(client, EPOLL_CTL_MOD, client->fd, output ? EPOLLIN | EPOLLOUT : EPOLLIN))
        client->event_output = output;
}

void gm__event_kick(struct gm_client *client)
{
    if (client->event_driven && client->completed_first != NULL)
        gm__wake_raise(client);
}

/* Its pipe may have ended, and would be readable for ever. */
void gm__event_forget(struct gm_client *client, const struct gm_lane *lane)
{
    if (client->event_fd >= 0)
        (void)watch(client, EPOLL_CTL_DEL, lane->wake_fd, 0);
}

static void drive_by_events(struct gm_client *client)
{
    client->event_driven = true;
    gm__event_output(client);
    gm__lanes_arm(client);
    gm__event_kick(client);
}

int gm_fd(struct gm_client *client)
{
    const int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    if (client->event_fd < 0)
        return client->fd;
    pthread_mutex_lock(&client->lock);
    if (!client->event_driven)
        drive_by_events(client);
    pthread_mutex_unlock(&client->lock);
    return client->event_fd;
}

int gm_events(struct gm_client *client)
{
    const int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    const int events = POLLIN | (gm__conn_has_output(client) ? POLLOUT : 0);
    pthread_mutex_unlock(&client->lock);
    return events;
}

/* Also of what is not armed any more: a device may have made up its mind to wake before. */
static void drain(struct gm_client *client)
{
    for (uint32_t i = 0; i < client->lane_count; i++)
        if (client->lanes[i].open)
            gm__lane_drain(client, &client->lanes[i]);
}

static bool must_look(struct gm_client *client, uint32_t taken)
{
    if (client->lane_count == 0 || client->awaited > 0 || gm__conn_has_output(client))
        return true;
    if (client->event_driven && taken == 0)
        return true;
    const uint64_t now_ns = gm_now_ns();
    if (now_ns - client->looked_ns < LOOK_NS)
        return false;
    client->looked_ns = now_ns;
    return true;
}

int gm_poll(struct gm_client *client)
{
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = client->closed ? GM_ECLOSED : GM_OK;
    if (rc == GM_OK) {
        /* With a reader it is the reader's: nobody else may take its wake away. */
        if (client->wake_raised && client->reader == NULL)
            (void)gm__wake_lower(client);
        if (client->event_driven)
            drain(client);
        if (must_look(client, gm__lanes_reap(client)))
            rc = gm__conn_exchange(client);
        gm__lanes_rest(client);
    }
    if (rc != GM_OK)
        gm__report(&client->last, rc, "", "%s", client->closing.text);
    pthread_mutex_unlock(&client->lock);
    return rc;
}

/* The first completed jobs, up to one that a thread waits for: they leave the list in one piece. */
static size_t cut_off(struct gm_client *client, struct gm_job **jobs, size_t count)
{
    struct gm_job_inside *in = client->completed_first;
    size_t found = 0;

    for (; in != NULL && found < count && in->pending.waiter == NULL; in = in->next) {
        in->client = NULL;
        jobs[found++] = gm__outside(in);
    }
    client->completed_first = in;
    if (in != NULL)
        in->previous = NULL;
    else
        client->completed_last = NULL;
    return found;
}

/* Those that no thread waits for, in order of completion. */
static size_t next(struct gm_client *client, struct gm_job **jobs, size_t count)
{
    struct gm_job_inside *following;
    size_t found = cut_off(client, jobs, count);

    for (struct gm_job_inside *in = client->completed_first; in != NULL && found < count; in = following) {
        following = in->next;
        if (in->pending.waiter == NULL)
            jobs[found++] = gm__job_give_back(client, in);
    }
    return found;
}

size_t gm_next_batch(struct gm_client *client, struct gm_job **jobs, size_t count)
{
    if (gm__entry(client) != GM_OK)
        return 0;
    pthread_mutex_lock(&client->lock);
    const size_t found = next(client, jobs, count);
    pthread_mutex_unlock(&client->lock);
    return found;
}

struct gm_job *gm_next(struct gm_client *client)
{
    struct gm_job *job = NULL;

    gm_next_batch(client, &job, 1);
    return job;
}
