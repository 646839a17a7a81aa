/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the NCCL tests, which are ordinary programs on the driver's API and NCCL, for a real
 * GPU and for the stand-in. tests/nccl/launch.sh starts the ranks of a job, and sets RANK,
 * WORLD_SIZE and ID_FILE. A call in CUDA() or NCCL() that fails ends the process with status 3. */
#ifndef GPU_H
#define GPU_H

#include <cuda.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUDA(call) gpu_cuda((call), #call)
#define NCCL(call) gpu_nccl((call), #call)

static void gpu_cuda(CUresult result, const char *call)
{
    const char *text = "?";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "%s: %s\n", call, text);
    _exit(3);
}

static void gpu_nccl(ncclResult_t result, const char *call)
{
    if (result == ncclSuccess)
        return;
    fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(result));
    _exit(3);
}

static int gpu_setting(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? atoi(value) : otherwise;
}

/* Returns once the process's first thread waits, that is, has been in one system call for half a
 * second. If `may_spin`, returns after ten seconds at the latest. */
static inline void gpu_await_first_thread(int may_spin)
{
    char path[64], last[256] = "", now[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    for (int tries = 0, same = 0; (!may_spin || tries < 1000) && same < 50;
         tries++, usleep(10000)) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(now, sizeof now, file) == NULL)
            abort();
        fclose(file);
        same = strcmp(now, last) == 0 && strncmp(now, "running", 7) != 0 ? same + 1 : 0;
        memcpy(last, now, sizeof last);
    }
}

/* Makes the primary context of a device current. */
static inline CUcontext gpu_use(int device)
{
    CUcontext context;
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    return context;
}

/* Initializes the driver, and makes the context of device `number`, modulo the number of devices,
 * current. */
static inline CUcontext gpu_open(int number)
{
    int devices;
    CUDA(cuInit(0));
    CUDA(cuDeviceGetCount(&devices));
    return gpu_use(number % devices);
}

static inline void *gpu_allocate(size_t bytes)
{
    CUdeviceptr memory;
    CUDA(cuMemAlloc(&memory, bytes > 0 ? bytes : 1));
    return (void *)(uintptr_t)memory;
}

static inline void gpu_free(void *memory)
{
    CUDA(cuMemFree((CUdeviceptr)(uintptr_t)memory));
}

/* Copies to the device, and waits until the device has the bytes. cuMemcpyHtoD alone may return
 * when the driver has only staged them. The driver then copies them on the default stream, for
 * which streams made with CU_STREAM_NON_BLOCKING do not wait. */
static inline void gpu_write(void *device, const void *host, size_t bytes)
{
    if (bytes == 0)
        return;
    CUDA(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)device, host, bytes));
    CUDA(cuStreamSynchronize(NULL));
}

static inline void gpu_read(void *host, const void *device, size_t bytes)
{
    if (bytes > 0)
        CUDA(cuMemcpyDtoH(host, (CUdeviceptr)(uintptr_t)device, bytes));
}

/* Returns the id that rank 0 makes and shares in the file ID_FILE, with `suffix` added to its
 * name. */
static inline ncclUniqueId gpu_share_id(int rank, const char *suffix)
{
    char path[1024], half[1040];
    ncclUniqueId id;
    snprintf(path, sizeof path, "%s%s", getenv("ID_FILE") ? getenv("ID_FILE") : "/tmp/nccl_id",
             suffix);
    if (rank == 0) {
        snprintf(half, sizeof half, "%s.half", path);
        memset(&id, 0xa5, sizeof id); /* like uninitialized memory of a program */
        NCCL(ncclGetUniqueId(&id));
        FILE *stream = fopen(half, "wb");
        if (stream == NULL || fwrite(&id, sizeof id, 1, stream) != 1 || fclose(stream) != 0 ||
            rename(half, path) != 0)
            _exit(3);
        return id;
    }
    for (int tries = 0; tries < 30000; tries++) {
        FILE *stream = fopen(path, "rb");
        if (stream != NULL) {
            const size_t got = fread(&id, sizeof id, 1, stream);
            fclose(stream);
            if (got == 1)
                return id;
        }
        usleep(1000);
    }
    fprintf(stderr, "rank %d: no id in %s\n", rank, path);
    _exit(3);
}

/* This process's rank, the communicator of all ranks, and a stream. */
struct gpu_world {
    int rank;
    int ranks;
    ncclComm_t comm;
    CUstream stream;
};

static inline struct gpu_world gpu_join(void)
{
    struct gpu_world world = {.rank = gpu_setting("RANK", 0),
                              .ranks = gpu_setting("WORLD_SIZE", 1)};
    gpu_open(world.rank);
    const ncclUniqueId id = gpu_share_id(world.rank, "");
    NCCL(ncclCommInitRank(&world.comm, world.ranks, id, world.rank));
    CUDA(cuStreamCreate(&world.stream, CU_STREAM_NON_BLOCKING));
    return world;
}

static inline void gpu_leave(struct gpu_world *world)
{
    NCCL(ncclCommDestroy(world->comm));
    CUDA(cuStreamDestroy(world->stream));
}

/* Returns true if `own` is the same on all ranks of the communicator. */
static inline bool gpu_same_on_all(uint64_t own, ncclComm_t comm, CUstream stream)
{
    uint64_t both[2], *device = gpu_allocate(sizeof both);
    gpu_write(device, (uint64_t[]){own, ~own}, sizeof both);
    NCCL(ncclAllReduce(device, device, 2, ncclUint64, ncclMax, comm, stream));
    CUDA(cuStreamSynchronize(stream));
    gpu_read(both, device, sizeof both);
    gpu_free(device);
    return both[0] == ~both[1];
}

/* Waits until NCCL has enqueued all operations of a nonblocking communicator. */
static inline void gpu_settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        usleep(20);
        NCCL(ncclCommGetAsyncError(comm, &state));
    }
    NCCL(state);
}

/* Ends a capture. Returns the executable graph; the graph is destroyed. */
static inline CUgraphExec gpu_end_capture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    CUDA(cuStreamEndCapture(stream, &graph));
    CUDA(cuGraphInstantiate(&exec, graph, 0));
    CUDA(cuGraphDestroy(graph));
    return exec;
}

#endif
