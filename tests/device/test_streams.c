/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy engine of a GPU without one: streams are queues here, and the test says when the hardware goes on with them.
 * How much is begun at one time, when the host is told, what stands behind what, and what is left when a call fails. No
 * piece is really copied. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/gpu.h"

#define PIECE GM_COPY_PIECE
#define AHEAD 4u
#define STEPS 256u

static struct gm_device device;
static char text[GM_ERROR_TEXT_MAX];
static uint32_t turn[GM_COPIES_MAX];

/* ---- instead of CUDA ---- */

enum what { PIECE_OF, STORE, RECORD, WAIT, CALL };
struct step {
    enum what what;
    struct event *event;
    uint32_t captured; /* of a wait: so many records of the event come before it */
    uint32_t *word, value;
    cudaHostFn_t function;
    void *argument;
};
struct event {
    uint32_t recorded, reached;
};
static struct stream {
    struct step step[STEPS];
    uint32_t at, end, pieces; /* pieces: done */
} *streams[8];
static uint32_t made, destroyed, fail_at, piece_fails, store_fails, record_fails, errors_taken;

static cudaError_t make(void **thing, size_t bytes)
{
    if (made + 1u == fail_at)
        return cudaErrorUnknown;
    *thing = calloc(1, bytes);
    assert_non_null(*thing);
    made++;
    return cudaSuccess;
}
static cudaError_t destroy(void *thing)
{
    free(thing);
    destroyed++;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    assert_int_equal(flags, cudaHostAllocMapped);
    return make(memory, bytes);
}
cudaError_t cudaFreeHost(void *memory) { return destroy(memory); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    void *thing = NULL;
    assert_int_equal(flags, cudaStreamNonBlocking);
    const cudaError_t error = make(&thing, sizeof(struct stream));
    *stream = thing;
    for (uint32_t i = 0; error == cudaSuccess && i < sizeof streams / sizeof *streams; i++)
        if (!streams[i]) {
            streams[i] = thing;
            break;
        }
    return error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    for (uint32_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] == (struct stream *)(void *)stream)
            streams[i] = NULL;
    return destroy(stream);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    void *thing = NULL;
    assert_int_equal(flags, cudaEventDisableTiming);
    const cudaError_t error = make(&thing, sizeof(struct event));
    *event = thing;
    return error;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return destroy(event); }

static void push(void *stream, struct step step)
{
    struct stream *s = stream;
    assert_true(s->end < STEPS);
    s->step[s->end++] = step;
}

cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    assert_int_equal(kind, cudaMemcpyDefault);
    assert_true(target && source && bytes != 0 && bytes <= PIECE);
    if (piece_fails != 0)
        return cudaErrorInvalidValue;
    push(stream, (struct step){.what = PIECE_OF});
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    errors_taken++;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct event *e = (struct event *)(void *)event;
    if (record_fails != 0)
        return cudaErrorUnknown;
    e->recorded++;
    push(stream, (struct step){.what = RECORD, .event = e});
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    struct event *e = (struct event *)(void *)event;
    assert_int_equal(flags, 0);
    push(stream, (struct step){.what = WAIT, .event = e, .captured = e->recorded});
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    push(stream, (struct step){.what = CALL, .function = function, .argument = argument});
    return cudaSuccess;
}
static CUresult write_value(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned int flags)
{
    assert_int_equal(flags, CU_STREAM_WRITE_VALUE_DEFAULT); /* which has the barrier */
    if (store_fails != 0)
        return CUDA_ERROR_UNKNOWN;
    push(stream, (struct step){.what = STORE, .word = (uint32_t *)(uintptr_t)word, .value = value});
    return CUDA_SUCCESS;
}

/* One stream until it has done so many pieces more, or can go no further; true when it moved. */
static bool go(struct stream *s, uint32_t pieces)
{
    const uint32_t from = s->at, most = s->pieces + pieces;
    for (; s->at < s->end; s->at++) {
        const struct step *step = &s->step[s->at];
        if ((step->what == WAIT && step->event->reached < step->captured) ||
            (step->what == PIECE_OF && s->pieces == most))
            break;
        s->pieces += step->what == PIECE_OF;
        if (step->what == STORE)
            *step->word = step->value;
        else if (step->what == RECORD)
            step->event->reached++;
        else if (step->what == CALL)
            step->function(step->argument);
    }
    return s->at != from;
}
static void hardware(uint32_t direction, uint32_t pieces)
{
    (void)go((struct stream *)(void *)device.copy_way[direction].pieces, pieces);
    (void)go((struct stream *)(void *)device.copy_way[direction].notices, 0);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    struct stream *s = (struct stream *)(void *)stream;
    while (go(s, STEPS)) {
    }
    assert_int_equal(s->at, s->end); /* or it would hang */
    return cudaSuccess;
}

int gm_gpu_fail(char *said, int status, const char *what, cudaError_t error)
{
    (void)error;
    snprintf(said, GM_ERROR_TEXT_MAX, "%s", what);
    return status;
}

/* ---- instead of the dispatcher ---- */

static void put(uint32_t at, uint32_t direction, uint64_t bytes)
{
    const struct gm_job job = {.n = bytes, .dtype = GM_DTYPE_u8, .address = {4096, 8192},
                               .marks = direction == GM_COPY_DOWN ? GM_MARK_HOST_OUT : GM_MARK_HOST_IN};
    device.core.copies->place[at].abort = turn[at]++;
    gm_copy_request(&device.core.copies->place[at], &job, 0, turn[at]);
}
static void cancel(uint32_t at) { device.core.copies->place[at].abort = turn[at]; }
static bool ended(uint32_t at, int32_t status)
{
    return device.core.copies->place[at].end == gm_copy_end(turn[at], status);
}

static uint32_t begun(uint32_t direction) { return device.copy_way[direction].begun; }
static void look(void) { assert_int_equal(gm_copy_look(&device, text), GM_OK); }
static bool noticed(void)
{
    uint64_t count;
    return read(device.notice_fd, &count, sizeof count) == (ssize_t)sizeof count;
}

static int setup(void **state)
{
    (void)state;
    memset(&device, 0, sizeof device);
    memset(turn, 0, sizeof turn);
    made = destroyed = fail_at = piece_fails = store_fails = record_fails = errors_taken = 0;
    device.driver.write_value = write_value;
    device.notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    device.resident = true;
    return gm_copy_open(&device, text);
}
static int teardown(void **state)
{
    (void)state;
    gm_copy_close(&device);
    close(device.notice_fd);
    return made == destroyed ? 0 : -1;
}

static void few_pieces_are_begun_at_one_time(void **state)
{
    (void)state;
    put(0, GM_COPY_UP, 10u * (uint64_t)PIECE + 1u);
    look();
    assert_int_equal(begun(GM_COPY_UP), AHEAD);
    look();
    assert_int_equal(begun(GM_COPY_UP), AHEAD);
    hardware(GM_COPY_UP, 1);
    assert_false(noticed());
    hardware(GM_COPY_UP, 1);
    assert_true(noticed()); /* with two to go, so that the engine does not run dry */
    look();
    assert_int_equal(begun(GM_COPY_UP), AHEAD + 2u);
    put(1, GM_COPY_DOWN, PIECE); /* the other direction waits for nothing */
    look();
    assert_int_equal(begun(GM_COPY_DOWN), 1);
    hardware(GM_COPY_DOWN, 1);
    assert_true(ended(1, GM_OK)); /* and is told by the stream, not by us */
    for (uint32_t done = 2; done < 11u; done++) {
        assert_false(ended(0, GM_OK));
        hardware(GM_COPY_UP, 1);
        look();
    }
    assert_int_equal(begun(GM_COPY_UP), 11);
    assert_true(ended(0, GM_OK));
}

/* Odd numbers of pieces, over and over: nobody is left waiting for a notice that does not come. */
static void short_copies_never_get_stuck(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 20u; round++) {
        const uint32_t at = round % GM_COPIES_MAX;
        put(at, GM_COPY_DOWN, (round % 3u + 1u) * (uint64_t)PIECE);
        for (uint32_t i = 0; !ended(at, GM_OK); i++) {
            assert_true(i < 10u);
            look();
            hardware(GM_COPY_DOWN, AHEAD);
        }
    }
}

static void cancel_is_answered_behind_what_was_begun(void **state)
{
    (void)state;
    put(3, GM_COPY_UP, 10u * (uint64_t)PIECE);
    look();
    cancel(3);
    look();
    hardware(GM_COPY_UP, 2);
    look();
    assert_int_equal(begun(GM_COPY_UP), AHEAD);
    assert_false(ended(3, GM_ECANCELLED));
    hardware(GM_COPY_UP, 1);
    assert_false(ended(3, GM_ECANCELLED));
    hardware(GM_COPY_UP, 1);
    assert_true(ended(3, GM_ECANCELLED));
}

static void piece_that_the_driver_refuses_fails_its_copy_alone(void **state)
{
    (void)state;
    put(0, GM_COPY_UP, 3u * (uint64_t)PIECE);
    look();
    piece_fails = 1;
    put(1, GM_COPY_UP, PIECE);
    look();
    piece_fails = 0;
    assert_int_equal(errors_taken, 1);
    assert_false(ended(1, GM_ESYSTEM)); /* in its turn */
    hardware(GM_COPY_UP, 3);
    assert_true(ended(0, GM_OK));
    assert_true(ended(1, GM_ESYSTEM));
}

static void device_is_lost_when_nothing_can_be_told(void **state)
{
    (void)state;
    put(0, GM_COPY_UP, PIECE);
    store_fails = 1;
    assert_int_equal(gm_copy_look(&device, text), GM_EDEVICELOST);
    store_fails = 0;
    record_fails = 1;
    put(1, GM_COPY_UP, 2u * (uint64_t)PIECE);
    assert_int_equal(gm_copy_look(&device, text), GM_EDEVICELOST);
}

static void quiet_lasts_until_the_next_launch(void **state)
{
    (void)state;
    put(0, GM_COPY_UP, 8u * (uint64_t)PIECE);
    look();
    assert_int_equal(gm_copy_quiet(&device, text), GM_OK);
    for (uint32_t i = 0; i < GM_COPY_DIRECTIONS; i++) {
        const struct stream *s = (const struct stream *)(const void *)device.copy_way[i].pieces;
        assert_int_equal(s->at, s->end);
    }
    look(); /* of whoever waits for the stop */
    assert_int_equal(begun(GM_COPY_UP), AHEAD);
    device.resident = false;
    look();
    device.resident = true;
    device.copies_rest = false;
    look();
    assert_int_equal(begun(GM_COPY_UP), 2u * AHEAD);
    hardware(GM_COPY_UP, AHEAD);
    assert_true(ended(0, GM_OK));
}

static void open_that_fails_leaves_nothing(void **state)
{
    (void)state;
    const uint32_t all = made;
    for (uint32_t at = 1; at <= all; at++) {
        gm_copy_close(&device);
        memset(device.copy_way, 0, sizeof device.copy_way);
        device.core.copies = NULL;
        made = destroyed = 0;
        fail_at = at;
        assert_int_not_equal(gm_copy_open(&device, text), GM_OK);
        assert_int_equal(made, at - 1u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_pieces_are_begun_at_one_time, setup, teardown),
        cmocka_unit_test_setup_teardown(short_copies_never_get_stuck, setup, teardown),
        cmocka_unit_test_setup_teardown(cancel_is_answered_behind_what_was_begun, setup, teardown),
        cmocka_unit_test_setup_teardown(piece_that_the_driver_refuses_fails_its_copy_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(device_is_lost_when_nothing_can_be_told, setup, teardown),
        cmocka_unit_test_setup_teardown(quiet_lasts_until_the_next_launch, setup, teardown),
        cmocka_unit_test_setup_teardown(open_that_fails_leaves_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
