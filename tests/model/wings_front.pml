/* SPDX-License-Identifier: Apache-2.0
 *
 * The front of wings.pml: start(), wings_lease(), wings_collect(), admin(), stop_publish(). Its steps come in any order.
 * Included by wings.pml.
 */

/* gm_policy_open: lanes that the front may serve. */
#ifdef MUT_SERVED_BOTH
# define MINE(l) true
#else
# define MINE(l) (lease[l] == 0)
#endif
#define OPEN(l) (is_open[l] && !shut[l] && MINE(l) && COME(l) && !stopping)
#define CANCELLED(l) ((l) == 0 && cancel_at == head[l])
#define HAS_ROOM(l) (ROOM(WIDTH(l, head[l])) || held_lane == 0)
#define HAS_CREDIT(l) (credit[FRONT] >= WIDTH(l, head[l]) || HAS(FRONT, GIVEN))
#define HAS_POOL(l) (KIND(l, head[l]) != WIDE || pool || HAS(FRONT, GIVEN))
#define CAN_START(l) (OPEN(l) && !CANCELLED(l) && MAY_TAKE(FRONT) && HAS_ROOM(l) && HAS_CREDIT(l) && HAS_POOL(l))

/* d->leased: the wing has a lease, or was not seen to end it. */
#define LEASED(w) (lease[0] == WING(w) || lease[LANES - 1] == WING(w))
#define NONE_LEASED (lease[0] == 0 && lease[LANES - 1] == 0)

/* gm_wings_lease, gm_wings_free: after a turn that was full of short jobs. */
#ifdef MUT_LEASE_BUSY
# define LEASE_TO (MAY_TAKE(WING(0)) -> 0 : NONE)
#else
# define WING_FREE(w) ((w) < WINGS && !LEASED(w) && MAY_TAKE(WING(w)))
# define LEASE_TO (WING_FREE(0) -> 0 : (WING_FREE(WINGS - 1) -> WINGS - 1 : NONE))
#endif
#ifdef MUT_CANCEL_UNSEEN
# define CANCELS false
#else
# define CANCELS (cancel_at != NONE)
#endif
#define MAY_LEASE(l) (KIND(l, head[l] - 1) == SHORT && LEASE_TO != NONE && held_lane == 0 && !CANCELS)
inline wings_lease()
{
    if
    :: d_step { MAY_LEASE(l) -> w = LEASE_TO; wing_lane[w] = l; lease[l] = WING(w) };
        d_step { given[w] = NEXT_LEASE(given[w]); w = 0; l = 0 }
    :: d_step { !MAY_LEASE(l) || !FULL -> l = 0 }
    fi
}

/* gm_wings_collect, gm_lease_back: the lanes of leases that have ended. */
inline wings_collect()
{
    d_step {
        do
        :: w < WINGS && LEASED(w) && IDLE(w) -> lease[wing_lane[w]] = 0; wing_lane[w] = 0; w++
        :: w < WINGS && !(LEASED(w) && IDLE(w)) -> w++
        :: w == WINGS -> break
        od;
        w = 0
    }
}

/* gm_wings_recall: no lease is out behind it. */
inline wings_recall()
{
    d_step { recall[0] = given[0]; recall[WINGS - 1] = given[WINGS - 1] };
    d_step { IDLE(0) && IDLE(WINGS - 1) -> skip };
    wings_collect()
}

/* gm_start_single, gm_start_reserve: room comes last, and without it the rest is given back. gm_start_quick: nobody else
 * publishes while no lane is leased, and then nothing has to be swapped. */
#ifdef MUT_ALONE
# define ALONE(l) (KIND(l, h) == SHORT)
#else
# define ALONE(l) (KIND(l, h) == SHORT && NONE_LEASED)
#endif
#define START(lane) :: d_step { \
        CAN_START(lane) -> \
        if \
        :: HAS(FRONT, GIVEN) -> collect(FRONT) \
        :: else \
        fi; \
        l = lane; h = head[l]; n = WIDTH(l, h); pool = pool && KIND(l, h) != WIDE; alone = ALONE(l) \
    }
inline start()
{
    if
    :: alone -> d_step { p = published; got = ROOM(1) }
    :: !alone -> reserve(n)
    fi;
    if
    :: got ->
        d_step { e = FIRST(FRONT, FREE); take(FRONT, l, h); publish(p, e) };
        if
        :: n == 2 -> d_step { publish(p + 1, e) }
        :: else
        fi;
        d_step {
            ent[e].noted = true;
            published = (alone -> AFTER(p, 1) : published);
            head[l] = h + 1;
            held_lane = (held_lane == l + 1 -> 0 : held_lane);
            p = 0; n = 0; h = 0; e = 0; got = false; alone = false
        };
        wings_lease()
    :: !got ->
        d_step {
            passed = (held_lane == 0 -> 0 : passed);
            held_lane = (held_lane == 0 -> l + 1 : held_lane);
#ifndef MUT_POOL_KEPT
            pool = pool || KIND(l, h) == WIDE;
#endif
            p = 0; n = 0; h = 0; l = 0; alone = false
        }
    fi
}

/* A job that was cancelled before it came. */
inline refuse()
{
    TOUCH(0);
    answered = answered | JOB_BIT(0, owner[0], head[0]);
    taken = taken | JOB_BIT(0, owner[0], head[0]);
    head[0]++;
    held_lane = 0;
    cancel_at = NONE
}

/* gm_admin_abort, gm_publish_abort: writes the slot once more, unless it is another ticket's by now. */
#define USES(e, l) (ent[e].noted && ent[e].lane == (l))
#define USES_AT(e, l, j) (USES(e, l) && ent[e].job == (j))
#define FIND(l, j) (USES_AT(0, l, j) -> 0 : (USES_AT(1, l, j) -> 1 : (USES_AT(ENTRIES - 1, l, j) -> ENTRIES - 1 : NONE)))
#define KEPT(e) ((published + TURN(RING) - ent[e].at) % TURN(RING) <= RING)
inline publish_abort()
{
    if
    :: KEPT(e) -> d_step { ring[ent[e].at % RING].lap = LAP(ent[e].at, RING); ring[ent[e].at % RING].entry = e }
    :: else
    fi
}
inline admin_cancel()
{
    e = FIND(0, admin_at);
    if
    :: e != NONE -> publish_abort(); status = OK
    :: e == NONE && admin_at >= head[0] -> /* gm_admin_cancel_later */
        d_step { assert(!(taken & JOB_BIT(0, 0, admin_at))); cancel_at = admin_at; status = OK }
    :: e == NONE && admin_at < head[0] -> assert(answered & JOB_BIT(0, 0, admin_at)); status = NOT_FOUND
    fi;
    e = 0
}
inline lane_close()
{
    d_step {
        shut[0] = true;
        held_lane = 0;
        status = (USES(0, 0) || USES(1, 0) || USES(ENTRIES - 1, 0) -> BUSY : OK);
        is_open[0] = (status == BUSY)
    }
}
inline lane_open()
{
    d_step { head[0] = 0; shut[0] = false; is_open[0] = true; status = OK }
}

/* gm_admin: with no lease out, and with the notes of all that is over cleared. */
#if defined(MUT_ADMIN_LEASED)
# define RECALL if :: admin_op == KERNEL_STOP -> wings_recall() :: else fi
#elif defined(MUT_STOP_LEASED)
# define RECALL if :: admin_op != KERNEL_STOP -> wings_recall() :: else fi
#else
# define RECALL wings_recall()
#endif
inline admin()
{
    RECALL;
    d_step {
        collect(FRONT);
#ifndef MUT_NOTES_KEPT
        collect(WING(0));
#endif
        skip
    };
    if
    :: admin_op == CANCEL -> admin_cancel()
    :: admin_op == LANE_CLOSE -> lane_close()
    :: admin_op == LANE_OPEN -> lane_open()
    :: admin_op == KERNEL_STOP -> stopping = true
    fi;
    d_step { admin_op = NOTHING; admin_at = 0; admin_status = status; status = 0 }
}

/* gm_stop_publish, and the end of the kernel. No lease is out, so nobody publishes beside the front, and nobody behind
 * the stop tickets. */
inline stop_publish()
{
    do
    :: d_step { n < WORKERS -> publish(p + n, STOP); n++ }
    :: n == WORKERS -> break
    od;
    n = 0;
    p = 0;
    (halted == WORKERS);
    assert(ticket == published); /* no drawn ticket is lost, and none lies behind the stop tickets */
    d_step { halted = 0; stopping = false; life = 1 - life }
}

proctype front()
{
    byte l = 0, h = 0, p = 0, e = 0, n = 0, w = 0, status = 0;
    bool got = false, alone = false, stopping = false;
end_idle:
    do
    :: if
        START(0)
#if LANES > 1
        START(1)
#endif
        fi;
        start()
#ifdef MUT_LEASE_UNDUE
    :: OPEN(0) && head[0] > 0 -> wings_lease()
#endif
    :: d_step { OPEN(0) && CANCELLED(0) -> refuse() }
    :: attend_wings -> attend_wings = false; wings_collect()
    :: admin_op != NOTHING -> admin()
    :: d_step { stopping && ROOM(WORKERS) -> p = published; published = AFTER(p, WORKERS) }; stop_publish()
    od
}
