/* SPDX-License-Identifier: Apache-2.0 */
/* Makes calls with normally distributed data, without waiting between them, every other one in
 * place (an all-to-all never). Computes the error of all elements of rank 0's results against sums
 * in float64. Rank 0 prints "error E": the relative L2 error over all calls, which a report
 * estimates by samples.
 *
 *   nccl_sampled sum|scatter|gather|alltoall|broadcast DTYPE sum|avg|scaled|device CALLS [group]
 *
 * scaled: ncclRedOpCreatePreMulSum with a factor of each rank, on the host; device: on the device.
 * group: all calls in one group. Data-movement collectives are compared by the block that rank 0
 * receives from itself; a broadcast's root is rank 0. */
#include "tests/nccl/sums.h"

#define COUNT 10007 /* elements of a rank's result or, where it has blocks, of a block */
#define CALLS_MAX 64

static struct gpu_world world;
static const char *collective;
static ncclRedOp_t op = ncclSum;

struct call_buffers {
    unsigned char *memory; /* large enough for calls in place */
    unsigned char *send;
    unsigned char *receive;
};

static bool is(const char *name)
{
    return strcmp(collective, name) == 0;
}

static double value(int call, int rank, size_t i)
{
    return element(NORMAL, rank, world.ranks, (size_t)call * 10000000 + i);
}

static struct call_buffers prepare(int call)
{
    const size_t size = cshim_dtype_bytes(sums_dtype), all = COUNT * (size_t)world.ranks;
    const size_t input = is("scatter") || is("alltoall") ? all : COUNT;
    unsigned char *host = malloc(input * size);
    struct call_buffers buffers = {.memory = gpu_allocate(2 * all * size)};
    buffers.send = buffers.memory;
    buffers.receive = buffers.memory + all * size;
    for (size_t i = 0; i < input; i++)
        store(host, i, value(call, world.rank, i));
    if (call % 2 != 0 && is("gather")) /* NCCL's in-place position */
        buffers.send = buffers.receive + (size_t)world.rank * COUNT * size;
    else if (call % 2 != 0 && !is("alltoall"))
        buffers.receive = buffers.send + (is("scatter") ? (size_t)world.rank * COUNT * size : 0);
    gpu_write(buffers.send, host, input * size);
    free(host);
    return buffers;
}

static void make_call(const struct call_buffers *buffers)
{
    if (is("scatter"))
        NCCL(ncclReduceScatter(buffers->send, buffers->receive, COUNT, datatype(), op, world.comm,
                               world.stream));
    else if (is("gather"))
        NCCL(ncclAllGather(buffers->send, buffers->receive, COUNT, datatype(), world.comm,
                           world.stream));
    else if (is("alltoall"))
        NCCL(ncclAlltoAll(buffers->send, buffers->receive, COUNT, datatype(), world.comm,
                          world.stream));
    else if (is("broadcast"))
        NCCL(ncclBroadcast(buffers->send, buffers->receive, COUNT, datatype(), 0, world.comm,
                           world.stream));
    else
        NCCL(ncclAllReduce(buffers->send, buffers->receive, COUNT, datatype(), op, world.comm,
                           world.stream));
}

static void compare_call(int call, const struct call_buffers *buffers, double *errors,
                         double *squares)
{
    const bool adds = is("sum") || is("scatter");
    const int ranks = adds ? world.ranks : 1;
    unsigned char *host = calloc(COUNT, cshim_dtype_bytes(sums_dtype));
    gpu_read(host, buffers->receive, COUNT * cshim_dtype_bytes(sums_dtype));
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int rank = 0; rank < ranks; rank++)
            sum += value(call, rank, i) * (sums_scaled ? rounded(sums_scalar(rank)) : sums_factor);
        *errors += (load(host, i) - sum) * (load(host, i) - sum);
        *squares += sum * sum;
    }
    free(host);
}

int main(int argc, char **argv)
{
    static struct call_buffers buffers[CALLS_MAX];
    double errors = 0, squares = 0;
    const int calls = argc > 4 ? atoi(argv[4]) : 0;
    const bool grouped = argc > 5;
    if (calls < 1 || calls > CALLS_MAX || !dtype_by_name(argv[2], &sums_dtype)) {
        fprintf(stderr, "usage: nccl_sampled COLLECTIVE DTYPE OP CALLS [group]\n");
        return 2;
    }
    collective = argv[1];
    world = gpu_join();
    op = make_op(&world, argv[3]);
    for (int call = 0; call < calls; call++)
        buffers[call] = prepare(call);
    if (grouped)
        NCCL(ncclGroupStart());
    for (int call = 0; call < calls; call++)
        make_call(&buffers[call]);
    if (grouped)
        NCCL(ncclGroupEnd());
    CUDA(cuStreamSynchronize(world.stream));
    for (int call = 0; call < calls; call++) {
        if (world.rank == 0)
            compare_call(call, &buffers[call], &errors, &squares);
        gpu_free(buffers[call].memory);
    }
    if (world.rank == 0)
        printf("error %.9g\n", sqrt(errors / squares));
    gpu_leave(&world);
    return 0;
}
