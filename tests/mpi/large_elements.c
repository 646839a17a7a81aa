/* SPDX-License-Identifier: Apache-2.0 */
/* Sums more than 2^31 elements by MPI_Allreduce_c and MPI_Reduce_scatter_block_c. With the argument
 * "native" also calls MPI_Allreduce_c for a maximum of bytes, which is passed through; with
 * "repeated" makes the all-reduce often enough for a job to try native calls. make_buffer() maps
 * the same memory (64 MiB for floats) repeatedly, so that 8 GiB of address space need little
 * memory. The tail, beyond 2^31 elements, has its own memory and other values. An ordinary MPI
 * program with weak references to the functions. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mpi/job.h"

#define PERIOD ((size_t)1 << 24)     /* elements of the memory that is mapped repeatedly */
#define HEAD ((size_t)1 << 31)       /* elements mapped to that memory */
#define TAIL (((size_t)1 << 20) + 6) /* elements after the head, with memory of their own */
#define COUNT (HEAD + TAIL)
#define WEAK __attribute__((weak))

WEAK int MPI_Allreduce_c(const void *input, void *output, MPI_Count count, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm);
WEAK int MPI_Reduce_scatter_block_c(const void *input, void *output, MPI_Count count,
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

static void end_job(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}

/* Maps a buffer for COUNT elements of `size` bytes. */
static void *make_buffer(size_t size)
{
    const int file = memfd_create("period", 0);
    if (file < 0 || ftruncate(file, (off_t)(PERIOD * size)) != 0)
        end_job("memfd_create");
    char *buffer = mmap(NULL, COUNT * size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; buffer != MAP_FAILED && i < HEAD; i += PERIOD)
        if (mmap(buffer + i * size, PERIOD * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 file, 0) == MAP_FAILED)
            end_job("mmap");
    if (buffer == MAP_FAILED)
        end_job("mmap");
    close(file);
    return buffer;
}

static void drop_buffer(void *buffer, size_t size)
{
    munmap(buffer, COUNT * size);
}

/* Returns element i, a small integer, whose sum over two ranks is exact in fp8_e4m3. */
static int value(size_t i)
{
    return i < HEAD ? (int)(i % PERIOD % 3) - 1 : (int)(i % 4) + 1;
}

static void check_sums(const char *what, const float *sums, size_t first, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += sums[i] != (float)(value(first + i) * ranks);
    failures += wrong != 0;
    if (wrong != 0)
        fprintf(stderr, "rank %d: %s: %zu sums are wrong\n", rank, what, wrong);
}

static void sum_floats(int calls)
{
    const size_t own = COUNT / (size_t)ranks; /* COUNT is even: two ranks leave no remainder */
    float *input = make_buffer(sizeof *input), *output = make_buffer(sizeof *output);
    for (size_t i = 0; i < PERIOD; i++)
        input[i] = (float)value(i);
    for (size_t i = HEAD; i < COUNT; i++)
        input[i] = (float)value(i);
    for (int i = 0; i < calls; i++) /* three calls of each candidate, native last, and one more */
        MPI_Allreduce_c(input, output, (MPI_Count)COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check_sums("MPI_Allreduce_c", output, 0, COUNT);
    drop_buffer(output, sizeof *output);
    output = malloc(own * sizeof *output);
    if (output == NULL)
        end_job("malloc");
    MPI_Reduce_scatter_block_c(input, output, (MPI_Count)own, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check_sums("MPI_Reduce_scatter_block_c", output, (size_t)rank * own, own);
    free(output);
    drop_buffer(input, sizeof *input);
}

static void find_largest(void)
{
    unsigned char *input = make_buffer(1), *output = make_buffer(1);
    input[PERIOD / 2] = (unsigned char)(1 + rank);
    input[COUNT - 1] = (unsigned char)(11 + rank);
    MPI_Allreduce_c(input, output, (MPI_Count)COUNT, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    if (output[HEAD - PERIOD / 2] != ranks || output[COUNT - 1] != 10 + ranks)
        failures++, fprintf(stderr, "rank %d: MPI_MAX is wrong\n", rank);
    drop_buffer(input, 1);
    drop_buffer(output, 1);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    sum_floats(argc > 1 && strcmp(argv[1], "repeated") == 0 ? 10 : 1);
    if (argc > 1 && strcmp(argv[1], "native") == 0)
        find_largest();
    if (rank == 0)
        printf("%zu elements, ", COUNT);
    return job_end("");
}
