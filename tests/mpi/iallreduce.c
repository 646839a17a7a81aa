/* SPDX-License-Identifier: Apache-2.0 */
/* Checks MPI_Iallreduce and persistent all-reduces: several at once on several communicators, mixed
 * with blocking calls and messages. Ranks complete them by different functions and in different
 * orders, and start persistent ones in different orders. An ordinary MPI program.
 *
 *   mpi_iallreduce [COUNT]       the checks above, with up to 4 COUNT elements
 *   mpi_iallreduce pending       the program ends with an incomplete call
 *   mpi_iallreduce threads       three threads, each on its own communicator
 *   mpi_iallreduce freed         a communicator is freed during a call, and before the start of a
 *                                persistent one; without the shim Open MPI 4.1.4 crashes
 *   mpi_iallreduce tags          a persistent call during 4100 others (preload
 *                                tests/standin/tags.c) */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/nonblocking.h"

#define MANY 12
#define SMALL_STACK (32 << 10) /* twice the stack that the native calls need */

enum way {
    WAIT,
    WAIT_BACKWARDS,
    WAITALL,
    WAITANY,
    WAITSOME,
    TEST,
    TESTALL,
    TESTANY,
    TESTSOME,
    STATUS,
    WAYS
};

static void complete(enum way way, struct call *calls, int count)
{
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY], status;
    int index, indices[MANY], flag = 0, done = 0;
    for (int i = 0; i < count; i++)
        requests[i] = calls[i].request;
    switch (way) {
    case WAIT:
        for (int i = 0; i < count; i++)
            MPI_Wait(&requests[i], &status);
        break;
    case WAIT_BACKWARDS:
        for (int i = count; i-- > 0;)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        break;
    case WAITALL:
        MPI_Waitall(count, requests, statuses);
        break;
    case WAITANY:
        for (int i = 0; i < count; i++)
            MPI_Waitany(count, requests, &index, &status);
        break;
    case WAITSOME:
        for (int ended = 0; ended < count; ended += done)
            MPI_Waitsome(count, requests, &done, indices, statuses);
        break;
    case TEST:
        for (int i = 0; i < count; i++)
            for (flag = 0; !flag;)
                MPI_Test(&requests[i], &flag, &status);
        break;
    case TESTALL:
        while (!flag)
            MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
        break;
    case TESTANY:
        for (int ended = 0; ended < count; ended += flag)
            MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE);
        break;
    case TESTSOME:
        for (int ended = 0; ended < count; ended += done)
            MPI_Testsome(count, requests, &done, indices, statuses);
        break;
    case STATUS:
        for (int i = 0; i < count; i++) {
            for (flag = 0; !flag;)
                MPI_Request_get_status(requests[i], &flag, &status);
            check_call(requests[i] != MPI_REQUEST_NULL, "get_status keeps the request", i);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        break;
    case WAYS:
        break;
    }
    for (int i = 0; i < count; i++)
        check_call(requests[i] == MPI_REQUEST_NULL, "the request is null when done", i);
}

/* Starts many calls at once. Ranks complete them in different ways (enum way). In odd rounds a
 * blocking call comes between the starts. */
static void run_many(const MPI_Comm *comms, int comm_count, int count, int round)
{
    struct call calls[MANY], between;
    for (int i = 0; i < MANY; i++)
        make_call(&calls[i], 1 + (count * (i + 1)) / MANY, i + round);
    make_call(&between, count / 2 + 1, round);
    for (int i = 0; i < MANY; i++) {
        start_call(&calls[i], comms[i % comm_count]);
        if (i == MANY / 2 && round % 2 != 0) {
            MPI_Allreduce(between.in, between.out, between.count, MPI_FLOAT, MPI_SUM, comms[0]);
            check_sums(&between, "a blocking call between");
        }
    }
    complete((enum way)((rank + round) % WAYS), calls, MANY);
    for (int i = 0; i < MANY; i++) {
        check_sums(&calls[i], "MPI_Iallreduce");
        drop(&calls[i]);
    }
    drop(&between);
}

/* Rank 0 waits in MPI_Recv for a message that the last rank sends after its own call is complete,
 * so MPI_Recv must progress rank 0's call. */
static void run_behind_receive(int count)
{
    struct call call;
    int word = 0;
    make_call(&call, count, 3);
    start_call(&call, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, ranks - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    if (rank == ranks - 1)
        MPI_Send(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    check_sums(&call, "behind a receive");
    drop(&call);
}

/* The last rank starts late. A start or a test that waited for all ranks would deadlock here. */
static void run_late_rank(int count)
{
    struct call call;
    int word = 0, flag = 0;
    make_call(&call, count, 4);
    if (rank == ranks - 1)
        MPI_Recv(&word, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    start_call(&call, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Test(&call.request, &flag, MPI_STATUS_IGNORE);
        check_call(!flag, "a call is not done before all have come", flag);
        MPI_Ssend(&word, 1, MPI_INT, ranks - 1, 6, MPI_COMM_WORLD);
    }
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    check_sums(&call, "with a late rank");
    drop(&call);
}

static void run_freed_communicator(int count)
{
    MPI_Comm other;
    struct call call;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    make_call(&call, count, 5);
    MPI_Allreduce(call.in, call.out, count, MPI_FLOAT, MPI_SUM, other);
    fill_call(&call);
    start_call(&call, other);
    MPI_Comm_free(&other);
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    check_sums(&call, "on a communicator that is freed meanwhile");
    drop(&call);
}

/* After a nonblocking call, the first blocking call on a communicator has no elements, and NULL
 * buffers on rank 0 only. */
static void run_behind_empty(int count)
{
    MPI_Comm other;
    struct call call;
    int *counts = calloc((size_t)ranks, sizeof *counts);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    make_call(&call, count, 6);
    for (int round = 0; round < 2; round++) {
        fill_call(&call);
        start_call(&call, other);
        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
        check_sums(&call, "before and behind a call without elements");
        MPI_Reduce_scatter(rank == 0 ? NULL : call.in, rank == 0 ? NULL : call.out, counts,
                           MPI_FLOAT, MPI_SUM, other);
        MPI_Barrier(other);
    }
    MPI_Comm_free(&other);
    drop(&call);
    free(counts);
}

/* Starts persistent requests in an order of this rank's own (MPI 4.0, 6.13), with a blocking call
 * before, between or after them. */
static void start_in_any_order(MPI_Request *requests, struct call *between, unsigned *random)
{
    const int first = rand_r(random) % 3, step = 1 + rand_r(random) % 2;
    const int place = rand_r(random) % 4;
    for (int i = 0; i < 4; i++) {
        if (i == place)
            MPI_Allreduce(between->in, between->out, between->count, MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        if (i < 3)
            MPI_Start(&requests[(first + i * step) % 3]);
    }
    check_sums(between, "a blocking call between persistent ones");
}

static void run_persistent(int count)
{
    struct call calls[3], between;
    MPI_Request requests[3];
    unsigned random = (unsigned)rank + 1;
    make_call(&between, count, 5);
    for (int i = 0; i < 3; i++) {
        make_call(&calls[i], count / (i + 1) + 1, i);
        EITHER_COUNT(i % 2 != 0, MPI_Allreduce_init, calls[i].in, calls[i].out, calls[i].count,
                     MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    }
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 3; i++) {
            calls[i].key = round + i;
            fill_call(&calls[i]);
        }
        if (round % 3 != 0)
            start_in_any_order(requests, &between, &random);
        else
            MPI_Startall(3, requests);
        if (rank % 2 == 0)
            for (int i = 3; i-- > 0;)
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        else
            MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 3; i++) {
            check_call(requests[i] != MPI_REQUEST_NULL, "a persistent request stays", i);
            check_sums(&calls[i], "a persistent call");
        }
    }
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&requests[i]);
        check_call(requests[i] == MPI_REQUEST_NULL, "a freed request is null", i);
        drop(&calls[i]);
    }
    drop(&between);
}

/* A communicator freed by the program stays usable for a persistent request until the request is
 * freed. */
static void run_freed_persistent(int count)
{
    MPI_Comm other;
    struct call calls[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int i = 0; i < 2; i++) {
        make_call(&calls[i], count / (i + 1), i);
        MPI_Allreduce_init(calls[i].in, calls[i].out, calls[i].count, MPI_FLOAT, MPI_SUM, other,
                           MPI_INFO_NULL, &calls[i].request);
        MPI_Start(&calls[i].request);
    }
    MPI_Comm_free(&other);
    for (int i = 0; i < 2; i++) {
        for (int round = 0; round < 3; round++) {
            MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE);
            check_sums(&calls[i], "a persistent call whose communicator is freed");
            calls[i].key++;
            fill_call(&calls[i]);
            MPI_Start(&calls[i].request);
        }
        MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE);
        MPI_Request_free(&calls[i].request);
        drop(&calls[i]);
    }
}

/* Rank 0 starts a persistent request first, the others after more calls than there are tags. */
static void run_tags(void)
{
    enum { CALLS = 4100 };
    struct call kept, call;
    make_call(&kept, 3000, 1);
    make_call(&call, 300, 2);
    MPI_Allreduce_init(kept.in, kept.out, kept.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &kept.request);
    if (rank == 0)
        MPI_Start(&kept.request);
    for (int i = 0; i < CALLS; i++) {
        start_call(&call, MPI_COMM_WORLD);
        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    }
    check_sums(&call, "the last of many calls");
    if (rank > 0)
        MPI_Start(&kept.request);
    MPI_Wait(&kept.request, MPI_STATUS_IGNORE);
    check_sums(&kept, "a persistent call beside more than there are tags");
    MPI_Request_free(&kept.request);
    drop(&kept);
    drop(&call);
}

struct worker {
    pthread_t thread;
    MPI_Comm comm;
};

/* Runs in a thread: makes pairs of calls on the thread's own communicator. */
static void *run_thread(void *data)
{
    const struct worker *worker = data;
    struct call calls[2];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++) {
            make_call(&calls[i], 20000, round + i);
            start_call(&calls[i], worker->comm);
        }
        for (int i = 0; i < 2; i++) {
            MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE);
            check_sums(&calls[i], "in a thread");
            drop(&calls[i]);
        }
    }
    return NULL;
}

static void run_threads(void)
{
    struct worker workers[3];
    float one = 1, sum;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    pthread_attr_setstacksize(&attributes, SMALL_STACK);
#endif
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
        MPI_Allreduce(&one, &sum, 1, MPI_FLOAT, MPI_SUM, workers[i].comm);
        pthread_create(&workers[i].thread, &attributes, run_thread, &workers[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].comm);
    }
    pthread_attr_destroy(&attributes);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[3] = {MPI_COMM_WORLD, MPI_COMM_WORLD, MPI_COMM_WORLD};
    int count = 150000;
    int level;
    const int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && strcmp(argv[1], "freed") == 0) {
        run_freed_communicator(count);
        run_freed_persistent(count);
    } else if (argc > 1 && strcmp(argv[1], "pending") == 0) {
        static struct call left;
        make_call(&left, 1000000, 2);
        start_call(&left, MPI_COMM_WORLD);
    } else if (argc > 1 && strcmp(argv[1], "tags") == 0) {
        run_tags();
    } else if (threads) {
        run_threads();
    } else {
        count = argc > 1 ? atoi(argv[1]) : count;
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
        MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - rank, &comms[2]);
        for (int round = 0; round < 2 * WAYS; round++)
            run_many(comms, 1 + round % 3, count, round);
        MPI_Comm_free(&comms[1]);
        MPI_Comm_free(&comms[2]);
        run_behind_receive(4 * count);
        run_late_rank(count);
        run_behind_empty(count);
        run_persistent(count);
    }
    return job_end("work done, ");
}
