/* SPDX-License-Identifier: Apache-2.0
 *
 * See crew.h. One queue under one mutex: a task is worth milliseconds.
 */
#include "crew.h"

#include <sched.h>
#include <string.h>

uint32_t gm_crew_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const uint32_t count = (uint32_t)CPU_COUNT(&set);
    return count < 1u ? 1u : count > GM_CREW_MOST ? GM_CREW_MOST : count;
}

static void *work(void *arg)
{
    struct gm_crew *crew = arg;
    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        while (crew->head == crew->tail && !crew->ending)
            pthread_cond_wait(&crew->added, &crew->mutex);
        if (crew->head == crew->tail)
            break;
        struct gm_task *task = crew->queue[crew->head++ % GM_CREW_QUEUE];
        pthread_mutex_unlock(&crew->mutex);
        task->run(task->context);
        pthread_mutex_lock(&crew->mutex);
        task->done = true;
        pthread_cond_broadcast(&crew->finished);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

bool gm_crew_open(struct gm_crew *crew, uint32_t threads)
{
    memset(crew, 0, sizeof *crew);
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->added, NULL);
    pthread_cond_init(&crew->finished, NULL);
    while (crew->threads < threads && crew->threads < GM_CREW_MOST &&
           pthread_create(&crew->thread[crew->threads], NULL, work, crew) == 0)
        crew->threads++;
    return crew->threads != 0;
}

void gm_crew_close(struct gm_crew *crew)
{
    pthread_mutex_lock(&crew->mutex);
    crew->ending = true;
    pthread_cond_broadcast(&crew->added);
    pthread_mutex_unlock(&crew->mutex);
    for (uint32_t i = 0; i < crew->threads; i++)
        pthread_join(crew->thread[i], NULL);
    pthread_cond_destroy(&crew->finished);
    pthread_cond_destroy(&crew->added);
    pthread_mutex_destroy(&crew->mutex);
}

void gm_crew_add(struct gm_crew *crew, struct gm_task *task)
{
    pthread_mutex_lock(&crew->mutex);
    task->done = false;
    crew->queue[crew->tail++ % GM_CREW_QUEUE] = task;
    pthread_cond_signal(&crew->added);
    pthread_mutex_unlock(&crew->mutex);
}

bool gm_crew_is_done(struct gm_crew *crew, const struct gm_task *task)
{
    pthread_mutex_lock(&crew->mutex);
    const bool done = task->done;
    pthread_mutex_unlock(&crew->mutex);
    return done;
}

void gm_crew_wait(struct gm_crew *crew, const struct gm_task *task)
{
    pthread_mutex_lock(&crew->mutex);
    while (!task->done)
        pthread_cond_wait(&crew->finished, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
}

struct part {
    void (*run)(void *, uint32_t);
    void *context;
    uint32_t index;
};

static void *run_part(void *arg)
{
    const struct part *part = arg;
    part->run(part->context, part->index);
    return NULL;
}

void gm_crew_parallel(uint32_t parts, void (*run)(void *context, uint32_t index), void *context)
{
    struct part part[GM_CREW_MOST];
    pthread_t thread[GM_CREW_MOST];
    bool started[GM_CREW_MOST];
    for (uint32_t i = 0; i < parts; i++) {
        part[i] = (struct part){run, context, i};
        started[i] = i + 1u < parts && pthread_create(&thread[i], NULL, run_part, &part[i]) == 0;
        if (!started[i])
            run_part(&part[i]); /* the last one here, and any for which there is no thread */
    }
    for (uint32_t i = 0; i < parts; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
}
