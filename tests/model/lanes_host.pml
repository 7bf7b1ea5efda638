/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands around the dispatcher of lanes.pml: a worker that answers whatever was started, and the device process,
 * which closes a lane and gives its number to another client. Included by lanes.pml.
 */

/* The push before, the look at the flag after. */
inline inbox_push(e)
{
    inbox = inbox | (1 << e);
#if PARKS
    if
    :: asleep_admin -> doorbell = true
    :: else
    fi
#endif
}

#define STATUS(e) (ent[e].abort -> CANCELLED : OK)
inline run_job(e)
{
    d_step { ent[e].ticket -> ent[e].ticket = false };
    complete(ent[e].lane, ent[e].pos, STATUS(e));
    inbox_push(e)
}

proctype worker()
{
end_draw:
    do
    :: run_job(0)
#if ENTRIES > 1
    :: run_job(1)
#endif
    od
}

#if CLOSES
/* Posts a descriptor, rings if the device says asleep (with a store-load fence between), and waits for the answer. */
inline admin_call(op)
{
    d_step { admin_answer = 0; admin_op = op };
    if
    :: asleep_admin -> doorbell = true
    :: else
    fi;
    (admin_answer != 0)
}

/* The client of the lane has gone, or the dispatcher has shut it. Its client sees its state, or its end. */
proctype host()
{
#if ABUSE
    (note_closed);
#endif
    closing = true;
    do
    :: admin_call(LANE_CLOSE);
        if
        :: admin_answer == OK -> break
        :: else /* a job in flight: again, later */
        fi
    od;
    released = true;
    d_step { /* nothing is left, which also keeps the number of states down */
        gone ->
        sq0[SLOT(CLOSED_LANE, 0)] = 0; sq0[SLOT(CLOSED_LANE, 1)] = 0;
        sq1[SLOT(CLOSED_LANE, 0)] = 0; sq1[SLOT(CLOSED_LANE, 1)] = 0;
        cq[SLOT(CLOSED_LANE, 0)].lap = 0; cq[SLOT(CLOSED_LANE, 1)].lap = 0;
        asleep[CLOSED_LANE] = false; armed[CLOSED_LANE] = false; reaped[CLOSED_LANE] = 0;
        row[CLOSED_LANE].head = LANE_START; row[CLOSED_LANE].completed = 0; row[CLOSED_LANE].strikes = 0;
        row[CLOSED_LANE].refused_run = 0; row[CLOSED_LANE].wake_sent = NONE;
        answered = answered & ((1 << (CLOSED_LANE * TURN(SLOTS))) - 1) /* it is the last one */
    };
#if CLOSES > 1
    d_step { closing = false; released = false; gone = false };
    run client(CLOSED_LANE);
    admin_call(LANE_OPEN)
#endif
}
#endif
