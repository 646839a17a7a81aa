/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the stand-ins on the ranks that tests/nccl/launch.sh starts: what they must do and must
 * refuse in NCCL's calls and in stream capture, one case per run.
 *
 *   nccl_standin_ranks CASE
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "tests/nccl/cases.h"

enum { COUNT = 1003 };

static struct gpu_world world;

/* Returns element i of a rank: a small integer, which every type represents. */
static int element(int rank, size_t i)
{
    return (int)((i * 7 + (size_t)rank * 3) % 5);
}

static int32_t *new_input(size_t count)
{
    int32_t *host = malloc(count * sizeof *host), *device = gpu_allocate(count * sizeof *device);
    for (size_t i = 0; i < count; i++)
        host[i] = element(world.rank, i);
    gpu_write(device, host, count * sizeof *host);
    free(host);
    return device;
}

/* Waits for the stream, then compares integers on the device with those that `wanted` returns. */
static void compare(const int32_t *device, size_t count, int (*wanted)(size_t), const char *what)
{
    synchronize(&world);
    int32_t *host = malloc(count * sizeof *host);
    size_t wrong = 0;
    gpu_read(host, device, count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        wrong += host[i] != wanted(i);
    WANT(wrong == 0, "%s", what);
    free(host);
}

static int sum_of_all(size_t i)
{
    int sum = 0;
    for (int rank = 0; rank < world.ranks; rank++)
        sum += element(rank, i);
    return sum;
}

static int largest_of_all(size_t i)
{
    int largest = 0;
    for (int rank = 0; rank < world.ranks; rank++)
        largest = element(rank, i) > largest ? element(rank, i) : largest;
    return largest;
}

static int mean_of_all(size_t i)
{
    return sum_of_all(i) / world.ranks;
}

static int part_of_sum(size_t i)
{
    return sum_of_all((size_t)world.rank * COUNT + i);
}

static int gathered(size_t i)
{
    return element((int)(i / COUNT), i % COUNT);
}

static int exchanged(size_t i)
{
    return element((int)(i / COUNT), (size_t)world.rank * COUNT + i % COUNT);
}

static int roots(size_t i)
{
    return element(world.ranks - 1, i);
}

/* Results -------------------------------------------------------------------------------------- */
static void case_collectives(void)
{
    const size_t all = (size_t)world.ranks * COUNT;
    const int last = world.ranks - 1;
    int32_t *input = new_input(all), *output = gpu_allocate(all * sizeof *output);
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    compare(output, COUNT, sum_of_all, "sum");
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclMax, world.comm, world.stream));
    compare(output, COUNT, largest_of_all, "maximum");
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclAvg, world.comm, world.stream));
    compare(output, COUNT, mean_of_all, "mean of integers");
    NCCL(ncclReduceScatter(input, output, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    compare(output, COUNT, part_of_sum, "reduce-scatter");
    NCCL(ncclAllGather(input, output, COUNT, ncclInt32, world.comm, world.stream));
    compare(output, all, gathered, "all-gather");
    NCCL(ncclAlltoAll(input, output, COUNT, ncclInt32, world.comm, world.stream));
    compare(output, all, exchanged, "all-to-all");
    NCCL(ncclBroadcast(input, output, COUNT, ncclInt32, last, world.comm, world.stream));
    compare(output, COUNT, roots, "broadcast");
}

/* Invalid calls, which return at once. */
static void case_refused(void)
{
    const int two = 2;
    int32_t *input = new_input(COUNT);
    ncclRedOp_t op;
    CUstream elsewhere;
    NCCL(ncclRedOpCreatePreMulSum(&op, (void *)&two, ncclInt32, ncclScalarHostImmediate,
                                  world.comm));
    NCCL(ncclRedOpDestroy(op, world.comm));
    WANT(ncclAllReduce(input, input, COUNT, ncclInt32, op, world.comm, world.stream) ==
             ncclInvalidArgument,
         "an operation that is destroyed");
    WANT(ncclBroadcast(input, input, 1, ncclInt32, 99, world.comm, world.stream) ==
             ncclInvalidArgument,
         "a root that does not exist");
    gpu_use(world.rank + 1);
    CUDA(cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING));
    WANT(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, elsewhere) ==
             ncclUnhandledCudaError,
         "a stream of another device");
    NCCL(ncclCommFinalize(world.comm));
    WANT(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream) ==
             ncclInvalidUsage,
         "use of a finalized communicator");
}

static void *abort_soon(void *comm)
{
    usleep(100000);
    NCCL(ncclCommAbort(comm));
    return NULL;
}

static int seven(size_t i)
{
    return (void)i, 7;
}

/* A rank makes a call that no other rank makes, until another thread aborts the communicator. */
static void case_abort(void)
{
    pthread_t thread;
    int32_t *input = new_input(COUNT);
    if (world.rank == 0) {
        NCCL(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
        CUDA(cuMemsetD32Async((CUdeviceptr)input, 7, COUNT, world.stream));
        pthread_create(&thread, NULL, abort_soon, world.comm);
        compare(input, COUNT, seven, "the stream goes on");
        pthread_join(thread, NULL);
    } else {
        usleep(300000);
        NCCL(ncclCommAbort(world.comm));
    }
    world.comm = NULL;
}

static void case_lost(void)
{
    ncclResult_t state = ncclSuccess;
    int32_t *input = new_input(COUNT);
    if (world.rank != 0)
        _exit(0);
    NCCL(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    for (int tries = 0; tries < 5000 && state == ncclSuccess; tries++) {
        NCCL(ncclCommGetAsyncError(world.comm, &state));
        usleep(1000);
    }
    WANT(state == ncclRemoteError, "the state after a rank has gone");
    WANT(cuStreamQuery(world.stream) == CUDA_ERROR_NOT_READY, "the stream waits for the abort");
    NCCL(ncclCommAbort(world.comm));
    synchronize(&world);
    world.comm = NULL;
}

/* The first messages connect ranks, which takes device memory, and is not possible in a capture. */
static void case_connect(void)
{
    CUgraph graph;
    size_t before, behind, total;
    int32_t *input = new_input(COUNT);
    const int next = (world.rank + 1) % world.ranks;
    const int last = (world.rank + world.ranks - 1) % world.ranks;
    CUDA(cuMemGetInfo(&before, &total));
    for (int captured = 1; captured >= 0; captured--) {
        if (captured)
            CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        NCCL(ncclGroupStart());
        NCCL(ncclSend(input, 8, ncclInt32, next, world.comm, world.stream));
        NCCL(ncclRecv(input + 8, 8, ncclInt32, last, world.comm, world.stream));
        WANT(ncclGroupEnd() == (captured ? ncclUnhandledCudaError : ncclSuccess), "first messages");
        if (captured)
            CUDA(cuStreamEndCapture(world.stream, &graph));
    }
    synchronize(&world);
    CUDA(cuMemGetInfo(&behind, &total));
    WANT(before - behind == (size_t)(next == last ? 10 : 20) << 20, "what connections take");
}

/* A rank's revoke ends its operations; then only children can be made. */
static void case_revoke(void)
{
    ncclComm_t part;
    int32_t *input = new_input(COUNT), *output = gpu_allocate(COUNT * sizeof *output);
    if (world.rank == 0)
        NCCL(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    WANT(ncclCommRevoke(world.comm, 1) == ncclInvalidArgument, "flags that there are not");
    NCCL(ncclCommRevoke(world.comm, 0));
    synchronize(&world);
    WANT(ncclCommRevoke(world.comm, 0) == ncclInvalidArgument, "revoked again");
    WANT(ncclCommFinalize(world.comm) == ncclInvalidArgument, "finalized");
    WANT(ncclSend(input, 1, ncclInt32, 0, world.comm, world.stream) == ncclInvalidUsage, "sent");
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &part, NULL));
    NCCL(ncclAllReduce(new_input(COUNT), output, COUNT, ncclInt32, ncclSum, part, world.stream));
    compare(output, COUNT, sum_of_all, "a child of the revoked communicator");
    NCCL(ncclCommDestroy(part));
}

/* Returns a function that the nccl.h this is built with may lack. */
static void *later(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    WANT(function != NULL, "%s", name);
    return function;
}

/* Tests that the last rank can join the communicator of all others, by an id that rank 0 makes. */
static void case_grow(void)
{
    ncclResult_t (*get_id)(ncclComm_t, ncclUniqueId *) = later("ncclCommGetUniqueId");
    ncclResult_t (*grow)(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *) =
        later("ncclCommGrow");
    ncclResult_t (*add)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                        cudaStream_t, const void *) = later("ncclAllReduceConfig");
    const bool is_new = world.rank == world.ranks - 1;
    ncclComm_t most = NULL, all;
    ncclUniqueId *ids = gpu_allocate(sizeof *ids), id;
    int rank;
    NCCL(ncclCommSplit(world.comm, is_new ? NCCL_SPLIT_NOCOLOR : 0, 0, &most, NULL));
    if (world.rank == 0) {
        NCCL(get_id(most, &id));
        gpu_write(ids, &id, sizeof id);
    }
    NCCL(ncclBroadcast(ids, ids, sizeof id, ncclUint8, 0, world.comm, world.stream));
    synchronize(&world);
    gpu_read(&id, ids, sizeof id);
    WANT(grow(most, world.ranks, NULL, is_new ? -1 : 0, &all, NULL) == ncclInvalidArgument,
         "a rank that has one already");
    NCCL(grow(most, world.ranks, is_new || world.rank == 0 ? &id : NULL, is_new ? world.rank : -1,
              &all, NULL));
    NCCL(ncclCommUserRank(all, &rank));
    WANT(rank == world.rank, "ranks keep their numbers");
    int32_t *output = gpu_allocate(COUNT * sizeof *output);
    NCCL(add(new_input(COUNT), output, COUNT, ncclInt32, ncclSum, all, world.stream, NULL));
    compare(output, COUNT, sum_of_all, "a communicator that has grown");
    NCCL(ncclCommDestroy(all));
    NCCL(ncclCommDestroy(most));
}

/* Mistakes ------------------------------------------------------------------------------------- */
static void expect_mismatch(void)
{
    WANT(cuStreamSynchronize(world.stream) != CUDA_SUCCESS, "ranks that differ are found");
    _exit(failures > 0); /* the context has a sticky error */
}

static void mismatch(int32_t *input, size_t count, ncclDataType_t dtype, ncclRedOp_t op)
{
    NCCL(ncclAllReduce(input, input, count, dtype, op, world.comm, world.stream));
    expect_mismatch();
}

static void case_mismatch_count(void)
{
    mismatch(new_input(COUNT), world.rank == 0 ? 8 : 9, ncclInt32, ncclSum);
}

static void case_mismatch_dtype(void)
{
    mismatch(new_input(COUNT), 8, world.rank == 0 ? ncclInt32 : ncclFloat32, ncclSum);
}

static void case_mismatch_op(void)
{
    mismatch(new_input(COUNT), 8, ncclInt32, world.rank == 0 ? ncclMax : ncclSum);
}

static void case_mismatch_order(void)
{
    int32_t *input = new_input(COUNT);
    if (world.rank != 0)
        mismatch(input, 8, ncclInt32, ncclSum);
    NCCL(ncclBroadcast(input, input, 8, ncclInt32, 0, world.comm, world.stream));
    expect_mismatch();
}

/* Captures ------------------------------------------------------------------------------------- */
static CUstream other; /* a second stream */
static int destroyed;

static CUdeviceptr allocate(size_t bytes)
{
    return (CUdeviceptr)(uintptr_t)gpu_allocate(bytes);
}

static CUevent new_event(void)
{
    CUevent event;
    CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static void begin_capture(CUstreamCaptureMode mode)
{
    CUDA(cuStreamBeginCapture(world.stream, mode));
}

static void end_with(CUresult wanted)
{
    CUgraph graph = NULL;
    EXPECT(cuStreamEndCapture(world.stream, &graph), wanted);
    EXPECT(graph == NULL ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
}

/* Calls that invalidate a capture, and one that does not, because the thread's mode is relaxed. */
static void case_unsafe(void)
{
    CUdeviceptr memory = allocate(64), more;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(cuMemAlloc(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(cuMemsetD32Async(memory, 0, 1, world.stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(cuStreamSynchronize(world.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUDA(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(cuMemAlloc(&more, 64), CUDA_SUCCESS);
    CUDA(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT((CUresult)mode, (CUresult)CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuMemsetD32Async(memory, 0, 1, world.stream));
    CUDA(cuGraphExecDestroy(gpu_end_capture(world.stream)));
}

static void *allocate_elsewhere(void *result)
{
    CUdeviceptr memory;
    gpu_open(world.rank);
    *(CUresult *)result = cuMemAlloc(&memory, 64);
    return NULL;
}

static void case_threads(void)
{
    pthread_t thread;
    CUresult result;
    begin_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    pthread_create(&thread, NULL, allocate_elsewhere, &result);
    pthread_join(thread, NULL);
    EXPECT(result, CUDA_SUCCESS);
    CUDA(cuGraphExecDestroy(gpu_end_capture(world.stream)));
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    pthread_create(&thread, NULL, allocate_elsewhere, &result);
    pthread_join(thread, NULL);
    EXPECT(result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void case_events(void)
{
    const CUevent outside = new_event(), inside = new_event(), never = new_event();
    CUDA(cuEventRecord(outside, other));
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(cuStreamWaitEvent(world.stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuEventRecord(inside, world.stream));
    EXPECT(cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuEventRecord(never, world.stream));
    CUDA(cuStreamWaitEvent(other, never, 0)); /* `other` joins, and is never waited for */
    CUDA(cuMemsetD32Async(allocate(4), 0, 1, other));
    end_with(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static void case_legacy(void)
{
    CUstream blocking;
    CUgraph graph;
    const CUdeviceptr memory = allocate(4);
    CUDA(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    EXPECT(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUDA(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(cuMemsetD32Async(memory, 0, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void CUDA_CB destroy(void *unused)
{
    (void)unused;
    destroyed++;
}

static void case_objects(void)
{
    CUuserObject object;
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUDA(cuUserObjectCreate(&object, NULL, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuStreamGetCaptureInfo(world.stream, &status, NULL, &graph, NULL, NULL, NULL));
    CUDA(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    const CUgraphExec exec = gpu_end_capture(world.stream);
    EXPECT(destroyed == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
    CUDA(cuGraphLaunch(exec, world.stream));
    CUDA(cuGraphExecDestroy(exec));
    CUDA(cuStreamSynchronize(world.stream));
    for (int tries = 0; tries < 1000 && __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE) == 0; tries++)
        usleep(1000);
    EXPECT(destroyed == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
}

/* A group may not be captured partly. */
static void case_group(void)
{
    int32_t *values = gpu_allocate(8);
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(values, values, 1, ncclInt32, ncclSum, world.comm, world.stream));
    NCCL(ncclAllReduce(values + 1, values + 1, 1, ncclInt32, ncclSum, world.comm, other));
    EXPECT((CUresult)ncclGroupEnd(), (CUresult)ncclInvalidUsage);
    CUDA(cuGraphExecDestroy(gpu_end_capture(world.stream)));
}

static const struct gpu_case cases[] = {
    CASE(collectives),    CASE(refused),        CASE(abort),       CASE(lost),
    CASE(mismatch_count), CASE(mismatch_dtype), CASE(mismatch_op), CASE(mismatch_order),
    CASE(unsafe),         CASE(threads),        CASE(events),      CASE(legacy),
    CASE(objects),        CASE(group),          CASE(connect),     CASE(revoke),
    CASE(grow),
};

int main(int argc, char **argv)
{
    const struct gpu_case *chosen = find_case(cases, sizeof cases / sizeof *cases, argc, argv);
    world = gpu_join();
    CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    chosen->run();
    if (world.comm != NULL)
        NCCL(ncclCommDestroy(world.comm));
    return failures > 0;
}
