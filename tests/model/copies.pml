/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the copy engine (device/core/copies.h, device/copier.c): requests in places, the word that cancels one, the
 * word of its end, and what waits for it: the entry, the place, the arena, a pause. Front, scout, and the engine with its
 * host run at the same time; so does the hardware, which is behind what it was asked for. Granules of a request arrive
 * in any order. Numbers of turns count modulo 4 and begin where the next is 0.
 */
#include "positions.pml"

#if defined(E_ONE) /* one place for all: it is used again and again */
# define PLACES 1
# define JOBS 3
# define CANCEL 1
#elif defined(E_TWO) /* two places, and an arena that goes */
# define PLACES 2
# define JOBS 2
# define CANCEL 0
# define CLEARS 1
#elif defined(E_PAUSE) /* the dispatcher goes and comes again */
# define PLACES 1
# define JOBS 2
# define CANCEL NONE
# define PAUSES 1
# define CLEARS 1
#elif defined(E_PARK) /* a dispatcher that sleeps while copies run, as a CPU's */
# define PLACES 1
# define JOBS 2
# define CANCEL 0
# define PARKS 1
#endif
#ifndef CLEARS
# define CLEARS 0
#endif
#ifndef PAUSES
# define PAUSES 0
#endif
#ifndef PARKS
# define PARKS 0
#endif
#define ENTRIES 2
#define PIECES 2
#define GRANULES 2
#define UP(t) t = (t + 1) % 4
#define BEFORE(t) (((t) + 3) % 4)

#define FINE 1
#define CANCELLED 2

/* A place: the dispatcher's words, then the engine's. */
byte request_turn[PLACES * GRANULES], request_job[PLACES * GRANULES];
byte abort[PLACES], end_turn[PLACES], end_status[PLACES];
/* Of the dispatcher alone. */
byte turn[PLACES], entry_of[PLACES];
byte put = 0, done = 0, told = 0;
byte holds[ENTRIES], at[ENTRIES]; /* the job in an entry, and its place, which stays when the job is over */
bool back[ENTRIES];               /* answered, and on the way to the front */
/* Of the rest. */
byte answered[JOBS], status[JOBS];
bool asked = false;    /* the cancel was sent */
bool gone = false;     /* the arena of all jobs was given away */
byte moving[JOBS];     /* pieces on the way */
byte due = 0;          /* the engine's host is woken, so often */
bool stopping = false, front_rests = false, scout_rests = false;
bool asleep = false, bell = false;

#define BIT(p) (1 << (p))
#define OUT(p) (((put ^ done) >> (p)) & 1)
#define FREE_PLACE(p) (!OUT(p))
#define FREE_ENTRY(e) (holds[e] == NONE)
#define ANY_PLACE (FREE_PLACE(0) || FREE_PLACE(PLACES - 1))
#define OVER(p) (OUT(p) && end_turn[p] == turn[p])
#define ALL_ANSWERED (answered[0] && answered[1] && answered[JOBS - 1])

/* gm_copies_put. The two granules in any order, behind the word that cancels. */
inline copies_put(j, e, p)
{
    atomic {
        UP(turn[p]);
        entry_of[p] = e;
        holds[e] = j;
        at[e] = p
    };
#ifdef MUT_TELL_FIRST
    due++;
#endif
#ifndef MUT_ABORT_KEPT
    abort[p] = BEFORE(turn[p]);
#endif
    if
    :: atomic { request_job[p * GRANULES] = j; request_turn[p * GRANULES] = turn[p] };
        atomic { request_job[p * GRANULES + 1] = j; request_turn[p * GRANULES + 1] = turn[p] }
    :: atomic { request_job[p * GRANULES + 1] = j; request_turn[p * GRANULES + 1] = turn[p] };
        atomic { request_job[p * GRANULES] = j; request_turn[p * GRANULES] = turn[p] }
    fi;
    atomic { put = put ^ BIT(p); bell = (asleep -> true : bell) } /* on a CPU it is the same thread, and awake */
}

/* gm_admin_abort, and what it does with a copy: gm_copy_abort. */
inline copy_abort(j)
{
    e = 0;
    do
    :: e < ENTRIES && holds[e] == j ->
#ifdef MUT_CANCEL_EARLY
        atomic { answered[j]++; status[j] = CANCELLED; assert(moving[j] == 0) };
#endif
#ifdef MUT_PLACE_STALE
        abort[at[e]] = turn[at[e]];
#else
        if
        :: entry_of[at[e]] == e -> abort[at[e]] = turn[at[e]]
        :: else
        fi;
#endif
        break
    :: e < ENTRIES && holds[e] != j -> e++
    :: e == ENTRIES -> break
    od
}

/* Takes jobs, entries that come back, a cancel, a clear; none of them waits for a copy. */
proctype front()
{
    byte next = 0, e = 0, p = 0;
    bool cancelled = (CANCEL == NONE), cleared = (CLEARS == 0);
end_idle:
    do
    :: stopping && !front_rests -> front_rests = true; !stopping; front_rests = false
    :: !stopping && back[0] -> d_step { back[0] = false; holds[0] = NONE }
    :: !stopping && back[1] -> d_step { back[1] = false; holds[1] = NONE }
    :: !stopping && next < JOBS && (FREE_ENTRY(0) || FREE_ENTRY(1)) && !gone ->
        e = (FREE_ENTRY(0) -> 0 : 1);
        if
        :: FREE_PLACE(0) -> p = 0; copies_put(next, e, p)
        :: !FREE_PLACE(0) && FREE_PLACE(PLACES - 1) -> p = PLACES - 1; copies_put(next, e, p)
        :: !ANY_PLACE -> /* a worker does it, and nobody waits */
            d_step { answered[next]++; status[next] = FINE }
        fi;
        next++
    :: !stopping && next < JOBS && gone -> d_step { answered[next]++; status[next] = FINE; next++ } /* refused */
    :: !stopping && !cancelled && next > CANCEL -> asked = true; cancelled = true; copy_abort(CANCEL)
    :: !stopping && !cleared && next > 0 -> /* gm_admin_arena_used, by the entries; else EBUSY, and once more later */
        atomic {
            if
#ifdef MUT_FREE_RUNNING
            :: true -> cleared = true; gone = true
#else
            :: FREE_ENTRY(0) && FREE_ENTRY(1) -> cleared = true; gone = true
            :: !(FREE_ENTRY(0) && FREE_ENTRY(1)) -> skip
#endif
            fi
        }
        ;
        (cleared || back[0] || back[1] || stopping || next < JOBS)
    od
}

/* gm_copy_answer: as the last worker to arrive would. */
inline copy_answer(p)
{
#ifdef MUT_PLACE_FIRST
    done = done ^ BIT(p);
#endif
    e = entry_of[p];
    d_step {
        assert(holds[e] != NONE);
        assert(moving[holds[e]] == 0); /* nothing of it is on the way */
        assert(answered[holds[e]] == 0);
        answered[holds[e]]++;
        status[holds[e]] = end_status[p];
        assert(end_status[p] != CANCELLED || (holds[e] == CANCEL && asked))
    };
    back[e] = true
#ifndef MUT_PLACE_FIRST
    ;
    done = done ^ BIT(p)
#endif
}

/* gm_copies_turn: one load of put for both, so that a copy which is answered has been told. gm_park: its last look leaves
 * nothing out. */
#define NEWS (put != told)
#ifdef MUT_TOLD_LATE
# define TOLD(p) true
#else
# define TOLD(p) ((((put ^ told) >> (p)) & 1) == 0)
#endif
#ifdef MUT_PARK_NO_END
# define LAST_LOOK NEWS
#else
# define LAST_LOOK (NEWS || OVER(0) || OVER(PLACES - 1))
#endif
proctype scout()
{
    byte e = 0, parks = PARKS;
end_look:
    do
    :: stopping && !scout_rests -> scout_rests = true; !stopping;
#ifdef MUT_COPIES_FORGOT
        done = put;
#endif
        scout_rests = false
    :: !stopping && !asleep && NEWS -> atomic { told = put }
#ifndef MUT_TELL_FIRST
        ;
        due++
#endif
    :: !stopping && !asleep && OVER(0) && TOLD(0) -> copy_answer(0)
    :: !stopping && !asleep && PLACES > 1 && OVER(PLACES - 1) && TOLD(PLACES - 1) -> copy_answer(PLACES - 1)
    :: !stopping && parks > 0 && !NEWS && !OVER(0) && !OVER(PLACES - 1) ->
        parks--;
        asleep = true;
        if
        :: LAST_LOOK -> skip
        :: else ->
end_sleep:
            bell;
            bell = false
        fi;
        asleep = false
    od
}

/* gm_copier_step: a request when it is whole; a piece; between two pieces the word that cancels. The hardware does what
 * it was asked for in its order, and stores the word of the end behind it (hardware). */
byte asked_job[4], asked_place[4], asked_turn[4], asked_status[4]; /* what the hardware was asked for: status 0, a piece */
byte asks = 0, does = 0;
inline ask(j, p, t, s)
{
    atomic {
        asks - does < 3;
        asked_job[asks % 4] = j;
        asked_place[asks % 4] = p;
        asked_turn[asks % 4] = t;
        asked_status[asks % 4] = s;
        moving[j] = moving[j] + (s == 0 -> 1 : 0);
        asks++
    }
}
#ifdef MUT_REQUEST_HALF
# define WHOLE(p) (request_turn[(p) * GRANULES] == (seen[p] + 1) % 4)
#else
# define WHOLE(p) (request_turn[(p) * GRANULES] == (seen[p] + 1) % 4 && \
                   request_turn[(p) * GRANULES + 1] == (seen[p] + 1) % 4)
#endif
#define FOUND(q) (job[q] == NONE && WHOLE(q))
proctype engine()
{
    byte seen[PLACES], job[PLACES], left[PLACES], p = 0, idle = 0;
    atomic { seen[0] = 3; seen[PLACES - 1] = 3; job[0] = NONE; job[PLACES - 1] = NONE };
end_asleep:
    do
    :: due > 0 -> due--; idle = 0;
        do
        :: idle < PLACES ->
            if
            :: FOUND(p) ->
                UP(seen[p]);
                atomic {
                    assert(request_job[p * GRANULES] == request_job[p * GRANULES + 1]);
                    job[p] = request_job[p * GRANULES];
                    left[p] = PIECES
                }
            :: else
            fi;
            if
            :: job[p] == NONE -> idle++
            :: job[p] != NONE && abort[p] == seen[p] ->
                idle = 0;
#ifdef MUT_END_EARLY
                atomic { end_turn[p] = seen[p]; end_status[p] = CANCELLED };
#else
                ask(job[p], p, seen[p], CANCELLED);
#endif
                job[p] = NONE
            :: job[p] != NONE && abort[p] != seen[p] ->
                idle = 0;
                assert(!gone);
                ask(job[p], p, seen[p], 0);
                left[p]--;
                if
                :: left[p] == 0 ->
                    ask(job[p], p, seen[p], FINE);
                    job[p] = NONE
                :: else
                fi
            fi;
            p = (p + 1) % PLACES
        :: else -> break
        od
    od
}

proctype hardware()
{
    byte i = 0;
end_idle:
    do
    :: does < asks ->
        i = does % 4;
        if
        :: asked_status[i] == 0 -> atomic { assert(!gone); moving[asked_job[i]]-- }
        :: else ->
            atomic { end_turn[asked_place[i]] = asked_turn[i]; end_status[asked_place[i]] = asked_status[i] };
            if
            :: PARKS && asleep -> bell = true /* gm_cpu_ring */
            :: else
            fi
        fi;
        atomic { does++; i = 0 }
    od
}

/* A pause: the workers and the dispatcher go and come; nothing here waits for a copy. */
proctype host()
{
    byte pauses = PAUSES;
    do
    :: pauses > 0 ->
        pauses--;
        stopping = true;
        (front_rests && scout_rests);
        stopping = false;
        (!front_rests && !scout_rests)
    :: pauses == 0 -> break
    od;
    ALL_ANSWERED;
    (holds[0] == NONE && holds[1] == NONE && put == done)
}

init
{
    d_step {
        turn[0] = 3; turn[PLACES - 1] = 3;
        end_turn[0] = 3; end_turn[PLACES - 1] = 3;
        request_turn[0] = 3; request_turn[1] = 3;
        request_turn[PLACES * GRANULES - 1] = 3; request_turn[PLACES * GRANULES - 2] = 3;
        holds[0] = NONE; holds[1] = NONE
    };
    atomic {
        run front();
        run scout();
        run engine();
        run hardware();
        run host()
    }
}
