/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks of lanes that are ready, between the scout and the front: gm_ready_set, gm_ready_clear, gm_ready_tidy,
 * gm_policy_ready. A word of marks for each of three lanes, and a word that says which are not zero: two stores of the
 * scout against two of the front.
 */
#include "positions.pml"

#if defined(M_READY)
# define ABUSER NONE
#elif defined(M_SHUT) /* one of them is shut, because its client sends what is refused */
# define ABUSER 1
#endif

#define LANES 3
byte written[LANES], head[LANES];
bool shut[LANES];
bool ready[LANES];
byte words = 0, hot = 0;

#define JOBS_OF(l) ((l) == 0 -> 2 : 1)
proctype client(byte me)
{
    byte i = 0;
    do
    :: i < JOBS_OF(me) -> written[me]++; i++; (head[me] == i || shut[me])
    :: else -> break
    od
}

/* Level, not edge: a mark that was lost between the two words comes again. A lane that is marked is marked again once
 * only, or the scout would hide that all others are stuck. */
#define COME(l) (written[l] > head[l])
#define MARK_DUE(l) (COME(l) && hot != (l) + 1 && !shut[l])
#define MARKED(l) (ready[l] && (words & (1 << (l))))
#define SWEEP(l) \
    :: d_step { MARK_DUE(l) && (!MARKED(l) || again > 0) -> again = (MARKED(l) -> again - 1 : again) }; \
        ready[l] = true; \
        words = words | (1 << (l))
proctype scout()
{
    byte again = 1;
end_scout:
    do
    SWEEP(0)
    SWEEP(1)
    SWEEP(2)
    od
}

#define AFTER(n) ((round + (n)) % LANES)
#define WORD_SET(l) (words >> (l) & 1)
#define HOT_COME (hot != 0 && !shut[hot - 1] && COME(hot - 1))
#define OPEN_HOT (hot != 0 && !shut[hot - 1])
#define FIRST_OPEN (!shut[0] -> 0 : 2)

/* A word without lanes is passed over. The scout may leave one behind, when it marks a lane that is being served. */
#ifdef MUT_WORD_STALE
# define PASS_OVER break
# define FIRST_WORD (WORD_SET(AFTER(1)) -> AFTER(1) : (WORD_SET(AFTER(2)) -> AFTER(2) : AFTER(3)))
# define TURN_DUE ((words != 0 && ready[FIRST_WORD]) || HOT_COME || (hot != 0 && WORD_SET(hot - 1)))
#elif defined(MUT_SHUT_MARKED)
# define PASS_OVER k++
# define WORD_READY(l) (WORD_SET(l) && ready[l])
# define PICK (WORD_READY(AFTER(1)) -> AFTER(1) : (WORD_READY(AFTER(2)) -> AFTER(2) : AFTER(3)))
# define TURN_DUE ((words != 0 && !(WORD_READY(PICK) && shut[PICK])) || HOT_COME)
#else
# define PASS_OVER k++
# define TURN_DUE (words != 0 || HOT_COME)
#endif
inline policy_ready()
{
    d_step { aim = NONE; seen = words; k = 1 };
    do
    :: k <= LANES && (seen >> AFTER(k) & 1) ->
        if
        :: ready[AFTER(k)] -> aim = AFTER(k); break
        :: else -> PASS_OVER
        fi
    :: k <= LANES && !(seen >> AFTER(k) & 1) -> k++
    :: k > LANES -> break
    od
}
inline ready_clear(l)
{
    ready[l] = false;
    words = words & ~(1 << l)
}
inline ready_tidy(l)
{
    if
    :: WORD_SET(l) && !ready[l] -> words = words & ~(1 << l)
    :: else
    fi
}

/* gm_turn_choose, and a look at the lane. The mark of a lane that was shut meanwhile goes too. */
proctype front()
{
    byte round = 0, seen = 0, k = 0, aim = NONE;
end_idle:
    do
    :: TURN_DUE || hot == 0 ->
        policy_ready();
        if
        :: aim != NONE && shut[aim] ->
#ifndef MUT_SHUT_MARKED
            ready_clear(aim);
#endif
            aim = NONE
        :: else
        fi;
        atomic { aim = (aim != NONE -> aim : (OPEN_HOT -> hot - 1 : FIRST_OPEN)); round = aim; k = 0; seen = 0 };
        ready_clear(aim);
#if !defined(MUT_WORD_STALE) && !defined(MUT_NO_TIDY)
        ready_tidy(0);
        ready_tidy(1);
        ready_tidy(2);
#endif
        hot = aim + 1;
        if
        :: aim == ABUSER && COME(aim) -> shut[aim] = true; ready_clear(aim) /* gm_lane_shut */
        :: else -> head[aim] = written[aim]
        fi;
        aim = NONE
    od
}

init
{
    atomic {
        run front();
        run scout();
        run client(0);
        run client(1);
        run client(2)
    }
}
