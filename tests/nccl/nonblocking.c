/* SPDX-License-Identifier: Apache-2.0 */
/* Nonblocking communicators, one case per run. Every result must be exact, natively and with a
 * policy of codec raw.
 *
 *   nccl_nonblocking CASE
 */
#include "tests/nccl/cases.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>

enum { COUNT = 70001 };

static struct gpu_world world;

static ncclComm_t make_nonblocking(const char *suffix)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    config.blocking = 0;
    const ncclUniqueId id = gpu_share_id(world.rank, suffix);
    const ncclResult_t made = ncclCommInitRankConfig(&comm, world.ranks, id, world.rank, &config);
    WANT(made == ncclSuccess || made == ncclInProgress, "made: %d", (int)made);
    return comm;
}

static void begin_sum(ncclComm_t comm, float *data)
{
    const ncclResult_t called =
        ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, comm, world.stream);
    WANT(called == ncclSuccess || called == ncclInProgress, "called: %d", (int)called);
}

/* Sums on a nonblocking communicator of `ranks` ranks, and checks the result. */
static void sum_on(ncclComm_t comm, unsigned seed, int ranks, const char *what)
{
    float *data = device_part(world.rank, seed, COUNT);
    begin_sum(comm, data);
    gpu_settle(comm);
    synchronize(&world);
    want_sum(data, ranks, seed, COUNT, what);
    gpu_free(data);
}

/* Calls on a nonblocking communicator, which the program polls. */
static void case_nonblocking(void)
{
    world = gpu_join();
    const ncclComm_t comm = make_nonblocking(".2");
    gpu_settle(comm);
    sum_on(comm, 1, world.ranks, "a nonblocking communicator");
    reduce_on(&world, world.comm, 2, COUNT, "a blocking communicator besides");
    NCCL(ncclCommAbort(comm));
    gpu_leave(&world);
}

/* A group of calls, one of which is passed through, and an operation that is destroyed in the
 * group. */
static void case_nonblocking_group(void)
{
    float one = 1;
    ncclRedOp_t op;
    world = gpu_join();
    const ncclComm_t comm = make_nonblocking(".group");
    gpu_settle(comm);
    for (int round = 0; round < 3; round++) {
        float *first = device_part(world.rank, 1, COUNT),
              *second = device_part(world.rank, 2, COUNT),
              *third = device_part(world.rank, 3, COUNT);
        int *numbers = gpu_allocate(5 * sizeof *numbers), sums[5],
            own[5] = {world.rank, 1, 2, 3, 4};
        gpu_write(numbers, own, sizeof own);
        NCCL(ncclRedOpCreatePreMulSum(&op, &one, ncclFloat32, ncclScalarHostImmediate, comm));
        NCCL(ncclGroupStart());
        begin_sum(comm, first);
        NCCL(ncclAllReduce(numbers, numbers, 5, ncclInt32, ncclSum, comm, world.stream));
        NCCL(ncclAllReduce(second, second, COUNT, ncclFloat32, op, comm, world.stream));
        NCCL(ncclRedOpDestroy(op, comm));
        const ncclResult_t ended = ncclGroupEnd();
        WANT(ended == ncclSuccess || ended == ncclInProgress, "ended: %d", (int)ended);
        gpu_settle(comm);
        synchronize(&world);
        want_sum(first, world.ranks, 1, COUNT, "the first of a nonblocking group");
        want_sum(second, world.ranks, 2, COUNT, "the second of a nonblocking group");
        gpu_read(sums, numbers, sizeof sums);
        WANT(sums[0] == world.ranks * (world.ranks - 1) / 2 && sums[4] == 4 * world.ranks,
             "sums: %d and %d", sums[0], sums[4]);
        gpu_free(numbers);
        /* The operation is destroyed while a thread may still need it for the call. */
        NCCL(ncclRedOpCreatePreMulSum(&op, &one, ncclFloat32, ncclScalarHostImmediate, comm));
        const ncclResult_t begun =
            ncclAllReduce(third, third, COUNT, ncclFloat32, op, comm, world.stream);
        WANT(begun == ncclSuccess || begun == ncclInProgress, "begun: %d", (int)begun);
        NCCL(ncclRedOpDestroy(op, comm));
        gpu_settle(comm);
        synchronize(&world);
        want_sum(third, world.ranks, 3, COUNT, "a call with an operation that was destroyed");
    }
    const ncclResult_t ending = ncclCommFinalize(comm);
    WANT(ending == ncclSuccess || ending == ncclInProgress, "finalized: %d", (int)ending);
    gpu_settle(comm);
    NCCL(ncclCommDestroy(comm));
    gpu_leave(&world);
}

/* Groups of ten calls, each group begun as soon as the previous one is reported as done: the thread
 * of an earlier group must not report a later group as done. On two ranks, every sum after the
 * first doubles the data. */
static void case_nonblocking_rounds(void)
{
    enum { CALLS = 10, ROUNDS = 20 };
    ncclResult_t state;
    float *data[CALLS], sums[COUNT];
    world = gpu_join();
    const ncclComm_t comm = make_nonblocking(".rounds");
    gpu_settle(comm);
    for (unsigned i = 0; i < CALLS; i++)
        data[i] = device_part(world.rank, i, i + 1);
    for (int round = 0; round < ROUNDS; round++) {
        NCCL(ncclGroupStart());
        for (unsigned i = 0; i < CALLS; i++)
            NCCL(ncclAllReduce(data[i], data[i], i + 1, ncclFloat32, ncclSum, comm, world.stream));
        const ncclResult_t ended = ncclGroupEnd();
        WANT(ended == ncclInProgress, "ended: %d", (int)ended);
        do
            NCCL(ncclCommGetAsyncError(comm, &state));
        while (state == ncclInProgress);
        NCCL(state);
    }
    synchronize(&world);
    for (unsigned i = 0; i < CALLS; i++) {
        gpu_read(sums, data[i], (i + 1) * sizeof *sums);
        for (unsigned k = 0; k <= i; k++)
            WANT(sums[k] == ldexpf(part_sum(2, i, k), ROUNDS - 1), "call %u: %g", i, sums[k]);
        gpu_free(data[i]);
    }
    NCCL(ncclCommAbort(comm));
    gpu_leave(&world);
}

/* Returns the number of threads that may run the program's handler of SIGUSR1. */
static int count_receivers(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    WANT(tasks != NULL, "no list of threads");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char path[sizeof "/proc/self/task//status" + sizeof task->d_name], line[256];
        unsigned long long blocked;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = task->d_name[0] != '.' ? fopen(path, "re") : NULL;
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                count += (blocked >> (SIGUSR1 - 1) & 1) == 0;
        if (status != NULL)
            fclose(status);
    }
    if (tasks != NULL)
        closedir(tasks);
    return count;
}

/* Only one rank calls: the call is in progress until the program aborts it. The thread that makes
 * the call blocks the program's signals. */
static void case_nonblocking_alone(void)
{
    ncclResult_t state;
    world = gpu_join();
    const ncclComm_t comm = make_nonblocking(".alone");
    gpu_settle(comm);
    float *data = device_part(world.rank, 1, COUNT);
    if (world.rank == 0) {
        const int receivers = count_receivers();
        begin_sum(comm, data);
        for (int i = 0; i < 100; i++) {
            usleep(1000);
            NCCL(ncclCommGetAsyncError(comm, &state));
        }
        const int more = count_receivers() - receivers;
        WANT(state != ncclInProgress || more <= 0, "%d more threads receive signals", more);
        const ncclResult_t again =
            ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, comm, world.stream);
        fprintf(stderr, "state %d, called again %d\n", (int)state, (int)again);
    }
    reduce_on(&world, world.comm, 2, COUNT, "a blocking communicator besides");
    NCCL(ncclCommAbort(comm));
    gpu_leave(&world);
}

/* Rank 0 calls alone on two communicators in a group, and aborts the second one first. */
static void case_nonblocking_two(void)
{
    world = gpu_join();
    const ncclComm_t first = make_nonblocking(".first"), second = make_nonblocking(".second");
    gpu_settle(first);
    gpu_settle(second);
    if (world.rank == 0) {
        NCCL(ncclGroupStart());
        begin_sum(first, device_part(0, 1, COUNT));
        begin_sum(second, device_part(0, 2, COUNT));
        const ncclResult_t ended = ncclGroupEnd();
        WANT(ended == ncclInProgress, "ended: %d", (int)ended);
        usleep(100000);
    }
    NCCL(ncclCommAbort(second));
    NCCL(ncclCommAbort(first));
    reduce_on(&world, world.comm, 3, COUNT, "a blocking communicator besides");
    gpu_leave(&world);
}

/* After a call of all ranks, rank 0 calls alone. All ranks revoke the communicator, and go on with
 * a child of it. */
static void case_nonblocking_revoke(void)
{
    ncclComm_t child;
    world = gpu_join();
    const ncclComm_t comm = make_nonblocking(".revoke");
    gpu_settle(comm);
    sum_on(comm, 1, world.ranks, "before the revoke");
    if (world.rank == 0) {
        begin_sum(comm, device_part(0, 1, COUNT));
        usleep(100000);
    }
    const ncclResult_t revoked = ncclCommRevoke(comm, 0);
    WANT(revoked == ncclSuccess || revoked == ncclInProgress, "revoked: %d", (int)revoked);
    gpu_settle(comm);
    synchronize(&world);
    const ncclResult_t parted = ncclCommSplit(comm, 0, world.rank, &child, NULL);
    WANT(parted == ncclSuccess || parted == ncclInProgress, "parted: %d", (int)parted);
    gpu_settle(comm);
    sum_on(child, 2, world.ranks, "a child of a revoked nonblocking communicator");
    NCCL(ncclCommDestroy(child));
    NCCL(ncclCommDestroy(comm));
    gpu_leave(&world);
}

/* Communicators are ended while they are made, during a call, and after ncclCommFinalize; the last
 * has had a child. */
static void case_nonblocking_ends(void)
{
    ncclComm_t child;
    world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    NCCL(ncclCommAbort(make_nonblocking(".made")));
    ncclComm_t comm = make_nonblocking(".called");
    gpu_settle(comm);
    begin_sum(comm, data);
    NCCL(ncclCommAbort(comm));
    synchronize(&world);
    gpu_free(data);
    comm = make_nonblocking(".finalized");
    gpu_settle(comm);
    const ncclResult_t parted = ncclCommSplit(comm, 0, world.rank, &child, NULL);
    WANT(parted == ncclSuccess || parted == ncclInProgress, "parted: %d", (int)parted);
    gpu_settle(comm);
    gpu_settle(child);
    sum_on(child, 2, world.ranks, "a child of a nonblocking communicator");
    NCCL(ncclCommDestroy(child));
    ncclConfig_t waits = NCCL_CONFIG_INITIALIZER;
    waits.blocking = 1;
    const ncclResult_t again = ncclCommSplit(comm, 0, world.rank, &child, &waits);
    WANT(again == ncclSuccess || again == ncclInProgress, "parted again: %d", (int)again);
    gpu_settle(comm);
    reduce_on(&world, child, 4, COUNT, "a blocking child of a nonblocking communicator");
    NCCL(ncclCommDestroy(child));
    int last = world.ranks - 1;
    if (world.rank < last) {
        const ncclResult_t shrunk = ncclCommShrink(comm, &last, 1, &child, NULL, 0);
        WANT(shrunk == ncclSuccess || shrunk == ncclInProgress, "shrunk: %d", (int)shrunk);
        gpu_settle(comm);
        sum_on(child, 5, last, "a shrunk nonblocking communicator");
        NCCL(ncclCommDestroy(child));
    }
    const ncclResult_t ending = ncclCommFinalize(comm);
    WANT(ending == ncclSuccess || ending == ncclInProgress, "finalized: %d", (int)ending);
    gpu_settle(comm);
    NCCL(ncclCommDestroy(comm));
    reduce_on(&world, world.comm, 3, COUNT, "a blocking communicator after them");
    gpu_leave(&world);
}

static const struct gpu_case cases[] = {
    CASE(nonblocking),        CASE(nonblocking_ends),  CASE(nonblocking_group),
    CASE(nonblocking_rounds), CASE(nonblocking_alone), CASE(nonblocking_two),
    CASE(nonblocking_revoke),
};

int main(int argc, char **argv)
{
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
