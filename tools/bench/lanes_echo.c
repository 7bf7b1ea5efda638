/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of an echo kernel in a process that has no CUDA in it: round trips over the memory of echo.h, which came
 * along as a descriptor. One thread that spins; it gives up when there is no answer for ECHO_NS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "echo.h"
#include "lanes.h"

#define ECHO_NS     UINT64_C(10000000000)
#define CLOCK_LOOKS (1u << 16)

static bool echo_once(struct gm_echo *echo, uint32_t word, uint64_t *spent_ns)
{
    const uint64_t begin = gm_bench_now_ns();
    gm_store_relaxed_sys_u32(&echo->word, word);
    for (uint32_t look = 1; gm_load_relaxed_sys_u32(&echo->answer.w[0]) != word; look++)
        if (look % CLOCK_LOOKS == 0 && gm_bench_now_ns() - begin > ECHO_NS)
            return false;
    *spent_ns = gm_bench_now_ns() - begin;
    return true;
}

int gm_lanes_echo(const char *text)
{
    const int fd = (int)strtol(text, NULL, 10);
    struct stat file;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fstat(fd, &file) != 0 || (size_t)file.st_size < sizeof(struct gm_echo))
        return fputs("bench_lanes: no echo behind this descriptor\n", stderr), 1;
    struct gm_echo *const echo = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (echo == MAP_FAILED)
        return perror("bench_lanes: echo"), 1;
    const uint64_t count = echo->count;
    if (count > ((size_t)file.st_size - sizeof *echo) / sizeof *echo->ns)
        return fputs("bench_lanes: the memory is too small for the echoes\n", stderr), 1;
    for (uint64_t i = 0; i < count + GM_ECHO_WARM_UP; i++) {
        uint64_t spent_ns = 0;
        if (!echo_once(echo, (uint32_t)i + 1u, &spent_ns))
            return fputs("bench_lanes: the echo did not answer\n", stderr), 1;
        if (i >= GM_ECHO_WARM_UP)
            echo->ns[i - GM_ECHO_WARM_UP] = spent_ns;
    }
    return 0;
}
