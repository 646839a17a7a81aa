/* SPDX-License-Identifier: Apache-2.0 */
/* Lets one rank join the preload's agreement in MPI_Init late. This program's own gethostname is
 * bound before the C library's, and sleeps when the preload calls it to send the hostname to the
 * other ranks. (Sleeping before MPI_Init would delay all ranks.)
 *
 *   mpi_late_rank RANK SECONDS RANK joins SECONDS late; then all make a few sums */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/mpi/before_libc.h"
#include "tests/mpi/job.h"

#define COUNT 100000

static unsigned delay; /* seconds */

BEFORE_LIBC int gethostname(char *name, size_t length)
{
    if (delay > 0 && is_preload(__builtin_return_address(0))) {
        sleep(delay);
        delay = 0;
    }
    return REAL(gethostname)(name, length);
}

int main(int argc, char **argv)
{
    static float data[COUNT];
    const char *own = launched_rank();
    if (argc != 3 || own == NULL) {
        fprintf(stderr, "usage: mpirun mpi_late_rank RANK SECONDS\n");
        return 2;
    }
    if (strcmp(own, argv[1]) == 0)
        delay = (unsigned)atoi(argv[2]);
    job_begin(&argc, &argv);
    const int wrong = sum_ones(data, COUNT, MPI_COMM_WORLD);
    printf("rank %d: %d wrong%s\n", rank, wrong, delay > 0 ? ", never delayed" : "");
    MPI_Finalize();
    return wrong > 0 || delay > 0;
}
