/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/observe.h"

#include <stdio.h>
#include <stdlib.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"

/* From this size on, a barrier before each call separates the time that a rank waits for others
 * from the time of the call. A smaller call may take no longer than a barrier. */
#define TOGETHER_BYTES ((uint64_t)32 << 10)

#define PROBE_SMALL ((uint64_t)64 << 10)
#define PROBE_LARGE ((uint64_t)4 << 20)
#define PROBE_REPEATS 3
#define PROBE_SECONDS 2.0 /* no further codec is measured after this time */

void cshim_observe_setup(void)
{
    int observe = cshim_job.rank == 0 && cshim_mode() == CSHIM_MODE_OBSERVE;
    cshim_mpi.real->MPI_Bcast(&observe, 1, MPI_INT, 0, cshim_mpi.world.comm);
    if (!observe)
        return;
    cshim_job.observed = malloc(sizeof *cshim_job.observed);
    if (cshim_job.observed == NULL) /* the other ranks would wait for this rank before a call */
        cshim_mpi_end_job("no memory to observe the calls");
    cshim_observed_init(cshim_job.observed);
}

void cshim_observe_begin(struct cshim_observation *observation, const struct cshim_call *call,
                         MPI_Comm comm, enum cshim_reason reason)
{
    cshim_observation_begin(observation, &cshim_job, call, cshim_rank_in(comm), reason);
    if (cshim_job.observed == NULL || call->ranks == 1 || call->bytes < TOGETHER_BYTES)
        return;
    PMPI_Barrier(comm);
    const double together = cshim_seconds();
    observation->kind.seconds_wait = together - observation->began;
    observation->began = together;
}

/* State of the measurement. The buffers have PROBE_LARGE bytes each. */
struct measurement {
    struct cshim_comm *comm;
    float *input;
    float *output;
    double began;
};

/* Compares two doubles, for qsort(). */
static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the time of one exchange on the slowest rank in seconds, or -1 if it fails. */
static double time_exchange(const struct measurement *measurement, const struct cshim_plan *plan)
{
    const struct cshim_arguments arguments =
        cshim_arguments_of(CSHIM_ALLREDUCE, measurement->input, measurement->output,
                           (MPI_Count)plan->count, MPI_FLOAT, MPI_SUM, cshim_mpi.world.comm);
    struct cshim_exchange exchange = cshim_exchange_of(&arguments, plan, measurement->comm);
    double slowest = -1;
    exchange.sequence = ++measurement->comm->host.sequence;
    cshim_call_acquire_scratch(&exchange);
    PMPI_Barrier(cshim_mpi.world.comm);
    const double began = cshim_seconds();
    const int status = cshim_exchange_run(&exchange);
    const double own = cshim_seconds() - began;
    cshim_call_release_scratch(&exchange, status);
    if (status != MPI_SUCCESS ||
        cshim_mpi.real->MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX,
                                      cshim_mpi.world.comm) != MPI_SUCCESS)
        return -1;
    return slowest;
}

/* Measures one codec with one size. Returns false if nothing further is to be measured. */
static bool probe_size(const struct measurement *measurement, const struct cshim_policy *policy,
                       uint64_t bytes)
{
    struct cshim_observed *observed = cshim_job.observed;
    double seconds[PROBE_REPEATS];
    const struct cshim_call call = cshim_describe_sum(CSHIM_ALLREDUCE, CSHIM_FLOAT32, bytes);
    const struct cshim_plan plan = cshim_plan_call(policy, &call, bytes / sizeof(float));
    if (plan.reason != CSHIM_REASON_COMPRESS || observed->probe_count == CSHIM_PROBES_MAX ||
        (plan.schedule->staged && (cshim_comm_prepare_levels(measurement->comm) != MPI_SUCCESS ||
                                   measurement->comm->lacks_levels)))
        return false;
    for (unsigned i = 0; i < PROBE_REPEATS; i++) {
        seconds[i] = time_exchange(measurement, &plan);
        if (seconds[i] < 0)
            return false;
    }
    qsort(seconds, PROBE_REPEATS, sizeof *seconds, by_value);
    observed->probes[observed->probe_count++] = (struct cshim_probe){
        .codec = plan.codec,
        .algorithm = plan.algorithm,
        .bytes = bytes,
        .bytes_wire = plan.bytes_wire,
        .seconds = seconds[PROBE_REPEATS / 2],
    };
    return true;
}

/* Returns true on all ranks if rank 0 has time left to measure one more codec. */
static bool is_time_left(const struct measurement *measurement)
{
    int more = cshim_seconds() - measurement->began < PROBE_SECONDS;
    return cshim_mpi.real->MPI_Bcast(&more, 1, MPI_INT, 0, cshim_mpi.world.comm) == MPI_SUCCESS &&
           more;
}

/* Measures one codec with both sizes. Returns false if no further codec is to be measured. */
static bool probe_codec(const struct measurement *measurement, enum cshim_codec_id codec)
{
    char text[64], message[CSHIM_MESSAGE_MAX];
    const int length = snprintf(text, sizeof text, "[rule probe]\ncodec = %s\nworth = always\n",
                                cshim_codec_name(codec));
    struct cshim_policy *policy = cshim_policy_parse(text, (size_t)length, "probe", message);
    if (policy == NULL)
        return false;
    const bool measured = is_time_left(measurement) &&
                          probe_size(measurement, policy, PROBE_SMALL) &&
                          probe_size(measurement, policy, PROBE_LARGE);
    cshim_policy_free(policy);
    return measured;
}

/* Fills a buffer with pseudo-random elements from -1 to 1, different on each rank. */
static void fill_random(float *elements, size_t count)
{
    unsigned state = 12345u + (unsigned)cshim_job.rank;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        elements[i] = (float)(int)state * 0x1p-31f;
    }
}

/* Allocates the buffers and prepares the communicator. Returns the same value on all ranks. */
static bool prepare_measurement(struct measurement *measurement)
{
    measurement->input = malloc(PROBE_LARGE);
    measurement->output = malloc(PROBE_LARGE);
    int enough = measurement->input != NULL && measurement->output != NULL &&
                 cshim_comm_find(cshim_mpi.world.comm, &measurement->comm) == MPI_SUCCESS;
    int everywhere = 0;
    if (measurement->input != NULL)
        fill_random(measurement->input, PROBE_LARGE / sizeof(float));
    if (cshim_mpi.real->MPI_Allreduce(&enough, &everywhere, 1, MPI_INT, MPI_MIN,
                                      cshim_mpi.world.comm) != MPI_SUCCESS ||
        !everywhere || measurement->comm == NULL ||
        cshim_comm_prepare(cshim_mpi.world.comm, measurement->comm) != MPI_SUCCESS)
        return false;
    return measurement->comm->reason == CSHIM_REASON_COMPRESS;
}

void cshim_observe_probe(void)
{
    struct measurement measurement = {.began = cshim_seconds()};
    if (cshim_job.ranks == 1)
        return;
    bool goes_on = prepare_measurement(&measurement);
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; goes_on && codec < CSHIM_CODEC_COUNT; codec++)
        /* With float32, fp32 equals raw. A rule with bounded or topk needs further options. */
        if (codec != CSHIM_CODEC_FP32 && codec != CSHIM_CODEC_BOUNDED && codec != CSHIM_CODEC_TOPK)
            goes_on = probe_codec(&measurement, codec);
    free(measurement.input);
    free(measurement.output);
}

void cshim_count_pass(enum cshim_reason reason, MPI_Comm comm)
{
    if (reason == CSHIM_REASON_SINGLE_RANK || cshim_rank_in(comm) == 0)
        cshim_ledger_pass(&cshim_job.ledger, reason);
}

void cshim_count_weight(enum cshim_reason reason, const struct cshim_call *call, MPI_Comm comm)
{
    if (call->bytes >= CSHIM_WEIGHED_FROM && cshim_rank_in(comm) == 0)
        cshim_ledger_weigh(&cshim_job.ledger, reason, call);
}

void cshim_count_other(enum cshim_mpi_counted function, const void *buffer, cshim_count count,
                       MPI_Datatype datatype, MPI_Comm comm)
{
    int size = 0;
    if (comm == MPI_COMM_NULL || cshim_rank_in(comm) != 0)
        return;
    if (count > 0 && buffer != MPI_IN_PLACE && datatype != MPI_DATATYPE_NULL)
        PMPI_Type_size(datatype, &size);
    cshim_ledger_count(&cshim_job.ledger, function,
                       size > 0 ? (uint64_t)count * (uint64_t)size : 0);
}
