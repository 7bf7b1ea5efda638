/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that make test data and ask the oracles while the device and the test's own thread do something else. What
 * they run must not assert: cmocka leaves a test by a jump on the test's thread.
 */
#ifndef GM_TESTS_CREW_H
#define GM_TESTS_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define GM_CREW_MOST  16u /* threads */
#define GM_CREW_QUEUE 64u /* tasks that wait; a power of two */

/* One is filled in by whoever adds it and left alone until it is done. */
struct gm_task {
    void (*run)(void *context);
    void *context;
    bool done; /* under the crew's mutex */
};

struct gm_crew {
    pthread_mutex_t mutex;
    pthread_cond_t added, finished;
    struct gm_task *queue[GM_CREW_QUEUE];
    uint32_t head, tail, threads;
    bool ending;
    pthread_t thread[GM_CREW_MOST];
};

/* Processors that this process may use, at most GM_CREW_MOST. */
uint32_t gm_crew_processors(void);

bool gm_crew_open(struct gm_crew *crew, uint32_t threads);
/* After the tasks that were added. */
void gm_crew_close(struct gm_crew *crew);
/* At most GM_CREW_QUEUE tasks that are not done. */
void gm_crew_add(struct gm_crew *crew, struct gm_task *task);
bool gm_crew_is_done(struct gm_crew *crew, const struct gm_task *task);
void gm_crew_wait(struct gm_crew *crew, const struct gm_task *task);

/* Calls part(context, 0 .. parts - 1), each on a thread of its own; returns when all have. At most GM_CREW_MOST. */
void gm_crew_parallel(uint32_t parts, void (*part)(void *context, uint32_t index), void *context);

#endif
