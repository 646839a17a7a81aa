/* SPDX-License-Identifier: Apache-2.0 */
/* Makes communicators whose ranks agree, or fail to agree, in many ways. Every result must be
 * exact.
 *
 *   nccl_rendezvous CASE */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "tests/nccl/cases.h"

enum { COUNT = 70001 };

static struct gpu_world world;

/* Makes two calls, prints their errors, and ends with status 0, so that the launcher lets the
 * others continue. */
static void try_to_reduce(void)
{
    float *data = device_part(world.rank, 1, COUNT);
    for (int i = 0; i < 2; i++) {
        const ncclResult_t result =
            ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream);
        if (result != ncclSuccess)
            fprintf(stderr, "rank %d: call %d refused: %s\n", world.rank, i,
                    ncclGetErrorString(result));
    }
    sleep(3); /* so that the other ranks do not find an ended process */
    _exit(0);
}

static void case_plain(void)
{
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "a sum");
    reduce_on(&world, world.comm, 2, COUNT, "another");
    gpu_leave(&world);
}

static void case_failing(void)
{
    world = gpu_join();
    try_to_reduce();
}

/* Rank 1 is late in ncclCommInitRank and in the first call. */
static void case_late(void)
{
    if (gpu_setting("RANK", 0) == 1)
        sleep(2);
    world = gpu_join();
    if (world.rank == 1)
        sleep(4);
    reduce_on(&world, world.comm, 1, COUNT, "a late sum");
    gpu_leave(&world);
}

static const char *ended_path(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s.ended", getenv("ID_FILE"));
    return path;
}

/* Ends the process when its first thread waits. First creates the file ended_path() for the other
 * ranks. */
static void *end_waiting(void *argument)
{
    gpu_await_first_thread(0);
    fclose(fopen(ended_path(), "w"));
    _exit(0);
    return argument;
}

/* Waits until all ranks have returned from ncclCommInitRank, by a split, which returns on no rank
 * before all have called it. */
static void wait_for_ranks(void)
{
    ncclComm_t child;
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &child, NULL));
    NCCL(ncclCommDestroy(child));
}

/* The communicator is made in a group, so ncclGroupStart is the first call of NCCL on ranks other
 * than 0. */
static void case_grouped(void)
{
    world.rank = gpu_setting("RANK", 0);
    world.ranks = gpu_setting("WORLD_SIZE", 1);
    gpu_open(world.rank);
    const ncclUniqueId id = gpu_share_id(world.rank, "");
    NCCL(ncclGroupStart());
    NCCL(ncclCommInitRank(&world.comm, world.ranks, id, world.rank));
    NCCL(ncclGroupEnd());
    CUDA(cuStreamCreate(&world.stream, CU_STREAM_NON_BLOCKING));
    reduce_on(&world, world.comm, 1, COUNT, "of a communicator made in a group");
    gpu_leave(&world);
}

/* Rank 1's process ends while it waits for the others in its first call. */
static void case_ended(void)
{
    pthread_t thread;
    world = gpu_join();
    wait_for_ranks();
    if (world.rank == 1)
        pthread_create(&thread, NULL, end_waiting, NULL);
    while (world.rank != 1 && access(ended_path(), F_OK) != 0)
        usleep(10000);
    try_to_reduce();
}

/* Ranks 0 and 1 have one communicator, ranks 0 and 2 another; rank 0 uses both first in one group.
 * Rank 1's call is to fail (STANDIN_FAIL): then those of rank 0 and, through it, of rank 2 fail. */
static void case_failing_beside(void)
{
    ncclComm_t comms[2] = {NULL, NULL};
    world = gpu_join();
    const ncclUniqueId ids[2] = {gpu_share_id(world.rank, ".a"), gpu_share_id(world.rank, ".b")};
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        if (world.rank == 0 || world.rank == 1 + i)
            NCCL(ncclCommInitRank(&comms[i], 2, ids[i], world.rank != 0));
    NCCL(ncclGroupEnd());
    float *data[2] = {device_part(world.rank, 1, COUNT), device_part(world.rank, 2, COUNT)};
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        if (comms[i] != NULL)
            NCCL(ncclAllReduce(data[i], data[i], COUNT, ncclFloat32, ncclSum, comms[i],
                               world.stream));
    if (ncclGroupEnd() != ncclSuccess)
        fprintf(stderr, "rank %d: refused\n", world.rank);
    sleep(3); /* so that the other ranks do not find an ended process */
    _exit(0);
}

/* A process makes the id, then forks the ranks. */
static void case_forked(void)
{
    enum { RANKS = 3 };
    ncclUniqueId id;
    int status;
    NCCL(ncclGetUniqueId(&id));
    for (int rank = 0; rank < RANKS; rank++) {
        if (fork() != 0)
            continue;
        world.rank = rank;
        world.ranks = RANKS;
        gpu_open(rank);
        NCCL(ncclCommInitRank(&world.comm, RANKS, id, rank));
        CUDA(cuStreamCreate(&world.stream, CU_STREAM_NON_BLOCKING));
        reduce_on(&world, world.comm, 1, COUNT, "in a child");
        gpu_leave(&world);
        exit(failures != 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        wait(&status);
        WANT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child's status: %d", status);
    }
}

/* A process that is no rank makes the id. If `ends`, this process ends after all ranks have
 * returned from ncclCommInitRank, and before rank 0's first call. */
static void made_elsewhere(bool ends)
{
    int live[2];
    pid_t maker = -1;
    const int rank = gpu_setting("RANK", 0);
    if (pipe(live) != 0)
        _exit(3);
    if (rank == 0 && (maker = fork()) == 0) {
        char byte;
        close(live[1]);
        gpu_share_id(0, "");
        _exit(read(live[0], &byte, 1) != 0);
    }
    world.rank = rank;
    world.ranks = gpu_setting("WORLD_SIZE", 1);
    gpu_open(rank);
    const ncclUniqueId id = gpu_share_id(rank + 1, "");
    NCCL(ncclCommInitRank(&world.comm, world.ranks, id, rank));
    CUDA(cuStreamCreate(&world.stream, CU_STREAM_NON_BLOCKING));
    if (ends)
        wait_for_ranks();
    if (maker > 0 && ends) {
        kill(maker, SIGKILL);
        waitpid(maker, NULL, 0);
    }
    reduce_on(&world, world.comm, 1, COUNT, "with an id from elsewhere");
    gpu_leave(&world);
    close(live[1]);
}

static void case_elsewhere(void)
{
    made_elsewhere(false);
}

static void case_elsewhere_ended(void)
{
    made_elsewhere(true);
}

/* ncclCommInitRankScalable with two ids, made by two ranks. */
static void case_scalable(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    world = gpu_join();
    ncclUniqueId ids[2] = {gpu_share_id(world.rank, ".a"),
                           gpu_share_id(world.rank == 1 ? 0 : 1, ".b")};
    NCCL(ncclCommInitRankScalable(&comm, world.ranks, world.rank, 2, ids, &config));
    reduce_on(&world, comm, 1, COUNT, "two ids");
    NCCL(ncclCommDestroy(comm));
    gpu_leave(&world);
}

/* Two communicators are made in one group, and first used in one group, in a different order on
 * rank 1. */
static void case_orders(void)
{
    ncclComm_t comms[2];
    CUstream streams[2];
    float *data[2];
    world = gpu_join();
    const ncclUniqueId ids[2] = {gpu_share_id(world.rank, ".a"), gpu_share_id(world.rank, ".b")};
    const int first = world.rank == 1;
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        NCCL(ncclCommInitRank(&comms[i], world.ranks, ids[i], world.rank));
    NCCL(ncclGroupEnd());
    for (unsigned i = 0; i < 2; i++) {
        data[i] = device_part(world.rank, 1 + i, COUNT);
        CUDA(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        NCCL(ncclAllReduce(data[i ^ first], data[i ^ first], COUNT, ncclFloat32, ncclSum,
                           comms[i ^ first], streams[i ^ first]));
    NCCL(ncclGroupEnd());
    for (unsigned i = 0; i < 2; i++) {
        CUDA(cuStreamSynchronize(streams[i]));
        want_sum(data[i], world.ranks, 1 + i, COUNT, "in any order");
        NCCL(ncclCommDestroy(comms[i]));
    }
    gpu_leave(&world);
}

static int count_in(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        _exit(3);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Communicators are made and destroyed or aborted many times, without leaking descriptors or
 * threads. */
static void case_many(void)
{
    char suffix[16];
    int files = 0, threads = 0;
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "the world");
    for (int turn = 0; turn < 200; turn++) {
        ncclComm_t comm;
        snprintf(suffix, sizeof suffix, ".%d", turn);
        const ncclUniqueId id = gpu_share_id(world.rank, suffix);
        NCCL(ncclCommInitRank(&comm, world.ranks, id, world.rank));
        reduce_on(&world, comm, (unsigned)turn, COUNT, "one of many");
        NCCL(turn % 2 == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm));
        if (turn == 20) {
            files = count_in("/proc/self/fd");
            threads = count_in("/proc/self/task");
        }
    }
    WANT(count_in("/proc/self/fd") <= files + 4, "files: %d, then %d", files,
         count_in("/proc/self/fd"));
    WANT(count_in("/proc/self/task") <= threads + 2, "threads: %d, then %d", threads,
         count_in("/proc/self/task"));
    gpu_leave(&world);
}

static const struct gpu_case cases[] = {
    CASE(plain),    CASE(grouped), CASE(failing),   CASE(late),
    CASE(ended),    CASE(forked),  CASE(elsewhere), CASE(elsewhere_ended),
    CASE(scalable), CASE(orders),  CASE(many),      CASE(failing_beside),
};

int main(int argc, char **argv)
{
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
