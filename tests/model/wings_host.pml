/* SPDX-License-Identifier: Apache-2.0
 *
 * Who stands around front and wings of wings.pml: workers, the back, clients, and the device process with its admin
 * descriptors. Everything has to be answered and all to come back, or this is where the model gets stuck. Included by
 * wings.pml.
 */

#ifdef MUT_OWNER_WRONG
# define OWNER(e) FRONT
#else
# define OWNER(e) PART(e)
#endif

/* Exactly one answer, to whom the lane belongs; and the entry to its owner, which is the back's work. */
inline complete(e_)
{
    TOUCH(ent[e_].lane);
    assert(ent[e_].own == owner[ent[e_].lane]);
    assert(!(answered & JOB_BIT(ent[e_].lane, ent[e_].own, ent[e_].job)));
    answered = answered | JOB_BIT(ent[e_].lane, ent[e_].own, ent[e_].job);
    ent[e_].state = GIVEN; /* gm_back_wings */
    ent[e_].whose = OWNER(e_)
}

proctype worker()
{
    byte t = 0, e = 0;
    bool seen = false;
end_draw:
    do
    :: d_step { t = ticket; NEXT(ticket, RING) };
end_slot:
        d_step {
            ring[t % RING].lap == LAP(t, RING) -> e = ring[t % RING].entry;
            ring[t % RING].unread = false;
            read_ack[t % RING] = LAP(t, RING);
            t = 0
        };
        if
        :: e == STOP -> halted++;
end_home:
            d_step { life != seen -> seen = life; e = 0 }
        :: d_step {
                e != STOP ->
                assert(ent[e].state == RUNS);
                ent[e].due--; /* arrive */
                if
                :: ent[e].due == 0 -> complete(e)
                :: else
                fi;
                e = 0
            }
        fi
    od
}

/* gm_acks_look. */
proctype back()
{
end_back:
    do
    :: d_step { ack_floor != published && read_ack[ack_floor % RING] == LAP(ack_floor, RING) -> NEXT(ack_floor, RING) }
    od
}

/* All is over. */
#define JOBS_BITS(l) (((1 << JOBS_OF(l)) - 1) << ((owner[l] * LANES + (l)) * MOST_JOBS))
#define ANSWERED(l) ((answered & JOBS_BITS(l)) == JOBS_BITS(l))
#define BACK(e) ((e) >= ENTRIES || ((ent[e].state == FREE || ent[e].state == GIVEN) && ent[e].whose == PART(e)))
#define LENT(e, o) (IS(e, o, GIVEN) -> WIDTH(ent[e].lane, ent[e].job) : 0)
#define CREDIT_BACK(o) (credit[o] + LENT(0, o) + LENT(1, o) + LENT(2, o) == CREDIT_OF(o))
#define POOL_BACK (pool || (ent[0].state == GIVEN && KIND(ent[0].lane, ent[0].job) == WIDE))
#define CREDITS_BACK (CREDIT_BACK(FRONT) && CREDIT_BACK(WING(0)) && CREDIT_BACK(WINGS))
#define ALL_BACK (BACK(0) && BACK(1) && BACK(2) && CREDITS_BACK && POOL_BACK)
#define NOTHING_LEFT (NONE_LEASED && held_lane == 0 && admin_op == NOTHING && cancel_at == NONE)

bool closing = false, gone = false;
proctype client(byte me)
{
    byte i = written[me];
    do
    :: d_step { i < JOBS_OF(me) && !closing -> written[me]++; i++ }
    :: closing -> gone = true; goto end_gone
    :: i == JOBS_OF(me) && !closing -> break
    od;
    do
    :: closing -> gone = true; break
    :: ANSWERED(me) && (!REOPENS || owner[me] == 1) -> (ALL_BACK && NOTHING_LEFT); break
    od;
end_gone:
    skip
}

inline admin_call(op_, at_)
{
    d_step { admin_at = at_; admin_op = op_ };
    (admin_op == NOTHING)
}

/* Cancels a job, whatever has become of it. */
proctype canceller()
{
    if
    :: admin_call(CANCEL, 1)
    :: admin_call(CANCEL, 2)
    fi
}

proctype pauser()
{
    admin_call(KERNEL_STOP, 0)
}

/* Closes the lane, with whatever is in flight, and gives it to another client. When nothing is any more, a close is not
 * put off again. */
#define IN_FLIGHT(e) ((e) < ENTRIES && ent[e].state == RUNS)
proctype closer()
{
    bool over = false;
    closing = true;
    (gone);
    do
    :: admin_call(LANE_CLOSE, 0);
        if
        :: admin_status == OK -> break
        :: admin_status == BUSY && !over -> (!IN_FLIGHT(0) && !IN_FLIGHT(1) && !IN_FLIGHT(2)); over = true
        fi
    od;
    released[0] = true;
    d_step { closing = false; gone = false; released[0] = false; written[0] = 0; owner[0] = 1 };
    run client(0);
    admin_call(LANE_OPEN, 0)
}
