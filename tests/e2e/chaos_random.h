/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers by key: the same key gives the same numbers, whatever else was drawn. Any thread.
 */
#ifndef GM_E2E_CHAOS_RANDOM_H
#define GM_E2E_CHAOS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

/* splitmix64 */
static inline uint64_t random_next(struct rng *rng)
{
    uint64_t x = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline struct rng random_of(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    struct rng rng = {seed};

    rng.state = random_next(&rng) + a;
    rng.state = random_next(&rng) + b;
    rng.state = random_next(&rng) + c;
    return rng;
}

static inline uint32_t random_below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)((random_next(rng) >> 32) * bound >> 32);
}

static inline uint32_t random_from(struct rng *rng, uint32_t low, uint32_t high)
{
    return low + random_below(rng, high - low + 1u);
}

static inline bool random_one_in(struct rng *rng, uint32_t n)
{
    return random_below(rng, n) == 0;
}

#endif
