/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting with a deadline, from any number of threads. Whoever waits looks for a while first, without the lock: at the
 * job's completion in its lane, or at the socket. Then the first to sleep becomes the reader and polls socket and
 * lanes, the others sleep on their own conditions. A completion wakes exactly the thread that waits for it; a reader
 * that is done makes the oldest sleeper the next reader. Waiters live on the stacks of their threads.
 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

#define LOOKS         64 /* at a completion, between two looks at the clock and the lane's state */
#define LOOKS_YIELDED 4  /* where processors are few */
#define SLICE_NS      UINT64_C(1000000) /* looking goes on no longer without a look at the socket */

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

void gm__wake_raise(struct gm_client *client)
{
    const uint64_t one = 1;

    if (!client->wake_raised)
        client->wake_raised = write(client->wake_fd, &one, sizeof one) == sizeof one;
}

bool gm__wake_lower(struct gm_client *client)
{
    uint64_t counter;

    client->wake_raised = false;
    return read(client->wake_fd, &counter, sizeof counter) >= 0 || errno == EAGAIN;
}

void gm__wake_reader(struct gm_client *client)
{
    if (client->reader != NULL)
        gm__wake_raise(client);
}

void gm__wake_waiter(struct gm_client *client, struct gm_waiter *waiter)
{
    if (waiter == client->reader)
        gm__wake_reader(client);
    else
        pthread_cond_signal(&waiter->cond);
}

static bool is_pending(const struct gm_pending *pending)
{
    return atomic_load_explicit(&pending->status, memory_order_relaxed) == GM_EAGAIN;
}

/* ---- Looking ---- */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Looks until the completion is there, somebody else took it, the lane has other news, or until_ns. Without the lock:
 * the lane stays mapped while a thread is inside the client. */
static void look_at_completion(const struct gm_job_inside *job, bool yields, uint64_t until_ns)
{
    const struct gm_lane *const lane = job->lane;
    const uint32_t *const lap_there = &lane->cq[job->position & lane->mask].w[3];
    const uint32_t lap = gm_lap(job->position, lane->slots_log2);
    const int looks = yields ? LOOKS_YIELDED : LOOKS;

    do {
        for (int i = 0; i < looks; i++) {
            if (gm_load_acquire_sys_u32(lap_there) == lap || !is_pending(&job->pending))
                return;
            relax();
        }
        const uint32_t state = gm_load_relaxed_sys_u32(&lane->header->state);
        if (state != GM_LANE_OPEN && state != GM_LANE_RECOVERING)
            return;
        if (yields)
            sched_yield();
    } while (gm_now_ns() < until_ns);
}

/* For one slice. Returns true when the deadline has passed, and then everything that was there was taken. */
static bool look_turn(struct gm_client *client, const struct gm_job_inside *job, uint64_t until_ns,
                      uint64_t deadline_ns)
{
    const uint64_t slice_ns = gm_deadline_in(SLICE_NS);
    const bool yields = client->spin_yields;

    if (until_ns > slice_ns)
        until_ns = slice_ns;
    if (until_ns > deadline_ns)
        until_ns = deadline_ns;
    if (deadline_ns != 0) {
        pthread_mutex_unlock(&client->lock);
        look_at_completion(job, yields, until_ns);
        pthread_mutex_lock(&client->lock);
    }
    gm__lanes_reap(client);
    if (!is_pending(&job->pending))
        return false;
    const uint64_t now_ns = gm_now_ns();
    if ((now_ns >= slice_ns || now_ns >= deadline_ns) && client->reader == NULL)
        gm__conn_exchange(client);
    return now_ns >= deadline_ns;
}

/* Until the client's time for looking is over. Returns true when the deadline has passed. */
static bool look_in_lane(struct gm_client *client, const struct gm_job_inside *job, uint64_t deadline_ns)
{
    const uint64_t until_ns = gm_deadline_in(client->spin_ns);
    bool expired;

    do
        expired = look_turn(client, job, until_ns, deadline_ns);
    while (is_pending(&job->pending) && !expired && gm_now_ns() < until_ns);
    return expired;
}

/* Until the socket is ready, somebody else took the reply, or until_ns; whether it is ready. Without the lock: the
 * socket stays open while a thread is inside the client. */
static bool look_at_socket(struct pollfd socket, const struct gm_pending *pending, bool yields, uint64_t until_ns)
{
    do {
        if (poll(&socket, 1, 0) > 0)
            return true;
        if (yields)
            sched_yield();
    } while (is_pending(pending) && gm_now_ns() < until_ns);
    return false;
}

/* What comes to the socket is taken, until the client's time for looking is over. */
static void look_for_reply(struct gm_client *client, const struct gm_pending *pending, uint64_t until_ns)
{
    while (is_pending(pending) && gm_now_ns() < until_ns) {
        const struct pollfd socket = {.fd = client->fd,
                                      .events = POLLIN | (gm__conn_has_output(client) ? POLLOUT : 0)};
        const bool yields = client->spin_yields;
        pthread_mutex_unlock(&client->lock);
        const bool ready = look_at_socket(socket, pending, yields, until_ns);
        pthread_mutex_lock(&client->lock);
        if (ready)
            gm__conn_exchange(client);
    }
}

/* Looks first, where that is wanted. Returns true when the deadline has passed. */
static bool look(struct gm_client *client, const struct gm_pending *pending, const struct gm_job_inside *job,
                 uint64_t deadline_ns)
{
    uint64_t spin_ns = client->socket_spin_ns;

    if (job != NULL && job->lane != NULL)
        return client->spin_ns > 0 && look_in_lane(client, job, deadline_ns);
    /* A call may be long: nobody wants a processor for that. */
    if (job == NULL && spin_ns > SPIN_NS_DEFAULT)
        spin_ns = SPIN_NS_DEFAULT;
    if (spin_ns > 0 && deadline_ns > 0) {
        const uint64_t until_ns = gm_deadline_in(spin_ns);
        look_for_reply(client, pending, until_ns < deadline_ns ? until_ns : deadline_ns);
    }
    return false;
}

/* ---- Sleeping ---- */

#define POLLED_MAX (2 + GM_DEVICES_MAX)

/* The socket, the descriptor that ends the poll early, and what open lanes wake by, in order. How many. */
static nfds_t fill_polled(const struct gm_client *client, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = client->fd, .events = POLLIN | (client->reader_wants_output ? POLLOUT : 0)};
    fds[1] = (struct pollfd){.fd = client->wake_fd, .events = POLLIN};
    for (uint32_t i = 0; i < client->lane_count; i++)
        fds[2 + i] = (struct pollfd){.fd = client->lanes[i].open ? client->lanes[i].wake_fd : -1, .events = POLLIN};
    return 2 + client->lane_count;
}

static void drain_polled(struct gm_client *client, const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 2; i < count; i++)
        if (fds[i].revents != 0 && client->lanes[i - 2].open)
            gm__lane_drain(client, &client->lanes[i - 2]);
}

/* Polls once as the reader. Returns true when the deadline has passed and everything that was there was read. */
static bool read_turn(struct gm_client *client, struct gm_waiter *self, uint64_t deadline_ns)
{
    struct pollfd fds[POLLED_MAX];
    struct timespec timeout;
    bool expired = false;

    if (deadline_ns != GM_NO_DEADLINE) {
        const uint64_t now = gm_now_ns();
        expired = now >= deadline_ns;
        timeout = timespec_of(expired ? 0 : deadline_ns - now);
    }
    client->reader = self;
    client->reader_wants_output = gm__conn_has_output(client);
    const nfds_t count = fill_polled(client, fds);
    pthread_mutex_unlock(&client->lock);
    const int ready = ppoll(fds, count, deadline_ns == GM_NO_DEADLINE ? NULL : &timeout, NULL);
    pthread_mutex_lock(&client->lock);
    client->reader = NULL;
    /* What it was raised for is looked at below. */
    if (client->wake_raised && !gm__wake_lower(client))
        gm__fail_all(client, GM_ESYSTEM, "reading the wake descriptor failed");
    drain_polled(client, fds, count);
    gm__lanes_reap(client);
    if (ready > 0 && (fds[0].revents != 0 || fds[1].revents != 0))
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

/* In the list of those who sleep, until complete or the deadline. */
static int sleep_until(struct gm_client *client, struct gm_waiter *self, const struct gm_pending *pending,
                       uint64_t deadline_ns)
{
    bool expired = false;
    const int rc = init_waiter(self);

    if (rc != GM_OK)
        return rc;
    self->sleeps = true;
    add_waiter(client, self);
    while (is_pending(pending) && !expired) {
        /* Whoever sleeps, and be it while another thread reads, wants the devices to wake the reader. */
        gm__lanes_arm(client);
        if (is_pending(pending))
            expired = client->reader == NULL ? read_turn(client, self, deadline_ns)
                                             : sleep_turn(client, self, deadline_ns);
    }
    remove_waiter(client, self);
    if (client->reader == NULL && client->waiters != NULL)
        pthread_cond_signal(&client->waiters->cond);
    pthread_cond_destroy(&self->cond);
    gm__lanes_rest(client);
    return GM_OK;
}

int gm__wait(struct gm_client *client, struct gm_pending *pending, const struct gm_job_inside *job,
             uint64_t deadline_ns)
{
    struct gm_waiter self;
    int rc = GM_OK;

    if (!is_pending(pending))
        return GM_OK;
    if (pending->waiter != NULL)
        return GM_EINVAL;
    self.sleeps = false;
    pending->waiter = &self;
    const bool expired = look(client, pending, job, deadline_ns);
    if (is_pending(pending) && !expired)
        rc = sleep_until(client, &self, pending, deadline_ns);
    pending->waiter = NULL;
    gm__event_kick(client);
    return rc != GM_OK ? rc : is_pending(pending) ? GM_ETIMEDOUT : GM_OK;
}
