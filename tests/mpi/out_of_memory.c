/* SPDX-License-Identifier: Apache-2.0 */
/* Lets one rank run out of memory. This program's own malloc, calloc, realloc and mmap are bound
 * before the C library's, and refuse the preload's requests from the Nth on. Other callers'
 * requests succeed. An ordinary MPI program.
 *
 *   mpi_out_of_memory RANK N init      counts from before MPI_Init
 *   mpi_out_of_memory RANK N call      counts from the first MPI_Allreduce on a new communicator
 *   mpi_out_of_memory RANK N end       counts from MPI_Finalize
 *
 * Before MPI_Finalize, each rank prints how many requests it has refused: with `end`, always 0.
 * Sums must be right if the job goes on. */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/mpi/before_libc.h"
#include "tests/mpi/job.h"

#define COUNT 100000

static int armed;
static long granted_left, refused;

static int refuses(void *caller)
{
    if (!__atomic_load_n(&armed, __ATOMIC_RELAXED) || !is_preload(caller))
        return 0;
    if (__atomic_fetch_sub(&granted_left, 1, __ATOMIC_RELAXED) > 0)
        return 0;
    __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return 1;
}

BEFORE_LIBC void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (real == NULL)
        real = REAL(malloc);
    return refuses(__builtin_return_address(0)) ? NULL : real(size);
}

BEFORE_LIBC void *calloc(size_t count, size_t size)
{
    static void *(*real)(size_t, size_t);
    if (real == NULL)
        real = REAL(calloc);
    return refuses(__builtin_return_address(0)) ? NULL : real(count, size);
}

BEFORE_LIBC void *realloc(void *block, size_t size)
{
    static void *(*real)(void *, size_t);
    if (real == NULL)
        real = REAL(realloc);
    return refuses(__builtin_return_address(0)) ? NULL : real(block, size);
}

BEFORE_LIBC void *mmap(void *address, size_t length, int protection, int flags, int file,
                       off_t offset)
{
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (real == NULL)
        real = REAL(mmap);
    return refuses(__builtin_return_address(0))
               ? MAP_FAILED
               : real(address, length, protection, flags, file, offset);
}

static int sum(MPI_Comm comm)
{
    static float data[COUNT];
    return sum_ones(data, COUNT, comm) > 0;
}

int main(int argc, char **argv)
{
    const char *own = launched_rank();
    const int chosen = argc == 4 && own != NULL && strcmp(own, argv[1]) == 0;
    const int from_init = argc == 4 && strcmp(argv[3], "init") == 0;
    const int from_end = argc == 4 && strcmp(argv[3], "end") == 0;
    MPI_Comm comm;
    if (argc != 4) {
        fprintf(stderr, "usage: mpi_out_of_memory RANK N init|call|end\n");
        return 2;
    }
    granted_left = atol(argv[2]) - 1;
    armed = chosen && from_init;
    job_begin(&argc, &argv);
    if (!from_init)
        failures += sum(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    armed = chosen && !from_end;
    failures += sum(comm);
    failures += sum(comm);
    armed = 0;
    failures += sum(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    printf("rank %d: refused %ld, %d failures\n", rank, refused, failures);
    armed = chosen && from_end;
    MPI_Finalize();
    armed = 0;
    return failures != 0;
}
