/* SPDX-License-Identifier: Apache-2.0 */
/* Makes all-reduces of several sizes, and each other compressed collective in one size, with
 * elements whose sums are exact. An all-reduce of bytes, whose count is the case's number, marks
 * the beginning of each case in the stand-in's log of data.
 *
 *   nccl_wire
 */
#include "tests/nccl/cases.h"

static struct gpu_world world;

struct wire_case {
    enum { REDUCE, SCATTER, GATHER, ALLTOALL, BROADCAST } collective;
    size_t count; /* elements of a rank's result, or of a block in collectives with blocks */
    ncclRedOp_t op;
    int calls; /* number of calls in one group */
};

static void make_call(const struct wire_case *one, float *send, float *receive)
{
    if (one->collective == REDUCE)
        NCCL(ncclAllReduce(send, receive, one->count, ncclFloat32, one->op, world.comm,
                           world.stream));
    else if (one->collective == SCATTER)
        NCCL(ncclReduceScatter(send, receive, one->count, ncclFloat32, one->op, world.comm,
                               world.stream));
    else if (one->collective == GATHER)
        NCCL(ncclAllGather(send, receive, one->count, ncclFloat32, world.comm, world.stream));
    else if (one->collective == ALLTOALL)
        NCCL(ncclAlltoAll(send, receive, one->count, ncclFloat32, world.comm, world.stream));
    else
        NCCL(ncclBroadcast(send, receive, one->count, ncclFloat32, 2, world.comm, world.stream));
}

/* Runs a case twice: with error feedback, the second call with a buffer uses the residual of the
 * first. */
static void run_wire_case(const struct wire_case *one, unsigned number)
{
    const size_t room = one->count * (size_t)world.ranks;
    float *send = device_part(world.rank, number, room), *receive[2];
    void *mark = gpu_allocate(number);
    receive[0] = gpu_allocate(room * sizeof *send);
    receive[1] = gpu_allocate(room * sizeof *send);
    NCCL(ncclAllReduce(mark, mark, number, ncclInt8, ncclMax, world.comm, world.stream));
    for (int turn = 0; turn < 2; turn++) {
        NCCL(ncclGroupStart());
        for (int i = 0; i < one->calls; i++)
            make_call(one, send, receive[i]);
        NCCL(ncclGroupEnd());
    }
    CUDA(cuStreamSynchronize(world.stream));
    gpu_free(send), gpu_free(receive[0]), gpu_free(receive[1]), gpu_free(mark);
}

int main(void)
{
    static const struct wire_case cases[] = {
        {REDUCE, 3001, ncclSum, 1},    {REDUCE, 20011, ncclSum, 1}, {REDUCE, 50021, ncclSum, 1},
        {REDUCE, 100003, ncclSum, 1},  {SCATTER, 5003, ncclSum, 1}, {GATHER, 5003, ncclSum, 1},
        {REDUCE, 20011, ncclAvg, 1},   {REDUCE, 20011, ncclSum, 2}, {ALLTOALL, 5003, ncclSum, 1},
        {BROADCAST, 5003, ncclSum, 1},
    };
    world = gpu_join();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        run_wire_case(&cases[i], i + 1);
    gpu_leave(&world);
    return 0;
}
