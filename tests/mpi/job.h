/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by most MPI test programs: rank and size, the count of failed checks, a simple sum, and
 * the beginning and end of a program. Each program includes this header once. */
#ifndef JOB_H
#define JOB_H

#include <mpi.h>
#include <stdio.h>

static int rank, ranks, failures; /* rank and size in MPI_COMM_WORLD; failed checks of this rank */

static inline void job_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Counts a failure if `good` is false. Prints the first ten of each rank. */
static inline void check(int good, const char *what)
{
    if (!good && failures++ < 10)
        fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
}

/* Sums `count` ones in place, in float32. Returns the number of wrong results. */
static inline int sum_ones(float *data, int count, MPI_Comm comm)
{
    int size, wrong = 0;
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < count; i++)
        data[i] = 1;
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        wrong += data[i] != (float)size;
    return wrong;
}

/* Prints on rank 0 the failures of all ranks after `text`. Returns the program's exit status. */
static inline int job_end(const char *text)
{
    int total = 0;
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s%d failures\n", text, total);
    MPI_Finalize();
    return total != 0;
}

#endif
