/* SPDX-License-Identifier: Apache-2.0 */
/* Makes data-movement collectives, and compares the elements received from each rank with those
 * sent, within the bound of one quantization. Each rank prints a digest, which must be the same on
 * all ranks except for an all-to-all.
 *
 *   nccl_moves allgather|alltoall|broadcast CODEC [DTYPE]
 */
#include "tests/nccl/sums.h"

static struct gpu_world world;
static enum { GATHER, ALLTOALL, BROADCAST } collective;
static const char *const names[] = {"allgather", "alltoall", "broadcast"};

/* Compares `count` elements received from a rank, the first of which has index `first` in its
 * buffer. */
static void check_block(enum data data, size_t count, int rank, size_t first,
                        const unsigned char *block)
{
    struct reference reference = reference_make(count);
    sums_first = first;
    add_rank(&reference, data, rank, world.ranks, count);
    compare(&reference, data, count, block);
    sums_free(&reference);
}

/* Makes the call. A broadcast out of place has a send buffer only on the root. */
static void make_call(void *send, void *receive, size_t count, int root)
{
    if (collective == GATHER)
        NCCL(ncclAllGather(send, receive, count, datatype(), world.comm, world.stream));
    else if (collective == ALLTOALL)
        NCCL(ncclAlltoAll(send, receive, count, datatype(), world.comm, world.stream));
    else if (send == receive)
        NCCL(ncclBcast(receive, count, datatype(), root, world.comm, world.stream));
    else
        NCCL(ncclBroadcast(world.rank == root ? send : NULL, receive, count, datatype(), root,
                           world.comm, world.stream));
}

static void run_count(enum data data, size_t count, int in_place, int root)
{
    const size_t size = cshim_dtype_bytes(sums_dtype), bytes = count * size;
    const size_t ranks = (size_t)world.ranks, rank = (size_t)world.rank;
    const size_t sent = collective == ALLTOALL ? ranks * count : count;
    const size_t blocks = collective == BROADCAST ? 1 : ranks;
    const size_t own = collective == GATHER ? rank * bytes : 0;
    unsigned char *host = calloc(ranks * bytes + 1, 1);
    unsigned char *receive = gpu_allocate(ranks * bytes);
    const int shares = in_place && collective != ALLTOALL; /* which has no in-place form */
    unsigned char *send = shares ? receive + own : gpu_allocate(sent * size);
    for (size_t i = 0; i < sent; i++)
        store(host, i, element(data, world.rank, world.ranks, i));
    gpu_write(send, host, sent * size);
    make_call(send, receive, count, root);
    CUDA(cuStreamSynchronize(world.stream));
    gpu_read(host, receive, blocks * bytes);
    for (size_t block = 0; block < blocks; block++)
        check_block(data, count, collective == BROADCAST ? root : (int)block,
                    collective == ALLTOALL ? rank * count : 0, host + block * bytes);
    digest_bytes(host, blocks * bytes);
    if (!shares)
        gpu_free(send);
    gpu_free(receive);
    free(host);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 127, 256, 1000, 65549, 400009};
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    while (argc > 2 && collective <= BROADCAST && strcmp(argv[1], names[collective]) != 0)
        collective++;
    if (argc < 3 || collective > BROADCAST || !codec_by_name(argv[2], &id)) {
        fprintf(stderr, "usage: nccl_moves allgather|alltoall|broadcast CODEC [DTYPE]\n");
        return 2;
    }
    sums_codec = cshim_codec_info(id);
    sums_steps = 1;
    if (argc > 3)
        dtype_by_name(argv[3], &sums_dtype);
    world = gpu_join();
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        run_count(NORMAL, counts[c], (int)c % 2, (int)(c / 2) % world.ranks);
    run_count(HEAVY, 20011, 0, world.ranks - 1);
    run_count(NONFINITE, 20011, 1, 1);
    printf("rank %d: digest %016llx, %d failures\n", world.rank, (unsigned long long)digest,
           failures);
    gpu_leave(&world);
    return failures != 0;
}
