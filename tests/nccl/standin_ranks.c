/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in for NCCL must do and must refuse, one case a run, on the ranks that
 * tests/nccl/launch.sh starts. Sums and copies hold for the real library too.
 *
 *   nccl_standin_ranks CASE
 */
#include <pthread.h>

#include "tests/nccl/cases.h"

enum { COUNT = 1003, RANKS_MAX = 16 };

static struct gpu_world world;

static void want(int holds, const char *what)
{
    if (!holds && failures++ < 10)
        fprintf(stderr, "rank %d: not so: %s\n", world.rank, what);
}

static void want_result(ncclResult_t got, ncclResult_t wanted, const char *what)
{
    if (got != wanted && failures++ < 10)
        fprintf(stderr, "rank %d: %s: %s, not %s\n", world.rank, what, ncclGetErrorString(got),
                ncclGetErrorString(wanted));
}

/* Small integers, which every type has: those of a rank. */
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

static void synchronize(void)
{
    CUDA(cuStreamSynchronize(world.stream));
}

/* Compares integers on the device with those that a function gives. */
static void compare(const int32_t *device, size_t count, int (*wanted)(size_t), const char *what)
{
    int32_t *host = malloc(count * sizeof *host);
    size_t wrong = 0;
    gpu_read(host, device, count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        wrong += host[i] != wanted(i);
    want(wrong == 0, what);
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

static int scattered(size_t i)
{
    return element(world.ranks - 1, (size_t)world.rank * COUNT + i);
}

static int neighbours(size_t i)
{
    return element((world.rank + world.ranks - 1) % world.ranks, i);
}

/* Results
 * ----------------------------------------------------------------------------------------*/
static void case_collectives(void)
{
    const size_t all = (size_t)world.ranks * COUNT;
    const int last = world.ranks - 1;
    int32_t *input = new_input(all), *output = gpu_allocate(all * sizeof *output);
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    synchronize();
    compare(output, COUNT, sum_of_all, "sum");
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclMax, world.comm, world.stream));
    synchronize();
    compare(output, COUNT, largest_of_all, "maximum");
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclAvg, world.comm, world.stream));
    synchronize();
    compare(output, COUNT, mean_of_all, "mean of integers");
    NCCL(ncclReduceScatter(input, output, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    synchronize();
    compare(output, COUNT, part_of_sum, "reduce-scatter");
    NCCL(ncclAllGather(input, output, COUNT, ncclInt32, world.comm, world.stream));
    synchronize();
    compare(output, all, gathered, "all-gather");
    NCCL(ncclAlltoAll(input, output, COUNT, ncclInt32, world.comm, world.stream));
    synchronize();
    compare(output, all, exchanged, "all-to-all");
    NCCL(ncclBroadcast(input, output, COUNT, ncclInt32, last, world.comm, world.stream));
    synchronize();
    compare(output, COUNT, roots, "broadcast");
    NCCL(ncclReduce(input, output, COUNT, ncclInt32, ncclSum, last, world.comm, world.stream));
    synchronize();
    if (world.rank == last)
        compare(output, COUNT, sum_of_all, "reduce");
    NCCL(ncclGather(input, output, COUNT, ncclInt32, last, world.comm, world.stream));
    synchronize();
    if (world.rank == last)
        compare(output, all, gathered, "gather");
    NCCL(ncclScatter(input, output, COUNT, ncclInt32, last, world.comm, world.stream));
    synchronize();
    compare(output, COUNT, scattered, "scatter");
    NCCL(ncclBcast(input, COUNT, ncclInt32, last, world.comm, world.stream));
    NCCL(ncclAllReduce(input, input, 0, ncclInt32, ncclSum, world.comm, world.stream));
    synchronize();
    compare(input, COUNT, roots, "broadcast in place");
}

/* Round the ring, two messages a pair, which match in their order; nested groups, two streams. */
static void case_messages(void)
{
    const int next = (world.rank + 1) % world.ranks;
    const int before = (world.rank + world.ranks - 1) % world.ranks;
    CUstream other;
    int32_t *input = new_input(COUNT), *twice = gpu_allocate(COUNT * sizeof *twice);
    int32_t *first = gpu_allocate(COUNT * 4), *second = gpu_allocate(COUNT * 4);
    CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(input, COUNT, ncclInt32, next, world.comm, world.stream));
    NCCL(ncclGroupStart());
    NCCL(ncclRecv(first, COUNT, ncclInt32, before, world.comm, world.stream));
    NCCL(ncclGroupEnd());
    CUDA(cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)twice, (CUdeviceptr)(uintptr_t)input, COUNT * 4,
                           other)); /* still before what the group sends */
    NCCL(ncclSend(twice, COUNT, ncclInt32, next, world.comm, other));
    NCCL(ncclRecv(second, COUNT, ncclInt32, before, world.comm, other));
    NCCL(ncclGroupEnd());
    NCCL(ncclAllReduce(first, first, 0, ncclInt32, ncclSum, world.comm, world.stream));
    CUDA(cuStreamSynchronize(other));
    compare(first, COUNT, neighbours, "messages");
    compare(second, COUNT, neighbours, "messages of another stream");
}

static void scaled(ncclScalarResidence_t residence)
{
    float *values = gpu_allocate(COUNT * sizeof *values), *scalar = gpu_allocate(sizeof *scalar);
    static float host[COUNT];
    const float factor = (float)(1 << world.rank);
    float wanted = 0;
    ncclRedOp_t op;
    for (size_t i = 0; i < COUNT; i++)
        host[i] = 1 + (float)(i % 8);
    gpu_write(values, host, sizeof host);
    gpu_write(scalar, &factor, sizeof factor);
    NCCL(ncclRedOpCreatePreMulSum(&op, residence == ncclScalarDevice ? scalar : (void *)&factor,
                                  ncclFloat32, residence, world.comm));
    NCCL(ncclAllReduce(values, values, COUNT, ncclFloat32, op, world.comm, world.stream));
    NCCL(ncclRedOpDestroy(op, world.comm));
    want_result(ncclAllReduce(values, values, COUNT, ncclFloat32, op, world.comm, world.stream),
                ncclInvalidArgument, "an operation that is destroyed");
    synchronize();
    gpu_read(host, values, sizeof host);
    for (int rank = 0; rank < world.ranks; rank++)
        wanted += (float)(1 << rank);
    for (size_t i = 0; i < COUNT; i++)
        want(host[i] == wanted * (1 + (float)(i % 8)), "a sum of products");
}

static void case_scaled(void)
{
    scaled(ncclScalarHostImmediate);
    scaled(ncclScalarDevice);
}

/* Communicators
 * ----------------------------------------------------------------------------------*/
static int sum_of_parity(size_t i)
{
    int sum = 0;
    for (int rank = world.rank % 2; rank < world.ranks; rank += 2)
        sum += element(rank, i);
    return sum;
}

static int sum_of_most(size_t i)
{
    return sum_of_all(i) - element(world.ranks - 1, i);
}

static void case_split(void)
{
    ncclComm_t half, none = world.comm, most;
    int32_t *input = new_input(COUNT), *output = gpu_allocate(COUNT * 4);
    int rank, count, last = world.ranks - 1;
    NCCL(ncclCommSplit(world.comm, world.rank % 2, -world.rank, &half, NULL));
    NCCL(ncclCommUserRank(half, &rank));
    NCCL(ncclCommCount(half, &count));
    want(count == (world.ranks + 1 - world.rank % 2) / 2, "the size of a part");
    want(rank == count - 1 - world.rank / 2, "the order of the keys");
    NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclSum, half, world.stream));
    synchronize();
    compare(output, COUNT, sum_of_parity, "a part's sum");
    NCCL(ncclCommDestroy(half));
    NCCL(ncclCommSplit(world.comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
    want(none == NULL, "no part without a color");
    if (world.rank != last) {
        NCCL(ncclCommShrink(world.comm, &last, 1, &most, NULL, NCCL_SHRINK_DEFAULT));
        NCCL(ncclAllReduce(input, output, COUNT, ncclInt32, ncclSum, most, world.stream));
        synchronize();
        compare(output, COUNT, sum_of_most, "the sum without the last");
        NCCL(ncclCommFinalize(most));
        want_result(ncclAllReduce(input, output, 1, ncclInt32, ncclSum, most, world.stream),
                    ncclInvalidUsage, "use of a finalized communicator");
        NCCL(ncclCommDestroy(most));
    }
}

static void poll_until_ready(ncclComm_t comm)
{
    ncclResult_t state;
    do {
        NCCL(ncclCommGetAsyncError(comm, &state));
        usleep(200);
    } while (state == ncclInProgress);
    NCCL(state);
}

static void case_nonblocking(void)
{
    const ncclUniqueId id = gpu_share_id(world.rank, ".2");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    ncclResult_t state;
    int count;
    int32_t *input = new_input(COUNT), *output = gpu_allocate(COUNT * 4);
    config.blocking = 0;
    want_result(ncclCommInitRankConfig(&comm, world.ranks, id, world.rank, &config), ncclInProgress,
                "ncclCommInitRankConfig");
    poll_until_ready(comm);
    want_result(ncclAllReduce(input, output, COUNT, ncclInt32, ncclSum, comm, world.stream),
                ncclInProgress, "ncclAllReduce");
    const ncclResult_t meanwhile = ncclCommCount(comm, &count);
    NCCL(ncclCommGetAsyncError(comm, &state));
    want(meanwhile == ncclInvalidArgument || state != ncclInProgress, "a call meanwhile");
    poll_until_ready(comm);
    synchronize();
    compare(output, COUNT, sum_of_all, "the sum of a communicator that does not block");
    NCCL(ncclCommAbort(comm));
}

static void *abort_soon(void *comm)
{
    usleep(100000);
    NCCL(ncclCommAbort(comm));
    return NULL;
}

/* Nobody else takes part. */
static void case_abort(void)
{
    pthread_t thread;
    int32_t *input = new_input(COUNT);
    if (world.rank == 0) {
        NCCL(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
        pthread_create(&thread, NULL, abort_soon, world.comm);
        synchronize();
        pthread_join(thread, NULL);
        want(1, "the stream goes on");
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
    want_result(state, ncclRemoteError, "the state after a rank has gone");
    want(cuStreamQuery(world.stream) == CUDA_ERROR_NOT_READY, "the stream waits for the abort");
    NCCL(ncclCommAbort(world.comm));
    synchronize();
    world.comm = NULL;
}

/* Mistakes
 * ---------------------------------------------------------------------------------------*/
static void expect_mismatch(void)
{
    want(cuStreamSynchronize(world.stream) != CUDA_SUCCESS, "ranks that differ are found");
    _exit(failures > 0); /* nothing works any more */
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
    /* Its sum would come next: refused, if the mistake has been found by then. */
    NCCL(ncclBroadcast(input, input, 8, ncclInt32, 0, world.comm, world.stream));
    expect_mismatch();
}

static void case_groups(void)
{
    int32_t *input = new_input(COUNT);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    want_result(ncclGroupEnd(), ncclInvalidUsage, "an end without a beginning");
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    want_result(
        ncclAllReduce(input, input, COUNT, (ncclDataType_t)99, ncclSum, world.comm, world.stream),
        ncclInvalidArgument, "a type that does not exist");
    want_result(ncclGroupEnd(), ncclInvalidArgument, "the end of a group with a mistake");
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(input, input, COUNT, ncclInt32, ncclSum, world.comm, world.stream));
    NCCL(ncclGroupSimulateEnd(&info));
    synchronize();
    want(info.estimatedTime > 0, "the simulation's estimate");
    int32_t first;
    gpu_read(&first, input, sizeof first);
    want(first == element(world.rank, 0), "neither group did anything");
    want_result(ncclBroadcast(input, input, 1, ncclInt32, 99, world.comm, world.stream),
                ncclInvalidArgument, "a root that does not exist");
}

/* One process with several devices; every process of the job does so for itself. */
static void case_devices(void)
{
    enum { DEVICES = 3 };
    ncclComm_t comms[DEVICES];
    CUstream streams[DEVICES];
    int32_t *buffers[DEVICES], got[2];
    NCCL(ncclCommInitAll(comms, DEVICES, NULL));
    for (int i = 0; i < DEVICES; i++) {
        gpu_use(i);
        CUDA(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        buffers[i] = gpu_allocate(8);
        gpu_write(buffers[i], (int32_t[]){i, 10 * i}, 8);
    }
    NCCL(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++)
        NCCL(ncclAllReduce(buffers[i], buffers[i], 2, ncclInt32, ncclSum, comms[i], streams[i]));
    NCCL(ncclGroupEnd());
    for (int i = 0; i < DEVICES; i++) {
        gpu_use(i);
        CUDA(cuStreamSynchronize(streams[i]));
        gpu_read(got, buffers[i], sizeof got);
        want(got[0] == 3 && got[1] == 30, "the sum over the devices of a process");
    }
    want_result(ncclAllReduce(buffers[0], buffers[0], 2, ncclInt32, ncclSum, comms[0], streams[1]),
                ncclUnhandledCudaError, "a stream of another device");
    for (int i = 0; i < DEVICES; i++)
        NCCL(ncclCommDestroy(comms[i]));
}

static const struct gpu_case cases[] = {
    CASE(collectives),    CASE(messages),       CASE(scaled),         CASE(split),
    CASE(nonblocking),    CASE(abort),          CASE(lost),           CASE(groups),
    CASE(devices),        CASE(mismatch_count), CASE(mismatch_dtype), CASE(mismatch_op),
    CASE(mismatch_order),
};

int main(int argc, char **argv)
{
    const struct gpu_case *chosen = find_case(cases, sizeof cases / sizeof *cases, argc, argv);
    world = gpu_join();
    chosen->run();
    if (world.comm != NULL)
        NCCL(ncclCommDestroy(world.comm));
    return failures > 0;
}
