/* SPDX-License-Identifier: Apache-2.0
 *
 * The device process of a GPU, which starts the kernel again when somebody rings. It must not wait for the end of a
 * kernel because that says asleep: the dispatcher may have found something in its last look and go on, or the flag may be
 * the last launch's, not yet cleared by this one. Included by model.pml.
 */

#if PARKS && !PARK_IN_FLIGHT
proctype host()
{
end_host:
    do
    :: d_step { doorbell -> doorbell = false };
        if
        :: asleep_admin ->
#ifdef MUT_HOST_JOIN
            (gone);
#else
            (gone || !asleep_admin);
#endif
            if
            :: gone -> d_step { gone = false; halted = 0; life = 1 - life }
            :: else
            fi
        :: else
        fi
    od
}
#endif
