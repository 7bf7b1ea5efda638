/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked list with a sentinel: jobs of a session, flows of a device. Loop thread only; removal is
 * constant time, because a client may leave while its jobs stand in the middle of a queue.
 */
#ifndef GM_DAEMON_LIST_H
#define GM_DAEMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct gm_link {
    struct gm_link *prev, *next;
};

#define GM_CONTAINER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void gm_list_init(struct gm_link *list)
{
    list->prev = list->next = list;
}

static inline bool gm_list_empty(const struct gm_link *list)
{
    return list->next == list;
}

static inline void gm_list_push(struct gm_link *list, struct gm_link *link)
{
    link->prev = list->prev, link->next = list;
    list->prev->next = link, list->prev = link;
}

static inline void gm_list_remove(struct gm_link *link)
{
    link->prev->next = link->next, link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

static inline bool gm_list_linked(const struct gm_link *link)
{
    return link->next != NULL;
}

#endif
