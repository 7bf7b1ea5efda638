/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and job mixes, one preset per run of the checker. Job i of lane l is J(l * JOBS + i). Small on purpose: lanes of
 * two or four slots and rings of two or four, so that every index wraps and somebody always has to wait.
 */
#if defined(P_LANE) /* descriptors of one slot and of two, a bad one among them */
# define JOBS 5
# define WORKERS 2
# define ENTRIES 2
# define J0 NOP
# define J1 WIDE
# define J2 BAD
# define J3 WIDE
# define J4 NOP
#elif defined(P_SCRIBBLE) /* lane 0 belongs to a client that writes over its slots; lane 1 must not notice */
# define LANES 2
# define JOBS 1
# define WORKERS 2
# define ENTRIES 1
# define SCRIBBLE 3
# define J0 TWO
# define J1 NOP
# define J4 BAD
#elif defined(P_RING) || defined(P_RING3) /* tickets are drawn far ahead of what is published, and read out of order */
# define SLOTS 4
# define JOBS 4
# ifdef P_RING3
#  define WORKERS 3
# else
#  define WORKERS 2
# endif
# define ENTRIES 2
# define J0 NOP
# define J1 NOP
# define J2 NOP
# define J3 PAIR
#elif defined(P_PHASES) /* next phases and new jobs compete for the ring */
# define JOBS 4
# define WORKERS 2
# define ENTRIES 3
# define RING 4
# define J0 TWO
# define J1 NOP
# define J2 TWO
# define J3 PAIR
#elif defined(P_DEEP) /* three jobs at once from a lane of four slots */
# define SLOTS 4
# define JOBS 3
# define WORKERS 2
# define ENTRIES 3
# define RING 4
# define J0 TWO
# define J1 NOP
# define J2 NOP
#elif defined(P_INLINE) /* jobs in slots over references of the lap before, and the other way round */
# define JOBS 5
# define WORKERS 2
# define ENTRIES 2
# define IN_SLOTS 1
# define J0 HOSTED
# define J1 NOP
# define J2 NOP
# define J3 HOSTED
# define J4 NOP
#elif defined(P_INLINE_PHASES) /* beside shares of wide jobs and next phases; and stop tickets */
# define JOBS 3
# define WORKERS 2
# define ENTRIES 2
# define IN_SLOTS 1
# define PAUSES 1
# define J0 NOP
# define J1 TWO
# define J2 NOP
#elif defined(P_INLINE_CANCEL) /* of a job in its slot, until long after the slot is another's */
# define SLOTS 4
# define JOBS 3
# define WORKERS 2
# define ENTRIES 2
# define IN_SLOTS 1
# define CANCELS 1
# define CANCEL_JOB 0
# define J0 NOP
# define J1 HOSTED
# define J2 NOP
#elif defined(P_INLINE_CPU) /* workers sleep until their ticket is published */
# define JOBS 2
# define WORKERS 2
# define ENTRIES 2
# define RING 4
# define IN_SLOTS 1
# define WORKERS_SLEEP 1
# define J0 NOP
# define J1 HOSTED
#elif defined(P_GANG) /* two gangs in flight, and a pause */
# define JOBS 4
# define WORKERS 2
# define ENTRIES 2
# define RING 4
# define PAUSES 1
# define J0 GANG
# define J1 GANG
# define J2 NOP
# define J3 GANG
#elif defined(P_PAUSE) /* twice: phases wait in the inbox and jobs in the lane while the grid is away */
# define JOBS 3
# define WORKERS 2
# define ENTRIES 2
# define PAUSES 2
# define J0 TWO
# define J1 NOP
# define J2 TWO
#elif defined(P_CANCEL) /* of a scan, at any moment from its submission to long after its end */
# define JOBS 4
# define WORKERS 2
# define ENTRIES 2
# define CANCELS 1
# define CANCEL_JOB 0
# define J0 SCAN
# define J1 BAD
# define J2 NOP
# define J3 NOP
#elif defined(P_CANCEL_GANG) /* of a gang, with its entry reused by another */
# define JOBS 3
# define WORKERS 2
# define ENTRIES 1
# define CANCELS 1
# define CANCEL_JOB 0
# define J0 GANG
# define J1 GANG
# define J2 TWO
#elif defined(P_SLEEP)
# define JOBS 2
# define WORKERS 2
# define ENTRIES 1
# define PARKS 2
# define J0 NOP
# define J1 TWO
#elif defined(P_SLEEP_CPU) /* the dispatcher sleeps while workers run */
# define JOBS 2
# define WORKERS 2
# define ENTRIES 2
# define PARKS 2
# define PARK_IN_FLIGHT 1
# define J0 TWO
# define J1 NOP
#elif defined(P_LANES) /* two lanes share entries and credit */
# define LANES 2
# define JOBS 2
# define WORKERS 2
# define ENTRIES 2
# define J0 TWO
# define J1 NOP
# define J2 GANG
# define J3 NOP
#elif defined(P_MIX) /* everything in one lane at once */
# define JOBS 4
# define WORKERS 2
# define ENTRIES 2
# define PAUSES 1
# define CANCELS 1
# define CANCEL_JOB 1
# define J0 TWO
# define J1 SCAN
# define J2 BAD
# define J3 GANG
#endif

#ifndef SLOTS
# define SLOTS 2
#endif
#ifndef LANES
# define LANES 1
#endif
#ifndef RING
# define RING 2
#endif
#ifdef MUT_INBOX_SMALL
# define PLACES (ENTRIES - 1)
#else
# define PLACES ENTRIES
#endif
#ifndef IN_SLOTS
# define IN_SLOTS 0
#endif
#ifndef WORKERS_SLEEP
# define WORKERS_SLEEP 0
#endif
#ifndef PAUSES
# define PAUSES 0
#endif
#ifndef CANCELS
# define CANCELS 0
# define CANCEL_JOB NONE
#endif
#ifndef PARKS
# define PARKS 0
#endif
#ifndef PARK_IN_FLIGHT
# define PARK_IN_FLIGHT 0
#endif
#ifndef SCRIBBLE
# define SCRIBBLE 0
#endif
#ifndef J1
# define J1 NOP
#endif
#ifndef J2
# define J2 NOP
#endif
#ifndef J3
# define J3 NOP
#endif
#ifndef J4
# define J4 NOP
#endif
#if PAUSES && PARKS
# error "a dispatcher that is started by the host and by itself would need one count of launches"
#endif
