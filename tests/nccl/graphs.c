/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are captured into CUDA graphs, one case per run. Every result must be exact, natively
 * and with a policy of codec raw.
 *
 *   nccl_graphs CASE
 */
#include <pthread.h>
#include <stdbool.h>

#include "tests/nccl/cases.h"

enum { COUNT = 70001 };

static struct gpu_world world;

/* A graph of two sums, launched several times, with calls before, between and after the launches.
 */
static void case_graph(void)
{
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "before the capture");
    float *input = device_part(world.rank, 2, COUNT);
    float *output = gpu_allocate(COUNT * sizeof *output);
    float *second = gpu_allocate(COUNT * sizeof *second);
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NCCL(ncclAllReduce(input, output, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
    NCCL(ncclAllReduce(input, second, COUNT - 7, ncclFloat32, ncclSum, world.comm, world.stream));
    const CUgraphExec exec = gpu_end_capture(world.stream);
    for (unsigned turn = 3; turn < 7; turn++) {
        float *fresh = host_part(world.rank, turn, COUNT);
        gpu_write(input, fresh, COUNT * sizeof *fresh);
        CUDA(cuGraphLaunch(exec, world.stream));
        if (turn % 2 == 0)
            reduce_on(&world, world.comm, 40 + turn, COUNT, "between the launches");
        synchronize(&world);
        want_sum(output, world.ranks, turn, COUNT, "the graph's first sum");
        want_sum(second, world.ranks, turn, COUNT - 7, "the graph's second sum");
        free(fresh);
    }
    CUDA(cuGraphExecDestroy(exec));
    reduce_on(&world, world.comm, 8, COUNT, "after the graph");
    gpu_leave(&world);
}

/* Counts a failure unless the device has these elements of a rank's data of call `seed`. */
static void want_part(const float *device, int rank, unsigned seed, size_t first, size_t count,
                      const char *what)
{
    float *data = malloc(count * sizeof *data);
    size_t wrong = 0;
    gpu_read(data, device, count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        wrong += data[i] != part(rank, seed, first + i);
    WANT(wrong == 0, "%s: %zu of %zu elements", what, wrong, count);
    free(data);
}

/* Buffers of a broadcast in place and of an all-to-all, which move() makes in one group. */
struct moves {
    ncclComm_t comm;
    int rank, ranks, root;
    float *buffer, *blocks, *received;
};

static struct moves moves_make(ncclComm_t comm, int root)
{
    struct moves moves = {.comm = comm, .root = root};
    NCCL(ncclCommUserRank(comm, &moves.rank));
    NCCL(ncclCommCount(comm, &moves.ranks));
    moves.buffer = gpu_allocate(COUNT * sizeof(float));
    moves.blocks = gpu_allocate(COUNT * sizeof(float));
    moves.received = gpu_allocate(COUNT * sizeof(float));
    return moves;
}

static void move(const struct moves *moves)
{
    NCCL(ncclGroupStart());
    NCCL(ncclBcast(moves->buffer, COUNT, ncclFloat32, moves->root, moves->comm, world.stream));
    NCCL(ncclAlltoAll(moves->blocks, moves->received, COUNT / (size_t)moves->ranks, ncclFloat32,
                      moves->comm, world.stream));
    NCCL(ncclGroupEnd());
}

static void fill(const struct moves *moves, unsigned seed)
{
    float *data = host_part(moves->rank, seed, COUNT);
    gpu_write(moves->buffer, data, COUNT * sizeof *data);
    gpu_write(moves->blocks, data, COUNT * sizeof *data);
    free(data);
}

static void want_moved(const struct moves *moves, unsigned seed)
{
    const size_t block = COUNT / (size_t)moves->ranks;
    synchronize(&world);
    want_part(moves->buffer, moves->root, seed, 0, COUNT, "a broadcast");
    for (int rank = 0; rank < moves->ranks; rank++)
        want_part(moves->received + (size_t)rank * block, rank, seed, (size_t)moves->rank * block,
                  block, "a block of an all-to-all");
}

/* Data-movement collectives: on a communicator, on its child, and in a graph; one of integers. */
static void case_moves(void)
{
    ncclComm_t half;
    world = gpu_join();
    NCCL(ncclCommSplit(world.comm, world.rank % 2, world.rank, &half, NULL));
    const struct moves all = moves_make(world.comm, 1), some = moves_make(half, 1);
    fill(&all, 1);
    fill(&some, 2);
    move(&all);
    move(&some);
    want_moved(&all, 1);
    want_moved(&some, 2);
    NCCL(ncclBroadcast(all.blocks, all.received, COUNT, ncclInt32, 0, world.comm, world.stream));
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    move(&all);
    const CUgraphExec exec = gpu_end_capture(world.stream);
    for (unsigned turn = 3; turn < 6; turn++) {
        synchronize(&world);
        fill(&all, turn);
        CUDA(cuGraphLaunch(exec, world.stream));
        want_moved(&all, turn);
    }
    CUDA(cuGraphExecDestroy(exec));
    WANT(ncclBcast(all.buffer, COUNT, ncclFloat32, world.ranks, world.comm, world.stream) ==
             ncclInvalidArgument,
         "a root that does not exist");
    NCCL(ncclCommDestroy(half));
    gpu_leave(&world);
}

/* A graph is launched while calls on the same communicator run on another stream. */
static void case_graph_streams(void)
{
    enum { TURNS = 4 };
    CUstream second;
    float *eager[TURNS];
    world = gpu_join();
    CUDA(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    reduce_on(&world, world.comm, 1, COUNT, "before the capture");
    float *input = device_part(world.rank, 2, COUNT);
    float *output = gpu_allocate(COUNT * sizeof *output);
    for (unsigned i = 0; i < TURNS; i++)
        eager[i] = device_part(world.rank, 10 + i, COUNT);
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NCCL(ncclAllReduce(input, output, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
    const CUgraphExec exec = gpu_end_capture(world.stream);
    for (unsigned i = 0; i < TURNS; i++) {
        CUDA(cuGraphLaunch(exec, world.stream));
        NCCL(ncclAllReduce(eager[i], eager[i], COUNT, ncclFloat32, ncclSum, world.comm, second));
    }
    synchronize(&world);
    CUDA(cuStreamSynchronize(second));
    want_sum(output, world.ranks, 2, COUNT, "the graph's sum");
    for (unsigned i = 0; i < TURNS; i++)
        want_sum(eager[i], world.ranks, 10 + i, COUNT, "between the graph's launches");
    CUDA(cuGraphExecDestroy(exec));
    gpu_leave(&world);
}

/* Two captures with the same communicator are open at once, and a call is made that is not
 * captured. The calls are so large that each has several segments. */
static void case_graph_open(void)
{
    enum { LARGE = 5 << 20, GRAPHS = 2 };
    CUgraph graphs[GRAPHS];
    CUstream streams[GRAPHS + 1];
    float *data[GRAPHS + 1];
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "before the captures");
    for (unsigned i = 0; i <= GRAPHS; i++) {
        CUDA(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        data[i] = device_part(world.rank, 2 + i, LARGE);
    }
    for (unsigned i = 0; i < GRAPHS; i++)
        CUDA(cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i <= GRAPHS; i++)
        NCCL(ncclAllReduce(data[i], data[i], LARGE, ncclFloat32, ncclSum, world.comm, streams[i]));
    for (unsigned i = 0; i < GRAPHS; i++)
        CUDA(cuStreamEndCapture(streams[i], &graphs[i]));
    for (unsigned i = 0; i < GRAPHS; i++) {
        CUgraphExec exec;
        CUDA(cuGraphInstantiate(&exec, graphs[i], 0));
        CUDA(cuGraphDestroy(graphs[i]));
        CUDA(cuGraphLaunch(exec, streams[GRAPHS]));
        CUDA(cuStreamSynchronize(streams[GRAPHS]));
        CUDA(cuGraphExecDestroy(exec));
    }
    for (unsigned i = 0; i <= GRAPHS; i++)
        want_sum(data[i], world.ranks, 2 + i, LARGE, "during a capture");
    gpu_leave(&world);
}

/* While a stream is captured, another thread makes the first calls on its own communicator. They
 * must not break the capture, which forbids unsafe calls of CUDA on all threads. */
struct beside {
    ncclComm_t comm;
    CUstream stream;
    float *data[2];
};

static void *call_beside(void *argument)
{
    const struct beside *beside = argument;
    gpu_open(world.rank);
    for (int i = 0; i < 2; i++)
        NCCL(ncclAllReduce(beside->data[i], beside->data[i], COUNT, ncclFloat32, ncclSum,
                           beside->comm, beside->stream));
    return NULL;
}

static void case_graph_beside(void)
{
    struct beside beside;
    pthread_t thread;
    world = gpu_join();
    const ncclUniqueId id = gpu_share_id(world.rank, ".2");
    NCCL(ncclCommInitRank(&beside.comm, world.ranks, id, world.rank));
    CUDA(cuStreamCreate(&beside.stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 2; i++)
        beside.data[i] = device_part(world.rank, 10 + i, COUNT);
    reduce_on(&world, world.comm, 1, COUNT, "before the capture");
    float *data = device_part(world.rank, 2, COUNT);
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    pthread_create(&thread, NULL, call_beside, &beside);
    pthread_join(thread, NULL);
    NCCL(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
    const CUgraphExec exec = gpu_end_capture(world.stream);
    CUDA(cuStreamSynchronize(beside.stream));
    for (unsigned i = 0; i < 2; i++)
        want_sum(beside.data[i], world.ranks, 10 + i, COUNT, "during a capture by another thread");
    CUDA(cuGraphLaunch(exec, world.stream));
    synchronize(&world);
    want_sum(data, world.ranks, 2, COUNT, "the graph's sum");
    CUDA(cuGraphExecDestroy(exec));
    NCCL(ncclCommDestroy(beside.comm));
    gpu_leave(&world);
}

static void reduce_by_graph(ncclComm_t comm)
{
    float *input = device_part(world.rank, 2, COUNT);
    float *output = gpu_allocate(COUNT * sizeof *output);
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NCCL(ncclAllReduce(input, output, COUNT, ncclFloat32, ncclSum, comm, world.stream));
    const CUgraphExec exec = gpu_end_capture(world.stream);
    CUDA(cuGraphLaunch(exec, world.stream));
    synchronize(&world);
    want_sum(output, world.ranks, 2, COUNT, "the graph's sum");
    CUDA(cuGraphExecDestroy(exec));
    gpu_free(input);
    gpu_free(output);
}

/* A call captured before the first compressed call is passed through, with the right result. */
static void case_graph_first(void)
{
    world = gpu_join();
    reduce_by_graph(world.comm);
    gpu_leave(&world);
}

/* A graph acquires the workspace of a destroyed communicator. */
static void case_graph_spare(void)
{
    ncclComm_t child;
    world = gpu_join();
    reduce_on(&world, world.comm, 1, COUNT, "a communicator");
    NCCL(ncclCommSplit(world.comm, 0, world.rank, &child, NULL));
    reduce_on(&world, child, 3, COUNT, "a child communicator");
    NCCL(ncclCommDestroy(child));
    reduce_by_graph(world.comm);
    gpu_leave(&world);
}

/* A barrier of all ranks. Its memory is kept, so that only the first call allocates. */
static void all_ranks_barrier(void)
{
    static int32_t *word;
    if (word == NULL) {
        word = gpu_allocate(sizeof *word);
        gpu_write(word, &(int32_t){0}, sizeof *word);
    }
    NCCL(ncclAllReduce(word, word, 1, ncclInt32, ncclSum, world.comm, world.stream));
    synchronize(&world);
}

/* Returns the free memory of the device. Ranks may share the device, so barriers ensure that none
 * of them allocates or frees memory while another one asks. */
static size_t memory_left(void)
{
    size_t left, total;
    all_ranks_barrier();
    CUDA(cuMemGetInfo(&left, &total));
    all_ranks_barrier();
    return left;
}

/* Returns the maximum number of ranks that share a device: gpu_join assigns devices cyclically. */
static size_t ranks_per_device(void)
{
    int devices;
    CUDA(cuDeviceGetCount(&devices));
    return (size_t)((world.ranks + devices - 1) / devices);
}

enum { CALLS = 100, MORE = 40009 };

/* Returns the element count of call i of CALLS; if `grows`, each has MORE elements more than the
 * previous one. */
static size_t count_of_call(size_t i, bool grows)
{
    return grows ? i * MORE : COUNT;
}

static CUgraph capture_many(const float *input, float *output, bool grows)
{
    CUgraph graph;
    CUDA(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (size_t i = 1; i <= CALLS; i++)
        NCCL(ncclAllReduce(input, output, count_of_call(i, grows), ncclFloat32, ncclSum, world.comm,
                           world.stream));
    CUDA(cuStreamEndCapture(world.stream, &graph));
    return graph;
}

/* Returns the maximum bytes that a graph of CALLS calls may hold for messages on a rank: by
 * two_shot three messages for each rank, and one more; if the calls grow, twice the 64 MiB of a
 * workspace. */
static size_t messages_bytes(bool grows)
{
    const size_t chunk = (COUNT / (size_t)world.ranks + 256) / 256 * 256;
    const size_t message = 32 + chunk * sizeof(float);
    return grows ? (size_t)128 << 20 : (3 * (size_t)world.ranks + 1) * message;
}

/* Captures the calls, and checks how much of the device's memory a rank's graph holds. A real
 * driver and NCCL hold some memory of each graph for themselves, and the driver allocates in steps
 * of 2 MiB: GRAPH_OWN_BYTES is the limit of that on a rank; the default is 0, as for the stand-in.
 */
static CUgraph capture_measured(const float *input, float *output, bool grows)
{
    const size_t most = messages_bytes(grows) + (size_t)gpu_setting("GRAPH_OWN_BYTES", 0);
    const size_t before = memory_left();
    const CUgraph graph = capture_many(input, output, grows);
    const size_t behind = memory_left();
    const size_t kept = (before > behind ? before - behind : 0) / ranks_per_device();
    fprintf(stderr, "rank %d: a graph of %d calls keeps %zu bytes\n", world.rank, CALLS, kept);
    WANT(kept <= most, "the graph keeps %zu bytes, and may keep %zu", kept, most);
    return graph;
}

/* The calls of a graph run one after the other, so a graph of a hundred equal calls holds no more
 * memory than one call needs. If the calls grow, it holds at most two workspaces. The policy must
 * be raw by two_shot. */
static void case_graph_hundred(void)
{
    world = gpu_join();
    float *data = device_part(world.rank, 1, CALLS * MORE);
    float *output = gpu_allocate(CALLS * MORE * sizeof *output);
    NCCL(ncclAllReduce(data, output, COUNT, ncclFloat32, ncclSum, world.comm, world.stream));
    for (int grows = 0; grows < 2; grows++) {
        CUgraphExec exec;
        const CUgraph graph = capture_measured(data, output, grows);
        CUDA(cuGraphInstantiate(&exec, graph, 0));
        CUDA(cuGraphLaunch(exec, world.stream));
        synchronize(&world);
        want_sum(output, world.ranks, 1, count_of_call(CALLS, grows), "a graph of many calls");
        CUDA(cuGraphExecDestroy(exec));
        CUDA(cuGraphDestroy(graph));
    }
    gpu_leave(&world);
}

/* Under this test's policy, only large calls send point-to-point messages. The first ones must not
 * be sent in a capture, because NCCL would have to connect the ranks. */
static void case_graph_connects(void)
{
    world = gpu_join();
    float *data = device_part(world.rank, 1, COUNT);
    NCCL(ncclAllReduce(data, data, 1000, ncclFloat32, ncclSum, world.comm, world.stream));
    synchronize(&world);
    want_sum(data, world.ranks, 1, 1000, "a small call");
    reduce_by_graph(world.comm);
    reduce_on(&world, world.comm, 2, COUNT, "large calls");
    reduce_by_graph(world.comm);
    gpu_leave(&world);
}

static const struct gpu_case cases[] = {
    CASE(graph),         CASE(moves),          CASE(graph_streams),
    CASE(graph_beside),  CASE(graph_first),    CASE(graph_spare),
    CASE(graph_hundred), CASE(graph_connects), CASE(graph_open),
};

int main(int argc, char **argv)
{
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
