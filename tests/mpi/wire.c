/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a call of each compressed collective but allgather, in several sizes. Prints for each call
 * two digests over all ranks: of the bytes sent (tests/standin/wire.c), and of the results.
 *
 *   mpi_wire PEERS [moves]
 *
 * The digest of an all-reduce's bytes has the receiver's rank modulo PEERS, that of other calls the
 * receiver's rank. `moves` selects the data-movement collectives instead of the reductions. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/hash.h"
#include "tests/mpi/job.h"

uint64_t standin_wire_digest(void) __attribute__((weak)); /* NULL unless preloaded */
extern int standin_wire_peers __attribute__((weak));

#define MOST 20000
static float input[MOST * 8], output[MOST * 8];

/* Fills in roughly normal values, zeros and tiny values, and from 5001 elements on one infinity. */
static void fill_input(int count, unsigned seed)
{
    unsigned state = seed * 2654435761u + (unsigned)rank;
    for (int i = 0; i < count; i++) {
        float value = 0;
        for (int j = 0; j < 4; j++) {
            state = state * 1664525u + 1013904223u;
            value += (float)(int)state * 0x1p-31f;
        }
        input[i] = i % 97 == 5 ? 0 : i % 1013 == 7 ? value * 1e-30f : value;
    }
    if (count > 5000)
        input[4321] = (float)1e39;
    memset(output, 0, sizeof output);
}

static void report(const char *name, size_t bytes)
{
    /* Weighted by rank, so that the sum of the ranks' digests changes if ranks swap theirs. */
    const uint64_t weight = 2 * (uint64_t)rank + 1;
    const uint64_t own[2] = {weight * standin_wire_digest(),
                             weight * cshim_hash_bytes(CSHIM_HASH_EMPTY, output, bytes)};
    uint64_t all[2];
    MPI_Reduce(own, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %016llx %016llx", name, (unsigned long long)all[0], (unsigned long long)all[1]);
}

static void move_all(int count)
{
    const int block = count / ranks + 1;
    int lengths[8], begins[8];
    for (int i = 0; i < ranks; i++) { /* symmetric, so that both ranks of a pair agree */
        lengths[i] = count / ranks / (1 + (i + rank) % 3);
        begins[i] = i > 0 ? begins[i - 1] + lengths[i - 1] : 0;
    }
    if (rank == 0)
        printf("%d:", count);
    standin_wire_peers = ranks;
    fill_input(block * ranks, 4);
    MPI_Alltoall(input, block, MPI_FLOAT, output, block, MPI_FLOAT, MPI_COMM_WORLD);
    report(" alltoall", (size_t)(block * ranks) * sizeof(float));
    fill_input(count, 5);
    MPI_Alltoallv(input, lengths, begins, MPI_FLOAT, output, lengths, begins, MPI_FLOAT,
                  MPI_COMM_WORLD);
    report(", alltoallv", (size_t)(begins[ranks - 1] + lengths[ranks - 1]) * sizeof(float));
    fill_input(count, 6);
    memcpy(output, input, (size_t)count * sizeof(float));
    MPI_Bcast(output, count, MPI_FLOAT, 1, MPI_COMM_WORLD);
    report(", broadcast", (size_t)count * sizeof(float));
    if (rank == 0)
        putchar('\n');
}

static void call_all(int count, int peers)
{
    const size_t bytes = (size_t)count * sizeof(float);
    int lengths[8];
    for (int i = 0; i < ranks; i++)
        lengths[i] = count / ranks + (i == 1 ? count % ranks : 0);
    if (rank == 0)
        printf("%d:", count);
    fill_input(count, 1);
    standin_wire_peers = peers;
    MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    report(" allreduce", bytes);
    standin_wire_peers = ranks;
    fill_input(count, 2);
    MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 1, MPI_COMM_WORLD);
    report(", reduce", bytes);
    fill_input(count, 3);
    MPI_Reduce_scatter(input, output, lengths, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    report(", reduce_scatter", (size_t)lengths[rank] * sizeof(float));
    if (rank == 0)
        putchar('\n');
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 300, 3000, MOST};
    job_begin(&argc, &argv);
    standin_wire_digest();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int repeat = 0; repeat < 2; repeat++) /* the second call may add residuals */
            if (argc > 2)
                move_all(counts[i]);
            else
                call_all(counts[i], argc > 1 ? atoi(argv[1]) : ranks);
    MPI_Finalize();
    return 0;
}
