/* SPDX-License-Identifier: Apache-2.0
 *
 * The scout of crew.pml: gm_scout_turn, gm_scout_waits. Included by crew.pml.
 */
/* A granule of the admin lane, looked at once; the copy is what is acted on. */
#define LAP_OF(a) ((a) + 1)
inline side_look(a)
{
    if
    :: d_step { admin_sq[a % ADMIN_SLOTS].g0 == LAP_OF(a) -> whole++; got = LAP_OF(a) }; d_step { side.g0 = got; got = 0 }
    :: else
    fi;
    if
    :: d_step {
            admin_sq[a % ADMIN_SLOTS].g1 == LAP_OF(a) ->
            whole++;
            got = LAP_OF(a); op = admin_sq[a % ADMIN_SLOTS].op; lane = admin_sq[a % ADMIN_SLOTS].lane
        };
        d_step { side.g1 = got; side.op = op; side.lane = lane; got = 0; op = 0; lane = 0 }
    :: else
    fi
}

/* A look at a lane: at the front's row of it, then at its memory. */
inline lane_look(l_)
{
    if
    :: d_step { is_open[l_] && !shut[l_] -> skip }; TOUCH(l_)
    :: else
    fi
}

/* Turns that bring nothing are left out, but for a few: else the scout would hide that all others are stuck. */
#ifdef MUT_TOLD_NOT
# define NOT_TOLD true
#else
# define NOT_TOLD (admin_told != LAP_OF(a))
#endif
#define COME(a) (admin_sq[(a) % ADMIN_SLOTS].g0 == LAP_OF(a) && admin_sq[(a) % ADMIN_SLOTS].g1 == LAP_OF(a))
#define NEWS (COME(admin_head) && admin_told != LAP_OF(admin_head))

#ifdef MUT_HOLD_FLAG
# define HOLDS ((hold & 1) && !held)
#else
# define HOLDS ((hold & 1) && held != hold)
#endif

proctype scout()
{
    byte a = 0, got = 0, op = 0, lane = 0, whole = 0, h = 0, looks = LOOKS;
    bool seen = false;
end_scout:
    do
    :: d_step { !leave && HOLDS -> h = hold }; d_step { held = h; h = 0 }
    :: d_step { !leave && (hold & 1) == 0 && (NEWS || looks > 0) -> looks = (NEWS -> looks : looks - 1); a = admin_head };
        if
        :: NOT_TOLD -> side_look(a)
        :: else
        fi;
        lane_look(0);
#if LANES > 1
        lane_look(1);
#endif
        if
        :: whole == 2 -> admin_told = LAP_OF(a); attention = attention | ATTEND_ADMIN
        :: else
        fi;
        d_step { whole = 0; a = 0 }
    :: leave -> home++;
end_left:
        d_step { life != seen -> seen = life }
    od
}
