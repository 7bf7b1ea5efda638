/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions, slots and laps, for all models. Positions run modulo n * LAPS, so that a lap word wraps after few steps:
 * LAPS stands for 2^32.
 */
#define NONE 255

#define LAPS 4
#define LAP(p, n) (((p) / (n) + 1) % LAPS)
#define TURN(n) ((n) * LAPS)
#define LAP_BEFORE(p, n) ((LAP((p) % TURN(n), n) + LAPS - 1) % LAPS)
#define NEXT(p, n) p = ((p) + 1) % TURN(n)
#define SLOT(l, p) ((l) * SLOTS + (p) % SLOTS)
