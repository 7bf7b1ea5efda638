/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU this process owns: by index or UUID, with a lock file on the UUID so that no second process takes it, and
 * what it looks like. Main thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cuda/gpu.h"

/* A killed process lets go of its files only when the driver has torn its context down, measured 0.5 to 1.5 s on an
 * otherwise idle machine: whoever starts over a dead daemon's socket has to outlast that. Well below GM_HELLO_MS. */
#define GM_LOCK_WAIT_MS 8000u
#define GM_LOCK_LOOK_MS 10u

#define GM_DRIVER_SLACK_NS 100000000ul

int gm_gpu_fail(char *text, int status, const char *what, cudaError_t error)
{
    snprintf(text, GM_ERROR_TEXT_MAX, "%s: %s", what, cudaGetErrorString(error));
    return status;
}

static void uuid_text(const cudaUUID_t *uuid, char *text, size_t size)
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* For every user, whatever the umask is: who cannot open it could not see that the GPU is taken. */
static int create_lock(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0 && fchmod(fd, 0666) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The name is opened before it is created: in a folder that everybody may write the kernel refuses both at once. */
static int open_or_create(const char *path)
{
    int fd;
    do {
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT)
            fd = create_lock(path);
    } while (fd < 0 && errno == EEXIST); /* another process was faster */
    return fd;
}

/* The lock file, in the first folder that can have it. One that is there and cannot be opened is never passed over for
 * the next folder: its owner would not see us. */
static int open_lock(const char *uuid, char *path, size_t size)
{
    static const char *const folders[] = {"/run/lock", "/tmp"};
    int fd = -1;
    for (unsigned i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, size, "%s/gridmill-%s.lock", folders[i], uuid);
        fd = open_or_create(path);
        const int error = errno;
        const bool passed = error == ENOENT || error == EROFS || error == EACCES;
        if (fd >= 0 || !passed || access(path, F_OK) == 0) {
            errno = error;
            return fd;
        }
    }
    return fd;
}

/* Tries for as long as a process that is being killed may still hold it. */
static bool take_lock(int fd)
{
    const struct timespec nap = {0, GM_LOCK_LOOK_MS * 1000000};
    for (unsigned waited = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited += GM_LOCK_LOOK_MS) {
        if (errno != EINTR && (errno != EWOULDBLOCK || waited >= GM_LOCK_WAIT_MS))
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

/* Held until the process ends; says whose it is. */
static int lock(struct gm_device *device, const char *uuid, char *text)
{
    char path[128], pid[16] = "?";
    const int fd = open_lock(uuid, path, sizeof path);
    if (fd < 0 && errno == EACCES && access(path, F_OK) == 0) {
        snprintf(text, GM_ERROR_TEXT_MAX, "another user's gridmill-device owns this GPU (lock %.80s)", path);
        return GM_EBUSY;
    }
    if (fd < 0) {
        snprintf(text, GM_ERROR_TEXT_MAX, "lock file %s: %s", path, strerror(errno));
        return GM_ESYSTEM;
    }
    if (!take_lock(fd)) {
        const ssize_t got = errno == EWOULDBLOCK ? pread(fd, pid, sizeof pid - 1u, 0) : 0;
        if (got > 0)
            pid[got] = 0, pid[strcspn(pid, "\n")] = 0;
        close(fd);
        snprintf(text, GM_ERROR_TEXT_MAX, "another gridmill-device (pid %s) owns this GPU (lock %.80s)", pid, path);
        return GM_EBUSY;
    }
    const int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)length, 0) != length) {
        snprintf(text, GM_ERROR_TEXT_MAX, "lock file %s: %s", path, strerror(errno));
        close(fd);
        return GM_ESYSTEM;
    }
    device->lock_fd = fd;
    return GM_OK;
}

static int find(const char *name, int count, int *ordinal, char *text)
{
    const char *which = strncmp(name, "cuda:", 5) == 0 ? name + 5 : strcmp(name, "cuda") == 0 ? "0" : name;
    char *end;
    const long index = strtol(which, &end, 10);
    if (*which != 0 && *end == 0 && index >= 0 && index < count) {
        *ordinal = (int)index;
        return GM_OK;
    }
    for (int i = 0; *end != 0 && i < count; i++) {
        struct cudaDeviceProp p;
        char uuid[48];
        if (cudaGetDeviceProperties(&p, i) != cudaSuccess)
            continue;
        uuid_text(&p.uuid, uuid, sizeof uuid);
        if (strcmp(uuid, which) == 0) {
            *ordinal = i;
            return GM_OK;
        }
    }
    snprintf(text, GM_ERROR_TEXT_MAX, "no GPU %.60s; this machine has %d", which, count);
    return GM_ENODEVICE;
}

/* CUDA calls a driver that is missing one that is too old. */
static int no_gpu(char *text, cudaError_t error)
{
    int driver = 0, runtime = 0;
    if (error != cudaErrorInsufficientDriver)
        return gm_gpu_fail(text, GM_ENODEVICE, "no usable GPU", error);
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        snprintf(text, GM_ERROR_TEXT_MAX, "no NVIDIA driver is installed");
    else
        snprintf(text, GM_ERROR_TEXT_MAX, "the NVIDIA driver is for CUDA %d.%d, and this program for %d.%d",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return GM_ENODEVICE;
}

/* The driver's threads look around now and then, also when nothing happens. How late a timer of theirs may be they
 * inherit from the thread that starts them, which is this one: so late that looks are few and fall together with other
 * timers. Timers alone are late, not what comes by a descriptor. */
static cudaError_t make_context(int ordinal)
{
    const int own = prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul);
    (void)prctl(PR_SET_TIMERSLACK, GM_DRIVER_SLACK_NS, 0ul, 0ul, 0ul);
    const cudaError_t error = cudaSetDevice(ordinal);
    (void)prctl(PR_SET_TIMERSLACK, own > 0 ? (unsigned long)own : 0ul, 0ul, 0ul, 0ul); /* 0: the default */
    return error;
}

int gm_gpu_choose(struct gm_device *device, const char *name, char *text)
{
    int count = 0;
    char uuid[48];
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return no_gpu(text, error);
    int status = find(name, count, &device->ordinal, text);
    if (status != GM_OK)
        return status;
    cudaError_t set = cudaGetDeviceProperties(&device->properties, device->ordinal);
    if (set != cudaSuccess)
        return gm_gpu_fail(text, GM_ENODEVICE, "GPU properties", set);
    if (!device->properties.cooperativeLaunch || device->properties.major < 8) {
        snprintf(text, GM_ERROR_TEXT_MAX, "%.60s has compute capability %d.%d; 8.0 is needed", device->properties.name,
                 device->properties.major, device->properties.minor);
        return GM_ENODEVICE;
    }
    uuid_text(&device->properties.uuid, uuid, sizeof uuid);
    status = lock(device, uuid, text);
    if (status != GM_OK)
        return status;
    set = make_context(device->ordinal);
    return set == cudaSuccess ? GM_OK : gm_gpu_fail(text, GM_ENODEVICE, "GPU context", set);
}

int gm_gpu_driver(struct gm_device *device, char *text)
{
    enum cudaDriverEntryPointQueryResult found;
    CUmoduleLoadingMode mode;
    if (cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&device->driver.wait_value, 12000,
                                         cudaEnableDefault, &found) != cudaSuccess ||
        cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", (void **)&device->driver.write_value, 12000,
                                         cudaEnableDefault, &found) != cudaSuccess ||
        cudaGetDriverEntryPointByVersion("cuModuleGetLoadingMode", (void **)&device->driver.loading_mode, 12000,
                                         cudaEnableDefault, &found) != cudaSuccess ||
        !device->driver.wait_value || !device->driver.write_value || !device->driver.loading_mode) {
        snprintf(text, GM_ERROR_TEXT_MAX,
                 "the driver lacks cuStreamWaitValue32, cuStreamWriteValue32 or cuModuleGetLoadingMode");
        return GM_ENODEVICE;
    }
    /* The first launch of a lazily loaded kernel would hang beside the resident one. */
    if (device->driver.loading_mode(&mode) != CUDA_SUCCESS || mode != CU_MODULE_EAGER_LOADING) {
        snprintf(text, GM_ERROR_TEXT_MAX, "modules are loaded lazily; CUDA_MODULE_LOADING=EAGER did not take effect");
        return GM_EINTERNAL;
    }
    return GM_OK;
}

void gm_gpu_describe(const struct gm_device *device, struct gm_control_hello *hello)
{
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    hello->backend = GM_BACKEND_CUDA;
    hello->workers = device->blocks - 1u;
    hello->threads = GM_CUDA_THREADS;
    hello->flags |= GM_HELLO_SKIP;
    hello->memory_bytes = device->properties.totalGlobalMem;
    hello->workspace_bytes = device->core.workspace_bytes;
    hello->engine_bytes = device->core.copies ? device->core.copy_bytes : 0;
    snprintf(hello->name, sizeof hello->name, "%.63s", device->properties.name);
    uuid_text(&device->properties.uuid, hello->uuid, sizeof hello->uuid);
    snprintf(hello->detail, sizeof hello->detail, "sm_%d%d, driver for CUDA %d.%d, %s reads", device->properties.major,
             device->properties.minor, driver / 1000, driver % 1000 / 10, device->bulk ? "bulk" : "plain");
}
