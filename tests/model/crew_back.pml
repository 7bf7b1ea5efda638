/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers and the back of crew.pml: from a drawn ticket to the front's rings. The back takes one message at a time where
 * a warp takes as many as there are; each store is a step. Included by crew.pml.
 */

inline inbox_push(kind_)
{
    d_step {
        ent[e].state = PUSHED;
        inbox[t % ENTRIES].kind = kind_;
        inbox[t % ENTRIES].entry = e;
        inbox[t % ENTRIES].lap = LAP(t, ENTRIES);
        e = 0;
        t = 0
    }
}

/* Exactly one answer, to whom the lane belongs. */
#define JOB_BIT(e) (1 << (ent[e].owner * JOBS + ent[e].job))
inline complete(e_)
{
    TOUCH(ent[e_].lane);
    assert(!(answered & JOB_BIT(e_)) && ent[e_].owner == owner[ent[e_].lane]);
    answered = answered | JOB_BIT(e_)
}

proctype worker()
{
    byte t = 0, e = 0;
    bool seen = false;
end_draw:
    do
    :: d_step { t = ticket; NEXT(ticket, RING) };
end_slot:
        d_step { ring[t % RING].lap == LAP(t, RING) -> e = ring[t % RING].entry; ring[t % RING].unread = false };
        read_ack[t % RING] = LAP(t, RING);
        if
        :: e == STOP -> halted++;
end_home:
            d_step { life != seen -> seen = life; e = 0; t = 0 }
        :: e != STOP ->
            assert(ent[e].state == RUNS);
            if
            :: d_step { KIND(ent[e].job) == LONG && ent[e].phase == 0 -> t = in_tail; NEXT(in_tail, ENTRIES) };
                inbox_push(MSG_NEXT)
            :: d_step { KIND(ent[e].job) == SHORT || ent[e].phase == 1 -> complete(e); t = in_tail; NEXT(in_tail, ENTRIES) };
                inbox_push(MSG_DONE)
            fi
        fi
    od
}

/* gm_back_inbox: jobs that were answered end here, and phases that are done are passed on. */
#define THERE (inbox[in_head % ENTRIES].lap == LAP(in_head, ENTRIES))
inline count(lane_, owner_) /* gm_back_count */
{
    assert(owner_ == owner[lane_] && is_open[lane_]); /* the lane may not be somebody else's by now */
    completed[lane_]++
}
inline put()
{
    d_step {
        message[messages % ENTRIES].lap = messages;
        message[messages % ENTRIES].entry = e;
        NEXT(in_head, ENTRIES)
    };
    messages++
}
inline back_inbox()
{
    d_step {
        THERE ->
        e = inbox[in_head % ENTRIES].entry; kind = inbox[in_head % ENTRIES].kind;
        ends = (kind == MSG_DONE);
        lane = ent[e].lane; own = ent[e].owner
    };
    if
    :: ends ->
#ifndef MUT_COUNT_LATE
        d_step { count(lane, own) };
#endif
#ifndef MUT_FREED_FIRST
        d_step { back_ring[freed % ENTRIES] = e; NEXT(in_head, ENTRIES) };
        freed++;
#else
        d_step { freed++; NEXT(in_head, ENTRIES) };
        back_ring[(freed - 1) % ENTRIES] = e;
#endif
#ifdef MUT_COUNT_LATE
        d_step { count(lane, own) }
#endif
    :: !ends ->
#ifdef MUT_ATTENTION_FIRST
        attention = attention | ATTEND_MESSAGES;
        put()
#else
        put();
        attention = attention | ATTEND_MESSAGES
#endif
    fi;
    d_step { e = 0; kind = 0; ends = false; lane = 0; own = 0 }
}

/* gm_back_turn, gm_acks_look: whenever some are missing, for nobody else looks while the front waits for room. */
#ifdef MUT_FLOOR_COUNT
# define READ(p) (read_ack[(p) % RING] == LAP(p, RING) || read_ack[((p) + 1) % RING] == LAP((p) + 1, RING))
#else
# define READ(p) (read_ack[(p) % RING] == LAP(p, RING))
#endif
#ifdef MUT_ACKS_HALF
# define ACKS_LOOK (LAG >= RING / 2 && READ(ack_floor))
#else
# define ACKS_LOOK (LAG != 0 && READ(ack_floor))
#endif

/* It leaves between two turns. What it has not taken stays in the inbox. */
proctype back()
{
    byte e = 0, kind = 0, lane = 0, own = 0;
    bool seen = false, ends = false;
end_back:
    do
    :: !leave && THERE -> back_inbox()
    :: d_step { !leave && ACKS_LOOK -> NEXT(ack_floor, RING) }
    :: leave -> home++;
end_left:
        d_step { life != seen -> seen = life }
    od
}
