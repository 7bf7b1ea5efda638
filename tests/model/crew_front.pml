/* SPDX-License-Identifier: Apache-2.0
 *
 * The front of crew.pml: start(), collect(), attend(), admin(), park(), stop(). Its steps come in any order. Included by
 * crew.pml.
 */

/* What is there of a lane goes out in one piece, behind one question for room. */
#if ENTRIES > 2
# define FREE_ENTRIES ((free_set & 1) + (free_set >> 1 & 1) + (free_set >> 2 & 1) + (free_set >> 3 & 1))
#else
# define FREE_ENTRIES ((free_set & 1) + (free_set >> 1 & 1))
#endif
#define LEAST(a, b) ((a) < (b) -> (a) : (b))
#define COUNT(l) LEAST(written[l] - head[l], FREE_ENTRIES)
#define CAN_START(l) (is_open[l] && !shut[l] && !stopping && COUNT(l) > 0 && ROOM(COUNT(l)))

inline publish(p_, e_)
{
    assert(!ring[(p_) % RING].unread); /* the ticket before it in the slot was read */
    ring[(p_) % RING].entry = e_;
    ring[(p_) % RING].unread = true;
    ring[(p_) % RING].lap = LAP((p_) % TURN(RING), RING)
}

/* gm_start_quick, gm_start_chunk. */
inline start(l_)
{
    do
    :: i < n ->
        d_step {
            TOUCH(l_);
            e = (free_set & 1 -> 0 : (free_set & 2 -> 1 : (free_set & 4 -> 2 : 3)));
            assert(ent[e].state == FREE);
            free_set = free_set - (1 << e);
            ent[e].state = RUNS; ent[e].lane = l_; ent[e].owner = owner[l_]; ent[e].job = head[l_]; ent[e].phase = 0;
            head[l_]++;
            publish(published + i, e);
            i++
        }
    :: else -> break
    od;
    atomic { published = (published + n) % TURN(RING); n = 0; i = 0; e = 0 }
}

/* gm_back_collect. */
inline give_back()
{
    assert(ent[e].state == PUSHED); /* once, and not before its job ended */
    ent[e].state = FREE; ent[e].job = 0; ent[e].lane = 0; ent[e].owner = 0; ent[e].phase = 0;
    free_set = free_set | (1 << e);
    e = 0
}
inline collect()
{
    atomic {
        there = freed;
        do
        :: collected != there -> e = back_ring[collected % ENTRIES]; assert(e != NONE); give_back(); collected++
        :: else -> break
        od;
        there = 0
    }
}

/* gm_messages_take. A phase that finds no room stays where it is. */
#define WORD message[messages_taken % ENTRIES]
inline messages_take()
{
    atomic {
        there = messages;
        if
        :: there != messages_taken ->
            assert(WORD.lap == messages_taken); /* none is lost, and none overtakes another */
            e = WORD.entry;
            assert(ent[e].state == PUSHED);
            if
            :: ROOM(1) ->
                ent[e].phase++;
                ent[e].state = RUNS;
                publish(published, e);
                NEXT(published, RING);
                messages_taken++
            :: else -> blocked = true
            fi;
            e = 0
        :: else
        fi;
        x = (messages_taken != there);
        there = 0
    };
    if
    :: x -> attention = attention | ATTEND_MESSAGES; x = 0
    :: else
    fi
}

/* gm_scout_hold, gm_scout_go: a number, so that what the scout kept before is not taken for what it keeps now. */
#ifdef MUT_HOLD_FLAG
# define HOLD 1
# define GO 0
#else
# define HOLD (hold + 1)
# define GO (hold + 1)
#endif
inline scout_hold()
{
    hold = HOLD;
#ifndef MUT_NO_HOLD
    (held == hold)
#endif
}

#define IN_FLIGHT(l) (USES(0, l) || (ENTRIES > 1 && USES(ENTRIES - 1, l)))
#define USES(e, l) (ent[e].state != FREE && ent[e].lane == (l))
inline lane_close(l_)
{
    d_step {
        shut[l_] = true;
        status = (IN_FLIGHT(l_) -> BUSY : OK);
        is_open[l_] = (status == BUSY)
    }
}
inline lane_open(l_)
{
    d_step { head[l_] = 0; completed[l_] = 0; shut[l_] = false; is_open[l_] = true }
}

/* gm_admin: acts on the copy, answers, and then lets the scout write the copy again. */
inline admin()
{
#ifdef MUT_SIDE_LATE
    admin_head++;
#endif
    d_step { op = side.op; l = side.lane; i = side.g1 };
    assert(side.g0 == admin_answers + 1 && i == admin_answers + 1); /* whole, in order, and once */
    i = 0;
    collect();
    status = OK;
    if
    :: op != PING ->
        scout_hold();
        if
        :: op == LANE_CLOSE -> lane_close(l)
        :: else -> lane_open(l)
        fi
    :: else
    fi;
    d_step { admin_status = status; admin_answers++; status = 0 };
#ifndef MUT_SIDE_LATE
    admin_head++;
#endif
    if
    :: op != PING -> hold = GO
    :: else
    fi;
    d_step { op = 0; l = 0 }
}

/* gm_turn_attend: what is cleared is cleared before the rings are looked at. */
inline attend()
{
#ifdef MUT_CLEAR_LATE
    a = attention;
#else
    atomic { a = attention; attention = 0 };
#endif
    if
    :: a & ATTEND_MESSAGES -> messages_take()
    :: else
    fi;
    if
    :: a & ATTEND_ADMIN -> admin()
    :: else
    fi;
#ifdef MUT_CLEAR_LATE
    attention = 0;
#endif
    a = 0
}

/* gm_stop_publish, and the end of the kernel: what is in the inbox, in the rings and in attention stays. */
#ifdef MUT_LEAVE_FIRST
# define STOPS true
#else
# define STOPS ROOM(WORKERS)
#endif
inline leave_all()
{
#ifdef MUT_LEAVE_FIRST
    leave = true;
#endif
    (ROOM(WORKERS));
    do
    :: d_step { i < WORKERS -> publish(published + i, STOP); i++ }
    :: else -> break
    od;
    atomic { published = (published + WORKERS) % TURN(RING); i = 0 };
    leave = true;
    (halted == WORKERS && home == PARTS);
    assert(ticket == published) /* no drawn ticket is lost */
}

inline park_flag(up)
{
    asleep[0] = up;
    asleep_admin = up
}

inline launch()
{
    d_step {
        leave = false; halted = 0; stopping = false; home = 0;
#ifdef MUT_FORGET
        attention = 0;
#endif
        life = 1 - life
    };
    park_flag(false)
}

/* gm_park: the flags, then the last look, at what is there and not at what the others have told. */
#ifdef MUT_PARK_TOLD
# define ADMIN_COME false
#else
# define ADMIN_COME (admin_sq[admin_head % ADMIN_SLOTS].g0 == admin_head + 1)
#endif
inline park()
{
    park_flag(true);
    found = written[0] > head[0];
    found = found || ADMIN_COME;
    found = found || THERE;
    found = found || attention != 0;
    if
    :: !found ->
        leave_all();
end_asleep:
        (doorbell);
        doorbell = false;
        launch()
    :: else -> found = false; park_flag(false)
    fi
}

/* gm_turn_idle: nobody rings for a message, so not with a job in flight. */
#ifdef MUT_PARK_MESSAGE
# define MAY_PARK true
#else
# define MAY_PARK (free_set == ALL)
#endif

proctype front()
{
    byte e = 0, i = 0, n = 0, l = 0, a = 0, there = 0, op = 0, status = 0, x = 0;
    bool blocked = false, stopping = false, found = false;
end_idle:
    do
    :: d_step { CAN_START(0) -> n = COUNT(0) }; start(0)
    :: freed != collected -> collect()
    :: atomic { attention != 0 && (!blocked || ROOM(1) || attention != ATTEND_MESSAGES) -> blocked = false }; attend()
    :: d_step { pauses > 0 && !stopping -> pauses--; stopping = true }
    :: stopping && STOPS -> leave_all(); launch()
    :: d_step { parks > 0 && MAY_PARK -> parks-- }; park()
    od
}
