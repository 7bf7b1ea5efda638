/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of a client: finds the socket, connects, says hello, opens lanes. gm_open and gm_close run
 * on the caller's thread; opening is bounded by its deadline, everything a client will need is mapped here.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define OPEN_NS_DEFAULT UINT64_C(5000000000)
#define PATH_DEFAULT    "/run/gridmill/gridmill.sock"
#define PATH_IN_RUNTIME "gridmill/gridmill.sock"
#define ADMIN_SUFFIX    ".admin"
#define PAGE            65536u /* the largest page size there is: what is wiped must not be shared with anything */

/* One mapping: the page that fork wipes, the client, input, output. */
#define CLIENT_AT ((size_t)PAGE)
#define INPUT_AT  (CLIENT_AT + ((sizeof(struct gm_client) + PAGE - 1) & ~(size_t)(PAGE - 1)))
#define OUTPUT_AT (INPUT_AT + INPUT_BYTES)
#define ALL_BYTES (OUTPUT_AT + OUTPUT_BYTES)

int gm__entry(const struct gm_client *client)
{
    if (client == NULL)
        return GM_EINVAL;
    return *client->mine == 1 && (client->pid == 0 || client->pid == getpid()) ? GM_OK : GM_EFORKED;
}

static_assert(sizeof(struct gm_options) == 64 && offsetof(struct gm_options, spin_ns) == 32,
              "programs of the first version gave zeroes there");

static int put_path(struct sockaddr_un *address, const char *folder, const char *path, bool admin,
                    struct gm_failure *failure)
{
    const size_t room = sizeof address->sun_path;
    const int length = snprintf(address->sun_path, room, "%s%s%s", folder, path, admin ? ADMIN_SUFFIX : "");

    if (length < 0 || (size_t)length >= room)
        return gm__report(failure, GM_EINVAL, "socket", "the path of the socket has %d bytes; at most %zu are possible",
                          length, room - 1);
    return GM_OK;
}

/* What cannot be seen for lack of permission is there: connecting says so. */
static bool is_absent(const char *path)
{
    return access(path, F_OK) != 0 && errno == ENOENT;
}

static int make_address(const struct gm_options *options, struct sockaddr_un *address, struct gm_failure *failure)
{
    const char *const named = options->socket != NULL ? options->socket : getenv("GRIDMILL_SOCKET");
    const char *const runtime = getenv("XDG_RUNTIME_DIR");
    const bool admin = options->admin != 0;

    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (named != NULL && named[0] == '\0')
        return gm__report(failure, GM_EINVAL, "socket", "the path of the socket is empty");
    if (named != NULL)
        return put_path(address, "", named, admin, failure);
    if (runtime == NULL || runtime[0] == '\0')
        return put_path(address, "", PATH_DEFAULT, admin, failure);
    const int rc = put_path(address, runtime, "/" PATH_IN_RUNTIME, admin, failure);
    /* A daemon of the user's own comes first; without one, a login session uses that of the machine. */
    if (rc == GM_OK && is_absent(address->sun_path) && !is_absent(PATH_DEFAULT))
        return put_path(address, "", PATH_DEFAULT, admin, failure);
    return rc;
}

static int connect_failure(int error, const char *path, struct gm_failure *failure)
{
    char text[96];

    if (error == EAGAIN)
        return gm__report(failure, GM_ETIMEDOUT, "", "%.100s: the daemon did not accept in time", path);
    return gm__report(failure, GM_ECONNECT, "socket", "%.107s: %.48s", path, strerror_r(error, text, sizeof text));
}

/* Connects while the descriptor still blocks: only so does a full backlog wait, and no longer than SO_SNDTIMEO. */
static int connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline_ns, struct gm_failure *failure)
{
    const uint64_t now = gm_now_ns(), left_us = now < deadline_ns ? (deadline_ns - now) / 1000 : 0;
    const struct timeval timeout = {.tv_sec = (time_t)(left_us / 1000000), .tv_usec = (suseconds_t)(left_us % 1000000)};

    if (left_us == 0)
        return gm__report(failure, GM_ETIMEDOUT, "", "the deadline passed before connecting");
    if (deadline_ns != GM_NO_DEADLINE && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0)
        return gm__report_errno(failure, "setting a timeout", errno);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        return errno == EINTR ? GM_EAGAIN : connect_failure(errno, address->sun_path, failure);
    if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0)
        return gm__report_errno(failure, "making the socket non-blocking", errno);
    return GM_OK;
}

static int connect_client(struct gm_client *client, const struct sockaddr_un *address, uint64_t deadline_ns,
                          struct gm_failure *failure)
{
    int rc;

    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->wake_fd < 0)
        return gm__report_errno(failure, "making an eventfd", errno);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return gm__report_errno(failure, "making a socket", errno);
    /* A signal ends connect without an answer; a Unix socket that did not connect can simply try again. */
    do
        rc = connect_until(client->fd, address, deadline_ns, failure);
    while (rc == GM_EAGAIN);
    return rc;
}

static bool wants_lanes(const struct gm_options *options)
{
    return options->lane_slots != GM_NO_LANE && (options->lane_slots != 0 || options->admin == 0);
}

static int check_options(const struct gm_options *options, struct gm_failure *failure)
{
    const uint32_t slots = options->lane_slots;

    if (slots != 0 && slots != GM_NO_LANE &&
        (slots < GM_LANE_SLOTS_MIN || slots > GM_CLIENT_LANE_SLOTS_MAX || !GM_IS_POW2(slots)))
        return gm__report(failure, GM_EINVAL, "lane_slots", "a lane has a power of two of slots, from %u to %u",
                          GM_LANE_SLOTS_MIN, GM_CLIENT_LANE_SLOTS_MAX);
    if ((uint32_t)options->wait > GM_WAIT_EVENT)
        return gm__report(failure, GM_EINVAL, "wait", "no way of waiting has the number %d", (int)options->wait);
    if ((options->reserved0 | options->reserved[0]) != 0)
        return gm__report(failure, GM_EINVAL, "reserved", "what is reserved must be zero");
    return GM_OK;
}

static void take_options(struct gm_client *client, const struct gm_options *options)
{
    cpu_set_t set;

    /* Where the device may be threads on the very processors that are to be looked from. */
    client->spin_yields = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) <= 2;
    client->lane_only = options->lane_only != 0;
    client->spin_ns = options->wait == GM_WAIT_SPIN    ? UINT64_MAX
                      : options->wait == GM_WAIT_EVENT ? 0
                      : options->spin_ns != 0          ? options->spin_ns
                                                       : SPIN_NS_DEFAULT;
    /* A look at the socket is a system call, and it is the daemon too that needs a processor. */
    const bool unasked = options->wait == GM_WAIT_SPIN_THEN_SLEEP && options->spin_ns == 0;
    client->socket_spin_ns = unasked && client->spin_yields ? 0 : client->spin_ns;
}

static int hello(struct gm_client *client, const struct gm_options *options, uint64_t deadline_ns)
{
    struct gm_wire_request request = {.method = GM_METHOD_HELLO};
    struct gm_call call = {0};
    const char *const name = options->name != NULL ? options->name : program_invocation_short_name;

    request.u.hello.version_min = GM_WIRE_VERSION_MIN;
    request.u.hello.version_max = GM_WIRE_VERSION_MAX;
    snprintf(request.u.hello.client, sizeof request.u.hello.client, "%s", name);
    pthread_mutex_lock(&client->lock);
    int rc = gm__call(client, &request, &call, deadline_ns);
    /* A daemon that turns a client away says why before it closes. */
    if (rc == GM_ECLOSED && client->closing.status != GM_OK)
        client->last = client->closing;
    if (rc == GM_OK)
        client->devices = call.u.hello.devices < GM_DEVICES_MAX ? (uint32_t)call.u.hello.devices : GM_DEVICES_MAX;
    if (rc == GM_OK && call.u.hello.lanes > 0 && wants_lanes(options)) {
        gm__lanes_open(client, options->lane_slots, deadline_ns);
        if (client->closed)
            rc = (client->last = client->closing).status;
    }
    const int status = rc == GM_OK ? GM_OK : client->last.status;
    pthread_mutex_unlock(&client->lock);
    return status;
}

static void fill_tables(struct gm_client *client)
{
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = client->op_row[op] = gm_op_row(op);
        for (uint32_t dtype = 0; dtype <= GM_DTYPE_COUNT; dtype++)
            client->result_dtype[op][dtype] =
                row.result == GM_RESULT_NONE ? GM_NO_ELEMENT : (uint8_t)gm_result_dtype(row.result, dtype);
    }
}

static int make_client(struct gm_client **made, struct gm_failure *failure)
{
    uint8_t *const memory = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return gm__report_errno(failure, "mapping a client", errno);
    struct gm_client *const client = (struct gm_client *)(memory + CLIENT_AT);
    const int error = pthread_mutex_init(&client->lock, NULL);
    if (error != 0) {
        munmap(memory, ALL_BYTES);
        return gm__report_errno(failure, "preparing a client", error);
    }
    /* Linux before 4.14, and what only resembles it, cannot wipe; asking for the pid costs a system call each time. */
    if (madvise(memory, PAGE, MADV_WIPEONFORK) != 0)
        client->pid = getpid();
    memory[0] = 1;
    client->memory = memory;
    client->mine = memory;
    client->input = memory + INPUT_AT;
    client->output = (struct gm_wire_out){.bytes = memory + OUTPUT_AT, .capacity = OUTPUT_BYTES};
    client->fd = client->wake_fd = client->event_fd = -1;
    fill_tables(client);
    gm__slots_init(client);
    *made = client;
    return GM_OK;
}

int gm_open(const struct gm_options *options, struct gm_client **client, struct gm_failure *failure)
{
    static const struct gm_options defaults;
    struct gm_failure ignored;
    struct sockaddr_un address;
    struct gm_client *made = NULL;

    if (options == NULL)
        options = &defaults;
    if (failure == NULL)
        failure = &ignored;
    *failure = (struct gm_failure){0};
    *client = NULL;
    const uint64_t deadline_ns = options->deadline_ns != 0 ? options->deadline_ns : gm_deadline_in(OPEN_NS_DEFAULT);
    int rc = check_options(options, failure);
    if (rc == GM_OK)
        rc = make_address(options, &address, failure);
    if (rc == GM_OK)
        rc = make_client(&made, failure);
    if (rc == GM_OK) {
        take_options(made, options);
        rc = connect_client(made, &address, deadline_ns, failure);
    }
    if (rc == GM_OK) {
        rc = hello(made, options, deadline_ns);
        if (rc != GM_OK)
            *failure = made->last;
    }
    if (rc == GM_OK)
        *client = made;
    else
        gm_close(made);
    return rc;
}

void gm_close(struct gm_client *client)
{
    if (client == NULL)
        return;
    const bool mine = gm__entry(client) == GM_OK;
    /* In a child of fork the lock may be held by a thread that is not there; nobody else is, so it is not needed. */
    if (mine) {
        pthread_mutex_lock(&client->lock);
        gm__fail_all(client, GM_ECLOSED, "the client was closed");
        pthread_mutex_unlock(&client->lock);
        while (gm_next(client) != NULL)
            continue;
        pthread_mutex_destroy(&client->lock);
    }
    gm__conn_drop_fds(client);
    gm__arenas_unmap(client);
    gm__lanes_close(client, mine);
    if (client->event_fd >= 0)
        close(client->event_fd);
    if (client->fd >= 0)
        close(client->fd);
    if (client->wake_fd >= 0)
        close(client->wake_fd);
    munmap(client->memory, ALL_BYTES);
}

void gm_last_failure(struct gm_client *client, struct gm_failure *failure)
{
    const int rc = gm__entry(client);

    if (rc != GM_OK) {
        gm__report(failure, rc, "", "%s", gm_strerror(rc));
        return;
    }
    pthread_mutex_lock(&client->lock);
    *failure = client->last;
    pthread_mutex_unlock(&client->lock);
}
