/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's configuration: flags over environment over defaults. Parsed once, before the loop runs, into one fixed
 * struct; every text has a bound.
 */
#ifndef GM_DAEMON_CONFIG_H
#define GM_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "limits.h"
#include "log.h"

/* sun_path has 108 bytes with its zero; PATH.admin must fit too. */
#define GM_SOCKET_PATH_MAX 107u
#define GM_ADMIN_SUFFIX ".admin"
#define GM_LOCK_SUFFIX ".lock"
#define GM_CONFIG_ERROR 512u
#define GM_PATH_BYTES 4096u /* of any other path, with its zero */

#define GM_SPIN_AUTO UINT32_MAX

/* Exit status of gridmilld. */
enum gm_exit { GM_EXIT_OK = 0, GM_EXIT_FAILED = 1, GM_EXIT_USAGE = 2, GM_EXIT_RUNNING = 3 };

struct gm_config_device {
    uint32_t backend; /* enum gm_backend_kind */
    bool automatic;   /* fall back to the CPU, and say so */
    uint32_t workers; /* of cpu:N; 0: what --workers says */
    char name[64];    /* as the device process takes it: "cpu", "cuda:0", "cuda:GPU-..." */
};

struct gm_config {
    char socket[GM_SOCKET_PATH_MAX + 1];
    char program[GM_PATH_BYTES]; /* --device-program; empty: beside ourselves, then libexecdir */
    struct gm_config_device device[GM_DEVICES_MAX];
    uint32_t devices;
    uint32_t workers;   /* 0: the device process decides */
    uint64_t workspace; /* 0: the device process decides */
    uint32_t idle_park_ms, drain_ms;
    uint32_t spin_us;       /* GM_SPIN_AUTO: what suits the machine */
    uint64_t memory, quota; /* bytes of shared memory, of all; of memory of any kind, of one uid */
    /* of one uid; lanes: on one device; memory: bytes of shared memory */
    uint32_t user_sessions, user_jobs, user_lanes, user_arenas;
    uint64_t user_memory;
    enum gm_log_level level;
};

enum gm_config_action { GM_CONFIG_RUN, GM_CONFIG_HELP, GM_CONFIG_VERSION, GM_CONFIG_CHECK };

/* OK and an action, or EINVAL and a sentence that names the flag. */
int gm_config_parse(struct gm_config *config, int argc, char **argv, enum gm_config_action *action,
                    char error[GM_CONFIG_ERROR]);
void gm_config_help(void);
void gm_config_print(const struct gm_config *config);

/* Bytes with an optional k, m, g or t (powers of 1024). false: not a number, or more than 64 bits. */
bool gm_config_bytes(const char *text, uint64_t *bytes);

/* Path of the device process of a backend; false when there is none to execute (the path tried is filled in). */
bool gm_config_program(const struct gm_config *config, uint32_t backend, char *path, size_t size);

/* Memory that this cgroup, or else the machine, has free; and half of it. */
uint64_t gm_memory_free(void);
uint64_t gm_memory_budget(void);

#endif
