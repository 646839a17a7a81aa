/* SPDX-License-Identifier: Apache-2.0 */
/* Inf, -Inf and NaN on each rank at random places, in sums by every codec: the result is not finite
 * exactly there, the same bits on all ranks, and within the published bound everywhere else. As
 * tests/mpi/nonfinite.c.
 *
 *   nccl_nonfinite ALGORITHM [--policy]
 *
 * With --policy it prints the policy to run it under. */
#include "tests/nonfinite.h"

#include "tests/nccl/gpu.h"

static struct gpu_world world;

/* Every rank's buffer on every rank, as bytes: those are never compressed. The caller frees. */
static float *gather(const float *device, size_t count)
{
    const size_t bytes = count * sizeof(float);
    float *host = calloc(count * (size_t)ranks, sizeof *host);
    float *all = gpu_allocate(bytes * (size_t)ranks);
    NCCL(ncclAllGather(device, all, bytes, ncclUint8, world.comm, world.stream));
    CUDA(cuStreamSynchronize(world.stream));
    gpu_read(host, all, bytes * (size_t)ranks);
    gpu_free(all);
    return host;
}

static void compare_ranks(const struct placing *placing, enum cshim_codec_id codec,
                          const float *results, size_t count)
{
    for (int other = 1; other < ranks; other++) {
        const float *result = results + (size_t)other * count;
        for (size_t i = 0; i < count; i++) {
            if (bits(results[i]) != bits(result[i]))
                complain(placing, codec, i, "not the bits of rank 0", result[i], results[i], 0);
        }
    }
}

static void compare_sum(const struct placing *placing, enum cshim_codec_id codec, const float *all,
                        const float *result, size_t count)
{
    const struct lossy_reference reference =
        lossy_reference(cshim_codec_info(codec), algorithm, all, ranks, count);
    for (size_t i = 0; i < count; i++) {
        if (!is_right(reference.sum[i], reference.bound[i], result[i], codec))
            complain(placing, codec, i, "wrong", result[i], reference.sum[i], reference.bound[i]);
    }
    free(reference.sum), free(reference.bound);
}

static void run(struct placing placing, enum cshim_codec_id codec, enum lossy_length length)
{
    const size_t count = lossy_count(codec, length), bytes = count * sizeof(float);
    float *own = malloc(bytes);
    make_data(&placing, codec, own, count);
    float *send = gpu_allocate(bytes);
    float *receive = placing.kind == MINUS_INF ? send : gpu_allocate(bytes);
    gpu_write(send, own, bytes);
    float *all = gather(send, count);
    NCCL(ncclAllReduce(send, receive, count, ncclFloat32, ncclSum, world.comm, world.stream));
    float *results = gather(receive, count);
    if (rank == 0) {
        compare_sum(&placing, codec, all, results, count);
        compare_ranks(&placing, codec, results, count);
    }
    if (receive != send)
        gpu_free(receive);
    gpu_free(send);
    free(own), free(all), free(results);
}

int main(int argc, char **argv)
{
    algorithm = lossy_arguments(argc, argv);
    world = gpu_join();
    rank = world.rank;
    ranks = world.ranks;
    run_all();
    gpu_leave(&world);
    if (rank == 0)
        printf("%d failures\n", failures);
    return failures != 0;
}
