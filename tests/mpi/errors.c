/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a program sees of errors of the MPI library: as natively, a call that fails returns
 * an error after it has called the communicator's error handler once, and the program goes on.
 *
 *   mpi_errors each CALLS        makes one library call of the shim after the other fail, on all
 *                                ranks, in sequences of CALLS equal collectives; for collectives of
 *                                each kind, with error handlers that return and that free the
 *                                communicator (preload tests/standin/refuse.c)
 *   mpi_errors waiting           a call fails while the program waits for it, and the error handler
 *                                makes others (preload tests/standin/refuse.c)
 *   mpi_errors alone             one rank makes a call that the library rejects
 *   mpi_errors cancel            prints the error of MPI_Cancel on an MPI_Iallreduce
 *   mpi_errors mismatch          the last rank sums fewer elements */
#include <stdio.h>

#include "tests/mpi/nonblocking.h"

#define COUNT 30000

extern int standin_refused_tests __attribute__((weak));
extern int standin_refused_samples __attribute__((weak));
extern int standin_refused_call __attribute__((weak));
static int handled; /* number of calls of an error handler */

static void count_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static void free_communicator(MPI_Comm *comm, int *code, ...)
{
    MPI_Comm freed = *comm;
    (void)code;
    handled++;
    MPI_Comm_free(&freed);
}

enum kind {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    ALLGATHER,
    ALLTOALL,
    BROADCAST,
    NONBLOCKING,
    PERSISTENT,
    KINDS
};

/* Completes a call that was started with `status`. Returns the first error. */
static int end_call(struct call *call, int status)
{
    const int waited = call->request != MPI_REQUEST_NULL
                           ? MPI_Wait(&call->request, MPI_STATUS_IGNORE)
                           : MPI_SUCCESS;
    return status != MPI_SUCCESS ? status : waited;
}

static int start_persistent(struct call *call, MPI_Comm comm)
{
    const int status = MPI_Allreduce_init(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM,
                                          comm, MPI_INFO_NULL, &call->request);
    return status == MPI_SUCCESS ? MPI_Start(&call->request) : status;
}

/* Makes a call of a kind, with call->count elements of all ranks together. */
static int make_kind(enum kind kind, struct call *call, MPI_Comm comm)
{
    const int block = call->count / ranks;
    int status;
    call->request = MPI_REQUEST_NULL;
    switch (kind) {
    case ALLREDUCE:
        return MPI_Allreduce(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM, comm);
    case REDUCE:
        return MPI_Reduce(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM, 0, comm);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(call->in, call->out, block, MPI_FLOAT, MPI_SUM, comm);
    case ALLGATHER:
        return MPI_Allgather(call->in, block, MPI_FLOAT, call->out, block, MPI_FLOAT, comm);
    case ALLTOALL:
        return MPI_Alltoall(call->in, block, MPI_FLOAT, call->out, block, MPI_FLOAT, comm);
    case BROADCAST:
        return MPI_Bcast(call->in, call->count, MPI_FLOAT, 0, comm);
    case NONBLOCKING:
        status = MPI_Iallreduce(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM, comm,
                                &call->request);
        /* The program may reuse its buffers after an error. */
        check(status == MPI_SUCCESS || call->request == MPI_REQUEST_NULL, "nothing was started");
        return end_call(call, status);
    case PERSISTENT:
    case KINDS:
        break;
    }
    status = end_call(call, start_persistent(call, comm));
    if (call->request != MPI_REQUEST_NULL)
        MPI_Request_free(&call->request);
    return status;
}

/* Makes up to `calls` collectives of a kind on a new communicator, whose error handler is `handle`.
 * The shim's library call number `refused` fails. Returns false if it made fewer. */
static int run_one(enum kind kind, MPI_Comm_errhandler_function *handle, int calls, int refused)
{
    char what[128];
    MPI_Comm comm;
    MPI_Errhandler handler;
    struct call call;
    int status = MPI_SUCCESS;
    make_call(&call, COUNT, 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    handled = 0;
    standin_refused_call = refused;
    for (int i = 0; i < calls && status == MPI_SUCCESS; i++)
        status = make_kind(kind, &call, comm);
    const int is_refused = standin_refused_call == 0;
    standin_refused_call = 0;
    snprintf(what, sizeof what, "kind %d, library call %d: status %d, handler called %d times",
             kind, refused, status, handled);
    check(handled == (status != MPI_SUCCESS), what);
    if (handled == 0 || handle != free_communicator) {
        fill_call(&call);
        check(make_kind(kind == BROADCAST ? BROADCAST : ALLREDUCE, &call, comm) == MPI_SUCCESS,
              what);
        if (kind != BROADCAST)
            check_sums(&call, what);
        MPI_Comm_free(&comm);
    }
    MPI_Errhandler_free(&handler);
    drop(&call);
    return is_refused;
}

static void run_each(int calls)
{
    int refused = 0;
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int frees = 0; frees < 2; frees++)
            for (int i = 1; run_one(kind, frees ? free_communicator : count_error, calls, i); i++)
                refused++;
    if (rank == 0)
        printf("%d library calls were refused\n", refused);
}

static MPI_Comm all_but_last; /* MPI_COMM_NULL on the last rank */

/* Handles an error: makes a nonblocking call on all_but_last, and waits for it. */
static void make_another(MPI_Comm *comm, int *code, ...)
{
    struct call call;
    (void)comm, (void)code;
    handled++;
    if (all_but_last == MPI_COMM_NULL)
        return;
    make_call(&call, 30000, 4);
    MPI_Iallreduce(call.in, call.out, call.count, MPI_FLOAT, MPI_SUM, all_but_last, &call.request);
    MPI_Cancel(&call.request); /* fails, or comes too late */
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    for (int i = 0; i < call.count; i++)
        call.out[i] += value(ranks - 1, call.key, i);
    check_sums(&call, "in an error handler");
    drop(&call);
}

/* Makes a call fail while ranks wait for it. The call cannot complete before the last rank joins
 * it, so it fails on all other ranks, but on the last one only if it does not complete at once. */
static void run_failing(struct call *call, MPI_Comm comm)
{
    int word = 0;
    const int is_last = rank == ranks - 1;
    for (int i = 0; i < ranks - 1 && is_last; i++)
        MPI_Recv(&word, 1, MPI_INT, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    start_call(call, comm);
    standin_refused_tests = 1;
    if (!is_last)
        MPI_Send(&word, 1, MPI_INT, ranks - 1, 7, MPI_COMM_WORLD);
    const int status = MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    standin_refused_tests = 0;
    check_call(is_last || status != MPI_SUCCESS, "a failed call ends with an error", status);
    check_call(is_last || handled == 1, "its error handler is called", handled);
}

/* Makes a call whose sampled error cannot be computed: on all ranks, the reduction of the sampled
 * elements fails after it was started. */
static void run_failing_sample(struct call *call, MPI_Errhandler handler)
{
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_errhandler(other, handler);
    handled = 0;
    standin_refused_samples = 1;
    start_call(call, other);
    const int status = MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    standin_refused_samples = 0;
    check_call(status != MPI_SUCCESS, "a call whose sample fails ends with an error", status);
    check_call(handled == 1, "its error handler is called once", handled);
}

static void run_waiting(void)
{
    MPI_Comm other;
    MPI_Errhandler handler;
    struct call call;
    make_call(&call, 150000, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1 ? MPI_UNDEFINED : 0, rank, &all_but_last);
    if (all_but_last != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(all_but_last, MPI_ERRORS_RETURN);
        MPI_Allreduce(call.in, call.out, call.count, MPI_FLOAT, MPI_SUM, all_but_last);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_create_errhandler(make_another, &handler);
    MPI_Comm_set_errhandler(other, handler);
    MPI_Allreduce_init(call.in, call.out, call.count, MPI_FLOAT, MPI_SUM, other, MPI_INFO_NULL,
                       &call.request);
    MPI_Request_free(&call.request);
    run_failing(&call, other);
    run_failing_sample(&call, handler);
    MPI_Errhandler_free(&handler);
    drop(&call);
}

/* After a nonblocking call on a new communicator, one rank makes a call that the library rejects.
 * That call must not wait for other ranks. */
static void run_alone(void)
{
    MPI_Comm other;
    struct call call;
    make_call(&call, 150000, 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    start_call(&call, other);
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    if (rank == 0)
        check_call(MPI_Reduce(call.in, call.out, call.count, MPI_FLOAT, MPI_SUM, 1000, other) !=
                       MPI_SUCCESS,
                   "a root that is no rank is refused", 0);
    MPI_Bcast(call.in, 1, MPI_FLOAT, ranks - 1, other);
    fill_call(&call);
    MPI_Allreduce(call.in, call.out, call.count, MPI_FLOAT, MPI_SUM, other);
    check_sums(&call, "after a refused call of one rank");
    MPI_Comm_free(&other);
    drop(&call);
}

static void run_cancel(void)
{
    struct call call;
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    make_call(&call, 100000, 1);
    start_call(&call, MPI_COMM_WORLD);
    const int status = MPI_Cancel(&call.request);
    MPI_Error_class(status, &class);
    MPI_Error_string(status, text, &length);
    if (rank == 0)
        printf("MPI_Cancel: class %d, %s\n", class, text);
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    check_sums(&call, "a call that could not be cancelled");
    drop(&call);
}

/* The last rank sums fewer elements. Nothing may be written past its shorter buffer. */
static void run_mismatch(void)
{
    struct call call;
    make_call(&call, rank == ranks - 1 ? 50000 : 100000, 1);
    start_call(&call, MPI_COMM_WORLD);
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    drop(&call);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    job_begin(&argc, &argv);
    if (strcmp(what, "each") == 0)
        run_each(argc > 2 ? atoi(argv[2]) : 1);
    else if (strcmp(what, "waiting") == 0)
        run_waiting();
    else if (strcmp(what, "alone") == 0)
        run_alone();
    else if (strcmp(what, "cancel") == 0)
        run_cancel();
    else if (strcmp(what, "mismatch") == 0)
        run_mismatch();
    return job_end("work done, ");
}
