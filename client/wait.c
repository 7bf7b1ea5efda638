/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting with a deadline, from any number of threads: the first becomes the reader and polls the socket without the
 * lock, the others sleep on their own conditions. A completion wakes exactly the thread that waits for it; a reader
 * that is done makes the oldest sleeper the next reader. Waiters live on the stacks of their threads.
 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

uint64_t gm_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t gm_deadline_in(uint64_t timeout_ns)
{
    const uint64_t now = gm_now_ns();

    return timeout_ns >= GM_NO_DEADLINE - now ? GM_NO_DEADLINE : now + timeout_ns;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static void add_waiter(struct gm_client *client, struct gm_waiter *waiter)
{
    struct gm_waiter **end = &client->waiters;

    waiter->previous = NULL;
    while (*end != NULL) {
        waiter->previous = *end;
        end = &(*end)->next;
    }
    waiter->next = NULL;
    *end = waiter;
}

static void remove_waiter(struct gm_client *client, struct gm_waiter *waiter)
{
    if (waiter->previous != NULL)
        waiter->previous->next = waiter->next;
    else
        client->waiters = waiter->next;
    if (waiter->next != NULL)
        waiter->next->previous = waiter->previous;
}

void gm__wake_reader(struct gm_client *client)
{
    const uint64_t one = 1;

    /* Fails only when the counter is full, and then the reader is awake anyway. */
    if (client->reader != NULL && write(client->wake_fd, &one, sizeof one) < 0)
        return;
}

void gm__complete(struct gm_client *client, struct gm_pending *pending, int status)
{
    struct gm_waiter *const waiter = pending->waiter;

    /* Release: pairs with the acquire in gm_job_status. */
    atomic_store_explicit(&pending->status, status, memory_order_release);
    if (waiter == NULL)
        return;
    if (waiter == client->reader)
        gm__wake_reader(client);
    else
        pthread_cond_signal(&waiter->cond);
}

/* Polls once as the reader. Returns true when the deadline has passed and everything that was there was read. */
static bool read_turn(struct gm_client *client, struct gm_waiter *self, uint64_t deadline_ns)
{
    struct pollfd fds[2] = {{.fd = client->fd, .events = POLLIN}, {.fd = client->wake_fd, .events = POLLIN}};
    struct timespec timeout;
    bool expired = false;

    if (deadline_ns != GM_NO_DEADLINE) {
        const uint64_t now = gm_now_ns();
        expired = now >= deadline_ns;
        timeout = timespec_of(expired ? 0 : deadline_ns - now);
    }
    client->reader = self;
    client->reader_wants_output = gm__conn_has_output(client);
    if (client->reader_wants_output)
        fds[0].events |= POLLOUT;
    pthread_mutex_unlock(&client->lock);
    const int ready = ppoll(fds, 2, deadline_ns == GM_NO_DEADLINE ? NULL : &timeout, NULL);
    pthread_mutex_lock(&client->lock);
    client->reader = NULL;
    if (ready > 0 && fds[1].revents != 0) {
        uint64_t count;
        /* Another wake may come in between: reading resets the counter, and what it was for is looked at below. */
        if (read(client->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
            gm__fail_all(client, GM_ESYSTEM, "reading the wake descriptor failed");
    }
    if (ready > 0)
        gm__conn_exchange(client);
    return expired || ready == 0;
}

/* Sleeps once while another thread reads. Returns true when the deadline has passed. */
static bool sleep_turn(struct gm_client *client, struct gm_waiter *self, uint64_t deadline_ns)
{
    if (deadline_ns == GM_NO_DEADLINE) {
        pthread_cond_wait(&self->cond, &client->lock);
        return false;
    }
    const struct timespec until = timespec_of(deadline_ns);
    return pthread_cond_timedwait(&self->cond, &client->lock, &until) == ETIMEDOUT;
}

static bool is_pending(const struct gm_pending *pending)
{
    return atomic_load_explicit(&pending->status, memory_order_relaxed) == GM_EAGAIN;
}

static int init_waiter(struct gm_waiter *waiter)
{
    pthread_condattr_t attributes;

    if (pthread_condattr_init(&attributes) != 0)
        return GM_ESYSTEM;
    int error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (error == 0)
        error = pthread_cond_init(&waiter->cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return error == 0 ? GM_OK : GM_ESYSTEM;
}

int gm__wait(struct gm_client *client, struct gm_pending *pending, uint64_t deadline_ns)
{
    struct gm_waiter self;
    bool expired = false;

    if (!is_pending(pending))
        return GM_OK;
    if (pending->waiter != NULL)
        return GM_EINVAL;
    const int rc = init_waiter(&self);
    if (rc != GM_OK)
        return rc;
    pending->waiter = &self;
    add_waiter(client, &self);
    while (is_pending(pending) && !expired)
        expired = client->reader == NULL ? read_turn(client, &self, deadline_ns)
                                         : sleep_turn(client, &self, deadline_ns);
    pending->waiter = NULL;
    remove_waiter(client, &self);
    if (client->reader == NULL && client->waiters != NULL)
        pthread_cond_signal(&client->waiters->cond);
    pthread_cond_destroy(&self.cond);
    return is_pending(pending) ? GM_ETIMEDOUT : GM_OK;
}
