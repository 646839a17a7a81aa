/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the machine at the start of a job (shim/core/machine.h): read from a file, or
 * measured in a few milliseconds, and sent to all ranks by rank 0. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/core/machine.h"
#include "shim/mpi/job.h"

#define PINGS 12
#define TRAIN 4                /* messages on the way at once */
#define SHORT_BYTES 61440      /* the planner's largest message */
#define LONG_BYTES (512 << 10) /* one that waits for its receiver */
#define SMALL_MESSAGES 64
#define ENOUGH_SECONDS 3e-3              /* of one kind of exchange */
#define LONG_SECONDS 20e-3               /* on a slower link no long message is tried */
#define CODEC_ELEMENTS ((size_t)1 << 18) /* 1 MiB: about a segment */
#define CODEC_REPEATS 5

_Static_assert(LONG_BYTES / SHORT_BYTES >= TRAIN, "a train has room");

enum tag { TAG_PING = 1, TAG_TRAIN };

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Two ranks that measure the link between them. Both make the same calls; what they return counts
 * on the first. */
struct pair {
    int other;
    bool is_first;
    char *sent, *received; /* LONG_BYTES each, which is more than a train takes */
};

/* There and back. The first tells the other whether to go on. */
static int ping(const struct pair *pair, int go_on)
{
    if (pair->is_first)
        PMPI_Send(&go_on, 1, MPI_INT, pair->other, TAG_PING, cshim_mpi.world);
    PMPI_Recv(&go_on, 1, MPI_INT, pair->other, TAG_PING, cshim_mpi.world, MPI_STATUS_IGNORE);
    if (!pair->is_first)
        PMPI_Send(&go_on, 1, MPI_INT, pair->other, TAG_PING, cshim_mpi.world);
    return go_on;
}

static double measure_latency(const struct pair *pair)
{
    double least = 1;
    for (int i = 0; i < PINGS; i++) {
        const double began = cshim_seconds();
        ping(pair, 1);
        least = smaller(least, cshim_seconds() - began);
    }
    return least / 2;
}

/* Each of the two sends so many messages to the other. */
static void exchange(const struct pair *pair, int messages, int bytes)
{
    MPI_Request requests[2 * SMALL_MESSAGES];
    for (int i = 0; i < messages; i++)
        PMPI_Irecv(pair->received + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, pair->other,
                   TAG_TRAIN, cshim_mpi.world, &requests[i]);
    for (int i = 0; i < messages; i++)
        PMPI_Isend(pair->sent, bytes, MPI_BYTE, pair->other, TAG_TRAIN, cshim_mpi.world,
                   &requests[messages + i]);
    PMPI_Waitall(2 * messages, requests, MPI_STATUSES_IGNORE);
}

/* Seconds of one exchange: the mean of as many as the time allows, behind two that
 * find a link which has rested and may be faster. A sent message may still be on the way: the round
 * trip behind each exchange tells that it has come. */
static double repeat(const struct pair *pair, int messages, int bytes)
{
    for (int i = 0; i < 2; i++) {
        exchange(pair, messages, bytes);
        ping(pair, 1);
    }
    const double began = cshim_seconds();
    int count = 0;
    do {
        exchange(pair, messages, bytes);
        count++;
    } while (ping(pair, cshim_seconds() - began < ENOUGH_SECONDS));
    return (cshim_seconds() - began) / count;
}

static void measure_link(const struct pair *pair, double *latency, double *bandwidth,
                         double *bandwidth_long, double *message)
{
    *latency = measure_latency(pair);
    *message = repeat(pair, SMALL_MESSAGES, 8) / SMALL_MESSAGES;
    *bandwidth = TRAIN * SHORT_BYTES / repeat(pair, TRAIN, SHORT_BYTES);
    if (bandwidth_long != NULL && ping(pair, LONG_BYTES / *bandwidth < LONG_SECONDS))
        *bandwidth_long = LONG_BYTES / repeat(pair, 1, LONG_BYTES);
}

/* Has `first` and `second` measure the link between them, if this is one of them. */
static void measure_between(int first, int second, double *latency, double *bandwidth,
                            double *bandwidth_long, double *message)
{
    const int rank = cshim_job.rank;
    if (rank != first && rank != second)
        return;
    char *memory = calloc(2, LONG_BYTES);
    if (memory == NULL)
        cshim_mpi_end_job("no memory to measure the machine");
    const struct pair pair = {.other = rank == first ? second : first,
                              .is_first = rank == first,
                              .sent = memory,
                              .received = memory + LONG_BYTES};
    measure_link(&pair, latency, bandwidth, bandwidth_long, message);
    free(memory);
}

/* Bytes of float32 per second. */
static double speed(double seconds)
{
    return CODEC_ELEMENTS * sizeof(float) / seconds;
}

static void measure_codec(struct cshim_machine *machine, enum cshim_codec_id codec, float *elements,
                          void *encoded)
{
    double encode = 1, decode = 1, add = 1;
    for (int i = 0; i < CODEC_REPEATS; i++) {
        const double began = cshim_seconds();
        cshim_encode(codec, CSHIM_FLOAT32, elements, CODEC_ELEMENTS, encoded);
        const double middle = cshim_seconds();
        cshim_decode(codec, CSHIM_FLOAT32, encoded, CODEC_ELEMENTS, elements);
        const double end = cshim_seconds();
        cshim_add(CSHIM_FLOAT32, encoded, elements, elements, CODEC_ELEMENTS);
        encode = smaller(encode, middle - began);
        decode = smaller(decode, end - middle);
        add = smaller(add, cshim_seconds() - end);
    }
    machine->encode[codec] = speed(encode);
    machine->decode[codec] = speed(decode);
    machine->add = speed(add);
}

/* Measures the codecs that the policy has. */
static void measure_codecs(struct cshim_machine *machine)
{
    const struct cshim_policy *policy = cshim_job.policy;
    float *elements = calloc(2 * CODEC_ELEMENTS, sizeof *elements);
    if (elements == NULL)
        return; /* nothing is foretold then */
    for (size_t i = 0; i < policy->rule_count; i++) {
        const enum cshim_codec_id codec = policy->rules[i].codec;
        for (size_t k = 0; k < CODEC_ELEMENTS; k++)
            elements[k] = (float)(k % 251) - 125;
        if (codec != CSHIM_CODEC_NONE && machine->encode[codec] == 0)
            measure_codec(machine, codec, elements, elements + CODEC_ELEMENTS);
    }
    free(elements);
}

/* The fewest cores that any rank has. Collective. */
static double count_cores(void)
{
    cpu_set_t set;
    const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    const double own = (double)cores / cshim_mpi.layout.local_ranks;
    double fewest = own;
    cshim_mpi.real->MPI_Allreduce(&own, &fewest, 1, MPI_DOUBLE, MPI_MIN, cshim_mpi.world);
    return fewest;
}

/* Finds the first rank that is on another node than rank 0, and the first two that share one; -1
 * where there is none. */
static void find_pairs(int *elsewhere, int inside[2])
{
    const int *node_of = cshim_mpi.layout.node_of;
    *elsewhere = inside[0] = inside[1] = -1;
    int *first_of = calloc(cshim_mpi.layout.nodes, sizeof *first_of); /* its number, from 1 */
    if (first_of == NULL)
        cshim_mpi_end_job("no memory for the nodes of the ranks");
    for (int rank = 0; rank < cshim_job.ranks; rank++) {
        int *first = &first_of[node_of[rank]];
        if (*elsewhere < 0 && node_of[rank] != node_of[0])
            *elsewhere = rank;
        if (inside[1] < 0 && *first > 0) {
            inside[0] = *first - 1;
            inside[1] = rank;
        }
        if (*first == 0)
            *first = rank + 1;
    }
    free(first_of);
}

static enum cshim_native find_native(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(version, &length);
    return strncmp(version, "Open MPI", 8) == 0 ? CSHIM_NATIVE_OPENMPI : CSHIM_NATIVE_MPICH;
}

/* Collective. What is inside a node is measured by the two ranks there, and told by the first. */
static void measure(struct cshim_machine *machine)
{
    int elsewhere, pair[2];
    double inside[2] = {0, 0}, ignored;
    *machine = (struct cshim_machine){.source = "measured", .native = find_native()};
    find_pairs(&elsewhere, pair);
    measure_between(0, elsewhere, &machine->latency_between, &machine->bandwidth_between,
                    &machine->bandwidth_long, &machine->message);
    if (pair[1] >= 0) {
        measure_between(pair[0], pair[1], &inside[0], &inside[1], NULL, &ignored);
        cshim_mpi.real->MPI_Bcast(inside, 2, MPI_DOUBLE, pair[0], cshim_mpi.world);
    }
    machine->latency_inside = inside[0];
    machine->bandwidth_inside = inside[1];
    machine->cores = count_cores();
    if (cshim_job.rank == 0)
        measure_codecs(machine);
}

/* Whether the policy may compress what goes from node to node. */
static bool is_needed(void)
{
    const struct cshim_policy *policy = cshim_job.policy;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        if (rule->codec != CSHIM_CODEC_NONE && (rule->libraries >> CSHIM_MPI & 1) != 0 &&
            rule->max_nodes > 1)
            return cshim_mpi.layout.nodes > 1;
    }
    return false;
}

void cshim_machine_setup(void)
{
    static struct cshim_machine machine;
    enum { NONE, NAMED, MEASURED } origin = NONE;
    char message[CSHIM_MESSAGE_MAX];
    if (cshim_job.rank == 0) {
        const char *file = secure_getenv("COMPSHIM_MACHINE");
        if (file == NULL || *file == '\0')
            origin = is_needed() && cshim_mode() != CSHIM_MODE_OBSERVE ? MEASURED : NONE;
        else if (strcmp(file, "off") != 0) {
            origin = NAMED;
            if (!cshim_machine_load(&machine, file, message))
                cshim_mpi_end_job(message);
        }
    }
    cshim_mpi.real->MPI_Bcast(&origin, (int)sizeof origin, MPI_BYTE, 0, cshim_mpi.world);
    if (origin == NONE)
        return;
    const double began = cshim_seconds();
    if (origin == MEASURED)
        measure(&machine);
    if (origin == MEASURED && cshim_job.rank == 0)
        cshim_log(CSHIM_LOG_INFO, "the links and codecs are measured, in %.1f ms",
                  (cshim_seconds() - began) * 1e3);
    cshim_mpi.real->MPI_Bcast(&machine, (int)sizeof machine, MPI_BYTE, 0, cshim_mpi.world);
    cshim_mpi.machine = &machine;
}
