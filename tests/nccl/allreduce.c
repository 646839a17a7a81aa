/* SPDX-License-Identifier: Apache-2.0 */
/* Calls ncclAllReduce (`scatter`: ncclReduceScatter) with many counts, alignments and types of
 * data. Compares the results of reduce-scatters, and rank 0's of all-reduces, with sums in float64,
 * element by element, within the codec's published bound. Compares the bits of all-reduces' results
 * between the ranks. Each rank prints one digest of all its results.
 *
 *   nccl_allreduce CODEC STEPS [DTYPE [sum|avg|scaled [allreduce|scatter]]]
 *   nccl_allreduce all ALGORITHM
 *
 * CODEC, STEPS (how often an element is quantized on its way) and ALGORITHM are as in
 * tests/mpi/allreduce.c. scaled: ncclRedOpCreatePreMulSum.
 */
#include "tests/nccl/sums.h"

static struct gpu_world world;
static ncclRedOp_t op = ncclSum;
static int scattered;

/* Counts a failure unless all ranks have the same bits. */
static void compare_ranks(const void *result, size_t bytes)
{
    const uint64_t own = cshim_hash_bytes(CSHIM_HASH_EMPTY, result, bytes);
    if (!gpu_same_on_all(own, world.comm, world.stream) && failures++ < 10)
        fprintf(stderr, "ranks have different results (%zu bytes)\n", bytes);
}

struct buffers {
    size_t count;        /* number of elements of the input */
    size_t result;       /* number of elements of the result */
    size_t first;        /* index in the whole sum of the result's first element */
    unsigned char *host; /* the input, in host memory */
    unsigned char *send; /* device memory, in some cases aligned to an element only */
    unsigned char *receive;
};

static void make_call(const struct buffers *buffers)
{
    if (scattered)
        NCCL(ncclReduceScatter(buffers->send, buffers->receive, buffers->result, datatype(), op,
                               world.comm, world.stream));
    else
        NCCL(ncclAllReduce(buffers->send, buffers->receive, buffers->count, datatype(), op,
                           world.comm, world.stream));
    CUDA(cuStreamSynchronize(world.stream));
}

static void check_result(enum data data, const struct buffers *buffers, int in_place)
{
    const size_t size = cshim_dtype_bytes(sums_dtype), bytes = buffers->result * size;
    unsigned char *result = malloc(bytes + 64);
    gpu_read(result, buffers->receive, bytes + (in_place ? 0 : 64));
    for (size_t i = 0; i < 64 && !in_place; i++)
        if (result[bytes + i] != 0xa5)
            fail("written beyond the buffer", data, buffers->count, i, result[bytes + i], 0xa5, 0);
    if (scattered || world.rank == 0) { /* all-reduce: rank 0's result is enough, compare_ranks
                                           compares the others with it */
        sums_first = buffers->first;
        struct reference reference = sums_reference(data, world.ranks, buffers->result);
        compare(&reference, data, buffers->result, result);
        sums_free(&reference);
    }
    if (!scattered)
        compare_ranks(result, bytes);
    digest_bytes(result, bytes);
    free(result);
}

static void run_count(enum data data, size_t count, int in_place)
{
    const size_t size = cshim_dtype_bytes(sums_dtype);
    const size_t shift = count % 5 * size; /* offset from the allocation's alignment, in bytes */
    struct buffers buffers = {.count = count, .result = count};
    if (scattered) {
        buffers.result = count / (size_t)world.ranks;
        buffers.count = buffers.result * (size_t)world.ranks;
        buffers.first = buffers.result * (size_t)world.rank;
    }
    const size_t bytes = buffers.count * size;
    buffers.host = malloc(bytes + 64);
    unsigned char *kept = malloc(bytes + 64);
    for (size_t i = 0; i < buffers.count; i++)
        store(buffers.host, i, element(data, world.rank, world.ranks, i));
    unsigned char *send = gpu_allocate(bytes + 256), *receive = gpu_allocate(bytes + 256);
    memset(kept, 0xa5, 64);
    buffers.send = send + shift;
    buffers.receive = receive + shift;
    gpu_write(buffers.send, buffers.host, bytes);
    gpu_write(buffers.receive + buffers.result * size, kept, 64);
    if (in_place)
        buffers.receive = buffers.send + buffers.first * size;
    make_call(&buffers);
    check_result(data, &buffers, in_place);
    gpu_read(kept, buffers.send, bytes);
    if (!in_place && memcmp(kept, buffers.host, bytes) != 0)
        fail("the input was changed", data, count, 0, 0, 0, 0);
    gpu_free(send), gpu_free(receive);
    free(kept), free(buffers.host);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {0, 1, 2, 5, 127, 128, 129, 255, 256, 257, 1000, 4099, 65549};
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    const int all = argc == 3 && strcmp(argv[1], "all") == 0;
    sums_without = CSHIM_CODEC_LOSSLESS;
    if (argc == 3 && strcmp(argv[1], "--policy") == 0)
        return print_policy(argv[2]);
    if (argc < 3 || (!all && !codec_by_name(argv[1], &id))) {
        fprintf(stderr,
                "usage: nccl_allreduce CODEC STEPS [DTYPE [OP [COLLECTIVE]]] | all ALGORITHM\n");
        return 2;
    }
    sums_codec = cshim_codec_info(id);
    sums_steps = all ? 0 : atoi(argv[2]);
    if (argc > 3)
        dtype_by_name(argv[3], &sums_dtype);
    scattered = argc > 5 && strcmp(argv[5], "scatter") == 0;
    world = gpu_join();
    if (argc > 4)
        op = make_op(&world, argv[4]);
    if (all)
        try_all_codecs(argv[2], world.rank, world.ranks, run_count);
    for (size_t c = 0; !all && c < sizeof counts / sizeof counts[0]; c++) {
        run_count(NORMAL, counts[c], 0);
        run_count(NORMAL, counts[c], 1);
    }
    for (int data = 0; !all && data < DATA_COUNT; data++) {
        const int needs_range = data == TINY || data == HUGE_VALUES;
        if (sums_dtype != CSHIM_FLOAT16 || !needs_range)
            run_count((enum data)data, 20011, data % 2);
    }
    if (!all)
        run_count(NORMAL, 400009, 0);
    if (op >= ncclNumOps)
        NCCL(ncclRedOpDestroy(op, world.comm));
    printf("rank %d: digest %016llx, %d failures\n", world.rank, (unsigned long long)digest,
           failures);
    gpu_leave(&world);
    return failures != 0;
}
