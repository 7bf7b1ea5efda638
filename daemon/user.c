/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of users, and the memory that each may have. Loop thread only; a look for a uid costs the entries used so
 * far.
 */
#include "user.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "daemon.h"

uint32_t gm_users_count(const struct gm_daemon *d)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->users.high; i++)
        count += gm_user_exists(&d->users.user[i]);
    return count;
}

/* The one that had nothing for the longest time. */
static struct gm_user *gm_user_forgotten(struct gm_users *users)
{
    struct gm_user *oldest = NULL;
    for (uint32_t i = 0; i < users->high; i++)
        if (!gm_user_exists(&users->user[i]) && (oldest == NULL || users->user[i].left < oldest->left))
            oldest = &users->user[i];
    assert(oldest != NULL); /* there are more entries than users can have something */
    return oldest;
}

struct gm_user *gm_user_of(struct gm_daemon *d, uid_t uid)
{
    struct gm_users *users = &d->users;
    for (uint32_t i = 0; i < users->high; i++)
        if (users->user[i].known && users->user[i].uid == uid)
            return &users->user[i];
    struct gm_user *user = users->high < GM_USERS_MAX ? &users->user[users->high++] : gm_user_forgotten(users);
    memset(user, 0, sizeof *user);
    user->uid = uid, user->known = true;
    gm_list_init(&user->work);
    for (uint32_t i = 0; i < GM_DEVICES_MAX; i++)
        gm_list_init(&user->flow[i].sessions);
    return user;
}

void gm_user_settle(struct gm_daemon *d, struct gm_user *user)
{
    if (!gm_user_exists(user))
        user->left = ++d->users.left;
}

bool gm_user_may_read(struct gm_daemon *d, struct gm_user *user, uint64_t *round)
{
    if (user->turn != d->turn) {
        /* Nobody was put off in the last one: all are as good as the others again. */
        user->round += !user->put_off;
        user->turn = d->turn, user->spent = 0, user->put_off = false;
    }
    if (*round == user->round)
        return false; /* others of the user were put off after it had been read */
    user->put_off |= user->spent >= GM_USER_TURN;
    if (user->spent >= GM_USER_TURN)
        return false;
    *round = user->round;
    return true;
}

/* More than there can ever be, for whoever is alone: that does not get better by waiting. */
static int gm_user_never(const struct gm_config *c, uint64_t bytes, bool shared, const char *field,
                         struct gm_problem *problem)
{
    if (bytes > c->quota)
        return gm_problem_set(problem, GM_ESIZE, field,
                              "%" PRIu64 " bytes are more than the %" PRIu64 " of a user (--quota)", bytes, c->quota);
    if (shared && bytes > c->user_memory)
        return gm_problem_set(problem, GM_ESIZE, field,
                              "%" PRIu64 " bytes are more than the %" PRIu64 " of shared memory of a user "
                              "(--user-memory)",
                              bytes, c->user_memory);
    if (shared && bytes > c->memory)
        return gm_problem_set(problem, GM_ESIZE, field,
                              "%" PRIu64 " bytes are more than the %" PRIu64 " of all (--memory)", bytes, c->memory);
    return GM_OK;
}

int gm_user_admit(struct gm_session *session, uint64_t bytes, bool shared, const char *field,
                  struct gm_problem *problem)
{
    struct gm_daemon *d = session->daemon;
    struct gm_user *user = session->user;
    const struct gm_config *c = &d->config;
    int status = gm_user_never(c, bytes, shared, field, problem);
    if (status != GM_OK)
        return status;
    if (user->bytes > c->quota - bytes)
        status = gm_problem_set(problem, GM_EQUOTA, field, "the user has %" PRIu64 " of %" PRIu64 " bytes (--quota)",
                                user->bytes, c->quota);
    else if (shared && user->shared_bytes > c->user_memory - bytes)
        status = gm_problem_set(problem, GM_EQUOTA, field,
                                "the user has %" PRIu64 " of %" PRIu64 " bytes of shared memory (--user-memory)",
                                user->shared_bytes, c->user_memory);
    user->counted.refused += status != GM_OK;
    if (status == GM_OK && shared && d->arenas.shared_bytes > c->memory - bytes)
        status = gm_problem_set(problem, GM_ENOMEM, field,
                                "%" PRIu64 " of all %" PRIu64 " bytes are taken (--memory), %" PRIu64 " by the user",
                                d->arenas.shared_bytes, c->memory, user->shared_bytes);
    return status;
}

void gm_user_pay(struct gm_daemon *d, struct gm_user *user, uint64_t bytes, bool shared)
{
    user->bytes += bytes;
    if (shared)
        user->shared_bytes += bytes, d->arenas.shared_bytes += bytes;
}

void gm_user_pay_back(struct gm_daemon *d, struct gm_user *user, uint64_t bytes, bool shared)
{
    user->bytes -= bytes;
    if (shared)
        user->shared_bytes -= bytes, d->arenas.shared_bytes -= bytes;
}
