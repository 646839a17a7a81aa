/* SPDX-License-Identifier: Apache-2.0 */
/* Checks MPI_Alltoall, MPI_Alltoallv and MPI_Bcast: every element arrives within the codec's bound,
 * and a broadcast gives all ranks the same bits; in place, as complex numbers (not in
 * MPI_Alltoallv), from every root. Elements arrive exactly if ranks describe them by different
 * types. An ordinary MPI program.
 *
 *   mpi_moves alltoall|alltoallv|broadcast|received COUNT RELATIVE
 *
 * COUNT is the number of elements of the longest block or of the buffer, RELATIVE the largest error
 * allowed, relative to the largest magnitude, 5. If RELATIVE is 0, the root's buffer is read-only
 * in the first broadcast from each root. */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/mpi/job.h"
#include "tests/mpi/same.h"

static int count;
static double relative;
static float *in, *out;
static size_t bytes; /* bytes of each of the two buffers */

/* Returns element i of the block from rank `from` to rank `to`. */
static float value(int from, int to, int i)
{
    return sinf((float)(from * 7919 + to * 104729 + i)) * (float)(1 + i % 5);
}

static int wrong_in_block(const float *block, int from, int to, double allowed)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += !(fabs((double)block[i] - (double)value(from, to, i)) <= allowed * 5);
    return wrong;
}

static void report(const char *what, int wrong)
{
    if (wrong == 0)
        return;
    failures++;
    fprintf(stderr, "rank %d: %s: %d elements wrong\n", rank, what, wrong);
}

static void check_blocks(const char *what, double allowed)
{
    int wrong = 0;
    for (int from = 0; from < ranks; from++)
        wrong += wrong_in_block(out + (size_t)from * (size_t)count, from, rank, allowed);
    report(what, wrong);
}

static void fill(float *to)
{
    memset(out, 0xff, bytes);
    for (int block = 0; block < ranks; block++)
        for (int i = 0; i < count; i++)
            to[(size_t)block * (size_t)count + (size_t)i] = value(rank, block, i);
}

static void exchange_all(MPI_Datatype whole)
{
    for (int repeat = 0; repeat < 2; repeat++) {
        fill(in);
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        check_blocks("two buffers", relative);
    }
    fill(out);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, MPI_FLOAT, MPI_COMM_WORLD);
    check_blocks("in place", relative);
    fill(in);
    if (count % 2 == 0)
        MPI_Alltoall(in, count / 2, MPI_C_FLOAT_COMPLEX, out, count / 2, MPI_C_FLOAT_COMPLEX,
                     MPI_COMM_WORLD);
    else
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
    check_blocks("complex numbers", relative);
    fill(in);
    if (rank == ranks - 1)
        MPI_Alltoall(in, 1, whole, out, 1, whole, MPI_COMM_WORLD);
    else
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
    check_blocks("two types", 0);
}

/* NULL if neither the MPI nor the shim, if preloaded, has this function. */
__attribute__((weak)) int MPI_Alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[],
                                          const MPI_Aint sdispls[], MPI_Datatype sendtype,
                                          void *recvbuf, const MPI_Count recvcounts[],
                                          const MPI_Aint rdispls[], MPI_Datatype recvtype,
                                          MPI_Comm comm);

/* Returns the length of the block from `from` to `to`. In place, lengths are symmetric, and ranks 0
 * and 1 send each other nothing. */
static int length_of(int from, int to, bool in_place)
{
    return from + to == 1 && in_place ? 0 : count - from - (in_place ? to : 2 * to);
}

enum way { PLAIN, IN_PLACE, APART, ONE_TYPE, LARGE, WAYS };

/* Exchanges blocks of different lengths. With APART rank 0 leaves a gap before each received block;
 * with ONE_TYPE it uses a derived type for the elements that it sends. */
static void exchange_uneven(enum way way)
{
    static const char *const names[WAYS] = {"uneven blocks", "uneven blocks in place",
                                            "uneven blocks apart", "uneven blocks of two types",
                                            "uneven blocks by large counts"};
    const bool in_place = way == IN_PLACE;
    enum { SENT, SENT_AT, GOT, GOT_AT, ARRAYS };
    int *lists = calloc(ARRAYS * (size_t)ranks, sizeof *lists), *list[ARRAYS], wrong = 0;
    MPI_Count *large = calloc(ARRAYS * (size_t)ranks, sizeof *large);
    MPI_Aint *places = calloc(ARRAYS * (size_t)ranks, sizeof *places);
    MPI_Datatype own = MPI_FLOAT;
    const size_t room = bytes + (size_t)ranks * sizeof *in;
    float *from = memset(malloc(room), 0xff, room), *to = memset(malloc(room), 0xff, room);
    for (int i = 0; i < ARRAYS; i++)
        list[i] = lists + i * ranks;
    for (int i = 0; i < ranks; i++) {
        list[SENT][i] = length_of(rank, i, in_place);
        list[GOT][i] = length_of(i, rank, in_place);
        list[SENT_AT][i] = i > 0 ? list[SENT_AT][i - 1] + list[SENT][i - 1] : 0;
        list[GOT_AT][i] = i > 0 ? list[GOT_AT][i - 1] + list[GOT][i - 1] : 0;
        list[GOT_AT][i] += way == APART && rank == 0;
        for (int j = 0; j < list[SENT][i]; j++)
            (in_place ? to : from)[list[SENT_AT][i] + j] = value(rank, i, j);
    }
    for (int i = 0; i < ARRAYS * ranks; i++)
        places[i] = large[i] = lists[i];
    if (way == ONE_TYPE && rank == 0)
        MPI_Type_contiguous(1, MPI_FLOAT, &own);
    if (own != MPI_FLOAT)
        MPI_Type_commit(&own);
    if (way == LARGE)
        MPI_Alltoallv_c(from, large, places + ranks, MPI_FLOAT, to, large + GOT * ranks,
                        places + GOT_AT * ranks, MPI_FLOAT, MPI_COMM_WORLD);
    else if (in_place)
        MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, to, list[GOT], list[GOT_AT],
                      MPI_FLOAT, MPI_COMM_WORLD);
    else
        MPI_Alltoallv(from, list[SENT], list[SENT_AT], own, to, list[GOT], list[GOT_AT], MPI_FLOAT,
                      MPI_COMM_WORLD);
    const double allowed = way == APART || way == ONE_TYPE ? 0 : relative * 5;
    for (int i = 0; i < ranks; i++)
        for (int j = 0; j < list[GOT][i]; j++)
            wrong +=
                !(fabs((double)to[list[GOT_AT][i] + j] - (double)value(i, rank, j)) <= allowed);
    report(names[way], wrong);
    if (own != MPI_FLOAT)
        MPI_Type_free(&own);
    free(lists);
    free(large);
    free(places);
    free(from);
    free(to);
}

/* Only rank 0 of MPI_COMM_WORLD sends elements. It is the last rank of the communicator `reversed`,
 * whose rank 0 only receives. */
static void receive_only(void)
{
    enum { SENT, SENT_AT, GOT, GOT_AT, ARRAYS };
    int *lists = calloc(ARRAYS * (size_t)ranks, sizeof *lists), *list[ARRAYS];
    MPI_Comm reversed;
    for (int i = 0; i < ARRAYS; i++)
        list[i] = lists + i * ranks;
    for (int i = 0; i < ranks && rank == 0; i++) {
        list[SENT][i] = count;
        list[SENT_AT][i] = i * count;
    }
    list[GOT][ranks - 1] = count;
    fill(in);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Alltoallv(in, list[SENT], list[SENT_AT], MPI_FLOAT, out, list[GOT], list[GOT_AT], MPI_FLOAT,
                  reversed);
    report("elements of one rank", wrong_in_block(out, 0, ranks - 1 - rank, relative));
    MPI_Comm_free(&reversed);
    free(lists);
}

/* Checks that all ranks have the root's elements, with equal bits. */
static void check_copy(const char *what, int root, double allowed)
{
    const uint64_t own = cshim_hash_bytes(CSHIM_HASH_EMPTY, out, (size_t)count * sizeof *out);
    report(what, wrong_in_block(out, root, 0, allowed));
    if (!same_on_all(own, MPI_COMM_WORLD)) {
        failures++;
        fprintf(stderr, "rank %d: %s: the ranks' results differ\n", rank, what);
    }
}

static void fill_root(int root)
{
    memset(out, 0xff, bytes);
    for (int i = 0; i < count && rank == root; i++)
        out[i] = value(root, 0, i);
}

static void broadcast(int root, MPI_Datatype whole)
{
    const bool is_protected = rank == root && relative == 0;
    fill_root(root);
    if (is_protected)
        mprotect(out, bytes, PROT_READ);
    MPI_Bcast(out, count, MPI_FLOAT, root, MPI_COMM_WORLD);
    if (is_protected)
        mprotect(out, bytes, PROT_READ | PROT_WRITE);
    check_copy("a broadcast", root, relative);
    fill_root(root);
    if (count % 2 == 0)
        MPI_Bcast(out, count / 2, MPI_C_FLOAT_COMPLEX, root, MPI_COMM_WORLD);
    else
        MPI_Bcast(out, count, MPI_FLOAT, root, MPI_COMM_WORLD);
    check_copy("complex numbers", root, relative);
    fill_root(root);
    if (rank == ranks - 1)
        MPI_Bcast(out, 1, whole, root, MPI_COMM_WORLD);
    else
        MPI_Bcast(out, count, MPI_FLOAT, root, MPI_COMM_WORLD);
    check_copy("two types", root, 0);
}

static float *map(void)
{
    void *memory =
        mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int main(int argc, char **argv)
{
    MPI_Datatype whole;
    job_begin(&argc, &argv);
    count = argc > 2 ? atoi(argv[2]) : 1000;
    relative = argc > 3 ? atof(argv[3]) : 0;
    bytes = (size_t)count * (size_t)ranks * sizeof *in;
    in = map();
    out = map();
    if (argc < 2 || in == NULL || out == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Type_contiguous(count, MPI_FLOAT, &whole);
    MPI_Type_commit(&whole);
    if (strcmp(argv[1], "alltoallv") == 0)
        for (enum way way = PLAIN; way < (MPI_Alltoallv_c != NULL ? WAYS : LARGE); way++)
            exchange_uneven(way);
    else if (strcmp(argv[1], "alltoall") == 0)
        exchange_all(whole);
    else if (strcmp(argv[1], "received") == 0)
        receive_only();
    else
        for (int root = 0; root < ranks; root++)
            broadcast(root, whole);
    MPI_Type_free(&whole);
    MPI_Finalize();
    return failures > 0;
}
