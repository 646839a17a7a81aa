/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the same buffer many times, and prints the relative L2 error of the mean of the results.
 * With error feedback or stochastic rounding, as the policy sets, it is much less than the error of
 * one call. Each rank prints a digest of its results. Fails if the error exceeds LIMIT.
 *
 *   nccl_feedback CALLS LIMIT [larger|shorter|anew]
 *     larger: after a call with larger numbers in the same memory
 *     shorter: after a call with fewer elements of the same memory
 *     anew: each call on a new communicator */
#include "tests/nccl/gpu.h"
#include "tests/sums.h"

#define COUNT 100003

int main(int argc, char **argv)
{
    const int calls = argc > 1 ? atoi(argv[1]) : 64;
    const double limit = argc > 2 ? atof(argv[2]) : 1;
    const char *mode = argc > 3 ? argv[3] : "";
    const bool anew = strcmp(mode, "anew") == 0;
    struct gpu_world world = gpu_join();
    float *host = malloc(COUNT * sizeof *host);
    double *mean = calloc(COUNT, sizeof *mean), errors = 0, squares = 0;
    float *send = gpu_allocate(COUNT * sizeof *host), *receive = gpu_allocate(COUNT * sizeof *host);
    struct reference reference = sums_reference(NORMAL, world.ranks, COUNT);
    if (strcmp(mode, "larger") == 0) {
        for (size_t i = 0; i < COUNT; i++)
            store(host, i, 1e4 * element(NORMAL, world.rank, world.ranks, i));
        gpu_write(send, host, COUNT * sizeof *host);
        NCCL(ncclAllReduce(send, receive, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
        CUDA(cuStreamSynchronize(world.stream));
    }
    for (size_t i = 0; i < COUNT; i++)
        store(host, i, element(NORMAL, world.rank, world.ranks, i));
    gpu_write(send, host, COUNT * sizeof *host);
    if (strcmp(mode, "shorter") == 0)
        NCCL(ncclAllReduce(send, receive, COUNT / 2, ncclFloat32, ncclSum, world.comm,
                           world.stream));
    for (int call = 0; call < calls; call++) {
        ncclComm_t comm = world.comm;
        if (anew)
            NCCL(ncclCommSplit(world.comm, 0, world.rank, &comm, NULL));
        NCCL(ncclAllReduce(send, receive, COUNT, ncclFloat32, ncclSum, comm, world.stream));
        CUDA(cuStreamSynchronize(world.stream));
        if (anew)
            NCCL(ncclCommDestroy(comm));
        gpu_read(host, receive, COUNT * sizeof *host);
        digest_bytes(host, COUNT * sizeof *host);
        for (size_t i = 0; i < COUNT; i++)
            mean[i] += (double)host[i] / calls;
    }
    for (size_t i = 0; i < COUNT; i++) {
        errors += (mean[i] - reference.sum[i]) * (mean[i] - reference.sum[i]);
        squares += reference.sum[i] * reference.sum[i];
    }
    const double error = sqrt(errors / squares);
    printf("rank %d: digest %016llx, mean of %d calls off by %.2e\n", world.rank,
           (unsigned long long)digest, calls, error);
    gpu_free(send), gpu_free(receive);
    gpu_leave(&world);
    sums_free(&reference);
    free(mean), free(host);
    return !(error <= limit);
}
