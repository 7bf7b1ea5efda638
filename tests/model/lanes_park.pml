/* SPDX-License-Identifier: Apache-2.0
 *
 * How the dispatcher of lanes.pml goes to sleep: park(), park_flag(). Included by lanes_turn.pml.
 */

/* gm_park_flag: the lanes, then the one that the host and the workers look at. */
inline park_flag(up)
{
    do
    :: atomic { k < LANES && row[k].open -> TOUCH(k); asleep[k] = up; k++ }
    :: atomic { k < LANES && !row[k].open -> k++ }
    :: atomic { k == LANES -> asleep_admin = up; k = 0 }; break
    od
}

/* gm_park_whole, gm_wake_due. What keeps the device awake must be something that a turn tells of. */
#ifdef MUT_PARK_SHUT
# define PARK_DUE(l) DUE(l)
#else
# define PARK_DUE(l) (OPEN(l) && DUE(l))
#endif
#define PARK_WHOLE(l) (OPEN(l) && WHOLE(l))
#ifdef MUT_PARK_NO_WAIT
# define PARK_WAIT(l) skip
#else
# define PARK_WAIT(l) found = found || PARK_DUE(l)
#endif

#define TOUCH_OPEN(l) assert(!row[l].open || !released || (l) != CLOSED_LANE)
/* gm_turn_begin: what was loaded before a sleep is of no use. */
#define FRESH d_step { f_first = false; any = true; job_age[0] = 0; wake_age[0] = 0; job_age[LANES - 1] = 0; wake_age[LANES - 1] = 0 }

/* First the flags, then the last look at lanes, sleepers, admin lane and inbox (with a store-load fence between, as in the
 * client): one of the two sides sees the other. The flags are down again before the next turn. */
inline park()
{
#ifndef MUT_FLAG_LATE
    park_flag(true);
#endif
    do
    :: atomic { k < LANES && !found -> TOUCH_OPEN(k); found = OPEN(k) && BEGUN(k) };
        found = found && PARK_WHOLE(k);
        atomic { PARK_WAIT(k); k++ }
    :: atomic { k == LANES || found -> found = (found || inbox != 0 || admin_op != 0); k = 0 }; break
    od;
    if
    :: !found ->
#ifdef MUT_FLAG_LATE
        park_flag(true);
#endif
#ifdef MUT_BELL_LATE
        doorbell = false; /* of an earlier sleep, it believes */
#endif
end_asleep:
        (doorbell);
        doorbell = false;
        FRESH
    :: else -> found = false
    fi;
    park_flag(false)
}
