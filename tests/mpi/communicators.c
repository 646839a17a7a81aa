/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that memory stays flat when communicators are created, used for a sum and freed again and
 * again. Each rank prints how much it grew after the first rounds. An ordinary MPI program.
 *
 *   mpi_communicators ROUNDS KIB     fails if a rank grows by more than KIB */
#include <mpi.h>
#include <stdlib.h>

#include "tests/mpi/job.h"
#include "tests/mpi/memory_use.h"

#define COUNT 20000
#define WARM_UP 50

static float data[COUNT];

static void sum(MPI_Comm comm)
{
    const int wrong = sum_ones(data, COUNT, comm);
    if (wrong > 0) {
        failures++;
        fprintf(stderr, "rank %d: %d of %d are wrong\n", rank, wrong, COUNT);
    }
}

static void run_round(int round)
{
    MPI_Comm comm, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    sum(comm);
    MPI_Comm_split(comm, round % 3 == 0 ? rank % 2 : 0, -rank, &part);
    sum(part);
    MPI_Comm_free(&comm); /* before `part`, which was created later */
    sum(part);
    MPI_Comm_free(&part);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: mpi_communicators ROUNDS KIB\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int round = 0; round < WARM_UP; round++)
        run_round(round);
    const struct memory before = memory_now();
    for (int round = 0; round < atoi(argv[1]); round++)
        run_round(round);
    const struct memory after = memory_now();
    const long mapped = after.mapped - before.mapped, resident = after.resident - before.resident;
    printf("rank %d grew by %ld KiB, in memory %ld KiB\n", rank, mapped, resident);
    if (mapped > atol(argv[2]) || resident > atol(argv[2]) || after.mapped == 0)
        failures++;
    MPI_Finalize();
    return failures != 0;
}
