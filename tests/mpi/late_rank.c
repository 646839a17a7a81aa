/* SPDX-License-Identifier: Apache-2.0 */
/* One rank comes late to the agreement that the preload makes in MPI_Init, for test only: this
 * program's own gethostname stands before the C library's, and takes its time when the preload asks
 * (it says to the others which host it is on). Sleeping before MPI_Init would make all ranks late.
 *
 *   mpi_late_rank RANK SECONDS   sums a little afterwards */
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
