/* SPDX-License-Identifier: Apache-2.0 */
/* Checks MPI_Allgather and MPI_Allgatherv: every rank's block arrives at every rank within the
 * codec's bound and with the same bits on all ranks, in place or not. Complex numbers in
 * MPI_Allgatherv, and blocks that ranks describe by different types or leave gaps between, arrive
 * exactly, because such calls are passed through. An ordinary MPI program. Prints a digest of each
 * result.
 *
 *   mpi_allgather COUNT RELATIVE     elements of a block; largest error allowed, relative to the
 *                                    largest magnitude (5) */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"
#include "tests/mpi/same.h"

static float value(int owner, int i)
{
    return sinf((float)(owner * 7919 + i)) * (float)(1 + i % 5);
}

static void check_blocks(const char *what, const float *all, int count, double relative)
{
    const size_t bytes = (size_t)count * (size_t)ranks * sizeof *all;
    const uint64_t own = cshim_hash_bytes(CSHIM_HASH_EMPTY, all, bytes);
    int wrong = 0;
    for (int owner = 0; owner < ranks; owner++)
        for (int i = 0; i < count; i++) {
            const float want = value(owner, i),
                        got = all[(size_t)owner * (size_t)count + (size_t)i];
            wrong += !(fabs((double)got - (double)want) <= relative * 5);
        }
    const bool are_alike = same_on_all(own, MPI_COMM_WORLD);
    if (wrong > 0 || !are_alike) {
        failures++;
        fprintf(stderr, "rank %d: %s: %d of %d elements wrong, results %s\n", rank, what, wrong,
                count * ranks, are_alike ? "alike" : "differ");
    } else if (rank == 0) {
        printf("%s %016llx\n", what, (unsigned long long)own);
    }
}

/* Gathers a few elements, which ranks describe by different types, on a new communicator whose
 * first call was nonblocking. */
static void gather_after_nonblocking(float *own, float *all, int count)
{
    MPI_Comm twin;
    MPI_Request request;
    MPI_Datatype few;
    const int part = count < 4 ? count : 4;
    float *sums = malloc((size_t)count * sizeof *sums + 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Iallreduce(own, sums, count, MPI_FLOAT, MPI_SUM, twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_contiguous(part, MPI_FLOAT, &few);
    MPI_Type_commit(&few);
    memset(all, 0, (size_t)part * (size_t)ranks * sizeof *all);
    if (rank == 0)
        MPI_Allgather(own, 1, few, all, 1, few, twin);
    else
        MPI_Allgather(own, part, MPI_FLOAT, all, part, MPI_FLOAT, twin);
    check_blocks("after a nonblocking call", all, part, 0);
    MPI_Type_free(&few);
    MPI_Comm_free(&twin);
    free(sums);
}

/* NULL if neither the MPI nor the shim, if preloaded, has this function. */
__attribute__((weak)) int MPI_Allgatherv_c(const void *sendbuf, MPI_Count sendcount,
                                           MPI_Datatype sendtype, void *recvbuf,
                                           const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                           MPI_Datatype recvtype, MPI_Comm comm);

static int begin_of(int owner, int count)
{
    return owner * count - owner * (owner - 1) / 2;
}

/* Gathers blocks of different lengths: that of rank r is r elements shorter than `count`. If
 * `apart` is true, rank 0 leaves a gap before each block. */
static void gather_uneven(const char *what, const float *own, int count, bool in_place, bool apart,
                          bool large, double relative)
{
    MPI_Count *counts = calloc((size_t)ranks, sizeof *counts);
    MPI_Aint *begins = calloc((size_t)ranks, sizeof *begins);
    int *few = calloc(2 * (size_t)ranks, sizeof *few), *begins_of_few = few + ranks;
    const size_t room = (size_t)(count + 1) * (size_t)ranks * sizeof(float);
    float *got = memset(malloc(room), 0xff, room), *all = memset(malloc(room), 0, room);
    for (int i = 0; i < ranks; i++) {
        few[i] = count - i;
        begins_of_few[i] = begin_of(i, count) + (apart && rank == 0 ? i + 1 : 0);
        counts[i] = few[i];
        begins[i] = begins_of_few[i];
    }
    if (in_place)
        memcpy(got + begins_of_few[rank], own, (size_t)few[rank] * sizeof *own);
    const void *from = in_place ? MPI_IN_PLACE : own;
    if (large)
        MPI_Allgatherv_c(from, few[rank], MPI_FLOAT, got, counts, begins, MPI_FLOAT,
                         MPI_COMM_WORLD);
    else
        MPI_Allgatherv(from, few[rank], MPI_FLOAT, got, few, begins_of_few, MPI_FLOAT,
                       MPI_COMM_WORLD);
    /* Copies the blocks into blocks of `count` elements, and fills in the elements that were not
     * sent. */
    for (int i = 0; i < ranks; i++) {
        memcpy(all + (size_t)i * (size_t)count, got + begins_of_few[i],
               (size_t)few[i] * sizeof *all);
        for (int j = few[i]; j < count; j++)
            all[(size_t)i * (size_t)count + (size_t)j] = value(i, j);
    }
    check_blocks(what, all, count, relative);
    free(counts);
    free(begins);
    free(few);
    free(got);
    free(all);
}

/* Gathers complex numbers, with half as many elements as floats. */
static void gather_complex(float *own, float *all, int count)
{
    int *halves = calloc(2 * (size_t)ranks, sizeof *halves), *begins = halves + ranks;
    for (int i = 0; i < ranks; i++) {
        halves[i] = count / 2;
        begins[i] = i * (count / 2);
    }
    memset(all, 0, (size_t)count * (size_t)ranks * sizeof *all);
    MPI_Allgatherv(own, count / 2, MPI_C_FLOAT_COMPLEX, all, halves, begins, MPI_C_FLOAT_COMPLEX,
                   MPI_COMM_WORLD);
    check_blocks("complex numbers", all, count / 2 * 2, 0);
    free(halves);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    const int count = argc > 1 ? atoi(argv[1]) : 1000;
    const double relative = argc > 2 ? atof(argv[2]) : 0;
    float *own = malloc((size_t)count * sizeof *own + 1);
    float *all = malloc((size_t)count * (size_t)ranks * sizeof *all + 1);
    MPI_Datatype block;
    for (int i = 0; i < count; i++)
        own[i] = value(rank, i);
    for (int repeat = 0; repeat < 2; repeat++) {
        memset(all, 0, (size_t)count * (size_t)ranks * sizeof *all);
        MPI_Allgather(own, count, MPI_FLOAT, all, count, MPI_FLOAT, MPI_COMM_WORLD);
        check_blocks("two buffers", all, count, relative);
    }
    memset(all, 0, (size_t)count * (size_t)ranks * sizeof *all);
    memcpy(all + (size_t)rank * (size_t)count, own, (size_t)count * sizeof *own);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_FLOAT, MPI_COMM_WORLD);
    check_blocks("in place", all, count, relative);
    /* The last rank describes the same elements by a contiguous type. */
    MPI_Type_contiguous(count, MPI_FLOAT, &block);
    MPI_Type_commit(&block);
    memset(all, 0, (size_t)count * (size_t)ranks * sizeof *all);
    if (rank == ranks - 1)
        MPI_Allgather(own, 1, block, all, 1, block, MPI_COMM_WORLD);
    else
        MPI_Allgather(own, count, MPI_FLOAT, all, count, MPI_FLOAT, MPI_COMM_WORLD);
    check_blocks("two types", all, count, 0);
    /* Rank 0 gives the absolute address of its elements. */
    MPI_Datatype absolute;
    MPI_Aint address;
    MPI_Get_address(own, &address);
    MPI_Type_create_hindexed(1, &count, &address, MPI_FLOAT, &absolute);
    MPI_Type_commit(&absolute);
    memset(all, 0, (size_t)count * (size_t)ranks * sizeof *all);
    if (rank == 0)
        MPI_Allgather(MPI_BOTTOM, 1, absolute, all, count, MPI_FLOAT, MPI_COMM_WORLD);
    else
        MPI_Allgather(own, count, MPI_FLOAT, all, count, MPI_FLOAT, MPI_COMM_WORLD);
    check_blocks("an absolute address", all, count, 0);
    MPI_Type_free(&absolute);
    gather_after_nonblocking(own, all, count);
    if (count >= ranks) {
        gather_complex(own, all, count);
        gather_uneven("uneven blocks", own, count, false, false, false, relative);
        gather_uneven("uneven blocks in place", own, count, true, false, false, relative);
        gather_uneven("uneven blocks apart", own, count, false, true, false, 0);
        if (MPI_Allgatherv_c != NULL)
            gather_uneven("uneven blocks by large counts", own, count, false, false, true,
                          relative);
    }
    MPI_Type_free(&block);
    free(own);
    free(all);
    MPI_Finalize();
    return failures > 0;
}
