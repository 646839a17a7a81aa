/* SPDX-License-Identifier: Apache-2.0 */
/* mnist_train and mnist_train_nccl: train a small network on handwritten digits with MPI, on
 * processors or on GPUs. Ordinary programs. */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>

#include "examples/mnist/device.h"
#include "examples/mnist/images.h"
#include "examples/mnist/options.h"
#include "examples/mnist/trainer.h"

enum { STATUS_GOOD = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_NO_DEVICE = 3 };

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
            fprintf(stderr, "%s: %s\n%s --help lists the options\n", program_invocation_short_name,
                    error, program_invocation_short_name);
        return STATUS_USAGE;
    }
    if (options.help) {
        if (rank == 0)
            options_print_help(device_help);
        return STATUS_GOOD;
    }
    if (!device_start())
        return STATUS_NO_DEVICE;
    if (!dataset_load(options.data, options.limit, options.quiet, &dataset))
        return STATUS_FAILED;
    bool good = trainer_run(&options, &dataset);
    dataset_free(&dataset);
    return good ? STATUS_GOOD : STATUS_FAILED;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int status = run(argc, argv);
    MPI_Finalize();
    return status;
}
