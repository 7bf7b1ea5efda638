/* SPDX-License-Identifier: Apache-2.0
 *
 * Tickets into the ring: ROOM, publish(), publish_job(), publish_abort(), and their stores on the way. The dispatcher is
 * the only publisher. Included by model.pml.
 */

/* A position may be published when the one before it in the same slot has been read: per slot, because workers read out
 * of order, and a count of reads says nothing about which. */
#define READ_BEFORE(p) (read_ack[(p) % RING] == LAP_BEFORE(p, RING))
#if defined(MUT_NO_ACK)
# define ROOM(n) true
#elif defined(MUT_ACK_COUNT)
# define ROOM(n) ((tail + (n) + TURN(RING) - acked) % TURN(RING) <= RING)
#else
# define ROOM(n) (READ_BEFORE(tail) && ((n) < 2 || READ_BEFORE(tail + 1)) && ((n) < 3 || READ_BEFORE(tail + 2)))
#endif

/* gm_publish_reference: the first granule alone. */
#if IN_SLOTS
# define AT_SLOT way[tail % RING]
#else
# define AT_SLOT ring[tail % RING]
#endif
inline publish_slot(e_, share_, gen_)
{
    d_step {
        AT_SLOT.entry = e_;
        AT_SLOT.share = share_;
        AT_SLOT.gen = gen_;
        AT_SLOT.lap = LAP(tail, RING);
#if IN_SLOTS
        AT_SLOT.granules = 1;
#endif
        NEXT(tail, RING)
    }
}

#if IN_SLOTS
/* The granules of a job that lies in its slot, behind no fence. */
inline publish_job()
{
    d_step {
        AT_SLOT.granules = 7;
        AT_SLOT.lap = LAP(tail, RING);
        AT_SLOT.entry = e;
        AT_SLOT.share = INLINE;
        AT_SLOT.gen = ent[e].gen;
        AT_SLOT.job = ent[e].job;
        ent[e].ticket = tail;
        ent[e].due = 1;
        live++;
        assert(live <= RING);
        NEXT(tail, RING);
        e = 0
    }
}

/* The first granule once more, with the word that says cancelled; unless the slot is another ticket's by now, for then a
 * worker has the job already. */
#ifdef MUT_ABORT_STALE
# define SLOT_KEPT(x) true
#else
# define SLOT_KEPT(x) ((tail + TURN(RING) - ent[x].ticket) % TURN(RING) <= RING)
#endif
inline publish_abort(x)
{
    if
    :: SLOT_KEPT(x) ->
        way[ent[x].ticket % RING].granules = way[ent[x].ticket % RING].granules | 1;
        way[ent[x].ticket % RING].lap = LAP(ent[x].ticket, RING);
        way[ent[x].ticket % RING].entry = x;
        way[ent[x].ticket % RING].share = ABORTED;
        way[ent[x].ticket % RING].gen = ent[x].gen
    :: else
    fi
}

/* A store reaches the workers. */
inline arrive_last(r)
{
    if
    :: way[r].granules == 0 -> way[r].lap = 0; way[r].entry = 0; way[r].share = 0; way[r].gen = 0; way[r].job = 0
    :: else
    fi
}
#define ARRIVES(r) \
    :: d_step { \
            way[r].granules & 1 -> \
            ring[r].lap = way[r].lap; ring[r].entry = way[r].entry; ring[r].share = way[r].share; ring[r].gen = way[r].gen; \
            way[r].granules = way[r].granules - 1; \
            arrive_last(r) \
        } \
    :: d_step { \
            way[r].granules & 2 -> \
            ring[r].lap1 = way[r].lap; ring[r].job1 = way[r].job; \
            way[r].granules = way[r].granules - 2; \
            arrive_last(r) \
        } \
    :: d_step { \
            way[r].granules & 4 -> \
            ring[r].lap2 = way[r].lap; ring[r].job2 = way[r].job; \
            way[r].granules = way[r].granules - 4; \
            arrive_last(r) \
        }
proctype stores()
{
end_stores:
    do
    ARRIVES(0)
    ARRIVES(1)
# if RING > 2
    ARRIVES(2)
    ARRIVES(3)
# endif
    od
}
#endif

/* Puts out the phase of entry e. There is room for it: that was the guard of whoever calls. Its shares take consecutive
 * positions, because the dispatcher does nothing else in between. */
inline publish()
{
    d_step {
        ARRIVED -> /* gm_start_fence: what it refers to comes before it, and so does all else */
        n = WIDTH(KIND(ent[e].job), ent[e].phase);
        ent[e].left = n;
        ent[e].due = (1 << n) - 1;
        ent[e].next = 0;
        ent[e].flags = 0;
#ifndef MUT_BARRIER_DIRTY
        ent[e].bar = 0; /* shares that left on the abort word have not taken their arrival back */
#endif
        ent[e].met = 0;
        live = live + n;
        assert(live <= RING) /* what credit is for */
    };
#ifdef MUT_GANG_PIECES
    publish_slot(e, 0, ent[e].gen);
    d_step { ent[e].half = (n > 1); n = 0; e = 0 }
#else
    do
    :: i < n -> publish_slot(e, i, ent[e].gen); i++
    :: d_step { i == n -> i = 0; n = 0; e = 0 }; break
    od
#endif
}
/* MUT_GANG_PIECES: the second share of a phase, at some later turn. */
#define SECOND_PIECE(x) :: d_step { ent[x].half && ROOM(1) -> ent[x].half = false; e = x }; publish_slot(e, 1, ent[e].gen); e = 0
