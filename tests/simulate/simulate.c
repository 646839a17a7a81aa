/* SPDX-License-Identifier: Apache-2.0 */
/* Times all-reduces on a simulated machine: a program for SimGrid's SMPI that contains the MPI
 * engine.
 *
 *   smpirun ... simulate native|engine BYTES...
 *
 * For each size rank 0 prints one line: bytes, the simulated seconds of the slowest rank in a call,
 * the maximum and the mean bytes that a node's link sent in it, and with the engine its codec and
 * algorithm, or "native native". If the rule says `worth = measured`, the timed call comes after
 * the ranks have learned the fastest candidate.
 *
 * SMPI runs all ranks in one process, each with its own globals. The engine is complete, from the
 * agreement to the report. This file replaces the front.
 *
 * Simulated time passes for messages, by SMPI's network, and for the processor work charged here:
 * SIMULATE_SPEEDS has the float32 bytes per second at which a core encodes, decodes, adds one
 * encoded contribution to a sum, and adds natively. With SIMULATE_DATA=no nothing is computed and
 * headers are not compared, so large buffers may share their memory
 * (smpi/auto-shared-malloc-thresh). */
#include <mpi.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/plugins/load.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "codecs/codec.h"
#include "shim/core/header.h"
#include "shim/report/classes.h"
#include "shim/mpi/communicator.h"
#include "shim/mpi/describe.h"
#include "shim/mpi/announce.h"

extern const struct cshim_mpi_engine cshim_mpi_engine;

static bool computes;
static double encode_speed, decode_speed, part_speed, add_speed;

/* Processor work ------------------------------------------------------------------------------ */

/* The linker makes the engine call __wrap_X instead of X (-Wl,--wrap=X). */

static void charge(size_t elements, double per_second)
{
    smpi_execute((double)elements * sizeof(float) / per_second);
}

void __real_cshim_encode_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                              size_t count, const struct cshim_encoding *encoding, void *encoded);
void __wrap_cshim_encode_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                              size_t count, const struct cshim_encoding *encoding, void *encoded)
{
    charge(count, encode_speed);
    if (computes)
        __real_cshim_encode_with(id, dtype, input, count, encoding, encoded);
}

void __wrap_cshim_encode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                         size_t count, void *encoded)
{
    __wrap_cshim_encode_with(id, dtype, input, count, NULL, encoded);
}

void __real_cshim_decode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *encoded,
                         size_t count, void *output);
void __wrap_cshim_decode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *encoded,
                         size_t count, void *output)
{
    charge(count, decode_speed);
    if (computes)
        __real_cshim_decode(id, dtype, encoded, count, output);
}

void __real_cshim_reduce_with(enum cshim_codec_id id, enum cshim_dtype dtype,
                              const void *const *parts, unsigned ranks, size_t count, void *output,
                              void *reencoded, const struct cshim_encoding *encoding);
void __wrap_cshim_reduce_with(enum cshim_codec_id id, enum cshim_dtype dtype,
                              const void *const *parts, unsigned ranks, size_t count, void *output,
                              void *reencoded, const struct cshim_encoding *encoding)
{
    charge(ranks * count, part_speed);
    if (reencoded != NULL)
        charge(count, encode_speed);
    if (computes)
        __real_cshim_reduce_with(id, dtype, parts, ranks, count, output, reencoded, encoding);
}

void __wrap_cshim_reduce(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                         unsigned ranks, size_t count, void *output, void *reencoded)
{
    __wrap_cshim_reduce_with(id, dtype, parts, ranks, count, output, reencoded, NULL);
}

void __real_cshim_add(enum cshim_dtype dtype, void *output, const void *a, const void *b,
                      size_t count);
void __wrap_cshim_add(enum cshim_dtype dtype, void *output, const void *a, const void *b,
                      size_t count)
{
    charge(count, add_speed);
    if (computes)
        __real_cshim_add(dtype, output, a, b, count);
}

bool __real_cshim_header_check(const struct cshim_header *want, const uint8_t *message,
                               float *error, char text[CSHIM_MISMATCH_MAX]);
bool __wrap_cshim_header_check(const struct cshim_header *want, const uint8_t *message,
                               float *error, char text[CSHIM_MISMATCH_MAX])
{
    *error = 0;
    return !computes || __real_cshim_header_check(want, message, error, text);
}

/* Differences of SMPI -----------------------------------------------------------------------------
 */

/* Allocates the scratch by malloc, because SMPI does not see mmap. */
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    (void)address, (void)protection, (void)flags, (void)file, (void)offset;
    return malloc(bytes);
}

/* Fails, so that ranks send messages within a node, too: SMPI's ranks are in one process. */
int __wrap_shmget(key_t key, size_t size, int flags)
{
    (void)key, (void)size, (void)flags;
    return -1;
}

/* SMPI 3.32 does not set the flag for MPI_REQUEST_NULL if the status is ignored. */
int __real_PMPI_Test(MPI_Request *request, int *done, MPI_Status *status);
int __wrap_PMPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    *done = 1;
    return __real_PMPI_Test(request, done, status);
}

/* SMPI 3.32 ends the simulation in a reduce of one rank. Without a communicator of one rank, the
 * engine does not ask the library which buffers it accepts. */
int __real_PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made);
int __wrap_PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
    return comm == MPI_COMM_SELF ? MPI_ERR_COMM : __real_PMPI_Comm_create(comm, group, made);
}

/* Replaces announce.c, because SMPI has no published names. */
bool cshim_announce(void)
{
    return false;
}

bool cshim_announced(int rank)
{
    (void)rank;
    return false;
}

bool cshim_await_announcement(int rank, double deadline)
{
    (void)rank, (void)deadline;
    return false;
}

/* MPI library calls; the additions of an all-reduce take simulated time ------------------------
 */

static MPI_Op timed_sum;

static void add(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    __wrap_cshim_add(CSHIM_FLOAT32, inout, in, inout, (size_t)*count);
}

static MPI_Op timed(MPI_Datatype datatype, MPI_Op op)
{
    return datatype == MPI_FLOAT && op == MPI_SUM ? timed_sum : op;
}

static int allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                     MPI_Op op, MPI_Comm comm)
{
    return MPI_Allreduce(sendbuf, recvbuf, count, datatype, timed(datatype, op), comm);
}

static const struct cshim_mpi_real real = {
    .MPI_Allreduce = allreduce,
    .MPI_Alltoallv = MPI_Alltoallv,
    .MPI_Allgather = MPI_Allgather,
    .MPI_Allgatherv = MPI_Allgatherv,
    .MPI_Bcast = MPI_Bcast,
    .MPI_Reduce = MPI_Reduce,
    .MPI_Request_free = MPI_Request_free,
};

/* Measurement ------------------------------------------------------------------------------------
 */

/* Returns an element of a rank's input. Sums are integers. */
static float element(int rank, size_t i)
{
    return (float)((i + (size_t)rank) % 7);
}

static void check(const float *output, size_t count, int ranks)
{
    for (size_t i = 0; i < count; i += count / 5 + 1) {
        float sum = 0;
        for (int rank = 0; rank < ranks; rank++)
            sum += element(rank, i);
        if (output[i] < 0.8f * sum || output[i] > 1.2f * sum) {
            fprintf(stderr, "simulate: element %zu is %g, not %g\n", i, (double)output[i],
                    (double)sum);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static double slowest(double own)
{
    double seconds;
    MPI_Allreduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

/* The links by which the nodes send. SimGrid numbers a fat tree's nodes before its switches. */
static sg_link_t *links;
static int nodes;

static void find_links(void)
{
    int node;
    char end[8];
    sg_link_t *all = sg_link_list();
    nodes = (int)sg_host_count();
    links = calloc((size_t)nodes, sizeof(sg_link_t));
    for (size_t i = 0; i < sg_link_count(); i++)
        if (sscanf(sg_link_get_name(all[i]), "link_from_%d_%*d_%*d_%7s", &node, end) == 2 &&
            node < nodes && strcmp(end, "UP") == 0) {
            links[node] = all[i];
            sg_link_load_track(all[i]);
        }
    free(all);
}

static void reset_links(void)
{
    for (int node = 0; node < nodes; node++)
        sg_link_load_reset(links[node]);
}

static void read_links(double *most, double *mean)
{
    *most = *mean = 0;
    for (int node = 0; node < nodes; node++) {
        const double bytes = sg_link_get_cum_load(links[node]);
        *most = bytes > *most ? bytes : *most;
        *mean += bytes / nodes;
    }
}

static double time_call(bool compressed, const float *input, float *output, size_t count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (links != NULL)
        reset_links();
    const double began = MPI_Wtime();
    if (compressed)
        cshim_mpi_engine.functions.MPI_Allreduce(input, output, (int)count, MPI_FLOAT, MPI_SUM,
                                                 MPI_COMM_WORLD);
    else
        allreduce(input, output, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return slowest(MPI_Wtime() - began);
}

static struct cshim_comm *world(void)
{
    struct cshim_comm *state;
    cshim_comm_find(MPI_COMM_WORLD, &state);
    return state;
}

/* Prepares the communicator as its first compressed call would, so that this is not timed. */
static void prepare(void)
{
    struct cshim_comm *state = world();
    cshim_comm_prepare(MPI_COMM_WORLD, state);
    cshim_comm_prepare_levels(state);
    /* A program's first calls are sampled. The timed ones must not be. */
    for (size_t i = 0; i < cshim_job.policy->rule_count; i++)
        state->host.calls_by_rule[i] = CSHIM_SAMPLES_AT_FIRST + 1;
}

/* Returns the class of the last size, or NULL if the rule does not measure. All ranks get the same.
 */
static const struct cshim_class *last_class(void)
{
    const struct cshim_class *classes = world()->host.classes, *last = NULL;
    for (unsigned i = 0; classes != NULL && i < CSHIM_CLASSES_MAX; i++)
        if (classes[i].rule != NULL)
            last = &classes[i];
    return last;
}

/* Makes calls until the ranks have learned the fastest candidate. */
static void learn(const float *input, float *output, size_t count)
{
    if (world()->host.classes == NULL)
        return;
    do
        time_call(true, input, output, count);
    while (last_class()->choice.phase != CSHIM_CHOICE_SETTLED);
}

/* Prints how the engine makes the call. */
static void print_choice(const float *input, float *output, uint64_t count)
{
    struct cshim_call facts;
    const struct cshim_class *class = last_class();
    const struct cshim_arguments arguments = cshim_arguments_of(
        CSHIM_ALLREDUCE, input, output, (MPI_Count)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    cshim_describe_call(&arguments, &facts, &count);
    const struct cshim_plan plan = cshim_plan_call(cshim_job.policy, &facts, count);
    const unsigned best = class != NULL ? class->choice.best : CSHIM_CANDIDATE_NATIVE;
    if (class == NULL)
        printf(" %s %s", cshim_codec_name(plan.codec), cshim_algorithm_name(plan.algorithm));
    else if (best == CSHIM_CANDIDATE_NATIVE)
        printf(" native native");
    else
        printf(" %s %s", cshim_codec_name(class->codecs[best]),
               cshim_algorithm_name(class->algorithms[best]));
}

static void measure(bool compressed, size_t bytes, int rank, int ranks)
{
    const size_t count = bytes / sizeof(float);
    float *input = malloc(bytes), *output = malloc(bytes);
    double most, mean;
    for (size_t i = 0; computes && i < count; i++)
        input[i] = element(rank, i);
    if (compressed)
        learn(input, output, count);
    const double seconds = time_call(compressed, input, output, count);
    if (computes)
        check(output, count, ranks);
    if (rank == 0) {
        read_links(&most, &mean);
        printf("%zu %.9f %.0f %.0f", bytes, seconds, most, mean);
        if (compressed)
            print_choice(input, output, count);
        printf("\n");
        fflush(stdout);
    }
    free(input);
    free(output);
}

/* SMPI looks main up by name. */
__attribute__((visibility("default"))) int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *speeds = getenv("SIMULATE_SPEEDS"), *data = getenv("SIMULATE_DATA");
    computes = data == NULL || strcmp(data, "no") != 0;
    if (argc < 3 || speeds == NULL ||
        sscanf(speeds, "%lf %lf %lf %lf", &encode_speed, &decode_speed, &part_speed, &add_speed) !=
            4) {
        fprintf(stderr, "simulate: arguments or SIMULATE_SPEEDS are wrong\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Op_create(add, 1, &timed_sum);
    const bool compressed = strcmp(argv[1], "engine") == 0;
    if (compressed && cshim_mpi_engine.start(&real, NULL) != 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (compressed)
        prepare();
    if (rank == 0)
        find_links();
    for (int i = 2; i < argc; i++)
        measure(compressed, strtoull(argv[i], NULL, 10), rank, ranks);
    if (compressed)
        cshim_mpi_engine.finalize();
    MPI_Op_free(&timed_sum);
    free(links);
    MPI_Finalize();
    return 0;
}
