/* SPDX-License-Identifier: Apache-2.0
 *
 * Who stands around the dispatcher of crew.pml: a client, and the device process with its admin descriptors. Everything
 * has to be answered and every entry to come back, or this is where the model gets stuck. Included by crew.pml.
 */

inline ring_bell(flag)
{
#if PARKS
    if
    :: flag -> doorbell = true
    :: else
    fi
#else
    skip
#endif
}

bool closing = false, gone = false;
#define ANSWERED ((answered >> (me * JOBS) & ((1 << JOBS) - 1)) == (1 << JOBS) - 1)

proctype client(byte me)
{
    byte i = 0;
    do
    :: d_step { i < JOBS && !closing -> written[0]++; i++ }; ring_bell(asleep[0])
    :: closing -> gone = true; goto end_gone
    :: i == JOBS && !closing -> break
    od;
    do
    :: closing -> gone = true; break
    :: ANSWERED && (!REOPENS || me == 1) -> (free_set == ALL && completed[0] == JOBS); break
    od;
end_gone:
    skip
}

/* Writes a descriptor: its granules in any order. */
inline post(p_, op_, lane_)
{
    d_step { admin_sq[(p_) % ADMIN_SLOTS].op = op_; admin_sq[(p_) % ADMIN_SLOTS].lane = lane_ };
    if
    :: admin_sq[(p_) % ADMIN_SLOTS].g0 = (p_) + 1; admin_sq[(p_) % ADMIN_SLOTS].g1 = (p_) + 1
    :: admin_sq[(p_) % ADMIN_SLOTS].g1 = (p_) + 1; admin_sq[(p_) % ADMIN_SLOTS].g0 = (p_) + 1
    fi
}

/* Several at a time. A lane's memory goes as soon as its close was answered. */
#define MAY_POST (p < ADMINS && p < seen + ADMIN_SLOTS && (OP(p) != LANE_OPEN || released[OP_LANE(p)]))
proctype host()
{
    byte p = 0, seen = 0;
    do
    :: MAY_POST ->
        released[OP_LANE(p)] = (OP(p) == LANE_OPEN -> false : released[OP_LANE(p)]);
        post(p, OP(p), OP_LANE(p));
        ring_bell(asleep_admin);
        p++
    :: d_step { seen < admin_answers -> released[OP_LANE(seen)] = (OP(seen) == LANE_CLOSE); seen++ }
    :: seen == ADMINS -> break
    od
}

inline admin_call(op_)
{
    post(p, op_, 0);
    p++;
    (admin_answers == p)
}
/* Closes the lane, with whatever is in flight, and gives it to another client. */
proctype closer()
{
    byte p = 0;
    closing = true;
    (gone);
    do
    :: admin_call(LANE_CLOSE);
        if
        :: admin_status == OK -> break
        :: else -> (free_set == ALL) /* again, later */
        fi
    od;
    released[0] = true;
    d_step { closing = false; gone = false; released[0] = false; written[0] = 0; owner[0] = 1 };
    run client(1);
    admin_call(LANE_OPEN)
}
