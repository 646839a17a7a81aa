/* SPDX-License-Identifier: Apache-2.0 */
/* Calls ncclAllGather and compares each rank's block with what that rank sent, within the bound of
 * one quantization; prints a digest, which must be the same on all ranks.
 *
 *   nccl_allgather CODEC [DTYPE]
 */
#include "tests/nccl/gpu.h"
#include "tests/sums.h"

static struct gpu_world world;

static ncclDataType_t datatype(void)
{
    return sums_dtype == CSHIM_FLOAT16 ? ncclFloat16 : ncclFloat32;
}

static void check_block(enum data data, size_t count, int rank, const unsigned char *block)
{
    struct reference reference = {calloc(count + 1, sizeof(double)),
                                  calloc(count + 1, sizeof(double)),
                                  calloc(count + 1, sizeof(double))};
    add_rank(&reference, data, rank, world.ranks, count);
    compare(&reference, data, count, block);
    sums_free(&reference);
}

static void run(enum data data, size_t count, int in_place)
{
    const size_t bytes = count * cshim_dtype_bytes(sums_dtype);
    const size_t all = bytes * (size_t)world.ranks;
    unsigned char *host = malloc(all + 1);
    unsigned char *receive = gpu_allocate(all);
    unsigned char *send = in_place ? receive + (size_t)world.rank * bytes : gpu_allocate(bytes);
    for (size_t i = 0; i < count; i++)
        store(host, i, element(data, world.rank, world.ranks, i));
    gpu_write(send, host, bytes);
    NCCL(ncclAllGather(send, receive, count, datatype(), world.comm, world.stream));
    CUDA(cuStreamSynchronize(world.stream));
    gpu_read(host, receive, all);
    for (int rank = 0; rank < world.ranks; rank++)
        check_block(data, count, rank, host + (size_t)rank * bytes);
    digest_bytes(host, all);
    if (!in_place)
        gpu_free(send);
    gpu_free(receive);
    free(host);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 127, 256, 1000, 65549, 400009};
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    if (argc < 2 || !codec_by_name(argv[1], &id)) {
        fprintf(stderr, "usage: nccl_allgather CODEC [DTYPE]\n");
        return 2;
    }
    sums_codec = cshim_codec_info(id);
    sums_steps = 1;
    if (argc > 2)
        dtype_by_name(argv[2], &sums_dtype);
    world = gpu_join();
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        run(NORMAL, counts[c], (int)c % 2);
    run(HEAVY, 20011, 0);
    run(NONFINITE, 20011, 1);
    printf("rank %d: digest %016llx, %d failures\n", world.rank, (unsigned long long)digest,
           failures);
    gpu_leave(&world);
    return failures != 0;
}
