/* SPDX-License-Identifier: Apache-2.0 */
/* mnist_train: trains a small network on handwritten digits with MPI. An ordinary MPI program. */
#include <cblas.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/mnist/dataset.h"
#include "examples/mnist/options.h"
#include "examples/mnist/trainer.h"

enum { STATUS_GOOD = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

/* Checks what the options and the number of ranks ask for together. */
static bool ranks_fit(const struct options *options, int ranks, char *error, size_t error_size)
{
    if (ranks <= options->batch)
        return true;
    snprintf(error, error_size,
             "a batch of %d images cannot be shared by %d ranks: use --batch %d or fewer ranks",
             options->batch, ranks, ranks);
    return false;
}

static int run(int argc, char **argv)
{
    struct options options;
    struct dataset dataset;
    char error[256];
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!options_parse(argc, argv, &options, error, sizeof error) ||
        !ranks_fit(&options, ranks, error, sizeof error)) {
        if (rank == 0)
            fprintf(stderr, "mnist_train: %s\nmnist_train --help lists the options\n", error);
        return STATUS_USAGE;
    }
    if (options.help) {
        if (rank == 0)
            fputs(options_help, stdout);
        return STATUS_GOOD;
    }
    if (!dataset_load(options.data, options.limit, options.quiet, &dataset))
        return STATUS_FAILED;
    bool good = trainer_run(&options, &dataset);
    dataset_free(&dataset);
    return good ? STATUS_GOOD : STATUS_FAILED;
}

int main(int argc, char **argv)
{
    /* One process per core is the rule in an MPI job: more threads would get in each other's way.
     */
    if (getenv("OPENBLAS_NUM_THREADS") == NULL)
        openblas_set_num_threads(1);
    MPI_Init(&argc, &argv);
    int status = run(argc, argv);
    MPI_Finalize();
    return status;
}
