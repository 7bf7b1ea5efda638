/* SPDX-License-Identifier: Apache-2.0
 *
 * A wing of wings.pml: its turns, and how it gives its lane back. Included by wings.pml.
 */

/* gm_wing_aim: a look in two halves, of a descriptor each. What they bring is decided when they are asked for. */
inline wing_aim(at_)
{
#if AT_ONCE /* when they are asked for makes no difference */
    d_step { TOUCH(l); first = written[l] > at_; second = written[l] > at_ + 1 }
#else
    d_step { TOUCH(l); first = written[l] > at_ };
    d_step { TOUCH(l); second = written[l] > at_ + 1 }
#endif
}

/* gm_wing_land: the second half counts when the first was full. gm_wing_fits: what there are entries for. */
#ifdef MUT_HALF_ALONE
# define COMPLETE (first + second)
# define SKIPPED (second && !first)
#else
# define COMPLETE (first -> 1 + second : 0)
# define SKIPPED false
#endif
#define FREE_COUNT(o) (IS(0, o, FREE) + IS(1, o, FREE) + IS(2, o, FREE))
inline wing_land()
{
    TOUCH(l);
    n = COMPLETE;
    h = (SKIPPED -> h + 1 : h);
    looks = (n == 0 && looks > 0 -> looks - 1 : looks);
    if
    :: n > FREE_COUNT(WING(me)) -> collect(WING(me))
    :: else
    fi;
    lacks = n != 0 && FREE_COUNT(WING(me)) == 0;
    n = LEAST(n, FREE_COUNT(WING(me)))
}

/* gm_lease_return. */
inline lease_return()
{
#ifdef MUT_TOLD_FIRST
    attend_wings = true;
    returned[me] = number
#else
    returned[me] = number;
    attend_wings = true
#endif
}

/* gm_wing_end: the look is waited for, and the lane is the front's again, from its head on. */
inline wing_end()
{
#ifdef MUT_LOOK_OUT
    lease_return();
    TOUCH(l);
#else
    TOUCH(l);
    lease_return();
#endif
#ifdef MUT_HEAD_LATE
    head[l] = h;
#endif
    d_step { l = 0; h = 0; n = 0; number = 0; looks = 0; first = false; second = false }
}

/* The head moves with each start. */
inline head_store()
{
#ifndef MUT_HEAD_LATE
    head[l] = h + 1
#else
    skip
#endif
}

/* gm_wing_start: when there is no room, nothing was done. */
inline wing_start()
{
    reserve(1);
    if
    :: got ->
#ifdef MUT_RETURN_EARLY
        if
        :: recall[me] == number -> lease_return()
        :: else
        fi;
#endif
        d_step {
            e = FIRST(WING(me), FREE);
            take(WING(me), l, h);
            publish(p, e);
            passed = (held_lane != 0 -> passed + 1 : 0);
            assert(passed <= WINGS * A_TURN) /* who waits for room is passed by what was begun, and by no more */
        };
        d_step { ent[e].noted = true; head_store(); h++; n--; e = 0; p = 0; got = false }
    :: !got -> p = 0; break
    fi
}

/* gm_wing_over: what a turn begins with. */
#ifdef MUT_HELD_UNSEEN
# define OVER (recall[me] == number)
#else
# define OVER (recall[me] == number || held_lane != 0)
#endif
/* Turns that bring nothing are left out, but for a few: else they would hide that all others are stuck. */
#define NEWS (written[l] > h && MAY_TAKE(WING(me)) && ROOM(1))

/* gm_wing_turn: the next look is asked for before what the last one has brought is started, and once more when not all of
 * it was. The lease may end between any two turns: nothing came for some, others wait, or it has to. */
#define QUICK (KIND(l, h) == SHORT)
#define MAY_END (!AT_ONCE || OVER || !NEWS)
proctype wing(byte me)
{
    byte l = 0, h = 0, n = 0, number = 0, p = 0, e = 0, looks = 0;
    bool first = false, second = false, lacks = false, got = false;
end_wing:
    do
    :: d_step { !IDLE(me) -> number = given[me]; l = wing_lane[me]; h = head[l]; looks = LOOKS };
        wing_aim(h);
        do
        :: d_step { !OVER && (NEWS || looks > 0) -> wing_land() };
            if
            :: d_step { lacks -> lacks = false; looks = (looks > 0 -> looks - 1 : 0) } /* the look stays as it is */
            :: !lacks ->
                wing_aim(h + n);
                do
                :: n > 0 && QUICK -> wing_start()
                :: n == 0 || !QUICK -> break
                od
            fi;
            if
            :: n > 0 && !QUICK -> wing_end(); break
#ifdef MUT_LOOK_KEPT
            :: d_step { n > 0 && QUICK -> h = h + n; n = 0 }
#else
            :: n > 0 && QUICK -> n = 0; wing_aim(h)
#endif
            :: n == 0
            fi
        :: d_step { MAY_END -> skip }; wing_end(); break
        od
    od
}
