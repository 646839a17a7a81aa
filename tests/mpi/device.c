/* SPDX-License-Identifier: Apache-2.0 */
/* Reduces buffers in "device memory" on all ranks, on one, and on none. tests/standin/cuda.c must
 * be preloaded as libcuda.so.1. An ordinary MPI program for an MPI that accepts device buffers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/mpi/job.h"

#define COUNT 200000

extern void *standin_cuda_memory(void) __attribute__((weak));
extern void standin_cuda_copy(void *to, const void *from, size_t bytes) __attribute__((weak));
extern unsigned long standin_cuda_passed __attribute__((weak));

static float in[COUNT], out[COUNT];

static void sum(int on_device, int in_place)
{
    float *device = on_device && standin_cuda_memory ? standin_cuda_memory() : NULL;
    float *send = on_device ? device : in, *receive = on_device ? device + COUNT : out;
    for (int i = 0; i < COUNT; i++)
        in[i] = 1;
    if (on_device)
        standin_cuda_copy(send, in, sizeof in);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : send, in_place ? send : receive, COUNT, MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
    if (in_place)
        receive = send;
    if (on_device)
        standin_cuda_copy(out, receive, sizeof out);
    for (int i = 0; i < COUNT; i++)
        failures += (on_device ? out : receive)[i] != (float)ranks;
}

int main(int argc, char **argv)
{
    int total = 0;
    MPI_Request request;
    job_begin(&argc, &argv);
    if (standin_cuda_memory == NULL) {
        fprintf(stderr, "mpi_device: preload the stand-in for libcuda\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        sum(1, in_place);
        sum(rank == ranks - 1, in_place);
        sum(0, in_place);
    }
    MPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const int passed = (int)standin_cuda_passed;
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %d calls came to the library with device memory, %d failures\n", rank, passed,
           total);
    MPI_Finalize();
    return total != 0;
}
