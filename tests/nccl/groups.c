/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, streams, threads and devices, one case per run. Every result must be exact, natively and
 * with a policy of codec raw.
 *
 *   nccl_groups CASE
 */
#include <pthread.h>

#include "tests/nccl/cases.h"

enum { COUNT = 70001, MANY = 40, DEVICES = 4 };

static struct gpu_world world;

static void reduce(const float *send, float *receive, size_t count, CUstream stream)
{
    NCCL(ncclAllReduce(send, receive, count, ncclFloat32, ncclSum, world.comm, stream));
}

static float *own_part(unsigned seed, size_t count)
{
    return device_part(world.rank, seed, count);
}

static void case_several(void)
{
    float *send[MANY], *receive[MANY];
    world = gpu_join();
    for (unsigned i = 0; i < MANY; i++) {
        send[i] = own_part(i, 1000 + 300 * i);
        receive[i] = i % 2 == 0 ? send[i] : gpu_allocate((1000 + 300 * i) * sizeof(float));
    }
    NCCL(ncclGroupStart());
    for (unsigned i = 0; i < MANY; i++) {
        if (i % 3 == 0)
            NCCL(ncclGroupStart());
        reduce(send[i], receive[i], 1000 + 300 * i, world.stream);
        if (i % 3 == 0)
            NCCL(ncclGroupEnd());
    }
    NCCL(ncclGroupEnd());
    synchronize(&world);
    for (unsigned i = 0; i < MANY; i++)
        want_sum(receive[i], world.ranks, i, 1000 + 300 * i, "one of many in a group");
    gpu_leave(&world);
}

/* Hierarchical calls whose count divides into equal shares, and with a remainder. */
static void case_remainder(void)
{
    world = gpu_join();
    for (unsigned i = 0; i < 2; i++) {
        const size_t count = (1u << 20) + 5 * i;
        float *data = own_part(i, count);
        reduce(data, data, count, world.stream);
        synchronize(&world);
        want_sum(data, world.ranks, i, count, "shares of a node");
    }
    gpu_leave(&world);
}

/* A call of many segments, and the same call captured. */
static void case_overlap(void)
{
    enum { LARGE = 7000001 };
    world = gpu_join();
    float *data = own_part(1, LARGE), *output = gpu_allocate(LARGE * sizeof *output);
    reduce(data, output, LARGE, world.stream);
    synchronize(&world);
    want_sum(output, world.ranks, 1, LARGE, "many segments");
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    reduce(data, data, LARGE, world.stream);
    const CUgraphExec exec = gpu_end_capture(world.stream);
    CUDA(cuGraphLaunch(exec, world.stream));
    synchronize(&world);
    want_sum(data, world.ranks, 1, LARGE, "many segments of a graph");
    CUDA(cuGraphExecDestroy(exec));
    gpu_leave(&world);
}

static void CUDA_CB wait_for_flag(void *flag)
{
    while (__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
}

/* More calls than the engine has events for, while the device is stalled. For the stand-in only: a
 * real device's queue is shorter. */
static void case_queue(void)
{
    enum { CALLS = 400 };
    int all_there = 0;
    world = gpu_join();
    float *data[3], *result = gpu_allocate(COUNT * sizeof *result);
    for (unsigned i = 0; i < 3; i++)
        data[i] = own_part(i, 1000);
    reduce(data[0], result, 1000, world.stream); /* completes before the stall */
    CUDA(cuLaunchHostFunc(world.stream, wait_for_flag, &all_there));
    for (unsigned i = 1; i < CALLS; i++)
        reduce(data[i % 3], result, 1000, world.stream);
    __atomic_store_n(&all_there, 1, __ATOMIC_RELEASE);
    synchronize(&world);
    want_sum(result, world.ranks, (CALLS - 1) % 3, 1000, "the last of many");
    gpu_leave(&world);
}

/* Calls of other types, operations and collectives, which are passed through, among compressed
 * ones. */
static void case_mixed(void)
{
    world = gpu_join();
    float *data = own_part(1, COUNT), *most = own_part(2, COUNT), *more = own_part(3, COUNT);
    int32_t *ones = gpu_allocate(4 * sizeof *ones), got[4];
    gpu_write(ones, (int32_t[]){1, 2, 3, 4}, sizeof got);
    NCCL(ncclGroupStart());
    reduce(data, data, COUNT, world.stream);
    NCCL(ncclAllReduce(ones, ones, 4, ncclInt32, ncclSum, world.comm, world.stream));
    NCCL(ncclAllReduce(most, most, COUNT, ncclFloat32, ncclMax, world.comm, world.stream));
    NCCL(ncclBroadcast(most, most, 1, ncclFloat32, 0, world.comm, world.stream));
    reduce(more, more, COUNT, world.stream);
    NCCL(ncclGroupEnd());
    synchronize(&world);
    want_sum(data, world.ranks, 1, COUNT, "before the calls that pass");
    want_sum(more, world.ranks, 3, COUNT, "after the calls that are passed through");
    gpu_read(got, ones, sizeof got);
    WANT(got[3] == 4 * world.ranks, "a sum of integers: %d", got[3]);
    float largest = part(0, 2, 5), result;
    for (int rank = 1; rank < world.ranks; rank++)
        largest = part(rank, 2, 5) > largest ? part(rank, 2, 5) : largest;
    gpu_read(&result, most + 5, sizeof result);
    WANT(result == largest, "a maximum: %g, not %g", (double)result, (double)largest);
    gpu_leave(&world);
}

/* Work enqueued on the stream between the call and the end of its group runs before the reduction.
 */
static void case_behind(void)
{
    world = gpu_join();
    float *data = own_part(1, COUNT), *late = own_part(2, COUNT);
    float *result = gpu_allocate(COUNT * sizeof *result);
    reduce(data, result, COUNT, world.stream);
    NCCL(ncclGroupStart());
    reduce(data, result, COUNT, world.stream);
    CUDA(cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)data, (CUdeviceptr)(uintptr_t)late,
                           COUNT * sizeof *data, world.stream));
    NCCL(ncclGroupEnd());
    synchronize(&world);
    want_sum(result, world.ranks, 2, COUNT, "the data of the group's end");
    gpu_leave(&world);
}

/* Two communicators of one thread in one group. */
static void case_communicators(void)
{
    ncclComm_t second;
    world = gpu_join();
    const ncclUniqueId id = gpu_share_id(world.rank, ".2");
    NCCL(ncclCommInitRank(&second, world.ranks, id, world.rank));
    float *data[2] = {own_part(1, COUNT), own_part(2, COUNT)};
    const ncclComm_t comms[2] = {world.comm, second};
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        NCCL(ncclAllReduce(data[i], data[i], COUNT, ncclFloat32, ncclSum, comms[i], world.stream));
    NCCL(ncclGroupEnd());
    synchronize(&world);
    want_sum(data[0], world.ranks, 1, COUNT, "the first communicator's");
    want_sum(data[1], world.ranks, 2, COUNT, "the second communicator's");
    NCCL(ncclCommDestroy(second));
    gpu_leave(&world);
}

/* One communicator on several streams, which the program does not order. */
static void case_streams(void)
{
    enum { STREAMS = 3, TURNS = 9 }; /* 27 calls, more than are sampled: samples order streams */
    CUstream streams[STREAMS];
    float *data[STREAMS * TURNS];
    world = gpu_join();
    for (int i = 0; i < STREAMS; i++)
        CUDA(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < STREAMS * TURNS; i++)
        data[i] = own_part(i, COUNT + i);
    for (unsigned i = 0; i < STREAMS * TURNS; i++)
        reduce(data[i], data[i], COUNT + i, streams[i % STREAMS]);
    for (int i = 0; i < STREAMS; i++)
        CUDA(cuStreamSynchronize(streams[i]));
    for (unsigned i = 0; i < STREAMS * TURNS; i++)
        want_sum(data[i], world.ranks, i, COUNT + i, "one of several streams");
    gpu_leave(&world);
}

/* One communicator on several streams in one group: NCCL orders the streams. */
static void case_streams_group(void)
{
    CUstream second;
    world = gpu_join();
    CUDA(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    float *data[4];
    for (unsigned i = 0; i < 4; i++)
        data[i] = own_part(i, COUNT);
    for (unsigned turn = 0; turn < 2; turn++) {
        NCCL(ncclGroupStart());
        reduce(data[2 * turn], data[2 * turn], COUNT, world.stream);
        reduce(data[2 * turn + 1], data[2 * turn + 1], COUNT, second);
        NCCL(ncclGroupEnd());
    }
    synchronize(&world);
    CUDA(cuStreamSynchronize(second));
    for (unsigned i = 0; i < 4; i++)
        want_sum(data[i], world.ranks, i, COUNT, "two streams in a group");
    gpu_leave(&world);
}

/* A call whose messages exceed the workspace in one group with a small call; then a reduce-scatter
 * of as many elements. */
static void case_segments(void)
{
    enum { LARGE = 13000001 };
    world = gpu_join();
    float *data = own_part(1, LARGE), *small = own_part(2, COUNT);
    NCCL(ncclGroupStart());
    reduce(small, small, COUNT, world.stream);
    reduce(data, data, LARGE, world.stream);
    NCCL(ncclGroupEnd());
    synchronize(&world);
    want_sum(data, world.ranks, 1, LARGE, "several segments");
    want_sum(small, world.ranks, 2, COUNT, "after a call of several segments");
    float *scattered = gpu_allocate(LARGE / 2 * sizeof *scattered);
    float *input = own_part(3, LARGE);
    const size_t each = LARGE / (size_t)world.ranks;
    NCCL(ncclReduceScatter(input, scattered, each, ncclFloat32, ncclSum, world.comm, world.stream));
    synchronize(&world);
    want_sum_from(scattered, world.ranks, 3, each * (size_t)world.rank, each,
                  "several segments, scattered");
    gpu_leave(&world);
}

static void case_simulate(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    world = gpu_join();
    float *data = own_part(1, COUNT), *kept = malloc(COUNT * sizeof *kept);
    NCCL(ncclGroupStart());
    reduce(data, data, COUNT, world.stream);
    NCCL(ncclGroupSimulateEnd(&info));
    synchronize(&world);
    gpu_read(kept, data, COUNT * sizeof *kept);
    for (size_t i = 0; i < COUNT; i++)
        WANT(kept[i] == part(world.rank, 1, i), "the simulation changed element %zu", i);
    reduce(data, data, COUNT, world.stream);
    synchronize(&world);
    want_sum(data, world.ranks, 1, COUNT, "after a simulation");
    gpu_leave(&world);
}

/* NCCL runs no call of a group with an invalid call; later calls work again. */
static void case_mistake(void)
{
    world = gpu_join();
    float *data = own_part(1, COUNT), first;
    NCCL(ncclGroupStart());
    reduce(data, data, COUNT, world.stream);
    WANT(ncclAllReduce(data, data, COUNT, (ncclDataType_t)99, ncclSum, world.comm, world.stream) ==
             ncclInvalidArgument,
         "a type that does not exist");
    WANT(ncclGroupEnd() == ncclInvalidArgument, "the end of a group with a mistake");
    synchronize(&world);
    gpu_read(&first, data, sizeof first);
    WANT(first == part(world.rank, 1, 0), "the group did something");
    reduce(data, data, COUNT, world.stream);
    synchronize(&world);
    want_sum(data, world.ranks, 1, COUNT, "after a mistake");
    WANT(ncclGroupEnd() == ncclInvalidUsage, "an end without a beginning");
    gpu_leave(&world);
}

/* A device with its communicator, and a buffer of COUNT elements. */
struct device {
    int number;
    ncclComm_t comm;
    CUstream stream;
    float *data;
};

static void open_device(struct device *device, int number, unsigned seed)
{
    device->number = number;
    gpu_use(number);
    CUDA(cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING));
    device->data = device_part(number, seed, COUNT);
}

static void check_device(struct device *device, unsigned seed)
{
    gpu_use(device->number);
    CUDA(cuStreamSynchronize(device->stream));
    want_sum(device->data, DEVICES, seed, COUNT, "the devices of one process");
}

static void reduce_devices(struct device *devices)
{
    CUDA(cuInit(0));
    for (int i = 0; i < DEVICES; i++)
        open_device(&devices[i], i, 1);
    NCCL(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++)
        NCCL(ncclAllReduce(devices[i].data, devices[i].data, COUNT, ncclFloat32, ncclSum,
                           devices[i].comm, devices[i].stream));
    NCCL(ncclGroupEnd());
    for (int i = 0; i < DEVICES; i++)
        check_device(&devices[i], 1);
    for (int i = 0; i < DEVICES; i++)
        NCCL(ncclCommDestroy(devices[i].comm));
}

static void case_devices(void)
{
    struct device devices[DEVICES];
    ncclComm_t comms[DEVICES];
    CUDA(cuInit(0));
    NCCL(ncclCommInitAll(comms, DEVICES, NULL));
    for (int i = 0; i < DEVICES; i++)
        devices[i].comm = comms[i];
    reduce_devices(devices);
}

static void case_devices_group(void)
{
    struct device devices[DEVICES];
    ncclUniqueId id;
    CUDA(cuInit(0));
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++) {
        gpu_use(i);
        NCCL(ncclCommInitRank(&devices[i].comm, DEVICES, id, i));
    }
    NCCL(ncclGroupEnd());
    reduce_devices(devices);
}

/* Id of the communicator whose devices have a thread each. */
static ncclUniqueId shared_id;

static void *drive_device(void *argument)
{
    struct device device;
    const int number = *(const int *)argument;
    open_device(&device, number, 0);
    NCCL(ncclCommInitRank(&device.comm, DEVICES, shared_id, number));
    for (unsigned turn = 1; turn < 6; turn++) {
        float *fresh = device_part(number, turn, COUNT);
        NCCL(ncclAllReduce(fresh, device.data, COUNT, ncclFloat32, ncclSum, device.comm,
                           device.stream));
        check_device(&device, turn);
        gpu_free(fresh);
    }
    NCCL(ncclCommDestroy(device.comm));
    return NULL;
}

static void case_threads(void)
{
    pthread_t threads[DEVICES];
    int numbers[DEVICES];
    CUDA(cuInit(0));
    NCCL(ncclGetUniqueId(&shared_id));
    for (int i = 0; i < DEVICES; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, drive_device, &numbers[i]);
    }
    for (int i = 0; i < DEVICES; i++)
        pthread_join(threads[i], NULL);
}

static const struct gpu_case cases[] = {
    CASE(several),       CASE(mixed),    CASE(behind),   CASE(communicators), CASE(streams),
    CASE(streams_group), CASE(segments), CASE(simulate), CASE(mistake),       CASE(devices),
    CASE(devices_group), CASE(threads),  CASE(queue),    CASE(remainder),     CASE(overlap),
};

int main(int argc, char **argv)
{
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
