/* SPDX-License-Identifier: Apache-2.0
 *
 * See process.h. Figures come from /proc, where the scheduler counts a thread's time on a processor in nanoseconds.
 */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t gm_bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void gm_bench_sleep_ms(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000u, .tv_nsec = (long)(ms % 1000u) * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

bool gm_process_folder(struct gm_server_process *server)
{
    memset(server, 0, sizeof *server);
    snprintf(server->folder, sizeof server->folder, "/tmp/gridmill-bench-XXXXXX");
    if (!mkdtemp(server->folder))
        return false;
    snprintf(server->socket, sizeof server->socket, "%s/s", server->folder);
    snprintf(server->log, sizeof server->log, "%s/log", server->folder);
    return true;
}

bool gm_process_start(struct gm_server_process *server, char *const *argv)
{
    const pid_t pid = fork();
    if (pid < 0)
        return false;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int log = open(server->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        const int null = open("/dev/null", O_RDONLY);
        dup2(null, STDIN_FILENO);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        execv(argv[0], argv);
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    server->pid = pid;
    return true;
}

bool gm_process_alive(struct gm_server_process *server)
{
    int status;
    if (server->pid != 0 && waitpid(server->pid, &status, WNOHANG) == server->pid)
        server->pid = 0;
    return server->pid != 0;
}

static void remove_folder(const struct gm_server_process *server)
{
    char path[400];
    DIR *folder = opendir(server->folder);
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", server->folder, e->d_name);
        unlink(path);
    }
    if (folder)
        closedir(folder);
    rmdir(server->folder);
}

int gm_process_stop(struct gm_server_process *server, uint32_t wait_ms)
{
    int status = -1;
    bool gone = server->pid == 0;
    if (!gone)
        kill(server->pid, SIGTERM);
    for (uint32_t ms = 0; !gone && ms < wait_ms; ms += 10) {
        gone = waitpid(server->pid, &status, WNOHANG) == server->pid;
        if (!gone)
            gm_bench_sleep_ms(10);
    }
    if (!gone) {
        kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, &status, 0);
        status = -1;
    }
    server->pid = 0;
    remove_folder(server);
    return status == -1 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void gm_process_show_log(const struct gm_server_process *server)
{
    char line[512];
    FILE *log = fopen(server->log, "re");
    while (log && fgets(line, sizeof line, log))
        fprintf(stderr, "    | %s", line);
    if (log)
        fclose(log);
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fgets(text, sizeof text, f)) {
        const char *after = strrchr(text, ')'); /* the name may hold anything */
        if (after)
            (void)sscanf(after + 1, " %*c %d", &parent);
    }
    fclose(f);
    return parent;
}

uint32_t gm_process_family(pid_t pid, pid_t family[GM_PROCESSES_MAX])
{
    uint32_t count = 0;
    family[count++] = pid;
    DIR *folder = opendir("/proc");
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL && count < GM_PROCESSES_MAX;) {
        const pid_t other = (pid_t)strtol(e->d_name, NULL, 10); /* 0 for what is no number */
        if (other > 0 && parent_of(other) == pid)
            family[count++] = other;
    }
    if (folder)
        closedir(folder);
    return count;
}

uint64_t gm_process_cpu_ns(pid_t pid)
{
    char path[384];
    uint64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        unsigned long long ns = 0;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (!f)
            continue;
        if (fscanf(f, "%llu", &ns) == 1)
            sum += ns;
        fclose(f);
    }
    if (folder)
        closedir(folder);
    return sum;
}

uint64_t gm_process_resident(pid_t pid)
{
    char path[64];
    unsigned long long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    const int got = f ? fscanf(f, "%llu %llu", &all, &resident) : 0;
    if (f)
        fclose(f);
    return got == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

bool gm_process_maps(pid_t pid, const char *text)
{
    char path[64], line[4352];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        found = found || strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}
