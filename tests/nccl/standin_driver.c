/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the stand-in for the CUDA driver: what it must do and must refuse, one case per run.
 *
 *   nccl_standin_driver CASE
 *
 * Ends with status 0 if all checks pass; a case that must crash crashes. */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/nccl/cases.h"

static CUdeviceptr address(void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static CUstream new_stream(void)
{
    CUstream stream;
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static CUevent new_event(void)
{
    CUevent event;
    CUDA(cuEventCreate(&event, CU_EVENT_DEFAULT));
    return event;
}

static void CUDA_CB set_flag(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/* Waits until the flag is set; as a host function, stalls its stream. */
static void CUDA_CB wait_for_flag(void *flag)
{
    while (__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
}

static void CUDA_CB sleep_a_little(void *unused)
{
    (void)unused;
    usleep(30000);
}

/* Memory --------------------------------------------------------------------------------------- */
static void case_touch(void)
{
    memset(gpu_allocate(64), 0, 64);
}

static void case_memory(void)
{
    unsigned char *memory = gpu_allocate(1000), bytes[1000];
    gpu_read(bytes, memory, sizeof bytes);
    WANT(bytes[0] == 0xff && bytes[999] == 0xff, "new memory is poisoned");
    memset(bytes, 7, sizeof bytes);
    gpu_write(memory, bytes, sizeof bytes);
    CUDA(cuMemsetD32Async(address(memory) + 4, 0x01020304, 1, NULL));
    gpu_read(bytes, memory, sizeof bytes);
    WANT(bytes[3] == 7 && bytes[4] == 4 && bytes[7] == 1 && bytes[8] == 7, "fills and copies");
    unsigned type = 0;
    EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(memory) + 999),
           CUDA_SUCCESS);
    WANT(type == CU_MEMORYTYPE_DEVICE, "the memory's type");
    EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(bytes)),
           CUDA_ERROR_INVALID_VALUE);
    gpu_free(memory);
    EXPECT(cuMemFree(address(memory)), CUDA_ERROR_INVALID_VALUE);
}

static void case_bounds(void)
{
    unsigned char *memory = gpu_allocate(1000), bytes[1001] = {0};
    EXPECT(cuMemcpyHtoD(address(memory), bytes, 1001), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS); /* the error is sticky */
}

static void case_freed(void)
{
    unsigned char *memory = gpu_allocate(64);
    gpu_free(memory);
    EXPECT(cuMemsetD8(address(memory), 0, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;
    CUDA(cuMemPoolCreate(&pool, &properties));
    return pool;
}

static void case_pool(void)
{
    const CUmemoryPool pool = new_pool();
    const CUstream stream = new_stream();
    CUdeviceptr memory;
    unsigned char byte = 0;
    CUDA(cuMemAllocFromPoolAsync(&memory, 64, pool, stream));
    CUDA(cuMemsetD8Async(memory, 5, 64, stream));
    CUDA(cuMemcpyAsync(address(&byte), memory + 63, 1, stream));
    CUDA(cuMemFreeAsync(memory, stream));
    CUDA(cuStreamSynchronize(stream));
    WANT(byte == 5, "memory of a pool holds what is written");
    EXPECT(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    CUDA(cuMemsetD8Async(memory, 5, 64, stream));
    EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Frees pool memory in stream order without waiting for another stream that uses it: an error. */
static void case_pool_unordered(void)
{
    const CUmemoryPool pool = new_pool();
    const CUstream stream = new_stream(), other = new_stream();
    const CUevent ready = new_event();
    CUdeviceptr memory;
    CUDA(cuMemAllocFromPoolAsync(&memory, 64, pool, stream));
    CUDA(cuEventRecord(ready, stream));
    CUDA(cuStreamWaitEvent(other, ready, 0));
    CUDA(cuMemsetD8Async(memory, 5, 64, other));
    CUDA(cuMemFreeAsync(memory, stream));
    const CUresult first = cuStreamSynchronize(stream), second = cuStreamSynchronize(other);
    WANT(first == CUDA_ERROR_ILLEGAL_ADDRESS || second == CUDA_ERROR_ILLEGAL_ADDRESS,
         "a free that another stream's use is not ordered with is found");
}

/* Streams -------------------------------------------------------------------------------------- */
static void two_writers(int ordered)
{
    const CUstream first = new_stream(), second = new_stream();
    const CUevent event = new_event();
    unsigned char *memory = gpu_allocate(4096);
    CUDA(cuMemsetD8Async(address(memory), 1, 4096, first));
    CUDA(cuEventRecord(event, first));
    if (ordered)
        CUDA(cuStreamWaitEvent(second, event, 0));
    CUDA(cuMemsetD8Async(address(memory) + 4095, 2, 1, second));
    const CUresult one = cuStreamSynchronize(first), other = cuStreamSynchronize(second);
    WANT(ordered ? one == CUDA_SUCCESS && other == CUDA_SUCCESS
                 : one == CUDA_ERROR_ILLEGAL_ADDRESS || other == CUDA_ERROR_ILLEGAL_ADDRESS,
         "writers of two streams");
}

static void case_race(void)
{
    two_writers(0);
}

static void case_no_race(void)
{
    two_writers(1);
}

static void case_lazy(void)
{
    const CUstream stream = new_stream();
    const CUevent event = new_event();
    int flag = 0;
    CUDA(cuLaunchHostFunc(stream, set_flag, &flag));
    CUDA(cuEventRecord(event, stream));
    /* If operations run at once, they may be late on a busy machine. */
    const int turns = gpu_setting("STANDIN_LAZY", 0) ? 50 : 60000;
    for (int i = 0; i < turns && __atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 0; i++)
        usleep(1000);
    WANT(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 0, "nothing runs before a synchronisation");
    CUDA(cuEventSynchronize(event));
    WANT(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1, "it runs at the synchronisation");
    CUDA(cuStreamSynchronize(stream));
}

/* Copies of the host's memory ------------------------------------------------------------------ */
enum { SMALL = 64 << 10, LARGE = SMALL + 4 };

/* A large copy from pageable memory: when the call returns, it no longer needs the host's memory,
 * but the device may not have the bytes yet, and another stream sees the old ones. Run with
 * STANDIN_LAZY=1, which holds the copy back. */
static void case_late_copy(void)
{
    const CUstream hasty = new_stream(), patient = new_stream();
    unsigned char *host = malloc(LARGE), *memory = gpu_allocate(LARGE), *seen;
    int flag = 0;
    CUDA(cuMemAllocHost((void **)&seen, 1));
    CUDA(cuMemsetD8(address(memory), 1, LARGE));
    memset(host, 2, LARGE);
    CUDA(cuMemcpyHtoD(address(memory), host, LARGE));
    memset(host, 3, LARGE);
    CUDA(cuMemcpyAsync(address(seen), address(memory), 1, hasty));
    CUDA(cuLaunchHostFunc(hasty, set_flag, &flag));
    CUDA(cuStreamDestroy(hasty)); /* runs the operations of this stream only */
    wait_for_flag(&flag);
    WANT(*seen == 1, "a stream that does not wait for stream 0 reads the old bytes");
    CUDA(cuStreamSynchronize(NULL));
    CUDA(cuMemcpyAsync(address(seen), address(memory) + LARGE - 1, 1, patient));
    CUDA(cuStreamSynchronize(patient));
    WANT(*seen == 2, "after stream 0 the device has the bytes of the call");
    free(host);
}

/* Copies bytes to the device, and reads them on another stream: if `waits` is true, after the host
 * has waited for stream 0, otherwise at once. Returns the error of either stream. */
static CUresult read_copy(const void *host, size_t bytes, int waits)
{
    const CUstream stream = new_stream();
    void *memory = gpu_allocate(LARGE), *other = gpu_allocate(LARGE);
    CUDA(cuMemcpyHtoD(address(memory), host, bytes));
    if (waits)
        CUDA(cuStreamSynchronize(NULL));
    CUDA(cuMemcpyDtoDAsync(address(other), address(memory), bytes, stream));
    const CUresult own = cuStreamSynchronize(stream), copy = cuStreamSynchronize(NULL);
    return own != CUDA_SUCCESS ? own : copy;
}

static void case_copy_race(void)
{
    void *host = calloc(LARGE, 1);
    EXPECT(read_copy(host, LARGE, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    free(host);
}

static void case_copy_no_race(void)
{
    void *host = calloc(LARGE, 1), *pinned;
    CUDA(cuMemAllocHost(&pinned, LARGE));
    memset(pinned, 0, LARGE);
    EXPECT(read_copy(host, LARGE, 1), CUDA_SUCCESS);
    EXPECT(read_copy(host, SMALL, 0), CUDA_SUCCESS);
    EXPECT(read_copy(pinned, LARGE, 0), CUDA_SUCCESS);
    free(host);
}

static void case_legacy(void)
{
    CUstream blocking;
    const CUstream other = new_stream();
    int flag = 0, seen = 0, asked = 0;
    CUDA(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CUDA(cuLaunchHostFunc(blocking, sleep_a_little, NULL));
    CUDA(cuLaunchHostFunc(blocking, set_flag, &flag));
    CUDA(cuLaunchHostFunc(other, wait_for_flag, &asked));
    CUDA(cuStreamSynchronize(NULL));
    WANT(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1, "stream 0 waits for blocking streams");
    EXPECT(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    set_flag(&asked);
    CUDA(cuLaunchHostFunc(NULL, sleep_a_little, NULL));
    CUDA(cuLaunchHostFunc(NULL, set_flag, &seen));
    CUDA(cuLaunchHostFunc(blocking, sleep_a_little, NULL));
    CUDA(cuStreamSynchronize(blocking));
    WANT(__atomic_load_n(&seen, __ATOMIC_ACQUIRE) == 1, "blocking streams wait for stream 0");
    CUDA(cuStreamSynchronize(other));
}

static void CUDA_CB call_cuda(void *result)
{
    CUevent event;
    *(CUresult *)result = cuEventCreate(&event, 0);
}

static void case_callback(void)
{
    const CUstream stream = new_stream();
    CUresult result = CUDA_SUCCESS;
    CUDA(cuLaunchHostFunc(stream, call_cuda, &result));
    CUDA(cuStreamSynchronize(stream));
    WANT(result == CUDA_ERROR_NOT_PERMITTED, "no CUDA in host functions");
}

/* Branches of a graph are ordered by captured events only. */
static void graph_of_branches(int ordered)
{
    const CUstream stream = new_stream(), other = new_stream();
    const CUevent fork = new_event(), joined = new_event();
    unsigned char *memory = gpu_allocate(4096);
    CUgraph graph;
    CUgraphExec exec;
    CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUDA(cuEventRecord(fork, stream));
    CUDA(cuStreamWaitEvent(other, fork, 0));
    CUDA(cuMemsetD8Async(address(memory), 1, 4096, stream));
    if (ordered) {
        CUDA(cuEventRecord(fork, stream));
        CUDA(cuStreamWaitEvent(other, fork, 0));
    }
    CUDA(cuMemsetD8Async(address(memory), 2, 1, other));
    CUDA(cuEventRecord(joined, other));
    CUDA(cuStreamWaitEvent(stream, joined, 0));
    CUDA(cuStreamEndCapture(stream, &graph));
    CUDA(cuGraphInstantiate(&exec, graph, 0));
    CUDA(cuGraphLaunch(exec, stream));
    if (ordered) /* work after the graph comes after both branches */
        CUDA(cuMemsetD8Async(address(memory), 3, 4096, stream));
    WANT(cuStreamSynchronize(stream) == (ordered ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS),
         "writers of two branches");
}

static void case_graph_race(void)
{
    graph_of_branches(0);
}

static void case_graph_no_race(void)
{
    graph_of_branches(1);
}

static void case_priorities(void)
{
    CUstream stream;
    int priority;
    CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -3));
    CUDA(cuStreamGetPriority(stream, &priority));
    WANT(priority == -3, "a stream's priority");
    CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
    CUDA(cuStreamGetPriority(stream, &priority));
    WANT(priority == -5, "the highest priority");
}

/* Contexts and processes ----------------------------------------------------------------------- */
static void case_contexts(void)
{
    CUcontext first = gpu_use(0), popped;
    const CUstream stream = new_stream();
    unsigned char *memory = gpu_allocate(64);
    gpu_use(1);
    EXPECT(cuEventRecord(new_event(), stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuMemsetD8(address(memory), 0, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUDA(cuCtxPopCurrent(&popped));
    EXPECT(cuMemFree(address(memory)), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxPushCurrent(first), CUDA_SUCCESS); /* a sticky error belongs to its context */
    EXPECT(cuMemsetD8(address(memory), 0, 64), CUDA_SUCCESS);
    CUDA(cuStreamDestroy(stream));
    EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
}

static void case_fork(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    waitpid(child, &status, 0);
    WANT(status == 0, "a child after fork has no CUDA");
}

static void case_faults(void) /* STANDIN_FAIL=cuMemAlloc:2,cuEventCreate:1:719 */
{
    CUdeviceptr memory;
    CUevent event;
    EXPECT(cuMemAlloc(&memory, 64), CUDA_SUCCESS);
    EXPECT(cuMemAlloc(&memory, 64), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cuMemAlloc(&memory, 64), CUDA_SUCCESS);
    EXPECT(cuEventCreate(&event, 0), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(cuMemAlloc(&memory, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
}

static const struct gpu_case cases[] = {
    CASE(touch),          CASE(memory),     CASE(bounds),    CASE(freed),     CASE(pool),
    CASE(pool_unordered), CASE(race),       CASE(no_race),   CASE(lazy),      CASE(legacy),
    CASE(callback),       CASE(fork),       CASE(faults),    CASE(contexts),  CASE(graph_race),
    CASE(graph_no_race),  CASE(priorities), CASE(late_copy), CASE(copy_race), CASE(copy_no_race),
};

int main(int argc, char **argv)
{
    const struct gpu_case *chosen = find_case(cases, sizeof cases / sizeof *cases, argc, argv);
    gpu_open(0);
    chosen->run();
    return failures > 0;
}
