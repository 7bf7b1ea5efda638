/* SPDX-License-Identifier: Apache-2.0
 *
 * void gm_simt_jump(void **here, void *there): leaves a stack and goes on where another one was left. Keeps what the
 * System V ABI of x86-64 says a call keeps; the control words of floating point never change here. Any thread.
 */
    .text
    .globl gm_simt_jump
    .type gm_simt_jump, @function
gm_simt_jump:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
    .size gm_simt_jump, . - gm_simt_jump
    .section .note.GNU-stack, "", @progbits
