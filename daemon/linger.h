/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the loop, with nothing left to do, stays awake for the next request. It does when the last few came so soon
 * that sleeping and being woken would have been most of their time; the first late one ends it, so a client with a
 * request now and then costs no processor. Loop thread.
 */
#ifndef GM_DAEMON_LINGER_H
#define GM_DAEMON_LINGER_H

#include <stdbool.h>
#include <stdint.h>

/* What a client that asks again at once needs for its next request, and several times that. */
#define GM_LINGER_NS UINT64_C(30000)
/* Requests that have to come so soon, one after the other. */
#define GM_LINGER_CLOSE 4u

struct gm_linger {
    uint64_t frames;  /* that had come by the last turn */
    uint64_t rest_ns; /* since when there is nothing to do; 0: there is something */
    uint32_t close;   /* requests in a row that came within the limit */
};

/* In a turn: so many frames have come so far, the last of them now. */
static inline void gm_linger_frames(struct gm_linger *l, uint64_t frames, uint64_t now, uint64_t limit_ns)
{
    if (frames == l->frames)
        return;
    l->frames = frames;
    if (l->rest_ns != 0 && now - l->rest_ns >= limit_ns)
        l->close = 0;
    else if (l->rest_ns != 0 && l->close < GM_LINGER_CLOSE)
        l->close++;
    l->rest_ns = 0;
}

/* At the end of a turn, with nothing to do: whether to stay awake. */
static inline bool gm_linger_stays(struct gm_linger *l, uint64_t now, uint64_t limit_ns)
{
    if (l->rest_ns == 0)
        l->rest_ns = now;
    return l->close == GM_LINGER_CLOSE && now - l->rest_ns < limit_ns;
}

#endif
