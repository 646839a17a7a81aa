/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one all-reduce of more than 2^31 bytes (2.25 GiB per rank), in place, of small integers,
 * which are exact in the codecs of large.sh. An ordinary MPI program. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 603979777 /* floats; odd, and just above 2^31 + 2^28 bytes */

int main(int argc, char **argv)
{
    int ranks, rank, wrong = 0, total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    float *data = malloc((size_t)COUNT * sizeof *data);
    if (data == NULL) {
        fprintf(stderr, "mpi_large_bytes: no memory for %zu bytes\n", (size_t)COUNT * sizeof *data);
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort();
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(i % 3 - 1);
    MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        wrong += data[i] != (float)((i % 3 - 1) * ranks);
    MPI_Allreduce(&wrong, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d of %d elements are wrong\n", total, COUNT);
    free(data);
    MPI_Finalize();
    return total != 0;
}
