/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that take turns on one OS thread: a fiber runs until it switches to another one. One thread; the stacks are
 * mapped once, each above a page that nobody may touch.
 */
#ifndef GM_SIMT_FIBER_H
#define GM_SIMT_FIBER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gm_fiber {
    void *at;       /* where it was left: its stack pointer, or its ucontext */
    uint8_t *stack; /* its lowest byte; NULL: the thread's own stack */
    size_t bytes;
    void *fake; /* of the address sanitizer */
};

/* Maps stacks for so many fibers; ends the program when there is no memory. */
void gm_fibers_open(struct gm_fiber *fibers, uint32_t count);
/* The stack that the thread runs on now. */
void gm_fiber_adopt(struct gm_fiber *fiber);
/* Makes it begin with entry, which must not return. What stood on its stack is gone: the frames of entry alone, or
 * whatever, if gm_fiber_abandon was told. */
void gm_fiber_begin(struct gm_fiber *fiber, void (*entry)(void));
void gm_fiber_abandon(struct gm_fiber *fiber);
/* from: the one that runs. Returns when another fiber switches back to it. */
void gm_fiber_switch(struct gm_fiber *from, struct gm_fiber *to);

#ifdef __cplusplus
}
#endif
#endif
