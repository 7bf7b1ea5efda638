/* SPDX-License-Identifier: Apache-2.0
 *
 * Children of bench_socket: a server in a folder of its own, and what it costs. One thread; a child dies with its
 * parent.
 */
#ifndef GM_BENCH_PROCESS_H
#define GM_BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GM_PROCESSES_MAX 32

struct gm_server_process {
    pid_t pid; /* 0: none */
    char folder[64], socket[96], log[96];
};

/* A fresh folder with names for the socket and the log. */
bool gm_process_folder(struct gm_server_process *server);
/* Executes argv[0] with its output in the log. */
bool gm_process_start(struct gm_server_process *server, char *const *argv);
bool gm_process_alive(struct gm_server_process *server);
/* SIGTERM, then SIGKILL after the time; removes the folder. The exit status, 128 + signal, or -1 when it was killed. */
int gm_process_stop(struct gm_server_process *server, uint32_t wait_ms);
/* The last lines of the log, to standard error. */
void gm_process_show_log(const struct gm_server_process *server);

/* The process and its children; returns how many. */
uint32_t gm_process_family(pid_t pid, pid_t family[GM_PROCESSES_MAX]);
/* CPU time of all threads in nanoseconds; resident bytes; whether a mapped file's name holds the text. */
uint64_t gm_process_cpu_ns(pid_t pid);
uint64_t gm_process_resident(pid_t pid);
bool gm_process_maps(pid_t pid, const char *text);

uint64_t gm_bench_now_ns(void);
void gm_bench_sleep_ms(uint32_t ms);

#endif
