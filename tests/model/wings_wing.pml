/* SPDX-License-Identifier: Apache-2.0
 *
 * A wing of wings.pml: its turns, and how it gives its lane back. Included by wings.pml.
 */

/* gm_wing_look: the second look is one descriptor further on. What it brings is decided when it is asked for. */
inline wing_look()
{
    TOUCH(l);
    if
    :: flying == 0 -> first = written[l] > h
    :: else -> second = written[l] > h + 1
    fi;
    flying++
}
/* gm_wing_land: the look at the head is there. */
inline wing_land()
{
    TOUCH(l);
    there = first; first = second; second = false;
    flying--
}
/* gm_wing_landed: looks that are of no use are waited for too. */
inline wing_landed()
{
    if
    :: flying > 0 -> TOUCH(l); flying = 0; first = false; second = false
    :: else
    fi
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

/* gm_wing_end: the lane is the front's again, from its head on. */
inline wing_end()
{
#ifdef MUT_LOOK_OUT
    lease_return();
    d_step { wing_landed() };
#else
    d_step { wing_landed() };
    lease_return();
#endif
#ifdef MUT_HEAD_LATE
    head[l] = h;
#endif
    d_step { l = 0; h = 0; number = 0; looks = 0; flying = 0; first = false; second = false; there = false; got = false }
}

/* The head moves with each turn. */
inline head_store()
{
#ifndef MUT_HEAD_LATE
    head[l] = h + 1
#else
    skip
#endif
}

/* gm_wing_start, with entries, credit and counts of the wing. When it cannot, nothing was done. */
inline wing_start()
{
    if
    :: HAS(WING(me), FREE) -> reserve(1)
    :: else
    fi;
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
            assert(passed <= WINGS) /* who waits for room is passed by what is on its way, and by no more */
        };
        d_step { ent[e].noted = true; head_store(); h++; e = 0 }
    :: else
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

/* gm_wing_turn. The lease may end between any two: nothing came for some turns, others wait, or it has to. */
proctype wing(byte me)
{
    byte l = 0, h = 0, number = 0, p = 0, e = 0, flying = 0, looks = 0;
    bool first = false, second = false, there = false, got = false;
end_wing:
    do
    :: d_step { !IDLE(me) -> number = given[me]; l = wing_lane[me]; h = head[l]; looks = LOOKS };
        do
        :: d_step { !OVER && flying < 2 && (NEWS || looks > 0) -> wing_look() }
        :: d_step { !OVER && flying == 2 -> wing_land() };
            if
            :: d_step {
                    there && KIND(l, h) == SHORT ->
                    if
                    :: !HAS(WING(me), FREE) -> collect(WING(me))
                    :: else
                    fi
                };
                wing_start()
            :: there && KIND(l, h) != SHORT -> wing_end(); break
            :: d_step { !there -> looks = (looks > 0 -> looks - 1 : 0) }
            fi;
            if
            :: d_step { got -> p = 0; there = false; got = false } /* the other look begins where this one has ended */
#ifdef MUT_LOOK_KEPT
            :: d_step { !got -> h++; p = 0; there = false }
#else
            :: d_step { !got -> wing_landed(); p = 0; there = false }
#endif
            fi
        :: wing_end(); break
        od
    od
}
