/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a soak: a few hundred prepared descriptors over constant input, each with its answer computed on the
 * host beforehand, and a table that says how often each comes. An output goes to a region of the output arena, and is
 * checked by a sum over a prefix of it whose length is one of SOAK_CUTS: a sort that is wrong anywhere fails one of
 * them. Made once, read by any thread.
 */
#ifndef GM_TESTS_SOAK_MIX_H
#define GM_TESTS_SOAK_MIX_H

#include "bed.h"

#define SOAK_JOBS          512u
#define SOAK_TABLE         16384u
#define SOAK_CUTS          16u
#define SOAK_SMALL_WORDS   8192u /* 32-bit words of a small region */
#define SOAK_LARGE_WORDS   262144u
#define SOAK_SMALL_REGIONS 256u
#define SOAK_LARGE_REGIONS 16u
#define SOAK_REGIONS       (SOAK_SMALL_REGIONS + SOAK_LARGE_REGIONS)
#define SOAK_NO_REGION     0xffffu
#define SOAK_CHECK         0x10000u /* flag beside a job's index: the check of its output */
#define SOAK_SECOND_HALF   0xffffffffu
#define SOAK_GENERATION    0xffffu /* of the arenas: the last one before the wrap */

struct soak_job {
    uint32_t words[GM_DESC_WORDS];
    int32_t status;
    uint64_t result;
    uint32_t out_words; /* 32-bit words of output; 0: none */
    uint32_t cut[SOAK_CUTS];
    uint64_t prefix[SOAK_CUTS]; /* sum of the first cut words of the output */
    const char *what;
};

struct soak_mix {
    struct gm_bed *bed;
    struct gm_bed_arena *in, *out;
    uint8_t *input; /* the host's copy */
    uint32_t jobs, table_used;
    uint64_t setup_jobs; /* that the bed ran for the setup */
    uint16_t table[SOAK_TABLE];
    struct soak_job job[SOAK_JOBS]; /* job 0: nop */
};

/* Opens the arenas, fills the input and computes every answer. The error's text is the bed's. */
int soak_mix_make(struct soak_mix *mix, struct gm_bed *bed, uint64_t seed);
void soak_mix_free(struct soak_mix *mix);

/* The descriptor of a job that writes region, and of the check of its output. */
void soak_output_words(const struct soak_mix *mix, const struct soak_job *job, uint16_t region, uint32_t *words);
void soak_check_words(const struct soak_mix *mix, const struct soak_job *job, uint16_t region, uint16_t cut,
                      uint32_t *words);
void soak_describe(const struct soak_mix *mix, uint32_t job, uint16_t cut, char *text, size_t size);

static inline uint64_t soak_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

#endif
