/* SPDX-License-Identifier: Apache-2.0 */
/* Checks functions with large counts, MPI_Allreduce_c, MPI_Alltoallv_c and related ones. References
 * to them are weak, as in mpi4py's binary packages: the program uses what it finds. All sums are of
 * small integers.
 *
 *   mpi_large_counts COUNT
 *       calls of each without arrays of counts; the reductions that the shim compresses are of
 *       COUNT floats
 *
 *   mpi_large_counts beyond
 *       counts beyond int, in calls that are never compressed: prints which return MPI_ERR_COUNT
 *
 *   mpi_large_counts arrays
 *       calls of each with arrays of counts, on communicators of all kinds; for 3 ranks
 *
 *   mpi_large_counts arrays beyond
 *       counts and displacements beyond int: prints which calls return MPI_ERR_COUNT */
#include <mpi.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"

#define REDUCTION const void *input, void *output, MPI_Count count, MPI_Datatype datatype, MPI_Op op
#define BLOCKS                                                                                     \
    const void *input, MPI_Count count, MPI_Datatype datatype, void *output,                       \
        MPI_Count output_count, MPI_Datatype output_datatype
#define WEAK __attribute__((weak))
WEAK int MPI_Allreduce_c(REDUCTION, MPI_Comm comm);
WEAK int MPI_Allreduce_init_c(REDUCTION, MPI_Comm comm, MPI_Info info, MPI_Request *request);
WEAK int MPI_Iallreduce_c(REDUCTION, MPI_Comm comm, MPI_Request *request);
WEAK int MPI_Reduce_c(REDUCTION, int root, MPI_Comm comm);
WEAK int MPI_Reduce_scatter_block_c(REDUCTION, MPI_Comm comm);
WEAK int MPI_Reduce_scatter_c(const void *input, void *output, const MPI_Count counts[],
                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
WEAK int MPI_Scan_c(REDUCTION, MPI_Comm comm);
WEAK int MPI_Ireduce_c(REDUCTION, int root, MPI_Comm comm, MPI_Request *request);
WEAK int MPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm);
WEAK int MPI_Ibcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                      MPI_Request *request);
WEAK int MPI_Allgather_c(BLOCKS, MPI_Comm comm);
WEAK int MPI_Gather_c(BLOCKS, int root, MPI_Comm comm);
WEAK int MPI_Scatter_c(BLOCKS, int root, MPI_Comm comm);
WEAK int MPI_Alltoall_c(BLOCKS, MPI_Comm comm);

#define ONE_SENT const void *input, MPI_Count sent, MPI_Datatype sent_type
#define ONE_RECEIVED void *output, MPI_Count received, MPI_Datatype received_type
#define SENT                                                                                       \
    const void *input, const MPI_Count sent[], const MPI_Aint from[], MPI_Datatype sent_type
#define RECEIVED                                                                                   \
    void *output, const MPI_Count received[], const MPI_Aint to[], MPI_Datatype received_type
#define SENT_TYPES                                                                                 \
    const void *input, const MPI_Count sent[], const MPI_Aint from[], const MPI_Datatype types[]
#define RECEIVED_TYPES                                                                             \
    void *output, const MPI_Count received[], const MPI_Aint to[], const MPI_Datatype to_types[]
WEAK int MPI_Gatherv_c(ONE_SENT, RECEIVED, int root, MPI_Comm comm);
WEAK int MPI_Scatterv_c(SENT, ONE_RECEIVED, int root, MPI_Comm comm);
WEAK int MPI_Allgatherv_c(ONE_SENT, RECEIVED, MPI_Comm comm);
WEAK int MPI_Alltoallv_c(SENT, RECEIVED, MPI_Comm comm);
WEAK int MPI_Alltoallw_c(SENT_TYPES, RECEIVED_TYPES, MPI_Comm comm);
WEAK int MPI_Neighbor_allgatherv_c(ONE_SENT, RECEIVED, MPI_Comm comm);
WEAK int MPI_Neighbor_alltoallv_c(SENT, RECEIVED, MPI_Comm comm);
WEAK int MPI_Neighbor_alltoallw_c(SENT_TYPES, RECEIVED_TYPES, MPI_Comm comm);

static float value(int of_rank, size_t i)
{
    return (float)((of_rank + (int)(i % 1000)) % 4);
}

/* Returns true if sums[0..count) are the sums of the elements from `first` on. */
static int are_sums(const float *sums, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int r = 0; r < ranks; r++)
            want += value(r, first + i);
        if (sums[i] != want)
            return 0;
    }
    return 1;
}

static void call_scatters(const float *input, float *output, size_t count)
{
    const size_t own = count / (size_t)ranks;
    MPI_Count *counts = calloc((size_t)ranks, sizeof *counts);
    for (int i = 0; i < ranks; i++)
        counts[i] = i < ranks - 1 ? 1 : (MPI_Count)count - ranks + 1;
    MPI_Reduce_scatter_block_c(input, output, (MPI_Count)own, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(are_sums(output, (size_t)rank * own, own), "MPI_Reduce_scatter_block_c");
    MPI_Reduce_scatter_c(input, output, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(are_sums(output, (size_t)rank, (size_t)counts[rank]), "MPI_Reduce_scatter_c");
    free(counts);
}

static void call_reductions(size_t count)
{
    float *input = malloc(count * sizeof *input), *output = calloc(count, sizeof *output);
    const MPI_Count large = (MPI_Count)count;
    MPI_Request request;
    for (size_t i = 0; i < count; i++)
        input[i] = value(rank, i);
    MPI_Allreduce_c(input, output, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(are_sums(output, 0, count), "MPI_Allreduce_c");
    MPI_Reduce_c(input, output, large, MPI_FLOAT, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
    check(rank != ranks - 1 || are_sums(output, 0, count), "MPI_Reduce_c");
    call_scatters(input, output, count);
    MPI_Iallreduce_c(input, output, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(are_sums(output, 0, count), "MPI_Iallreduce_c");
    MPI_Allreduce_init_c(input, output, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                         &request);
    memset(output, 0, count * sizeof *output);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    check(are_sums(output, 0, count), "MPI_Allreduce_init_c");
    free(input), free(output);
}

static void call_others(void)
{
    static float buffer[1000], sum[1000];
    int own[2] = {rank, 2}, *all = calloc(2 * (size_t)ranks, sizeof *all);
    MPI_Request request;
    buffer[999] = rank == 0 ? 7 : 0;
    MPI_Bcast_c(buffer, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD);
    check(buffer[999] == 7, "MPI_Bcast_c");
    MPI_Ibcast_c(buffer, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Scan_c(buffer, sum, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(sum[999] == (float)(7 * (rank + 1)), "MPI_Scan_c");
    MPI_Ireduce_c(buffer, sum, 1000, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(rank != 0 || sum[999] == (float)(7 * ranks), "MPI_Ireduce_c");
    MPI_Allgather_c(own, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
    check(all[2 * (ranks - 1)] == ranks - 1, "MPI_Allgather_c");
    /* Arguments that only the root reads, or nobody, may have any value. */
    all[2 * ranks - 2] = -1;
    MPI_Gather_c(own, 2, MPI_INT, all, rank == 0 ? 2 : LLONG_MAX, MPI_INT, 0, MPI_COMM_WORLD);
    check(rank != 0 || all[2 * ranks - 2] == ranks - 1, "MPI_Gather_c");
    MPI_Bcast_c(all, 2 * ranks, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Alltoall_c(MPI_IN_PLACE, LLONG_MAX, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
    check(all[0] == 2 * 0 + rank, "MPI_Alltoall_c");
    MPI_Scatter_c(all, rank == 0 ? 2 : LLONG_MAX, MPI_INT, own, 2, MPI_INT, 0, MPI_COMM_WORLD);
    check(own[1] == 2, "MPI_Scatter_c");
    free(all);
}

static void print_class(const char *what, int status)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(status, &class);
    printf("%s: %s\n", what, class == MPI_ERR_COUNT ? "MPI_ERR_COUNT" : "another outcome");
}

static void call_beyond(void)
{
    static char buffer[1];
    MPI_Count *counts = calloc((size_t)ranks, sizeof *counts);
    const MPI_Count beyond = (MPI_Count)INT_MAX + 1;
    counts[ranks - 1] = beyond;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    print_class("bcast", MPI_Bcast_c(buffer, beyond, MPI_CHAR, 0, MPI_COMM_WORLD));
    print_class("allreduce",
                MPI_Allreduce_c(MPI_IN_PLACE, buffer, beyond, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD));
    print_class("reduce_scatter", MPI_Reduce_scatter_c(MPI_IN_PLACE, buffer, counts, MPI_CHAR,
                                                       MPI_MAX, MPI_COMM_WORLD));
    free(counts);
}

/* Arrays of counts ----------------------------------------------------------------------------- */
#define MOST 100 /* largest number of ints in all blocks and gaps of a call */

/* Blocks of ints to or from some ranks, with a gap of one int before, between and after them. */
struct blocks {
    int blocks;
    int others[8]; /* ranks of MPI_COMM_WORLD that the blocks come from or go to; of a block that
                      goes to several ranks, any number */
    MPI_Count counts[8];
    MPI_Aint places[8];
    MPI_Aint bytes[8]; /* displacements in bytes */
    MPI_Datatype types[8];
    int values[MOST];
};

static struct blocks blocks_of(int count, const int others[])
{
    struct blocks blocks = {.blocks = count};
    memcpy(blocks.others, others, (size_t)count * sizeof *others);
    return blocks;
}

static void place(struct blocks *blocks, const int lengths[])
{
    MPI_Aint next = 1;
    for (int i = 0; i < blocks->blocks; i++) {
        blocks->counts[i] = lengths[i];
        blocks->places[i] = next;
        blocks->bytes[i] = next * (MPI_Aint)sizeof(int);
        blocks->types[i] = MPI_INT;
        next += lengths[i] + 1;
    }
    memset(blocks->values, -1, sizeof blocks->values);
}

static int message(int from, int to)
{
    return 10 * from + to;
}

/* Returns the blocks that this rank sends: rank + 1 ints to each of `others`. */
static struct blocks make_sent(int count, const int others[])
{
    struct blocks blocks = blocks_of(count, others);
    int lengths[8] = {0};
    for (int i = 0; i < count; i++)
        lengths[i] = rank + 1;
    place(&blocks, lengths);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < lengths[i]; k++)
            blocks.values[blocks.places[i] + k] = message(rank, others[i]);
    return blocks;
}

/* Returns room for the blocks that this rank receives: other + 1 ints from each of `others`. */
static struct blocks make_received(int count, const int others[])
{
    struct blocks blocks = blocks_of(count, others);
    int lengths[8] = {0};
    for (int i = 0; i < count; i++)
        lengths[i] = others[i] + 1;
    place(&blocks, lengths);
    return blocks;
}

/* Checks that the blocks have the data that the others sent to `to`, and that the gaps are
 * untouched. */
static void check_received(const struct blocks *got, int to, const char *what)
{
    int want[MOST];
    memset(want, -1, sizeof want);
    for (int i = 0; i < got->blocks; i++)
        for (int k = 0; k <= got->others[i]; k++)
            want[got->places[i] + k] = message(got->others[i], to);
    check(memcmp(want, got->values, sizeof want) == 0, what);
}

/* Sets all counts and displacements in elements to invalid values, before a call in which those of
 * this rank must not be read. */
static void spoil(struct blocks *blocks)
{
    for (int i = 0; i < 8; i++) {
        blocks->counts[i] = LLONG_MAX;
        blocks->places[i] = LONG_MIN;
    }
}

static void call_gathers(const int everybody[])
{
    const int root = ranks - 1;
    struct blocks got = make_received(ranks, everybody), own = make_sent(1, &root);
    MPI_Allgatherv_c(own.values + 1, rank + 1, MPI_INT, got.values, got.counts, got.places, MPI_INT,
                     MPI_COMM_WORLD);
    check_received(&got, root, "MPI_Allgatherv_c");
    got = make_received(ranks, everybody);
    if (rank != root)
        spoil(&got);
    MPI_Gatherv_c(own.values + 1, rank + 1, MPI_INT, got.values, got.counts, got.places, MPI_INT,
                  root, MPI_COMM_WORLD);
    if (rank == root)
        check_received(&got, root, "MPI_Gatherv_c");
}

static void call_scatter(const int everybody[])
{
    const int root = 0;
    struct blocks sent = make_sent(ranks, everybody), got = make_received(1, &root);
    if (rank != root)
        spoil(&sent);
    MPI_Scatterv_c(sent.values, sent.counts, sent.places, MPI_INT, got.values + 1, 1, MPI_INT, root,
                   MPI_COMM_WORLD);
    check_received(&got, rank, "MPI_Scatterv_c");
}

static void call_exchanges(const int everybody[])
{
    const struct blocks sent = make_sent(ranks, everybody);
    struct blocks got = make_received(ranks, everybody);
    MPI_Alltoallv_c(sent.values, sent.counts, sent.places, MPI_INT, got.values, got.counts,
                    got.places, MPI_INT, MPI_COMM_WORLD);
    check_received(&got, rank, "MPI_Alltoallv_c");
    got = make_received(ranks, everybody);
    MPI_Alltoallw_c(sent.values, sent.counts, sent.bytes, sent.types, got.values, got.counts,
                    got.bytes, got.types, MPI_COMM_WORLD);
    check_received(&got, rank, "MPI_Alltoallw_c");
    /* In place, each pair of ranks exchanges blocks of equal length; send arrays are ignored. */
    int lengths[8] = {0};
    for (int i = 0; i < ranks; i++)
        lengths[i] = 1;
    place(&got, lengths);
    for (int i = 0; i < ranks; i++)
        got.values[got.places[i]] = message(rank, i);
    MPI_Alltoallv_c(MPI_IN_PLACE, NULL, NULL, MPI_INT, got.values, got.counts, got.places, MPI_INT,
                    MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        check(got.values[got.places[i]] == message(i, rank), "MPI_Alltoallv_c in place");
}

/* Calls the neighborhood collectives on a communicator, and frees it. */
static void call_neighbors(int sources, const int from[], int destinations, const int to[],
                           MPI_Comm comm, const char *what)
{
    const struct blocks sent = make_sent(destinations, to), own = make_sent(1, &ranks);
    struct blocks got = make_received(sources, from);
    MPI_Neighbor_allgatherv_c(own.values + 1, rank + 1, MPI_INT, got.values, got.counts, got.places,
                              MPI_INT, comm);
    check_received(&got, ranks, what);
    got = make_received(sources, from);
    MPI_Neighbor_alltoallv_c(sent.values, sent.counts, sent.places, MPI_INT, got.values, got.counts,
                             got.places, MPI_INT, comm);
    check_received(&got, rank, what);
    got = make_received(sources, from);
    MPI_Neighbor_alltoallw_c(sent.values, sent.counts, sent.bytes, sent.types, got.values,
                             got.counts, got.bytes, got.types, comm);
    check_received(&got, rank, what);
    MPI_Comm_free(&comm);
}

/* Makes the calls on a ring, on a star with the last rank as its centre, and on a graph with edges
 * from rank 0 to all ranks. */
static void call_on_topologies(const int everybody[])
{
    const int period = 1, first = 0, last = ranks - 1, next = (rank + 1) % ranks;
    const int ring[2] = {(rank + ranks - 1) % ranks, next};
    int ends[8], edges[16];
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &comm);
    call_neighbors(2, ring, 2, ring, comm, "on a grid");
    for (int i = 0; i < last; i++) {
        ends[i] = i + 1;
        edges[i] = last;
        edges[last + i] = i;
    }
    ends[last] = 2 * last;
    MPI_Graph_create(MPI_COMM_WORLD, ranks, ends, edges, 0, &comm);
    const int degree = rank == last ? last : 1;
    const int *star = rank == last ? everybody : &last;
    call_neighbors(degree, star, degree, star, comm, "on a graph");
    const int out = rank == first ? ranks : 0;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &first, everybody, out, everybody, everybody,
                                   MPI_INFO_NULL, 0, &comm);
    call_neighbors(1, &first, out, everybody, comm, "on a directed graph");
}

/* Makes calls on an intercommunicator with rank 0 alone on one side. */
static void call_between_groups(const int everybody[])
{
    const int is_alone = rank == 0, root = 1;
    const int others = is_alone ? ranks - 1 : 1;
    const int *from = is_alone ? everybody + 1 : everybody;
    struct blocks sent = make_sent(others, from), got = make_received(others, from);
    struct blocks own = make_sent(1, &root);
    MPI_Comm local, both;
    MPI_Comm_split(MPI_COMM_WORLD, is_alone, rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, is_alone ? 1 : 0, 7, &both);
    MPI_Allgatherv_c(own.values + 1, rank + 1, MPI_INT, got.values, got.counts, got.places, MPI_INT,
                     both);
    check_received(&got, root, "MPI_Allgatherv_c between groups");
    got = make_received(others, from);
    MPI_Alltoallv_c(sent.values, sent.counts, sent.places, MPI_INT, got.values, got.counts,
                    got.places, MPI_INT, both);
    check_received(&got, rank, "MPI_Alltoallv_c between groups");
    got = make_received(others, from);
    if (rank != root)
        spoil(&got);
    MPI_Gatherv_c(own.values + 1, rank + 1, MPI_INT, got.values, got.counts, got.places, MPI_INT,
                  is_alone       ? 0
                  : rank == root ? MPI_ROOT
                                 : MPI_PROC_NULL,
                  both);
    if (rank == root)
        check_received(&got, root, "MPI_Gatherv_c between groups");
    MPI_Comm_free(&both);
    MPI_Comm_free(&local);
}

/* Passes counts and displacements beyond int, on a duplicate of MPI_COMM_SELF, so that no other
 * rank waits. */
static void call_arrays_beyond(void)
{
    static int input[2] = {1, 2}, output[2];
    const MPI_Count beyond = (MPI_Count)INT_MAX + 1, one = 1, none = 0;
    const MPI_Aint far = beyond, here = 0;
    MPI_Datatype type = MPI_INT;
    MPI_Comm alone;
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
    print_class("count of Allgatherv",
                MPI_Allgatherv_c(input, 1, MPI_INT, output, &beyond, &here, MPI_INT, alone));
    print_class("place of Gatherv",
                MPI_Gatherv_c(input, 1, MPI_INT, output, &one, &far, MPI_INT, 0, alone));
    print_class("count of Scatterv",
                MPI_Scatterv_c(input, &beyond, &here, MPI_INT, output, 1, MPI_INT, 0, alone));
    print_class("place of Alltoallv",
                MPI_Alltoallv_c(input, &one, &far, MPI_INT, output, &one, &here, MPI_INT, alone));
    print_class("count of Alltoallw",
                MPI_Alltoallw_c(input, &one, &here, &type, output, &beyond, &here, &type, alone));
    check(MPI_Alltoallv_c(input, &none, &far, MPI_INT, output, &none, &far, MPI_INT, alone) ==
              MPI_SUCCESS,
          "places of nothing may be anywhere");
    const int one_rank = 1, period = 1;
    const MPI_Count counts[2] = {0, beyond};
    const MPI_Aint places[2] = {0, 0}, far_places[2] = {far, 0};
    const MPI_Count ones[2] = {1, 0};
    MPI_Comm grid;
    MPI_Cart_create(alone, 1, &one_rank, &period, 0, &grid);
    print_class(
        "count of Neighbor_allgatherv",
        MPI_Neighbor_allgatherv_c(input, 0, MPI_INT, output, counts, places, MPI_INT, grid));
    print_class("place of Neighbor_alltoallv",
                MPI_Neighbor_alltoallv_c(input, ones, far_places, MPI_INT, output, ones, places,
                                         MPI_INT, grid));
    MPI_Comm_free(&grid);
    MPI_Comm_free(&alone);
}

static void call_arrays(void)
{
    int everybody[8];
    for (int i = 0; i < 8; i++)
        everybody[i] = i;
    call_gathers(everybody);
    call_scatter(everybody);
    call_exchanges(everybody);
    call_on_topologies(everybody);
    call_between_groups(everybody);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const bool arrays = strcmp(argv[1], "arrays") == 0;
    if (MPI_Allreduce_c == NULL) {
        if (rank == 0)
            puts("this MPI has no large counts");
    } else if (strcmp(argv[argc - 1], "beyond") == 0) {
        (arrays ? call_arrays_beyond : call_beyond)();
    } else if (arrays) {
        call_arrays();
    } else {
        call_reductions((size_t)atol(argv[1]));
        call_others();
    }
    return job_end("work done, ");
}
