/* SPDX-License-Identifier: Apache-2.0 */
/* Makes many small all-reduces of one type, to count the cost of a passed-through call. An ordinary
 * MPI program. With the stand-in allocator (tests/standin/malloc.c) preloaded, it prints the
 * allocations in the last 1000 calls.
 *
 *   mpi_passed_on CALLS int|float|double|max world|other|self */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern unsigned long standin_allocations __attribute__((weak));

static unsigned long allocations(void)
{
    return &standin_allocations != NULL ? standin_allocations : 0;
}

int main(int argc, char **argv)
{
    int rank, ranks, wrong = 0;
    MPI_Init(&argc, &argv);
    if (argc != 4) {
        fprintf(stderr, "usage: mpi_passed_on CALLS int|float|double|max world|other|self\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int calls = atoi(argv[1]), is_int = strcmp(argv[2], "int") == 0;
    const int is_double = strcmp(argv[2], "double") == 0;
    const MPI_Op op = strcmp(argv[2], "max") == 0 ? MPI_MAX : MPI_SUM;
    MPI_Comm comm = strcmp(argv[3], "self") == 0 ? MPI_COMM_SELF : MPI_COMM_WORLD, other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (strcmp(argv[3], "other") == 0)
        comm = other;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    const float floats[16] = {1, 1, 1};
    const double doubles[16] = {1, 1, 1};
    const int ints[16] = {1, 1, 1};
    float float_sums[16] = {0};
    double double_sums[16] = {0};
    int int_sums[16];
    unsigned long before = 0;
    for (int i = 0; i < calls; i++) {
        if (i == calls - 1000)
            before = allocations();
        if (is_int)
            MPI_Allreduce(ints, int_sums, 16, MPI_INT, op, comm);
        else if (is_double)
            MPI_Allreduce(doubles, double_sums, 16, MPI_DOUBLE, op, comm);
        else
            MPI_Allreduce(floats, float_sums, 16, MPI_FLOAT, op, comm);
        const int sum = is_int ? int_sums[2] : is_double ? (int)double_sums[2] : (int)float_sums[2];
        wrong += sum != (op == MPI_SUM ? ranks : 1);
    }
    const unsigned long made = allocations() - before;
    if (rank == 0)
        printf("%d wrong, %lu allocations in 1000 calls\n", wrong, made);
    MPI_Comm_free(&other);
    MPI_Finalize();
    return wrong != 0;
}
