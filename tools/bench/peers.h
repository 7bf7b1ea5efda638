/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program would do on the same GPU without gridmill, measured in the same run. Runs to its end before the
 * resident kernel is started, on the calling thread, and gives everything it took back.
 */
#ifndef GM_BENCH_PEERS_H
#define GM_BENCH_PEERS_H

#include "figures.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gm_peers {
    int device;     /* index */
    size_t samples; /* round trips of the echo; launches are fewer */
    char text[160]; /* of the failure */
};

/* Each: 0, or -1 and a text. */

/* The echo, and launches with their synchronisation. */
int gm_peers_floor(struct gm_peers *peers, struct gm_figures *figures);
/* The echo with a client in another process, which has no CUDA: client is bench_lanes. */
int gm_peers_echo_process(struct gm_peers *peers, struct gm_figures *figures, const char *client);
/* Launches a second, back to back. */
int gm_peers_rate(struct gm_peers *peers, struct gm_figures *figures);

/* ---- peers_sums.cu ---- */

/* CUB's sums of 2^10, 2^12 ... 2^log2 f32, whose inputs are taken in turn from so much memory. */
int gm_peers_sums(struct gm_peers *peers, struct gm_figures *figures, unsigned log2, uint64_t rotated_bytes,
                  uint64_t budget_ns);

/* ---- peers_copies.cu ---- */

/* The copy engine between host and device, both ways, up to 2^log2 bytes. */
int gm_peers_copies(struct gm_peers *peers, struct gm_figures *figures, unsigned log2, uint64_t budget_ns);

/* ---- peers_ops.cu ---- */

/* The peer of every op of the catalogue that has one, at the sizes up to 2^log2_max. */
int gm_peers_ops(struct gm_peers *peers, struct gm_figures *figures, unsigned log2_max, uint64_t rotated_bytes,
                 uint64_t budget_ns);

/* ---- peers_cub.cu ---- */

/* The floor, and CUB's sums, sorts and histogram of the sizes that bench_device has. */
int gm_peers_run(struct gm_peers *peers, struct gm_figures *figures);

/* ---- neighbour.cu ---- */

/* Keeps the GPU busy from this process with launches of a kernel of about kernel_us each, until *stop is set. */
int gm_peers_load(struct gm_peers *peers, const uint32_t *stop, uint32_t kernel_us);

/* Free memory of the GPU in bytes; 0 when it cannot be told. Makes a context. */
uint64_t gm_peers_free_memory(int device);
/* Version text of the driver, "580.65 (CUDA 13.0)" or what of it can be told. */
void gm_peers_driver(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
