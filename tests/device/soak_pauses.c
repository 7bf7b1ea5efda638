/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops and starts a device again and again, with jobs between and a registration of host memory in every pause, and
 * compares what the process holds: descriptors, threads, resident memory, and on a GPU free device memory. One thread;
 * bounded by the number of cycles. Exit status 1 when anything grew.
 */
#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bed.h"
#ifdef GM_BED_CUDA
#include "peers.h"
#endif

#define WARM_UP      50u
#define JOBS         64u
#define NUMBERS      100000u
#define MAPPED       65536u
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif

#if defined(UNDER_SANITIZER) || defined(GM_TSAN)
#define GROWTH_BYTES (UINT64_C(1) << 30) /* the tool keeps a history of every thread that ever ran */
#else
#define GROWTH_BYTES (UINT64_C(2) << 20) /* allocators settle; a leak of a page a cycle is twice that */
#endif

struct holdings {
    uint64_t descriptors, threads, resident, device_free;
};

static uint64_t entries_of(const char *path)
{
    DIR *folder = opendir(path);
    uint64_t count = 0;
    if (!folder)
        return 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static uint64_t resident_bytes(void)
{
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    const int got = fscanf(f, "%llu %llu", &all, &resident);
    fclose(f);
    return got == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* While the device is stopped. */
static struct holdings take_stock(const struct gm_bed *bed)
{
    struct holdings h = {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), resident_bytes(), 0};
#ifdef GM_BED_CUDA
    if (bed->backend->unmap_needs_stop)
        h.device_free = gm_peers_free_memory(0);
#else
    (void)bed;
#endif
    return h;
}

static int cycle(struct gm_bed *bed, const uint32_t *sum, uint64_t expected, struct holdings *held)
{
    static const uint32_t nop[GM_DESC_WORDS] = {GM_OP_nop};
    uint64_t position[JOBS], result = 0, address;
    struct gm_granule completion;
    int status = GM_OK;
    for (uint32_t i = 0; i < JOBS && status == GM_OK; i++)
        status = gm_bed_submit(bed, i % 16u == 0 ? sum : nop, &position[i]);
    for (uint32_t i = 0; i < JOBS && status == GM_OK; i++) {
        status = gm_bed_wait(bed, position[i], &completion);
        result = i % 16u == 0 ? expected : 0;
        if (status == GM_OK &&
            (gm_completion_status(completion) != GM_OK || gm_completion_result(completion) != result)) {
            snprintf(bed->text, sizeof bed->text, "wrong answer at position %llu", (unsigned long long)position[i]);
            status = GM_EINTERNAL;
        }
    }
    if (status == GM_OK)
        status = gm_admin_stop(&bed->admin, bed->text);
    if (status != GM_OK)
        return status;
    void *memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return GM_ENOMEM;
    status = bed->backend->map(bed->device, memory, MAPPED, &address, bed->text);
    if (status == GM_OK)
        status = bed->backend->unmap(bed->device, memory, MAPPED, bed->text);
    munmap(memory, MAPPED);
    *held = take_stock(bed);
    return status == GM_OK ? bed->backend->start(bed->device, bed->text) : status;
}

static bool compare(const struct holdings *first, const struct holdings *last)
{
    const bool same = first->descriptors == last->descriptors && first->threads == last->threads &&
                      last->resident <= first->resident + GROWTH_BYTES &&
                      last->device_free + GROWTH_BYTES > first->device_free;
    printf("descriptors=%llu,%llu threads=%llu,%llu resident_bytes=%llu,%llu device_free_bytes=%llu,%llu\n",
           (unsigned long long)first->descriptors, (unsigned long long)last->descriptors,
           (unsigned long long)first->threads, (unsigned long long)last->threads,
           (unsigned long long)first->resident, (unsigned long long)last->resident,
           (unsigned long long)first->device_free, (unsigned long long)last->device_free);
    if (!same)
        fprintf(stderr, "soak_pauses: the process holds more than after %u cycles\n", WARM_UP);
    return same;
}

static int run(struct gm_bed *bed, uint32_t cycles)
{
    struct gm_bed_arena *arena = NULL;
    uint32_t sum[GM_DESC_WORDS];
    struct holdings first = {0}, last = {0};
    int status = gm_bed_arena_open(bed, NUMBERS * 4u, false, 1, &arena);
    if (status != GM_OK)
        return status;
    uint32_t *numbers = (uint32_t *)(void *)arena->host;
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers[i] = i;
    gm_bed_words(sum, GM_OP_sum, GM_DTYPE_u32, NUMBERS, arena, 0, NULL, 0);
    const uint64_t begin = gm_bed_now_ns();
    for (uint32_t i = 0; i < WARM_UP + cycles && status == GM_OK; i++) {
        status = cycle(bed, sum, (uint64_t)NUMBERS * (NUMBERS - 1u) / 2u, &last);
        if (i == WARM_UP - 1u)
            first = last;
    }
    if (status != GM_OK)
        return status;
    printf("soak_pauses backend=%s cycles=%u jobs=%u seconds=%.2f ", bed->backend->name, WARM_UP + cycles,
           (WARM_UP + cycles) * JOBS, (double)(gm_bed_now_ns() - begin) / 1e9);
    if (!compare(&first, &last)) {
        snprintf(bed->text, sizeof bed->text, "grew");
        return GM_EINTERNAL;
    }
    return gm_bed_close(bed);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
                                            {"cycles", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    static struct gm_bed bed;
    const char *name = "cpu";
    long cycles = 1000;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        if (c == 'b')
            name = optarg;
        else if (c != 'c' || (cycles = strtol(optarg, &end, 10), *end != 0) || cycles < 1 || cycles > 1000000)
            return fputs("usage: soak_pauses [--backend cpu|cuda] [--cycles N]\n", stderr), 2;
    }
    const struct gm_backend *backend = gm_bed_backend(name);
    if (!backend) {
        fprintf(stderr, "soak_pauses: skipped: this build has no %s backend\n", name);
        return 77;
    }
    const struct gm_device_config config = {.device = strcmp(name, "cuda") == 0 ? "cuda:0" : "cpu",
                                            .workspace_bytes = UINT64_C(64) << 20,
                                            .idle_ns = UINT64_MAX};
    int status = gm_bed_open(&bed, backend, &config, 0);
    if (status == GM_OK)
        status = run(&bed, (uint32_t)cycles);
    if (status != GM_OK)
        fprintf(stderr, "soak_pauses: %s%s (status %d)\n", status == GM_ENODEVICE ? "skipped: " : "", bed.text, status);
    return status == GM_OK ? 0 : status == GM_ENODEVICE ? 77 : 1;
}
