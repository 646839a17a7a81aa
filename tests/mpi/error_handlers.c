/* SPDX-License-Identifier: Apache-2.0 */
/* Makes wrong calls of MPI_Allreduce under MPI_ERRORS_RETURN and under a handler of its own, on
 * MPI_COMM_WORLD and on another communicator. Rank 0 prints the returned errors, for comparing runs
 * with and without the preload. A correct call follows each wrong one. (Null pointers are left out,
 * because Open MPI dereferences them.) An ordinary MPI program. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "tests/mpi/job.h"

#define COUNT 5000

static int handled; /* calls of the handler */
static int handled_code;
static MPI_Comm handled_comm;

/* The C prototype of MPI_Comm_errhandler_function requires the variable arguments. */
static void handler(MPI_Comm *comm, int *code, ...)
{
    handled++;
    handled_code = *code;
    handled_comm = *comm;
}

struct wrong_call {
    const char *name;
    const void *send;
    void *receive;
    int count;
    MPI_Datatype datatype;
    MPI_Op op;
    MPI_Comm comm;
};

static float input[COUNT], output[COUNT];

static void print_outcome(const struct wrong_call *call, int status)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = 0, length = 0;
    MPI_Error_class(status, &class);
    MPI_Error_string(status, text, &length);
    if (rank != 0)
        return;
    printf("%s: class %d, %s; handler called %d times", call->name, class, text, handled);
    if (handled > 0)
        printf(" with %s, on the communicator %s", handled_code == status ? "it" : "another code",
               handled_comm == call->comm       ? "of the call"
               : handled_comm == MPI_COMM_WORLD ? "of the world"
                                                : "of none");
    printf("\n");
}

static void call_right(MPI_Comm comm)
{
    for (int i = 0; i < COUNT; i++)
        input[i] = 1;
    handled = 0;
    const int status = MPI_Allreduce(input, output, COUNT, MPI_FLOAT, MPI_SUM, comm);
    int wrong = status != MPI_SUCCESS || handled != 0;
    for (int i = 0; i < COUNT; i++)
        wrong += output[i] != (float)ranks;
    if (wrong > 0) {
        failures++;
        fprintf(stderr, "rank %d: a right call fails after a wrong one\n", rank);
    }
}

static void call_wrong(MPI_Comm comm, MPI_Datatype uncommitted)
{
    const struct wrong_call calls[] = {
        {"negative count", input, output, -1, MPI_FLOAT, MPI_SUM, comm},
        {"no datatype", input, output, COUNT, MPI_DATATYPE_NULL, MPI_SUM, comm},
        {"uncommitted datatype", input, output, 1, uncommitted, MPI_SUM, comm},
        {"no operation", input, output, COUNT, MPI_FLOAT, MPI_OP_NULL, comm},
        {"operation not for floats", input, output, COUNT, MPI_FLOAT, MPI_BAND, comm},
        {"no communicator", input, output, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL},
        {"result in place", input, MPI_IN_PLACE, COUNT, MPI_FLOAT, MPI_SUM, comm},
        {"both the same", output, output, COUNT, MPI_FLOAT, MPI_SUM, comm},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const struct wrong_call *call = &calls[i];
        handled = 0;
        print_outcome(call, MPI_Allreduce(call->send, call->receive, call->count, call->datatype,
                                          call->op, call->comm));
        call_right(comm);
    }
}

static void call_under(MPI_Errhandler errhandler, const char *name)
{
    MPI_Comm other;
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(2, MPI_FLOAT, &uncommitted);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
    MPI_Comm_set_errhandler(other, errhandler);
    if (rank == 0)
        printf("%s, the world:\n", name);
    call_wrong(MPI_COMM_WORLD, uncommitted);
    if (rank == 0)
        printf("%s, another communicator:\n", name);
    call_wrong(other, uncommitted);
    MPI_Comm_free(&other);
    MPI_Type_free(&uncommitted);
}

int main(int argc, char **argv)
{
    MPI_Errhandler own;
    job_begin(&argc, &argv);
    MPI_Comm_create_errhandler(handler, &own);
    call_under(MPI_ERRORS_RETURN, "errors return");
    call_under(own, "own handler");
    MPI_Errhandler_free(&own);
    if (rank == 0)
        printf("%d failures\n", failures);
    MPI_Finalize();
    return failures != 0;
}
