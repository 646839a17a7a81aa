/* SPDX-License-Identifier: Apache-2.0 */
/* Checks functions with arrays of large counts, MPI_Alltoallv_c and related ones. References to
 * them are weak, as in mpi4py's binary packages: the program uses what it finds.
 *
 *   mpi_large_count_arrays          calls of each, on communicators of all kinds; for 3 ranks
 *   mpi_large_count_arrays beyond   counts and displacements beyond int: prints which calls return
 *                                   MPI_ERR_COUNT */
#include <mpi.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"

#define WEAK __attribute__((weak))
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

static void print_class(const char *what, int status)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(status, &class);
    printf("%s: %s\n", what, class == MPI_ERR_COUNT ? "MPI_ERR_COUNT" : "another outcome");
}

/* Passes counts and displacements beyond int, on a duplicate of MPI_COMM_SELF, so that no other
 * rank waits. */
static void call_beyond(void)
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

int main(int argc, char **argv)
{
    int everybody[8];
    job_begin(&argc, &argv);
    for (int i = 0; i < 8; i++)
        everybody[i] = i;
    if (MPI_Alltoallv_c == NULL) {
        if (rank == 0)
            puts("this MPI has no large counts");
    } else if (argc > 1 && strcmp(argv[1], "beyond") == 0) {
        call_beyond();
    } else {
        call_gathers(everybody);
        call_scatter(everybody);
        call_exchanges(everybody);
        call_on_topologies(everybody);
        call_between_groups(everybody);
    }
    return job_end("work done, ");
}
