/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target over a corpus with any compiler: every file as it is, then a fixed number of mutations that
 * depend on nothing but the file, so that a failure comes again. Usage: replay_X MUTATIONS DIRECTORY... One thread;
 * inputs are at most 64 KiB.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX 65536u

static struct {
    char path[4096];
    unsigned long mutation;
    unsigned long inputs;
} now;

/* Says which input it was; the stack is the debugger's or the sanitizer's business. */
static void on_abort(int signal_number)
{
    dprintf(STDERR_FILENO, "signal %d in mutation %lu of %s\n", signal_number, now.mutation, now.path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static uint64_t random_state;
static uint32_t random_below(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * bound >> 32);
}

static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x91, 0x94, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1,
                                  0xc2, 0xc4, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd8, 0xd9, 0xdb, 0xdc,
                                  0xdd, 0xde, 0xdf, 0xe0, 0xff};

/* One change; returns the new size. */
static size_t mutate(uint8_t *input, size_t size)
{
    const uint32_t at = size > 0 ? random_below((uint32_t)size) : 0;
    const uint32_t run = 1 + random_below(16);
    if (size == 0 || (random_below(4) == 0 && size + run <= INPUT_MAX)) { /* insert */
        memmove(input + at + run, input + at, size - at);
        for (uint32_t i = 0; i < run; i++)
            input[at + i] = random_below(2) ? telling[random_below(sizeof telling)] : (uint8_t)random_below(256);
        return size + run;
    }
    switch (random_below(6)) {
    case 0: /* delete */
        if (run > size - at)
            return at;
        memmove(input + at, input + at + run, size - at - run);
        return size - run;
    case 1: /* copy from elsewhere in it */
        memmove(input + at, input + random_below((uint32_t)size - (run < size - at ? run : (uint32_t)size - at) + 1),
                run < size - at ? run : size - at);
        return size;
    case 2:
        input[at] ^= (uint8_t)(1u << random_below(8));
        return size;
    case 3:
        input[at] = (uint8_t)(input[at] + random_below(3) - 1);
        return size;
    default:
        input[at] = telling[random_below(sizeof telling)];
        return size;
    }
}

/* The target sees memory of exactly the input's size. */
static void run(const uint8_t *input, size_t size)
{
    uint8_t *const exact = malloc(size > 0 ? size : 1);
    must(exact != NULL);
    memcpy(exact, input, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    now.inputs++;
}

static bool replay_file(unsigned long mutations)
{
    static uint8_t seed[INPUT_MAX], input[INPUT_MAX];
    FILE *const file = fopen(now.path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", now.path, strerror(errno));
        return false;
    }
    const size_t seed_size = fread(seed, 1, sizeof seed, file);
    fclose(file);
    random_state = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < seed_size; i++)
        random_state = (random_state ^ seed[i]) * UINT64_C(0x100000001b3);
    random_state |= 1;
    now.mutation = 0;
    run(seed, seed_size);
    for (now.mutation = 1; now.mutation <= mutations; now.mutation++) {
        size_t size = seed_size;
        memcpy(input, seed, seed_size);
        for (uint32_t changes = 1 + random_below(4); changes > 0; changes--)
            size = mutate(input, size);
        run(input, size);
    }
    return true;
}

static bool replay_directory(const char *directory, unsigned long mutations, unsigned long *files)
{
    DIR *const d = opendir(directory);
    struct stat st;
    bool good = true;
    if (d == NULL) {
        fprintf(stderr, "%s: %s\n", directory, strerror(errno));
        return false;
    }
    for (const struct dirent *e = readdir(d); e != NULL && good; e = readdir(d)) {
        if ((size_t)snprintf(now.path, sizeof now.path, "%s/%s", directory, e->d_name) >= sizeof now.path)
            good = false;
        else if (stat(now.path, &st) == 0 && S_ISREG(st.st_mode)) {
            good = replay_file(mutations);
            (*files)++;
        }
    }
    closedir(d);
    return good;
}

int main(int argc, char **argv)
{
    char *rest = NULL;
    const unsigned long mutations = argc > 2 ? strtoul(argv[1], &rest, 10) : 0;
    unsigned long files = 0;

    if (argc < 3 || *rest != '\0') {
        fprintf(stderr, "usage: %s MUTATIONS DIRECTORY...\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, on_abort);
    for (int i = 2; i < argc; i++)
        if (!replay_directory(argv[i], mutations, &files))
            return 1;
    printf("%lu seeds, %lu inputs\n", files, now.inputs);
    if (files == 0) {
        fprintf(stderr, "no seeds: nothing was tested\n");
        return 1;
    }
    return 0;
}
