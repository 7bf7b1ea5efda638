/* SPDX-License-Identifier: Apache-2.0
 *
 * What front and wings do alike in wings.pml: collect(), reserve(), publish(), take(). Included by wings.pml.
 */

/* The first entry of an owner that is in some state, or NONE. */
#define IS(e, o, s) ((e) < ENTRIES && ent[e].whose == (o) && ent[e].state == (s))
#define FIRST(o, s) (IS(0, o, s) -> 0 : (IS(1, o, s) -> 1 : (IS(2, o, s) -> 2 : NONE)))
#define HAS(o, s) (FIRST(o, s) != NONE)
#define MAY_TAKE(o) (HAS(o, FREE) || HAS(o, GIVEN))

/* gm_back_collect of the front's entries, gm_wings_notes of a wing's. */
inline collect(o_)
{
    do
    :: HAS(o_, GIVEN) ->
        e = FIRST(o_, GIVEN);
        credit[o_] = credit[o_] + WIDTH(ent[e].lane, ent[e].job);
        pool = pool || KIND(ent[e].lane, ent[e].job) == WIDE;
        ent[e].state = FREE; ent[e].job = 0; ent[e].lane = 0; ent[e].own = 0; ent[e].at = 0; ent[e].noted = false
    :: else -> break
    od;
    e = 0
}

/* gm_reserve: n positions belong to who moves `published` over them, when those a lap before were read. A floor beyond
 * p tells that p is old. */
#define LAG(p) (((p) + TURN(RING) - ack_floor) % TURN(RING))
#define ROOM_AT(p, n) (LAG(p) + (n) <= RING || LAG(p) > TURN(RING) / 2)
#define ROOM(n) ROOM_AT(published, n)
#define AFTER(p, n) (((p) + (n)) % TURN(RING))
inline reserve(n_)
{
#if defined(MUT_ROOM_EARLY)
    got = ROOM(n_);
    do
    :: !got -> break
    :: got -> p = published;
        if
        :: d_step { p == published -> published = AFTER(p, n_) }; break
        :: p != published
        fi
    od
#elif defined(MUT_NO_SWAP)
    d_step { p = published; got = ROOM(n_) };
    if
    :: got -> published = AFTER(p, n_)
    :: !got
    fi
#else
    do
    :: p = published;
        if
        :: d_step { p == published && ROOM_AT(p, n_) -> published = AFTER(p, n_); got = true }; break
        :: d_step { !ROOM_AT(p, n_) -> got = false }; break
        :: p != published && ROOM_AT(p, n_)
        fi
    od
#endif
}

/* gm_publish_job, gm_publish: a slot of what was reserved. */
inline publish(p_, e_)
{
    assert(!ring[(p_) % RING].unread); /* the ticket before it in the slot was read */
    assert(ring[(p_) % RING].lap == LAP_BEFORE(p_, RING)); /* and it was the one of a lap before: none comes twice */
    ring[(p_) % RING].entry = e_;
    ring[(p_) % RING].unread = true;
    ring[(p_) % RING].lap = LAP((p_) % TURN(RING), RING)
}

/* Entry e gets job j of a lane. */
inline take(o_, l_, j_)
{
    assert(ent[e].state == FREE && PART(e) == (o_));
    assert(!(taken & JOB_BIT(l_, owner[l_], j_)));
    assert((l_) != 0 || cancel_at != (j_)); /* what was cancelled in time is not started */
    taken = taken | JOB_BIT(l_, owner[l_], j_);
    ent[e].state = RUNS; ent[e].lane = l_; ent[e].job = j_; ent[e].own = owner[l_];
    ent[e].due = WIDTH(l_, j_); ent[e].at = p;
    credit[o_] = credit[o_] - WIDTH(l_, j_)
}
