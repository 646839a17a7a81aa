/* SPDX-License-Identifier: Apache-2.0 */
/* An ordinary MPI program with a locale: sums floats, and prints a sum in the locale's format.
 *
 *   mpirun mpi_locale */
#include <locale.h>
#include <mpi.h>
#include <stdlib.h>

#include "tests/mpi/job.h"

enum { COUNT = 70001 };

int main(int argc, char **argv)
{
    float *data = calloc(COUNT, sizeof *data);
    setlocale(LC_ALL, "");
    job_begin(&argc, &argv);
    if (data == NULL)
        return MPI_Abort(MPI_COMM_WORLD, 3);
    data[0] = 0.75F;
    MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("the sum is %.1f\n", (double)data[0]);
    MPI_Finalize();
    free(data);
    return 0;
}
