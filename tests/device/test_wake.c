/* SPDX-License-Identifier: Apache-2.0
 *
 * Wake-ups of a GPU without one: the stream that waits for a value is a thread here, the dispatcher that notes lanes
 * and counts is another, and the main thread pauses, parks and starts it. Whatever was noted is told, however these
 * meet. Everything is bounded by numbers of rounds.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/gpu.h"

#define WAIT_S 60
#define LANES  4u

static struct gm_device device;
static uint32_t words[32 + GM_LANE_TABLE];

/* What was noted of each lane, and how much of it had been noted when it was last told. */
static uint32_t noted[LANES], told[LANES], rings;

/* ---- instead of CUDA ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t wait_next, wait_for, waits;
static bool stream_waits, stream_ends;
static cudaHostFn_t function;
static void *function_argument;

static CUresult wait_value(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned int flags)
{
    (void)stream;
    assert_int_equal(flags, CU_STREAM_WAIT_VALUE_GEQ);
    assert_true(word == (CUdeviceptr)(uintptr_t)device.wake);
    wait_next = value;
    return CUDA_SUCCESS;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *argument)
{
    (void)stream;
    pthread_mutex_lock(&mutex);
    while (stream_waits) /* the function before is returning */
        pthread_cond_wait(&changed, &mutex);
    wait_for = wait_next;
    function = fn;
    function_argument = argument;
    stream_waits = true;
    waits++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    struct timespec end;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    pthread_mutex_lock(&mutex);
    while (stream_waits && error == 0)
        error = pthread_cond_timedwait(&changed, &mutex, &end);
    pthread_mutex_unlock(&mutex);
    assert_int_equal(error, 0);
    return cudaSuccess;
}

int gm_gpu_fail(char *text, int status, const char *what, cudaError_t error)
{
    (void)error;
    snprintf(text, GM_ERROR_TEXT_MAX, "%s", what);
    return status;
}

static void *stream_thread(void *arg)
{
    (void)arg;
    for (bool ends = false; !ends;) {
        pthread_mutex_lock(&mutex);
        while (!stream_waits && !stream_ends)
            pthread_cond_wait(&changed, &mutex);
        ends = stream_ends;
        pthread_mutex_unlock(&mutex);
        while (!ends && (int32_t)(gm_load_acquire_sys_u32(device.wake) - wait_for) < 0)
            sched_yield();
        if (!ends)
            function(function_argument);
        pthread_mutex_lock(&mutex);
        stream_waits = false;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

/* ---- instead of the dispatcher ---- */

static uint32_t kernel_stop, kernel_count;

/* As tell() of kernel.cu: from the word on, lanes first. */
static void note(uint32_t lanes)
{
    const uint32_t next = kernel_count + 1u;
    for (uint32_t lane = 0; lane < LANES; lane++)
        if (lanes >> lane & 1u) {
            __atomic_fetch_add(&noted[lane], 1, __ATOMIC_RELEASE);
            gm_store_relaxed_sys_u32(&device.wake_lanes[lane], next);
        }
    kernel_count = next;
    gm_store_release_sys_u32(device.wake, next);
}

static void *kernel_thread(void *arg)
{
    uint32_t random = (uint32_t)(uintptr_t)arg;
    while (!__atomic_load_n(&kernel_stop, __ATOMIC_ACQUIRE)) {
        random = random * 1664525u + 1013904223u;
        if (random >> 28 == 0)
            note(random >> 8 & ((1u << LANES) - 1u));
        else if (random >> 30 == 1)
            sched_yield();
    }
    return NULL;
}

/* ---- ---- */

void gm_wakes_ring(struct gm_wakes *wakes, const uint32_t *bits)
{
    (void)wakes;
    __atomic_fetch_add(&rings, 1, __ATOMIC_RELAXED);
    for (uint32_t lane = 0; lane < LANES; lane++)
        if (bits[0] >> lane & 1u)
            __atomic_store_n(&told[lane], __atomic_load_n(&noted[lane], __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

static pthread_t stream, kernel;

static void open_device(uint32_t start)
{
    memset(&device, 0, sizeof device);
    memset(words, 0, sizeof words);
    memset(noted, 0, sizeof noted);
    memset(told, 0, sizeof told);
    device.wake = words;
    device.wake_lanes = words + 32;
    device.driver.wait_value = wait_value;
    device.notice_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    words[0] = start;
    device.wake_next = start + 1u;
    stream_waits = stream_ends = false;
    rings = waits = 0;
    assert_int_equal(pthread_create(&stream, NULL, stream_thread, NULL), 0);
}

static void close_device(void)
{
    pthread_mutex_lock(&mutex);
    assert_false(stream_waits);
    stream_ends = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(stream, NULL);
    close(device.notice_fd);
}

/* As gpu_start. */
static void begin(void)
{
    char text[GM_ERROR_TEXT_MAX];
    gm_wake_level(&device);
    kernel_count = gm_load_relaxed_sys_u32(device.wake);
    device.resident = true;
    assert_int_equal(gm_wake_arm(&device, text), GM_OK);
}

static void service(void)
{
    uint64_t count;
    char text[GM_ERROR_TEXT_MAX];
    if (read(device.notice_fd, &count, sizeof count) == (ssize_t)sizeof count)
        assert_int_equal(gm_wake_service(&device, text), GM_OK);
}

static void all_were_told(void)
{
    for (uint32_t lane = 0; lane < LANES; lane++)
        assert_int_equal(__atomic_load_n(&told[lane], __ATOMIC_ACQUIRE), noted[lane]);
}

/* What the stream has to tell is told some time, when nobody notes any more. */
static void settle(void)
{
    for (uint32_t i = 0; i < WAIT_S * 1000u; i++) {
        bool same = true;
        service();
        for (uint32_t lane = 0; lane < LANES; lane++)
            same = same && __atomic_load_n(&told[lane], __ATOMIC_ACQUIRE) == noted[lane];
        if (same)
            return;
        usleep(1000);
    }
    all_were_told();
}

static const uint32_t starts[] = {0, 1000, UINT32_MAX - 3u, INT32_MAX - 2u, INT32_MAX + UINT32_C(5000)};

static void sleeper_is_told_once_for_each_wake(void **state)
{
    (void)state;
    char text[GM_ERROR_TEXT_MAX];
    for (uint32_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        open_device(starts[s]);
        begin();
        for (uint32_t i = 0; i < 20u; i++) {
            note(1u << i % LANES);
            settle();
            assert_int_equal(rings, i + 1u);
        }
        device.resident = false;
        assert_int_equal(gm_wake_drain(&device, text), GM_OK);
        assert_int_equal(rings, 20);
        close_device();
    }
}

static void quiet_device_tells_when_it_is_looked_at(void **state)
{
    (void)state;
    char text[GM_ERROR_TEXT_MAX];
    for (uint32_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        open_device(starts[s]);
        begin();
        for (uint32_t i = 0; i < 20u; i++) {
            assert_int_equal(gm_wake_quiet(&device, text), GM_OK);
            const uint32_t before = waits;
            note(2);
            note(4 | i);
            gm_wake_tell(&device); /* while it stops */
            all_were_told();
            note(1); /* its last */
            device.resident = false;
            assert_int_equal(gm_wake_drain(&device, text), GM_OK);
            all_were_told();
            service(); /* nobody waits because of a notice from before */
            assert_int_equal(waits, before);
            begin();
            note(3); /* beside the next wait */
            settle();
        }
        device.resident = false;
        assert_int_equal(gm_wake_drain(&device, text), GM_OK);
        close_device();
    }
}

/* Pauses that unregister, pauses that do not, and parks, of a dispatcher that notes all the time. */
static void nothing_that_was_noted_is_lost(void **state)
{
    (void)state;
    char text[GM_ERROR_TEXT_MAX];
    uint32_t random = 12345;
    for (uint32_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        open_device(starts[s]);
        for (uint32_t round = 0; round < 200u; round++) {
            begin();
            kernel_stop = 0;
            assert_int_equal(pthread_create(&kernel, NULL, kernel_thread, (void *)(uintptr_t)random), 0);
            random = random * 1664525u + 1013904223u;
            for (uint32_t i = 0; i < (random >> 16 & 31u); i++) {
                service();
                if (random >> (i & 7u) & 1u)
                    sched_yield();
            }
            const uint32_t kind = random >> 24 & 3u;
            if (kind == 0)
                assert_int_equal(gm_wake_quiet(&device, text), GM_OK);
            if (kind == 0)
                gm_wake_tell(&device);
            __atomic_store_n(&kernel_stop, 1, __ATOMIC_RELEASE);
            pthread_join(kernel, NULL);
            if (kind == 1)
                settle(); /* still resident for all we know */
            device.resident = false;
            if (kind == 3)
                service();
            if (kind != 2) {
                assert_int_equal(gm_wake_drain(&device, text), GM_OK);
                all_were_told();
            }
        }
        settle();
        assert_int_equal(gm_wake_drain(&device, text), GM_OK);
        all_were_told();
        close_device();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeper_is_told_once_for_each_wake),
        cmocka_unit_test(quiet_device_tells_when_it_is_looked_at),
        cmocka_unit_test(nothing_that_was_noted_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
