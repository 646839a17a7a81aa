/* SPDX-License-Identifier: Apache-2.0 */
/* Measures ncclAllReduce of float32. Rank 0 prints the median duration in seconds.
 *   nccl_call_time MIB REPEATS
 */
#include <time.h>

#include "tests/nccl/gpu.h"

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    const size_t count = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 18;
    const int repeats = argc > 2 ? atoi(argv[2]) : 5;
    if (repeats < 1 || repeats > 1000 || count == 0) {
        fprintf(stderr, "usage: nccl_call_time MIB REPEATS\n");
        return 2;
    }
    struct gpu_world world = gpu_join();
    double seconds[1000];
    float *values = malloc(count * sizeof *values), *buffer = gpu_allocate(count * sizeof *buffer);
    if (values == NULL)
        return 3;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 7 + (size_t)world.rank) % 1001) - 500.0F;
    for (int i = -1; i < repeats; i++) { /* the first one warms up */
        gpu_write(buffer, values, count * sizeof *buffer);
        const double began = now();
        NCCL(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, world.comm, world.stream));
        CUDA(cuStreamSynchronize(world.stream));
        if (i >= 0)
            seconds[i] = now() - began;
    }
    qsort(seconds, (size_t)repeats, sizeof *seconds, by_value);
    if (world.rank == 0)
        printf("%.6f\n", seconds[repeats / 2]);
    free(values);
    gpu_free(buffer);
    gpu_leave(&world);
    return 0;
}
