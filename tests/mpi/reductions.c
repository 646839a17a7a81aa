/* SPDX-License-Identifier: Apache-2.0 */
/* Checks MPI_Reduce, MPI_Reduce_scatter and MPI_Reduce_scatter_block in many shapes: to several
 * roots, in place, with results of many lengths, on another communicator, and, if this MPI has
 * them, with large counts. Compares each result with a float64 sum, within the codec's bound.
 * Prints a digest of all results, for comparing runs. An ordinary MPI program.
 *
 *   mpi_reductions CODEC STEPS reduce|scatter|block [float64]
 *
 * STEPS is the number of quantizations of a value on its way (sums_steps in tests/sums.h). */
#include <mpi.h>

#include "tests/mpi/either_count.h"
#include "tests/sums.h"

static int large;
static size_t size;
static enum data data;
static MPI_Datatype datatype;

/* Compares result[0..count) with the sums of the elements from `first` on. */
static void check_sums(const void *result, size_t first, size_t count, int ranks)
{
    sums_first = first;
    struct reference reference = sums_reference(data, ranks, count);
    compare(&reference, data, count, result);
    digest_bytes(result, count * size);
    sums_free(&reference);
}

/* Allocates a buffer that is followed by 64 guard bytes. */
static unsigned char *guarded(size_t count)
{
    unsigned char *buffer = malloc(count * size + 64);
    memset(buffer, 0xa5, count * size + 64);
    return buffer;
}

static void check_guard(const char *what, const unsigned char *buffer, size_t count)
{
    for (size_t i = 0; i < 64; i++)
        if (buffer[count * size + i] != 0xa5)
            fail(what, data, count, count, buffer[count * size + i], 0xa5, 0);
}

static unsigned char *make_input(int rank, int ranks, size_t count)
{
    unsigned char *input = guarded(count);
    for (size_t i = 0; i < count; i++)
        store(input, i, element(data, rank, ranks, i));
    return input;
}

static void check_unchanged(const char *what, const unsigned char *input, int rank, int ranks,
                            size_t count)
{
    unsigned char *kept = make_input(rank, ranks, count);
    if (memcmp(input, kept, count * size) != 0)
        fail(what, data, count, 0, 0, 0, 0);
    free(kept);
}

static void run_reduce(size_t count, int root, int in_place, MPI_Comm comm)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    unsigned char *input = make_input(rank, ranks, count);
    unsigned char *result = rank == root ? guarded(count) : NULL;
    if (rank == root && in_place) {
        memcpy(result, input, count * size);
        EITHER_COUNT(large, MPI_Reduce, MPI_IN_PLACE, result, (int)count, datatype, MPI_SUM, root,
                     comm);
    } else {
        EITHER_COUNT(large, MPI_Reduce, input, result, (int)count, datatype, MPI_SUM, root, comm);
    }
    check_unchanged("the input of a reduce", input, rank, ranks, count);
    if (rank == root) {
        check_sums(result, 0, count, ranks);
        check_guard("behind the result of a reduce", result, count);
    }
    free(result);
    free(input);
}

static void scatter(const void *input, void *result, const int *counts, int ranks, MPI_Comm comm)
{
#if HAS_LARGE_COUNTS
    MPI_Count *wide = malloc((size_t)ranks * sizeof *wide);
    for (int i = 0; i < ranks; i++)
        wide[i] = counts[i];
    if (large)
        MPI_Reduce_scatter_c(input, result, wide, datatype, MPI_SUM, comm);
    free(wide);
#endif
    (void)ranks;
    if (!large)
        MPI_Reduce_scatter(input, result, counts, datatype, MPI_SUM, comm);
}

/* Scatters results of random lengths, drawn from the seed: some empty, some long. */
static void run_scatter(size_t most, unsigned seed, int in_place, MPI_Comm comm)
{
    int rank, ranks, *counts;
    size_t total = 0, first = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    counts = calloc((size_t)ranks, sizeof *counts);
    for (int i = 0; i < ranks; i++) {
        const uint64_t chance = mix(seed * 64 + (unsigned)i);
        counts[i] = chance % 4 == 0 ? 0 : (int)(mix(chance) % (most + 1));
        first = i == rank ? total : first;
        total += (size_t)counts[i];
    }
    const size_t own = (size_t)counts[rank];
    unsigned char *input = make_input(rank, ranks, total), *result = guarded(own);
    scatter(in_place ? MPI_IN_PLACE : input, in_place ? input : result, counts, ranks, comm);
    check_sums(in_place ? input : result, first, own, ranks);
    if (!in_place)
        check_unchanged("the input of a reduce_scatter", input, rank, ranks, total);
    check_guard("behind the input of a reduce_scatter", input, total);
    check_guard("behind the result of a reduce_scatter", result, own);
    free(result);
    free(input);
    free(counts);
}

static void run_block(size_t count, int in_place, MPI_Comm comm)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    const size_t total = count * (size_t)ranks;
    unsigned char *input = make_input(rank, ranks, total), *result = guarded(count);
    EITHER_COUNT(large, MPI_Reduce_scatter_block, in_place ? MPI_IN_PLACE : input,
                 in_place ? input : result, (int)count, datatype, MPI_SUM, comm);
    check_sums(in_place ? input : result, (size_t)rank * count, count, ranks);
    if (!in_place)
        check_unchanged("the input of a reduce_scatter_block", input, rank, ranks, total);
    check_guard("behind the input of a reduce_scatter_block", input, total);
    check_guard("behind the result of a reduce_scatter_block", result, count);
    free(result);
    free(input);
}

static void run_shape(const char *what, size_t count, unsigned seed, MPI_Comm comm)
{
    int ranks;
    MPI_Comm_size(comm, &ranks);
    data = seed % 2 == 0 ? NORMAL : NONFINITE;
    for (int i = 0; i < 2 * (1 + HAS_LARGE_COUNTS); i++) {
        const int in_place = i % 2;
        large = i / 2;
        if (strcmp(what, "reduce") == 0)
            run_reduce(count, (int)seed % ranks, in_place, comm);
        else if (strcmp(what, "scatter") == 0)
            run_scatter(count, seed, in_place, comm);
        else
            run_block(count, in_place, comm);
    }
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {0, 1, 5, 255, 256, 257, 1000, 20011, 150001};
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    int rank, total = 0;
    uint64_t all = 0;
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4 || !codec_by_name(argv[1], &id)) {
        fprintf(stderr, "usage: mpi_reductions CODEC STEPS reduce|scatter|block [float64]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    sums_codec = cshim_codec_info(id);
    sums_steps = atoi(argv[2]);
    sums_dtype = argc > 4 ? CSHIM_FLOAT64 : CSHIM_FLOAT32;
    size = cshim_dtype_bytes(sums_dtype);
    datatype = argc > 4 ? MPI_DOUBLE : MPI_FLOAT;
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        run_shape(argv[3], counts[i], i, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &other);
    for (unsigned i = 0; i < 4; i++)
        run_shape(argv[3], 4099, i, other);
    MPI_Comm_free(&other);
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&digest, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("digest %016llx, %d failures\n", (unsigned long long)all, total);
    MPI_Finalize();
    return total != 0;
}
