/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy engine as the peer of our copies between host and device: cudaMemcpyAsync of the same sizes and its
 * synchronisation. The memory of the host is registered as that of our arenas is, pages of a memfd. One thread, one
 * stream; every byte that came back is compared.
 */
#include "peers.cuh"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "copies.h"

struct copies {
    uint8_t *host, *device; /* host: what is copied from, and behind it what is copied back */
    uint64_t bytes;         /* of each of them */
};

static uint8_t byte_of(uint64_t i, unsigned log2) { return (uint8_t)((i + log2) * 2654435761u >> 16); }

static cudaError_t copies_make(struct copies *c)
{
    const int fd = memfd_create("copies", MFD_CLOEXEC);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)(2u * c->bytes)) == 0)
        memory = mmap(NULL, 2u * c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    c->host = (uint8_t *)memory;
    const cudaError_t error = cudaHostRegister(memory, 2u * c->bytes, cudaHostRegisterDefault);
    return error == cudaSuccess ? cudaMalloc((void **)&c->device, c->bytes) : error;
}

static int timed(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures, const char *way,
                 unsigned log2, uint64_t budget_ns, void *to, const void *from, cudaMemcpyKind kind)
{
    char name[48], what[112];
    const size_t bytes = (size_t)1 << log2;
    double median_ns = 0;
    snprintf(name, sizeof name, "peer_copy_%s_%u", way, log2);
    snprintf(what, sizeof what, "copy engine, 2^%u bytes %s the device, cudaMemcpyAsync + sync", log2,
             way[0] == 'u' ? "to" : "from");
    const int status = gm_peers_timed(peers, place, figures, name, what, peers->samples / 10u + 10u, budget_ns,
                                      [&](size_t) { return cudaMemcpyAsync(to, from, bytes, kind, place->stream); },
                                      &median_ns);
    if (status != 0)
        return status;
    snprintf(name, sizeof name, "peer_copy_%s_rate_%u", way, log2);
    gm_figures_value(figures, name, "of it, at the median", "GB/s", median_ns != 0 ? (double)bytes / median_ns : 0);
    return 0;
}

static int copies_of(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures,
                     const struct copies *c, unsigned log2, uint64_t budget_ns)
{
    const uint64_t bytes = UINT64_C(1) << log2;
    uint8_t *back = c->host + c->bytes;
    for (uint64_t i = 0; i < bytes; i++)
        c->host[i] = byte_of(i, log2);
    int status = timed(peers, place, figures, "up", log2, budget_ns, c->device, c->host, cudaMemcpyHostToDevice);
    if (status == 0)
        status = timed(peers, place, figures, "down", log2, budget_ns, back, c->device, cudaMemcpyDeviceToHost);
    if (status != 0 || memcmp(back, c->host, bytes) == 0)
        return status;
    snprintf(peers->text, sizeof peers->text, "copy engine: what came back is not what was sent");
    return -1;
}

extern "C" int gm_peers_copies(struct gm_peers *peers, struct gm_figures *figures, unsigned log2, uint64_t budget_ns)
{
    struct copies c = {};
    struct gm_peers_place place;
    c.bytes = UINT64_C(1) << log2;
    if (gm_peers_open(peers, &place) != 0)
        return -1;
    const cudaError_t error = copies_make(&c);
    int status = error == cudaSuccess ? 0 : gm_peers_failed(peers, "copy engine: memory", error);
    for (unsigned k = GM_COPIES_LOG2_MIN; k <= log2 && status == 0; k += GM_COPIES_LOG2_STEP)
        status = copies_of(peers, &place, figures, &c, k, budget_ns);
    (void)cudaFree(c.device);
    if (c.host) {
        (void)cudaHostUnregister(c.host);
        munmap(c.host, 2u * c.bytes);
    }
    gm_peers_close(&place);
    return status;
}
