/* SPDX-License-Identifier: Apache-2.0
 *
 * See peers.h. The echo is the floor of any round trip over mapped memory: one thread, one word there, one 16-byte
 * answer back. Launches are timed from the call to the end of the stream's synchronisation, as a program sees them.
 */
#include "peers.cuh"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"
#include "echo.h"

#define GIVE_UP_NS UINT64_C(30000000000)
#define BURST      1000u /* launches before a synchronisation */

extern char **environ;

/* ---- echo ---- */

static __global__ void echo(const uint32_t *in, struct gm_granule *out)
{
    for (uint32_t last = 0; last != GM_ECHO_STOP;) {
        const uint32_t v = gm_load_relaxed_sys_u32(in);
        if (v == last)
            continue;
        last = v;
        const struct gm_granule g = {{v, v, v, v}};
        gm_store16_sys(out, g);
    }
}

/* Over memory of this process. */
static int run_echo(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures)
{
    struct gm_echo *host = NULL, *device = NULL;
    cudaError_t error = cudaHostAlloc((void **)&host, GM_ECHO_PAGE, cudaHostAllocMapped);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "echo: mapped memory", error);
    memset((void *)host, 0, GM_ECHO_PAGE);
    error = cudaHostGetDevicePointer((void **)&device, host, 0);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "echo: address", error);
    echo<<<1, 1, 0, place->stream>>>(&device->word, &device->answer);
    const uint64_t start = gm_peers_now_ns();
    bool answered = true;
    for (uint32_t k = 1; k <= peers->samples + GM_ECHO_WARM_UP && answered; k++) {
        const uint64_t begin = gm_peers_now_ns();
        gm_store_relaxed_sys_u32(&host->word, k);
        for (uint32_t look = 1; gm_load_relaxed_sys_u32(&host->answer.w[0]) != k && answered; look++)
            if (look % (1u << 20) == 0)
                answered = gm_peers_now_ns() - start < GIVE_UP_NS;
        if (k > GM_ECHO_WARM_UP)
            gm_samples_add(&place->samples, gm_peers_now_ns() - begin);
    }
    gm_store_relaxed_sys_u32(&host->word, GM_ECHO_STOP);
    error = cudaStreamSynchronize(place->stream);
    (void)cudaFreeHost(host);
    if (error != cudaSuccess || !answered)
        return gm_peers_failed(peers, "echo: the kernel did not answer", error);
    gm_figures_latency(figures, "peer_echo", "bare echo kernel over mapped memory, round trip", &place->samples);
    return 0;
}

/* The client in a process of its own; whether it ended well in time. */
static bool run_client(const char *client, int fd)
{
    char number[16], flag[] = GM_ECHO_FLAG;
    char *const argv[] = {(char *)client, flag, number, NULL};
    const uint64_t start = gm_peers_now_ns();
    int status = -1;
    pid_t pid;
    snprintf(number, sizeof number, "%d", fd);
    if (posix_spawn(&pid, client, NULL, NULL, argv, environ) != 0)
        return false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (gm_peers_now_ns() - start > GIVE_UP_NS) {
            kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            return false;
        }
        usleep(1000);
    }
    return status == 0;
}

/* With the memory mapped: registers its first page, which is all that the kernel sees. */
static int echo_with(struct gm_peers *peers, struct gm_peers_place *place, struct gm_echo *host, const char *client,
                     int fd)
{
    struct gm_echo *device = NULL;
    cudaError_t error = cudaHostRegister(host, GM_ECHO_PAGE, cudaHostRegisterMapped);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "echo of a process: registering its memory", error);
    error = cudaHostGetDevicePointer((void **)&device, host, 0);
    if (error == cudaSuccess) {
        echo<<<1, 1, 0, place->stream>>>(&device->word, &device->answer);
        error = cudaGetLastError();
    }
    bool answered = false;
    if (error == cudaSuccess) {
        answered = run_client(client, fd);
        gm_store_relaxed_sys_u32(&host->word, GM_ECHO_STOP);
        error = cudaStreamSynchronize(place->stream);
    }
    (void)cudaHostUnregister(host);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "echo of a process", error);
    if (answered)
        return 0;
    snprintf(peers->text, sizeof peers->text, "echo of a process: %.100s failed", client);
    return -1;
}

extern "C" int gm_peers_echo_process(struct gm_peers *peers, struct gm_figures *figures, const char *client)
{
    const size_t bytes = sizeof(struct gm_echo) + peers->samples * sizeof(uint64_t);
    struct gm_peers_place place;
    if (gm_peers_open(peers, &place) != 0)
        return -1;
    const int fd = memfd_create("echo", 0); /* inherited by the client */
    void *memory = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0
                       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    int status = -1;
    if (memory == MAP_FAILED) {
        snprintf(peers->text, sizeof peers->text, "echo of a process: %s", strerror(errno));
    } else {
        struct gm_echo *host = (struct gm_echo *)memory;
        host->count = peers->samples;
        status = echo_with(peers, &place, host, client, fd);
        for (size_t i = 0; status == 0 && i < peers->samples; i++)
            gm_samples_add(&place.samples, host->ns[i]);
        if (status == 0)
            gm_figures_latency(figures, "peer_echo_process",
                               "bare echo kernel, client process without CUDA, round trip", &place.samples);
        munmap(memory, bytes);
    }
    if (fd >= 0)
        close(fd);
    gm_peers_close(&place);
    return status;
}

/* ---- launches ---- */

static __global__ void empty(void) {}

static int run_launches(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures)
{
    const size_t count = peers->samples / 10u + 100u;
    cudaStream_t stream = place->stream;
    int status = gm_peers_timed(peers, place, figures, "peer_launch", "empty kernel, launch + sync", count, 0,
                                [&](size_t) {
                                    empty<<<1, 1, 0, stream>>>();
                                    return cudaGetLastError();
                                });
    if (status != 0)
        return status;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        empty<<<1, 1, 0, stream>>>();
        error = cudaStreamEndCapture(stream, &graph);
    }
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&exec, graph, 0);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "graph", error);
    status = gm_peers_timed(peers, place, figures, "peer_graph", "graph of one empty kernel, launch + sync", count, 0,
                            [&](size_t) { return cudaGraphLaunch(exec, stream); });
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    return status;
}

extern "C" int gm_peers_floor(struct gm_peers *peers, struct gm_figures *figures)
{
    struct gm_peers_place place;
    if (gm_peers_open(peers, &place) != 0)
        return -1;
    int status = run_echo(peers, &place, figures);
    if (status == 0)
        status = run_launches(peers, &place, figures);
    gm_peers_close(&place);
    return status;
}

extern "C" int gm_peers_rate(struct gm_peers *peers, struct gm_figures *figures)
{
    struct gm_peers_place place;
    if (gm_peers_open(peers, &place) != 0)
        return -1;
    const size_t bursts = peers->samples / (2u * BURST) + 1u;
    cudaError_t error = cudaSuccess;
    const uint64_t begin = gm_peers_now_ns();
    for (size_t b = 0; b < bursts && error == cudaSuccess; b++) {
        for (uint32_t i = 0; i < BURST; i++)
            empty<<<1, 1, 0, place.stream>>>();
        error = cudaGetLastError();
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(place.stream);
    }
    const double spent_s = (double)(gm_peers_now_ns() - begin) / 1e9;
    gm_peers_close(&place);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "launches in a row", error);
    gm_figures_value(figures, "peer_launch_rate", "empty kernels a second, launched back to back by one thread", "1/s",
                     (double)(bursts * BURST) / spent_s);
    return 0;
}
