/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in must do and must refuse while streams are captured into graphs, one case a run,
 * on the ranks that tests/nccl/launch.sh starts. All of it holds for the real driver too.
 *
 *   nccl_standin_capture CASE
 */
#include <pthread.h>

#include "tests/nccl/cases.h"

static struct gpu_world world;
static CUstream other;
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

static void begin(CUstreamCaptureMode mode)
{
    CUDA(cuStreamBeginCapture(world.stream, mode));
}

static void end_with(CUresult wanted)
{
    CUgraph graph = NULL;
    EXPECT(cuStreamEndCapture(world.stream, &graph), wanted);
    EXPECT(graph == NULL ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
}

static CUgraphExec end_capture(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUDA(cuStreamEndCapture(world.stream, &graph));
    CUDA(cuGraphInstantiate(&exec, graph, 0));
    CUDA(cuGraphDestroy(graph));
    return exec;
}

/* Sums that run at each launch and not before, on two streams of the graph. */
static void case_replay(void)
{
    const CUdeviceptr values = allocate(8);
    const CUevent fork = new_event(), join = new_event();
    int32_t got[2], one[2] = {1, 1};
    gpu_write((void *)(uintptr_t)values, one, sizeof one);
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    NCCL(ncclAllReduce((void *)(uintptr_t)values, (void *)(uintptr_t)values, 1, ncclInt32, ncclSum,
                       world.comm, world.stream));
    CUDA(cuEventRecord(fork, world.stream));
    CUDA(cuStreamWaitEvent(other, fork, 0));
    CUDA(cuMemcpyDtoDAsync(values + 4, values, 4, other));
    CUDA(cuEventRecord(join, other));
    CUDA(cuStreamWaitEvent(world.stream, join, 0));
    const CUgraphExec exec = end_capture();
    gpu_read(got, (void *)(uintptr_t)values, sizeof got);
    EXPECT(got[0] == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
    CUDA(cuGraphLaunch(exec, world.stream));
    CUDA(cuGraphLaunch(exec, world.stream));
    NCCL(ncclAllReduce((void *)(uintptr_t)values, (void *)(uintptr_t)values, 1, ncclInt32, ncclSum,
                       world.comm, world.stream));
    CUDA(cuGraphExecDestroy(exec));
    CUDA(cuStreamSynchronize(world.stream));
    gpu_read(got, (void *)(uintptr_t)values, sizeof got);
    const int ranks = world.ranks;
    EXPECT(got[0] == ranks * ranks * ranks && got[1] == ranks * ranks ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_UNKNOWN,
           CUDA_SUCCESS);
}

static void case_information(void)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0, joined = 0;
    const CUevent fork = new_event(), join = new_event();
    CUDA(cuStreamIsCapturing(world.stream, &status));
    EXPECT((CUresult)status, (CUresult)CU_STREAM_CAPTURE_STATUS_NONE);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuEventRecord(fork, world.stream));
    CUDA(cuStreamWaitEvent(other, fork, 0));
    CUDA(cuStreamGetCaptureInfo(world.stream, &status, &id, NULL, NULL, NULL, NULL));
    EXPECT((CUresult)status, (CUresult)CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUDA(cuStreamGetCaptureInfo(other, &status, &joined, NULL, NULL, NULL, NULL));
    EXPECT(id != 0 && id == joined ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
    CUDA(cuEventRecord(join, other));
    CUDA(cuStreamWaitEvent(world.stream, join, 0));
    CUDA(cuGraphExecDestroy(end_capture()));
    CUDA(cuStreamIsCapturing(other, &status));
    EXPECT((CUresult)status, (CUresult)CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Calls that break a capture. */
static void case_unsafe(void)
{
    CUdeviceptr memory = allocate(64), more;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(cuMemAlloc(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(cuMemsetD32Async(memory, 0, 1, world.stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(cuStreamSynchronize(world.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL); /* relaxed for this thread: allowed */
    CUDA(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(cuMemAlloc(&more, 64), CUDA_SUCCESS);
    CUDA(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT((CUresult)mode, (CUresult)CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuMemsetD32Async(memory, 0, 1, world.stream));
    CUDA(cuGraphExecDestroy(end_capture()));
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
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    pthread_create(&thread, NULL, allocate_elsewhere, &result);
    pthread_join(thread, NULL);
    EXPECT(result, CUDA_SUCCESS);
    CUDA(cuGraphExecDestroy(end_capture()));
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    pthread_create(&thread, NULL, allocate_elsewhere, &result);
    pthread_join(thread, NULL);
    EXPECT(result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void case_events(void)
{
    const CUevent outside = new_event(), inside = new_event(), never = new_event();
    CUDA(cuEventRecord(outside, other));
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(cuStreamWaitEvent(world.stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuEventRecord(inside, world.stream));
    EXPECT(cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuEventRecord(never, world.stream));
    CUDA(cuStreamWaitEvent(other, never, 0)); /* joins, and never comes back */
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
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA(cuStreamGetCaptureInfo(world.stream, &status, NULL, &graph, NULL, NULL, NULL));
    CUDA(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    const CUgraphExec exec = end_capture();
    EXPECT(destroyed == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
    CUDA(cuGraphLaunch(exec, world.stream));
    CUDA(cuGraphExecDestroy(exec));
    CUDA(cuStreamSynchronize(world.stream));
    for (int tries = 0; tries < 1000 && __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE) == 0; tries++)
        usleep(1000);
    EXPECT(destroyed == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, CUDA_SUCCESS);
}

/* A group may not be captured in part. */
static void case_group(void)
{
    int32_t *values = gpu_allocate(8);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(values, values, 1, ncclInt32, ncclSum, world.comm, world.stream));
    NCCL(ncclAllReduce(values + 1, values + 1, 1, ncclInt32, ncclSum, world.comm, other));
    EXPECT((CUresult)ncclGroupEnd(), (CUresult)ncclInvalidUsage);
    CUDA(cuGraphExecDestroy(end_capture()));
}

static const struct gpu_case cases[] = {
    CASE(replay), CASE(information), CASE(unsafe),  CASE(threads),
    CASE(events), CASE(legacy),      CASE(objects), CASE(group),
};

int main(int argc, char **argv)
{
    const struct gpu_case *chosen = find_case(cases, sizeof cases / sizeof *cases, argc, argv);
    world = gpu_join();
    CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    chosen->run();
    gpu_leave(&world);
    return failures > 0;
}
