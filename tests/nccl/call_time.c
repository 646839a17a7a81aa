/* SPDX-License-Identifier: Apache-2.0 */
/* Measures ncclAllReduce of float32. Rank 0 prints the median duration in seconds.
 *   nccl_call_time MIB REPEATS
 */
#include "shim/core/clock.h"
#include "tests/bench/times.h"
#include "tests/nccl/gpu.h"

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
        const double began = cshim_seconds();
        NCCL(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, world.comm, world.stream));
        CUDA(cuStreamSynchronize(world.stream));
        if (i >= 0)
            seconds[i] = cshim_seconds() - began;
    }
    if (world.rank == 0)
        printf("%.6f\n", median_of(seconds, (size_t)repeats));
    free(values);
    gpu_free(buffer);
    gpu_leave(&world);
    return 0;
}
