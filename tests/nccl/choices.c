/* SPDX-License-Identifier: Apache-2.0 */
/* Makes all-reduces that learn their fastest candidate, while communicators are made, used and
 * ended in many ways. Compares results with the expected sums; if the host does not wait for every
 * call, only some results. Except in cases whose ranks end or whose communicator does not block,
 * also compares the results' bits with those of the other ranks.
 *
 *   nccl_choices CASE
 *
 * Variables: CALLS (400) is the number of calls in the case `steady`, and determines it in others;
 * COUNT (16384) is the number of elements of the largest call. CLOCK=US,MIB is the stand-in's clock
 * from the middle of the case `changes` on. DIES is the rank that ends or aborts, after AFTER
 * calls. The largest error allowed is 7 % of the sum plus TOLERANCE (2). With PRINT=1, rank 0
 * prints a digest of each result that it compares. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>

#include "codecs/hash.h"
#include "tests/nccl/cases.h"

static struct gpu_world world;
static size_t count;
static int calls;

/* A communicator with buffers of its own, and a stream. */
struct lane {
    ncclComm_t comm;
    CUstream stream;
    float *input, *output;
    uint64_t digest; /* digest of all checked results */
};

static void open_lane(struct lane *lane, ncclComm_t comm)
{
    int rank;
    NCCL(ncclCommUserRank(comm, &rank));
    lane->comm = comm;
    lane->digest = CSHIM_HASH_EMPTY;
    lane->input = device_part(rank, 1, count);
    lane->output = gpu_allocate(count * sizeof *lane->output);
    CUDA(cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING));
}

static void reduce(const struct lane *lane)
{
    NCCL(ncclAllReduce(lane->input, lane->output, count, ncclFloat32, ncclSum, lane->comm,
                       lane->stream));
}

/* Waits for the stream, and checks the latest result: an element may be off by 7 % plus TOLERANCE
 * (2). */
static void check_result(struct lane *lane)
{
    int ranks;
    float *data = calloc(count + 1, sizeof *data);
    NCCL(ncclCommCount(lane->comm, &ranks));
    CUDA(cuStreamSynchronize(lane->stream));
    gpu_read(data, lane->output, count * sizeof *data);
    const uint64_t digest = cshim_hash_bytes(CSHIM_HASH_EMPTY, data, count * sizeof *data);
    lane->digest = cshim_hash_bytes(lane->digest, &digest, sizeof digest);
    if (world.rank == 0 && gpu_setting("PRINT", 0))
        printf("%016llx\n", (unsigned long long)digest);
    for (size_t i = 0; i < count; i++) {
        const float sum = part_sum(ranks, 1, i);
        if (!(fabsf(data[i] - sum) <= 0.07f * fabsf(sum) + (float)gpu_setting("TOLERANCE", 2))) {
            WANT(0, "element %zu: %g, not about %g", i, (double)data[i], (double)sum);
            break;
        }
    }
    free(data);
}

/* Counts a failure unless all ranks had the same bits in every checked result. */
static void compare_ranks(const struct lane *lane)
{
    WANT(gpu_same_on_all(lane->digest, lane->comm, lane->stream), "ranks hold different bits");
}

static void reduce_and_check(struct lane *lane, int times)
{
    for (int i = 0; i < times; i++) {
        reduce(lane);
        check_result(lane);
    }
}

static void leave(struct lane *lane)
{
    compare_ranks(lane);
    gpu_leave(&world);
}

static void join_world(struct lane *lane)
{
    world = gpu_join();
    open_lane(lane, world.comm);
}

/* The host waits for each call. */
static void case_steady(void)
{
    struct lane lane;
    join_world(&lane);
    reduce_and_check(&lane, calls);
    leave(&lane);
}

/* The host is ahead of the GPU by up to 40 calls. */
static void case_ahead(void)
{
    struct lane lane;
    join_world(&lane);
    for (int i = 0; i < calls; i++) {
        reduce(&lane);
        if (i % 40 == 39 || i == calls - 1)
            check_result(&lane);
    }
    leave(&lane);
}

static void set_clock(void)
{
    double microseconds, mib;
    void (*set)(double, double) =
        (void (*)(double, double))dlsym(RTLD_DEFAULT, "standin_set_clock");
    const char *text = getenv("CLOCK");
    if (set == NULL || text == NULL || sscanf(text, "%lf,%lf", &microseconds, &mib) != 2)
        _exit(3);
    set(microseconds, mib);
}

static void case_changes(void)
{
    struct lane lane;
    join_world(&lane);
    reduce_and_check(&lane, calls / 2);
    set_clock();
    reduce_and_check(&lane, calls - calls / 2);
    leave(&lane);
}

/* Two communicators: after one call on each, odd ranks make all calls on the second one first,
 * even ranks on the first one. No rank waits for the GPU in between. */
static void case_crossed(void)
{
    struct lane lanes[2];
    ncclComm_t second;
    join_world(&lanes[0]);
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &second, NULL));
    open_lane(&lanes[1], second);
    for (int i = 0; i < 2; i++)
        reduce_and_check(&lanes[i], 1);
    for (int i = 0; i < 2; i++)
        for (int call = 0; call < calls; call++)
            reduce(&lanes[(i + world.rank) % 2]);
    for (int i = 0; i < 2; i++) {
        check_result(&lanes[i]);
        compare_ranks(&lanes[i]);
    }
    NCCL(ncclCommDestroy(second));
    gpu_leave(&world);
}

static void *use_lane(void *argument)
{
    gpu_use(world.rank);
    reduce_and_check(argument, calls);
    return NULL;
}

/* A thread for each of two communicators. */
static void case_threads(void)
{
    struct lane lanes[2];
    pthread_t threads[2];
    join_world(&lanes[0]);
    const ncclUniqueId id = gpu_share_id(world.rank, ".second");
    ncclComm_t second;
    NCCL(ncclCommInitRank(&second, world.ranks, id, world.rank));
    open_lane(&lanes[1], second);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use_lane, &lanes[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        compare_ranks(&lanes[i]);
    NCCL(ncclCommDestroy(second));
    gpu_leave(&world);
}

/* Groups of two calls, then groups of one call, then groups of two again. */
static void case_groups(void)
{
    struct lane lane;
    join_world(&lane);
    for (int i = 0; i < 3 * calls; i++) {
        const bool is_group = i / calls != 1;
        NCCL(ncclGroupStart());
        for (int left = is_group ? 2 : 1; left > 0; left--)
            reduce(&lane);
        NCCL(ncclGroupEnd());
        check_result(&lane);
    }
    leave(&lane);
}

/* One thread drives all devices of a process, which has all ranks. */
static void all_in_one(ncclComm_t *comms, int ranks)
{
    struct lane lanes[4];
    for (int i = 0; i < ranks; i++) {
        gpu_use(i);
        open_lane(&lanes[i], comms[i]);
    }
    for (int call = 0; call < calls; call++) {
        NCCL(ncclGroupStart());
        for (int i = 0; i < ranks; i++)
            reduce(&lanes[i]);
        NCCL(ncclGroupEnd());
        for (int i = 0; i < ranks; i++) {
            gpu_use(i);
            check_result(&lanes[i]);
        }
    }
    for (int i = 1; i < ranks; i++)
        WANT(lanes[i].digest == lanes[0].digest, "ranks hold different bits");
    for (int i = 0; i < ranks; i++)
        NCCL(ncclCommDestroy(comms[i]));
}

static void case_all(void)
{
    ncclComm_t comms[3];
    gpu_open(0);
    NCCL(ncclCommInitAll(comms, 3, NULL));
    all_in_one(comms, 3);
}

static void case_one_thread(void)
{
    ncclComm_t comms[3];
    gpu_open(0);
    const ncclUniqueId id = gpu_share_id(0, "");
    NCCL(ncclGroupStart());
    for (int i = 0; i < 3; i++) {
        gpu_use(i);
        NCCL(ncclCommInitRank(&comms[i], 3, id, i));
    }
    NCCL(ncclGroupEnd());
    all_in_one(comms, 3);
}

/* Splits the world into a communicator with the ranks in reverse order, so that its rank 0 is not
 * the world's, and that one into a communicator with the ranks in the world's order. */
static void case_parts(void)
{
    struct lane lane;
    ncclComm_t part, again;
    join_world(&lane);
    reduce_and_check(&lane, 1);
    NCCL(ncclCommSplit(world.comm, 0, -world.rank, &part, NULL));
    NCCL(ncclCommDestroy(world.comm));
    NCCL(ncclCommSplit(part, 0, world.rank, &again, NULL));
    open_lane(&lane, part);
    reduce_and_check(&lane, calls);
    compare_ranks(&lane);
    open_lane(&lane, again);
    reduce_and_check(&lane, calls);
    compare_ranks(&lane);
    NCCL(ncclCommDestroy(part));
    NCCL(ncclCommDestroy(again));
}

/* A call that is captured after CALLS single calls, from which its class may have learned. */
static void case_captured(void)
{
    struct lane lane;
    join_world(&lane);
    reduce_and_check(&lane, calls);
    CUDA(cuStreamBeginCapture(lane.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    reduce(&lane);
    const CUgraphExec exec = gpu_end_capture(lane.stream);
    for (int i = 0; i < 3; i++) {
        CUDA(cuGraphLaunch(exec, lane.stream));
        check_result(&lane);
        reduce_and_check(&lane, 1);
    }
    CUDA(cuGraphExecDestroy(exec));
    leave(&lane);
}

static void case_nonblocking(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct lane lane;
    config.blocking = 0;
    world.rank = gpu_setting("RANK", 0);
    world.ranks = gpu_setting("WORLD_SIZE", 1);
    gpu_open(world.rank);
    const ncclUniqueId id = gpu_share_id(world.rank, "");
    ncclCommInitRankConfig(&world.comm, world.ranks, id, world.rank, &config);
    gpu_settle(world.comm);
    open_lane(&lane, world.comm);
    for (int i = 0; i < calls; i++) {
        const ncclResult_t status = ncclAllReduce(lane.input, lane.output, count, ncclFloat32,
                                                  ncclSum, lane.comm, lane.stream);
        WANT(status == ncclInProgress || status == ncclSuccess, "status %d", (int)status);
        gpu_settle(world.comm);
        check_result(&lane);
    }
    ncclCommFinalize(world.comm);
    gpu_settle(world.comm);
    NCCL(ncclCommDestroy(world.comm));
}

/* Makes calls until one fails or all are made, then aborts the communicator. */
static void reduce_until_failure(const struct lane *lane)
{
    for (int i = 0; i < calls; i++)
        if (ncclAllReduce(lane->input, lane->output, count, ncclFloat32, ncclSum, lane->comm,
                          lane->stream) != ncclSuccess) {
            fprintf(stderr, "rank %d: call %d failed\n", world.rank, i);
            break;
        }
    NCCL(ncclCommAbort(lane->comm));
}

/* The process of rank DIES ends after AFTER calls of its class. */
static void case_dies(void)
{
    struct lane lane;
    join_world(&lane);
    const int mine = gpu_setting("DIES", 0) == world.rank;
    reduce_and_check(&lane, gpu_setting("AFTER", 1));
    if (mine)
        _exit(0);
    reduce_until_failure(&lane);
}

static void *abort_later(void *comm)
{
    usleep(100000);
    NCCL(ncclCommAbort(comm));
    return NULL;
}

/* Rank DIES aborts its communicator after AFTER calls; another thread aborts the others' while they
 * make calls. */
static void case_aborts(void)
{
    struct lane lane;
    pthread_t thread;
    join_world(&lane);
    reduce_and_check(&lane, gpu_setting("AFTER", 1));
    if (gpu_setting("DIES", 0) == world.rank) {
        NCCL(ncclCommAbort(world.comm));
        sleep(1);
        return;
    }
    pthread_create(&thread, NULL, abort_later, world.comm);
    for (int i = 0; i < calls; i++)
        if (ncclAllReduce(lane.input, lane.output, count, ncclFloat32, ncclSum, lane.comm,
                          lane.stream) != ncclSuccess)
            break;
    pthread_join(thread, NULL);
}

/* A communicator split from a revoked one works. */
static void case_revoked(void)
{
    struct lane lane;
    ncclComm_t part;
    join_world(&lane);
    reduce_and_check(&lane, gpu_setting("AFTER", 1));
    NCCL(ncclCommRevoke(world.comm, 0));
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &part, NULL));
    open_lane(&lane, part);
    reduce_and_check(&lane, calls);
    compare_ranks(&lane);
    NCCL(ncclCommDestroy(part));
    NCCL(ncclCommDestroy(world.comm));
}

/* Calls of several sizes in turn, each size with a class of its own. */
static void case_classes(void)
{
    enum { SIZES = 5 };
    struct lane lanes[SIZES];
    const size_t largest = count;
    join_world(&lanes[0]);
    for (int i = 0; i < SIZES; i++) {
        count = largest >> i;
        open_lane(&lanes[i], world.comm);
    }
    for (int call = 0; call < calls; call++)
        for (int i = 0; i < SIZES; i++) {
            count = largest >> i;
            reduce_and_check(&lanes[i], 1);
        }
    for (int i = 0; i < SIZES; i++)
        compare_ranks(&lanes[i]);
    gpu_leave(&world);
}

static const struct gpu_case cases[] = {
    CASE(steady), CASE(ahead),      CASE(changes), CASE(crossed),  CASE(threads),
    CASE(groups), CASE(all),        CASE(parts),   CASE(captured), CASE(nonblocking),
    CASE(dies),   CASE(one_thread), CASE(aborts),  CASE(revoked),  CASE(classes),
};

int main(int argc, char **argv)
{
    count = (size_t)gpu_setting("COUNT", 16384);
    calls = gpu_setting("CALLS", 400);
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
