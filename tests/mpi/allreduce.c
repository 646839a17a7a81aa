/* SPDX-License-Identifier: Apache-2.0 */
/* Calls MPI_Allreduce and, if this MPI has it, MPI_Allreduce_c in many shapes. Rank 0 compares each
 * result element by element with a float64 sum, within the bound that docs/wire-format.md states
 * for the codec. All ranks must have the same bits. Rank 0 prints one digest of all results, for
 * comparing runs.
 *
 *   mpi_allreduce CODEC STEPS [float32|float64]
 *   mpi_allreduce all ALGORITHM       the codecs of takes() (tests/sums.h), under the policy that
 *                                     --policy ALGORITHM prints
 *
 * CODEC is the codec of the policy in force ("none": the MPI library's own sum). STEPS is the
 * number of quantizations of a value on its way (1 or 2; 0: one per hop, for `cast`; others:
 * sums_steps in tests/sums.h). With an exact codec and STEPS 1 or 2, a finite result must be
 * exactly the sum in rank order. An ordinary MPI program: it knows the codecs' bounds, but nothing
 * of the preload. */
#include <mpi.h>

#include "tests/mpi/either_count.h"
#include "tests/mpi/same.h"
#include "tests/sums.h"

/* Checks that all ranks have the same bits. */
static void compare_ranks(void *result, size_t bytes, MPI_Comm comm)
{
    if (!same_on_all(cshim_hash_bytes(CSHIM_HASH_EMPTY, result, bytes), comm) && failures++ < 10)
        fprintf(stderr, "ranks hold different results (%zu bytes)\n", bytes);
}

static void run_call(enum data data, size_t count, int in_place, MPI_Comm comm)
{
    static unsigned calls;
    const size_t size = cshim_dtype_bytes(sums_dtype);
    const size_t bytes = count * size;
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    unsigned char *input = malloc(bytes + 64), *result = malloc(bytes + 64);
    unsigned char *kept = malloc(bytes + 64);
    for (size_t i = 0; i < count; i++)
        store(input, i, element(data, rank, ranks, i));
    memset(result, 0xa5, bytes + 64);
    memcpy(kept, input, bytes);
    if (in_place)
        memcpy(result, input, bytes);
    const int status = EITHER_COUNT(
        calls++ % 3 == 1, MPI_Allreduce, in_place ? MPI_IN_PLACE : input, result, (int)count,
        sums_dtype == CSHIM_FLOAT64 ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, comm);
    if (status != MPI_SUCCESS)
        fail("error code", data, count, 0, status, 0, 0);
    for (size_t i = 0; i < 64; i++)
        if (result[bytes + i] != 0xa5)
            fail("written behind the buffer", data, count, i, result[bytes + i], 0xa5, 0);
    if (memcmp(kept, input, bytes) != 0)
        fail("the input was changed", data, count, 0, 0, 0, 0);
    if (rank == 0) { /* compare_ranks() compares the others with it */
        struct reference reference = sums_reference(data, ranks, count);
        compare(&reference, data, count, result);
        sums_free(&reference);
    }
    compare_ranks(result, bytes, comm);
    digest_bytes(result, bytes);
    free(kept), free(result), free(input);
}

static void run_world(enum data data, size_t count, int in_place)
{
    run_call(data, count, in_place, MPI_COMM_WORLD);
}

static void run_communicators(int rank, int ranks)
{
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    run_call(NORMAL, 3001, 0, other);
    MPI_Comm_free(&other);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &other); /* reverses the ranks */
    for (int i = 0; i < 3; i++)
        run_call(NORMAL, 70001, i % 2, other);
    MPI_Comm_free(&other);
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1 ? 0 : MPI_UNDEFINED, rank, &other);
    if (other != MPI_COMM_NULL) {
        run_call(HEAVY, 12345, 1, other);
        MPI_Comm_free(&other);
    }
    run_call(NORMAL, 1000, 0, MPI_COMM_SELF);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {0, 1, 2, 5, 127, 128, 129, 255, 256, 257, 1000, 4099, 65549};
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    int rank, ranks, total = 0;
    const int all = argc == 3 && strcmp(argv[1], "all") == 0;
    if (argc == 3 && strcmp(argv[1], "--policy") == 0)
        return print_policy(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3 || (!all && !codec_by_name(argv[1], &id))) {
        fprintf(stderr, "usage: mpi_allreduce CODEC STEPS [float32|float64] | all ALGORITHM\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (all) {
        try_all_codecs(argv[2], rank, ranks, run_world);
    } else {
        sums_codec = cshim_codec_info(id);
        sums_steps = atoi(argv[2]);
        if (argc > 3)
            dtype_by_name(argv[3], &sums_dtype);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            run_world(NORMAL, counts[c], 0);
            run_world(NORMAL, counts[c], 1);
        }
        for (int data = 0; data < DATA_COUNT; data++)
            run_world((enum data)data, 20011, data % 2);
        run_world(NORMAL, 400009, 0);
        run_communicators(rank, ranks);
    }
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("digest %016llx, %d failures\n", (unsigned long long)digest, total);
    MPI_Finalize();
    return total != 0;
}
