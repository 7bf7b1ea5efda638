/* SPDX-License-Identifier: Apache-2.0
 *
 * See fiber.h. On x86-64 a switch is a few instructions (switch.S); elsewhere ucontext, which asks the kernel for the
 * signal mask each time. The address sanitizer is told of every switch.
 */
#include "fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef GM_SIMT_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES (UINT64_C(512) << 10) /* address space: only what is touched is memory */
#else
#define STACK_BYTES (UINT64_C(128) << 10)
#endif

#if !defined(__x86_64__) || defined(GM_SIMT_UCONTEXT)
#define FIBER_UCONTEXT 1
#include <ucontext.h>
#else
extern "C" void gm_simt_jump(void **here, void *there);
#endif

/* Frames of all stacks at the same distance from their tops would share a few sets of the cache. */
static size_t color(uint32_t index)
{
    return index % 61u * 1088u % 16384u / 64u * 64u;
}

void gm_fibers_open(struct gm_fiber *fibers, uint32_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), each = STACK_BYTES + page;
    uint8_t *all =
        (uint8_t *)mmap(NULL, each * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        perror("stacks of fibers");
        abort();
    }
    for (uint32_t i = 0; i < count; i++) {
        if (mprotect(all + i * each, page, PROT_NONE) != 0) {
            perror("guard page of a fiber");
            abort();
        }
        fibers[i].stack = all + i * each + page;
        fibers[i].bytes = STACK_BYTES - color(i);
        fibers[i].at = NULL;
        fibers[i].fake = NULL;
#ifdef FIBER_UCONTEXT
        fibers[i].at = calloc(1, sizeof(ucontext_t));
        if (fibers[i].at == NULL)
            abort();
#endif
    }
}

void gm_fiber_adopt(struct gm_fiber *fiber)
{
    memset(fiber, 0, sizeof *fiber);
#ifdef GM_SIMT_ASAN
    pthread_attr_t attr;
    void *stack = NULL;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &stack, &fiber->bytes);
    pthread_attr_destroy(&attr);
    fiber->stack = (uint8_t *)stack;
#endif
#ifdef FIBER_UCONTEXT
    static ucontext_t own;
    fiber->at = &own;
#endif
}

static void (*first)(void);

/* The first frame of every fiber. */
static void enter(void)
{
#ifdef GM_SIMT_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    first();
    abort();
}

void gm_fiber_abandon(struct gm_fiber *fiber)
{
#ifdef GM_SIMT_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->bytes);
#else
    (void)fiber;
#endif
}

void gm_fiber_begin(struct gm_fiber *fiber, void (*entry)(void))
{
    first = entry; /* the same one for all */
#ifdef FIBER_UCONTEXT
    ucontext_t *context = (ucontext_t *)fiber->at;
    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = fiber->bytes;
    context->uc_link = NULL;
    makecontext(context, enter, 0);
#else
    /* As gm_simt_jump leaves a stack: six registers and where to go on; the stack is off by eight there, as behind a
     * call. */
    void **top = (void **)(((uintptr_t)fiber->stack + fiber->bytes) & ~(uintptr_t)63);
    *--top = NULL;
    *--top = (void *)enter;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    fiber->at = top;
#endif
}

void gm_fiber_switch(struct gm_fiber *from, struct gm_fiber *to)
{
#ifdef GM_SIMT_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
#endif
#ifdef FIBER_UCONTEXT
    swapcontext((ucontext_t *)from->at, (const ucontext_t *)to->at);
#else
    gm_simt_jump(&from->at, to->at);
#endif
#ifdef GM_SIMT_ASAN
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}
