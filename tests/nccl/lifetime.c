/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending communicators, operations and processes, one case per run. Every result must be
 * exact, natively and with a policy of codec raw.
 *
 *   nccl_lifetime CASE
 */
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "tests/nccl/cases.h"

enum { COUNT = 70001 };

static struct gpu_world world;

static void case_split(void)
{
    ncclComm_t half, grouped[2], none;
    int rank;
    world = gpu_join();
    NCCL(ncclCommSplit(world.comm, world.rank % 2, -world.rank, &half, NULL));
    NCCL(ncclCommUserRank(half, &rank));
    WANT(rank == (world.ranks - 1 - world.rank) / 2, "the order of the keys: rank %d", rank);
    reduce_on(&world, half, 1, COUNT, "a half");
    NCCL(ncclCommSplit(world.comm, world.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, 0, &none, NULL));
    if (world.rank > 0) {
        reduce_on(&world, none, 2, COUNT, "all but one");
        NCCL(ncclCommDestroy(none));
    } else {
        WANT(none == NULL, "a rank without a color got a communicator");
    }
    NCCL(ncclGroupStart());
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &grouped[0], NULL));
    NCCL(ncclCommSplit(half, 0, 0, &grouped[1], NULL));
    NCCL(ncclGroupEnd());
    reduce_on(&world, grouped[0], 3, COUNT, "a split in a group");
    reduce_on(&world, grouped[1], 4, COUNT, "the split of a split in a group");
    NCCL(ncclCommDestroy(grouped[1]));
    NCCL(ncclCommFinalize(half));
    NCCL(ncclCommDestroy(half));
    NCCL(ncclCommDestroy(grouped[0]));
    reduce_on(&world, world.comm, 5, COUNT, "the world");
    gpu_leave(&world);
}

/* Child communicators of 4 ranks: of all, of every second one (if halves are nodes, of one rank per
 * node), of a half, and a child of a half. The first call is small, so compshim passes it through
 * without an exchange between the ranks. */
static void case_children(void)
{
    ncclComm_t all, across, inside, pair;
    world = gpu_join();
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &all, NULL));
    NCCL(ncclCommSplit(world.comm, world.rank % 2, world.rank, &across, NULL));
    NCCL(ncclCommSplit(world.comm, world.rank / 2, world.rank, &inside, NULL));
    NCCL(ncclCommSplit(inside, 0, world.rank, &pair, NULL));
    float *small = device_part(world.rank, 9, 5);
    NCCL(ncclAllReduce(small, small, 5, ncclFloat32, ncclSum, inside, world.stream));
    synchronize(&world);
    gpu_free(small);
    reduce_on(&world, all, 1, COUNT, "all ranks");
    reduce_on(&world, across, 2, COUNT, "a rank of each node");
    reduce_on(&world, inside, 3, COUNT, "a node's ranks");
    reduce_on(&world, inside, 4, COUNT, "a node's ranks, again");
    reduce_on(&world, pair, 5, COUNT, "a child of the child");
    NCCL(ncclCommDestroy(pair));
    NCCL(ncclCommDestroy(inside));
    NCCL(ncclCommDestroy(across));
    NCCL(ncclCommDestroy(all));
    gpu_leave(&world);
}

static void case_shrink(void)
{
    ncclComm_t most;
    int excluded[1] = {1};
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "the world");
    if (world.rank != 1) {
        NCCL(ncclCommShrink(world.comm, excluded, 1, &most, NULL, NCCL_SHRINK_DEFAULT));
        reduce_on(&world, most, 2, COUNT, "all but rank 1");
        NCCL(ncclCommDestroy(most));
    }
    gpu_leave(&world);
}

/* The last rank does not make a call. The others end the call by a shrink. */
static void case_shrink_abort(void)
{
    ncclComm_t most;
    int last;
    world = gpu_join();
    last = world.ranks - 1;
    float *data = device_part(world.rank, 1, COUNT);
    reduce_on(&world, world.comm, 1, COUNT, "the world");
    if (world.rank != last) {
        NCCL(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
        NCCL(ncclCommShrink(world.comm, &last, 1, &most, NULL, NCCL_SHRINK_ABORT));
        synchronize(&world);
        reduce_on(&world, most, 2, COUNT, "all but the last rank");
        NCCL(ncclCommDestroy(most));
    }
    NCCL(ncclCommAbort(world.comm));
}

/* Communicators are made and destroyed or aborted several times, so that handles are reused. */
static void case_again(void)
{
    char suffix[16];
    world = gpu_join();
    NCCL(ncclCommDestroy(world.comm));
    for (unsigned turn = 0; turn < 6; turn++) {
        snprintf(suffix, sizeof suffix, ".%u", turn);
        const ncclUniqueId id = gpu_share_id(world.rank, suffix);
        NCCL(ncclCommInitRank(&world.comm, world.ranks, id, world.rank));
        reduce_on(&world, world.comm, turn, COUNT, "a communicator made again");
        if (turn % 2 == 0)
            NCCL(ncclCommDestroy(world.comm));
        else
            NCCL(ncclCommAbort(world.comm));
    }
    CUDA(cuStreamDestroy(world.stream));
}

/* The communicator is never destroyed. */
static void case_kept(void)
{
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "a communicator that is kept");
}

/* Returns, on every rank, once rank 0's first thread waits for the other ranks. */
static void await_wait_of_rank_0(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s.waits", getenv("ID_FILE"));
    if (world.rank == 0) {
        gpu_await_first_thread(1);
        fclose(fopen(path, "w"));
    }
    while (access(path, F_OK) != 0)
        usleep(10000);
}

static void *abort_later(void *argument)
{
    await_wait_of_rank_0();
    NCCL(ncclCommAbort(world.comm));
    return argument;
}

static void *revoke_later(void *argument)
{
    await_wait_of_rank_0();
    NCCL(ncclCommRevoke(world.comm, 0));
    return argument;
}

/* A rank waits for others that do not call: in its first compressed call or, after some calls, on
 * its stream. Another thread aborts or revokes the communicator, which ends the wait. */
static void stuck(int calls_before, void *(*end)(void *))
{
    pthread_t thread;
    world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    for (int i = 0; i < calls_before; i++)
        reduce_on(&world, world.comm, 1, COUNT, "before the end");
    pthread_create(&thread, NULL, end, NULL);
    if (world.rank == 0) {
        const ncclResult_t result =
            ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream);
        fprintf(stderr, "the call returned %d\n", (int)result);
        synchronize(&world);
    }
    pthread_join(thread, NULL);
}

static void case_abort_first(void)
{
    stuck(0, abort_later);
}

static void case_revoke_first(void)
{
    stuck(0, revoke_later);
}

static void case_abort_later(void)
{
    stuck(2, abort_later);
}

/* The last rank ends after some calls. The others get the asynchronous error of their communicator,
 * and abort it. A call of WHOLE elements by hierarchical has messages within the two levels only;
 * the first SAMPLED calls also have samples, which connect all ranks. */
static void case_lost(void)
{
    enum { WHOLE = 1 << 16, SAMPLED = 16 };
    ncclResult_t state = ncclSuccess;
    world = gpu_join();
    float *data = device_part(world.rank, 2, WHOLE);
    const int last = world.ranks - 1;
    for (unsigned i = 0; i < SAMPLED; i++)
        reduce_on(&world, world.comm, i, COUNT, "before the end of a rank");
    /* The last rank ends after all ranks have completed these calls. */
    NCCL(ncclGroupStart());
    if (world.rank != last)
        NCCL(ncclSend(data, 1, ncclUint8, last, world.comm, world.stream));
    for (int rank = 0; rank < last && world.rank == last; rank++)
        NCCL(ncclRecv(data + rank, 1, ncclUint8, rank, world.comm, world.stream));
    NCCL(ncclGroupEnd());
    synchronize(&world);
    if (world.rank == last)
        _exit(0);
    ncclAllReduce(data, data, WHOLE, ncclFloat32, ncclSum, world.comm, world.stream);
    while (state == ncclSuccess) {
        usleep(1000);
        NCCL(ncclCommGetAsyncError(world.comm, &state));
    }
    WANT(state == ncclRemoteError, "the state after a rank has gone: %d", (int)state);
    NCCL(ncclCommAbort(world.comm));
    synchronize(&world);
}

/* A forked child continues without CUDA; its exit does not end the job. */
static void case_fork(void)
{
    int status;
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "before the fork");
    const pid_t child = fork();
    if (child == 0)
        exit(7);
    waitpid(child, &status, 0);
    WANT(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child's status: %d", status);
    reduce_on(&world, world.comm, 2, COUNT, "after the fork");
    gpu_leave(&world);
}

/* Functions of NCCL 2.31 and, further down, 2.29, which the installed nccl.h may lack. */
extern ncclResult_t ncclAllReduceConfig(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                        ncclComm_t, cudaStream_t, const void *);
extern ncclResult_t ncclReduceScatterConfig(const void *, void *, size_t, ncclDataType_t,
                                            ncclRedOp_t, ncclComm_t, cudaStream_t, const void *);
extern ncclResult_t ncclAllGatherConfig(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                                        cudaStream_t, const void *);
extern ncclResult_t ncclBroadcastConfig(const void *, void *, size_t, ncclDataType_t, int,
                                        ncclComm_t, cudaStream_t, const void *);
extern ncclResult_t ncclAlltoAllConfig(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                                       cudaStream_t, const void *);
#pragma weak ncclAllReduceConfig
#pragma weak ncclReduceScatterConfig
#pragma weak ncclAllGatherConfig
#pragma weak ncclBroadcastConfig
#pragma weak ncclAlltoAllConfig

extern ncclResult_t ncclCommGetUniqueId(ncclComm_t, ncclUniqueId *);
extern ncclResult_t ncclCommGrow(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *,
                                 ncclConfig_t *);
#pragma weak ncclCommGetUniqueId
#pragma weak ncclCommGrow

/* Returns rank 0's id on all ranks. */
static ncclUniqueId broadcast_id(const ncclUniqueId *id)
{
    ncclUniqueId *shared = gpu_allocate(sizeof *shared), told;
    gpu_write(shared, id, sizeof *id);
    NCCL(ncclBroadcast(shared, shared, sizeof told, ncclUint8, 0, world.comm, world.stream));
    synchronize(&world);
    gpu_read(&told, shared, sizeof told);
    gpu_free(shared);
    return told;
}

/* The last rank, whose `most` is NULL, joins the communicator of the others, by an id that rank 0
 * has made. */
static void grow_by_last(ncclComm_t most, const ncclUniqueId *id, const char *what)
{
    ncclComm_t all;
    int rank;
    const bool is_new = most == NULL;
    NCCL(ncclCommGrow(most, world.ranks, is_new || world.rank == 0 ? id : NULL,
                      is_new ? world.rank : -1, &all, NULL));
    NCCL(ncclCommUserRank(all, &rank));
    WANT(rank == world.rank, "a rank has become %d", rank);
    reduce_on(&world, all, 1, COUNT, what);
    reduce_on(&world, all, 2, COUNT, what);
    NCCL(ncclCommDestroy(all));
}

/* All ranks but the last have a communicator, made by an id or split from the world. It grows
 * twice. Rank 0 makes an id before each growth or, if `hasty`, both ids before the first one. */
static void grow_twice(bool is_split, bool hasty)
{
    ncclComm_t most = NULL;
    ncclUniqueId ids[2] = {0};
    world = gpu_join();
    const bool is_new = world.rank == world.ranks - 1;
    if (is_split) {
        NCCL(ncclCommSplit(world.comm, is_new ? NCCL_SPLIT_NOCOLOR : 0, 0, &most, NULL));
    } else if (!is_new) {
        const ncclUniqueId id = gpu_share_id(world.rank, ".most");
        NCCL(ncclCommInitRank(&most, world.ranks - 1, id, world.rank));
    }
    for (int i = 0; i < 2; i++) {
        if (world.rank == 0 && (i == 0 || !hasty))
            NCCL(ncclCommGetUniqueId(most, &ids[i]));
        if (world.rank == 0 && i == 0 && hasty)
            NCCL(ncclCommGetUniqueId(most, &ids[1]));
        const ncclUniqueId id = broadcast_id(&ids[i]);
        grow_by_last(most, &id, i == 0 ? "grown" : "grown again");
    }
    if (!is_new) {
        reduce_on(&world, most, 3, COUNT, "what has grown");
        NCCL(ncclCommDestroy(most));
    }
    gpu_leave(&world);
}

static void case_grow(void)
{
    grow_twice(false, false);
}

static void case_grow_split(void)
{
    grow_twice(true, false);
}

static void case_grow_hasty(void)
{
    grow_twice(false, true);
}

/* Calls the functions with a configuration argument, first with NULL, then with a configuration. */
static void case_configured(void)
{
    const char given[256] = {0};
    world = gpu_join();
    for (int i = 0; i < 2; i++) {
        const void *config = i == 0 ? NULL : given;
        float *data = device_part(world.rank, 1, COUNT), *block;
        NCCL(ncclAllReduceConfig(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream,
                                 config));
        synchronize(&world);
        want_sum(data, world.ranks, 1, COUNT, "with a configuration");
        gpu_free(data);
        data = device_part(world.rank, 1, COUNT);
        block = data + (size_t)world.rank * (COUNT / (size_t)world.ranks);
        NCCL(ncclReduceScatterConfig(data, block, COUNT / (size_t)world.ranks, ncclFloat32, ncclSum,
                                     world.comm, world.stream, config));
        NCCL(ncclAllGatherConfig(block, data, COUNT / (size_t)world.ranks, ncclFloat32, world.comm,
                                 world.stream, config));
        NCCL(ncclBroadcastConfig(data, data, COUNT, ncclFloat32, 1, world.comm, world.stream,
                                 config));
        synchronize(&world);
        want_sum(data, world.ranks, 1, COUNT / (size_t)world.ranks * (size_t)world.ranks,
                 "scattered, gathered and broadcast");
        float *exchanged = gpu_allocate(COUNT * sizeof *exchanged);
        NCCL(ncclAlltoAllConfig(data, exchanged, COUNT / (size_t)world.ranks, ncclFloat32,
                                world.comm, world.stream, config));
        synchronize(&world);
        want_sum_from(exchanged, world.ranks, 1, (size_t)world.rank * (COUNT / (size_t)world.ranks),
                      COUNT / (size_t)world.ranks, "exchanged");
    }
    gpu_leave(&world);
}

/* A revoke ends a rank's wait on its stream. The communicator accepts no more calls, but its child
 * does. */
static void case_revoke(void)
{
    pthread_t thread;
    ncclComm_t part;
    world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    reduce_on(&world, world.comm, 1, COUNT, "before");
    pthread_create(&thread, NULL, revoke_later, NULL);
    if (world.rank == 0)
        NCCL(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
    pthread_join(thread, NULL);
    synchronize(&world);
    const ncclResult_t behind =
        ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream);
    WANT(behind == ncclInvalidUsage, "a call after the revoke: %d", (int)behind);
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &part, NULL));
    reduce_on(&world, part, 2, COUNT, "a child of the revoked communicator");
    NCCL(ncclCommDestroy(part));
    gpu_leave(&world);
}

/* PreMulSum with factor 2, on the host and on the device, where the stream writes the factor after
 * the operation was made. Each operation is destroyed right after the call, or inside its group. */
static void case_scaled(void)
{
    ncclRedOp_t op;
    const float two = 2;
    float first;
    world = gpu_join();
    float *factor = gpu_allocate(sizeof two);
    float *data = device_part(world.rank, 1, COUNT), *more = device_part(world.rank, 1, COUNT);
    NCCL(ncclRedOpCreatePreMulSum(&op, (void *)&two, ncclFloat32, ncclScalarHostImmediate,
                                  world.comm));
    NCCL(ncclAllReduce(data, data, COUNT, ncclFloat32, op, world.comm, world.stream));
    NCCL(ncclRedOpDestroy(op, world.comm));
    NCCL(ncclGroupStart());
    NCCL(ncclRedOpCreatePreMulSum(&op, factor, ncclFloat32, ncclScalarDevice, world.comm));
    NCCL(ncclAllReduce(more, more, COUNT, ncclFloat32, op, world.comm, world.stream));
    NCCL(ncclRedOpDestroy(op, world.comm));
    CUDA(cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)factor, &two, sizeof two, world.stream));
    NCCL(ncclGroupEnd());
    synchronize(&world);
    gpu_read(&first, data + 3, sizeof first);
    WANT(first == 2 * part_sum(world.ranks, 1, 3), "a factor of the host: %g", (double)first);
    gpu_read(&first, more + COUNT - 1, sizeof first);
    WANT(first == 2 * part_sum(world.ranks, 1, COUNT - 1), "a factor of the device: %g",
         (double)first);
    gpu_leave(&world);
}

/* The ranks make different calls: an erroneous program, which must end with a message. Later calls
 * may be refused; no rank waits forever. */
static void mismatch(size_t count, ncclDataType_t datatype)
{
    world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    CUresult waited = CUDA_SUCCESS;
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < 3 && result == ncclSuccess && waited == CUDA_SUCCESS; i++) {
        result = ncclAllReduce(data, data, count, datatype, ncclSum, world.comm, world.stream);
        waited = cuStreamSynchronize(world.stream);
    }
    WANT(result == ncclSuccess && waited == CUDA_SUCCESS, "refused: %d, %d", (int)result,
         (int)waited);
    _exit(failures != 0);
}

static void rank_0_has(size_t count, ncclDataType_t datatype)
{
    if (gpu_setting("RANK", 0) == 0)
        mismatch(count, datatype);
    else
        mismatch(COUNT, ncclFloat32);
}

static void case_mismatch(void)
{
    rank_0_has(COUNT - 256, ncclFloat32);
}

static void case_mismatch_type(void)
{
    rank_0_has(COUNT, ncclBfloat16);
}

/* Makes up to four calls. If one fails, ends the process, as a program does that checks for errors.
 */
static void case_faulty(void)
{
    ncclResult_t result = ncclSuccess;
    world = gpu_join();
    for (unsigned i = 0; i < 4 && result == ncclSuccess; i++) {
        float *data = device_part(world.rank, i, COUNT);
        result = ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream);
        if (result == ncclSuccess)
            synchronize(&world);
        if (result == ncclSuccess)
            want_sum(data, world.ranks, i, COUNT, "with faults");
    }
    if (result == ncclSuccess) {
        gpu_leave(&world);
        return;
    }
    fprintf(stderr, "rank %d: refused: %s\n", world.rank, ncclGetErrorString(result));
    _exit(4);
}

/* After a failed preparation, the call that prepared and all later ones fail. */
static void case_unprepared(void)
{
    world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    for (int i = 0; i < 2; i++)
        WANT(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream) !=
                 ncclSuccess,
             "call %d is not refused", i);
    NCCL(ncclCommAbort(world.comm));
}

static const struct gpu_case cases[] = {
    CASE(split),        CASE(shrink),   CASE(again),      CASE(kept),       CASE(abort_first),
    CASE(abort_later),  CASE(fork),     CASE(scaled),     CASE(mismatch),   CASE(mismatch_type),
    CASE(faulty),       CASE(children), CASE(revoke),     CASE(grow),       CASE(grow_split),
    CASE(grow_hasty),   CASE(lost),     CASE(configured), CASE(unprepared), CASE(revoke_first),
    CASE(shrink_abort),
};

int main(int argc, char **argv)
{
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
