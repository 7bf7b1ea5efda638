/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner of a seed: its daemon, the clients that live, and what must be back at the end. One process, one thread.
 */
#ifndef GM_E2E_CHAOS_RUNNER_H
#define GM_E2E_CHAOS_RUNNER_H

#include "chaos.h"

struct runner {
    struct world *world;
    struct daemon daemon;
    struct gm_client *observer; /* on the admin socket */
    struct ledger *client[CLIENTS_MAX];
    uint32_t incarnations[CLIENTS_MAX];
    /* of the first daemon, when it had no other client yet */
    uint64_t base_fds;
    size_t device_fds[DEVICES_HERE], device_maps[DEVICES_HERE];
    pid_t first[DEVICES_HERE]; /* its first device processes */
    pid_t frozen[DEVICES_HERE];
    pid_t gone[DEVICES_HERE]; /* that we killed last: the daemon may not know yet */
    uint64_t thaw_ms[DEVICES_HERE];
    bool drill, drill_crashes; /* of the daemon that runs; the first daemon's was one that does */
    struct figures seen;
    const char *summary; /* of the last audit */
};

/* chaos_run.c */
void runner_start_daemon(struct runner *runner);
/* SIGKILL, or SIGTERM and status 0. */
void runner_end_daemon(struct runner *runner, int signal);
/* Children that ended; complains about one that should not have. */
void runner_reap(struct runner *runner);
void runner_figures(struct runner *runner, struct figures *figures);
void runner_thaw(struct runner *runner, uint32_t device);

/* chaos_fault.c */
void runner_fault(struct runner *runner, const struct fault *fault);

/* chaos_check.c */
/* Memory files that a process maps. */
size_t maps_of(pid_t pid);
/* Waits until nothing is under way, and looks at everything. */
void check_quiet(struct runner *runner);
/* Descriptors and memory of a device process are what they were. */
void check_device_base(struct runner *runner, const struct figures *figures, uint32_t device);
/* No client is left. */
void check_base(struct runner *runner);
/* What sanitizers and assertions wrote. */
void check_log(struct runner *runner);

#endif
