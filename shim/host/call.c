/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a compressed call with its samples, checks and figures. */
#include "shim/host/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/arithmetic.h"
#include "codecs/floats.h"
#include "codecs/hash.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/feedback.h"
#include "shim/host/scratch.h"

void cshim_call_trace(const struct cshim_exchange *exchange, double began, double seconds)
{
    const struct cshim_plan *plan = exchange->plan;
    const struct cshim_job *job = exchange->communicator->job;
    if (job->trace == NULL)
        return;
    cshim_trace_add(job->trace,
                    (struct cshim_trace_event){
                        .begin = began,
                        .seconds = seconds,
                        .bytes = plan->count * exchange->element_bytes,
                        .call = exchange->sequence,
                        .rule = (uint16_t)cshim_rule_index(job->policy, plan->rule),
                        .kind = exchange->nonblocking ? CSHIM_TRACE_PENDING : CSHIM_TRACE_CALL,
                        .collective = (uint8_t)plan->collective,
                        .codec = (uint8_t)plan->codec,
                        .algorithm = (uint8_t)plan->algorithm,
                    });
}

int cshim_call_acquire_scratch(const struct cshim_exchange *exchange)
{
    struct cshim_communicator *communicator = exchange->communicator;
    communicator->scratch = cshim_scratch_acquire();
    return communicator->scratch != NULL
               ? 0
               : communicator->transport->abort(
                     exchange, "no memory for the scratch of another call under way");
}

void cshim_call_release_scratch(const struct cshim_exchange *exchange, int status)
{
    if (exchange->residual != NULL)
        cshim_residual_release(exchange->residual);
    if (status == 0)
        cshim_scratch_release(exchange->communicator->scratch);
    exchange->communicator->scratch = NULL;
}

void cshim_call_set_options(struct cshim_exchange *exchange)
{
    const struct cshim_rule *rule = exchange->plan->rule;
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_job *job = communicator->job;
    /* All processes have job rank 0 if no launcher has numbered them. So the key contains the job's
     * rank and the communicator's: the latter XOR the former, which is 0 on the world. */
    const uint64_t others = (uint64_t)(uint32_t)(communicator->rank ^ job->rank) << 32;
    exchange->has_options = rule->error_feedback || rule->stochastic || exchange->plan->step > 0;
    exchange->residual = rule->error_feedback ? cshim_feedback_acquire(exchange) : NULL;
    for (unsigned kind = 0; kind < CSHIM_MESSAGES; kind++)
        exchange->keys[kind] =
            cshim_message_key(job->policy->seed, communicator->number + others, (uint32_t)job->rank,
                              exchange->sequence, (enum cshim_message)kind);
    exchange->error =
        rule->max_rel_error > 0
            ? cshim_tolerance_measure(exchange->plan, exchange->input, exchange->source.length)
            : 0;
}

/* Sets exchange->error to the largest encoding error of any rank, on all ranks. Does nothing if all
 * ranks get the same result by a schedule without a stage: then each rank has received all errors
 * in headers. Otherwise makes an all-reduce with the maximum: in a staged schedule, a rank receives
 * headers from no ranks but those with its local index; in a reduce, reduce_scatter or all-to-all,
 * it may receive none from some of the others. Returns 0 or a transport error. */
static int share_error(struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    uint64_t own = cshim_float_bits(exchange->error), largest = 0;
    if (cshim_shapes[plan->collective].is_shared && !plan->schedule->staged)
        return 0;
    const int status = exchange->communicator->transport->maximum(exchange, &own, &largest, 1);
    if (status == 0)
        exchange->error = cshim_bits_float((uint32_t)largest);
    return status;
}

/* Gives later calls with this rule, type and count a more precise codec, if the error of any rank's
 * encoding is above max_rel_error and there is one. Returns 0 or a transport error. */
static int check_tolerance(struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_communicator *comm = exchange->communicator;
    const size_t rule = cshim_rule_index(comm->job->policy, plan->rule);
    if (plan->rule->max_rel_error <= 0)
        return 0;
    const int status = share_error(exchange);
    if (status != 0 || (double)exchange->error <= plan->rule->max_rel_error ||
        cshim_codec_is_exact(plan->codec))
        return status;
    const enum cshim_codec_id next = cshim_tolerance_change(&comm->tolerance, rule, plan);
    if (comm->rank != 0)
        return status;
    cshim_log(CSHIM_LOG_INFO,
              "rule '%s': %llu x %s are encoded as %s after call %u: %s has an error of %.2g, "
              "max_rel_error is "
              "%.2g",
              plan->rule->name, (unsigned long long)plan->count, cshim_dtype_name(plan->dtype),
              cshim_codec_name(next), exchange->sequence, cshim_codec_name(plan->codec),
              (double)exchange->error, plan->rule->max_rel_error);
    cshim_ledger_add_change(&comm->job->ledger, plan, next, exchange->sequence, exchange->error);
    return status;
}

/* Returns the bytes that a rank sends in the native all-reduce that verifies the call, if that is a
 * ring. */
static uint64_t verify_bytes(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    return 2 * (plan->count * exchange->element_bytes / plan->ranks) * (plan->ranks - 1);
}

/* If nobody collects the ranks' figures (job->is_local), rank 0 counts the bytes of all ranks. */
void cshim_call_count(struct cshim_exchange *exchange, double seconds)
{
    struct cshim_row *figures = &exchange->figures;
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_job *job = exchange->communicator->job;
    const bool is_first = exchange->communicator->rank == 0;
    if (job->is_local && !is_first)
        return;
    figures->bytes_native = plan->bytes_native / plan->ranks;
    if (is_first)
        figures->bytes_native += plan->bytes_native % plan->ranks;
    /* If the blocks of an all-to-all differ, plan->block is only the largest. */
    if (plan->collective == CSHIM_ALLTOALL) {
        const uint64_t *begins = exchange->communicator->sent_begins;
        const int rank = exchange->communicator->rank;
        figures->bytes_native =
            (exchange->source.length - (begins[rank + 1] - begins[rank])) * exchange->element_bytes;
    }
    if (is_first) {
        figures->calls = 1;
        figures->bytes_in = plan->count * exchange->element_bytes;
        figures->seconds = seconds;
    } else {
        memset(figures->seconds_of, 0, sizeof figures->seconds_of);
    }
    if (job->is_local) {
        /* With a codec whose messages vary in length, rank 0's bytes stand for those of every rank.
         */
        const bool varies =
            cshim_codec_is_packed(plan->codec) || cshim_codec_is_packed(plan->gather_codec);
        const uint64_t verifying = figures->verified ? verify_bytes(exchange) * plan->ranks : 0;
        figures->bytes_wire =
            varies ? figures->bytes_wire * plan->ranks : plan->bytes_wire + verifying;
        figures->bytes_network =
            varies ? figures->bytes_network * plan->ranks : plan->bytes_network;
        figures->bytes_native = plan->bytes_native;
        cshim_job_touch(job);
    }
    cshim_ledger_add(&job->ledger, plan, figures);
}

/* Sampled errors ---------------------------------------------------------------------------------
 *
 * In a few calls, a few elements are also summed in float64 and compared with the compressed
 * result. */

/* Returns the rank whose block is sampled: the call's number modulo the number of ranks. In an
 * all-to-all that rank compares what it sends to itself. There it is rank 0, if only rank 0's
 * figures are reported (job->is_local). */
static uint32_t choose_block(const struct cshim_exchange *exchange, uint32_t call)
{
    const struct cshim_plan *plan = exchange->plan;
    const bool is_local = exchange->communicator->job->is_local;
    return is_local && plan->collective == CSHIM_ALLTOALL ? 0 : call % plan->ranks;
}

/* Returns the range of elements to sample from, and sets the rank that compares them. */
static struct cshim_range choose_range(struct cshim_sample *sample,
                                       const struct cshim_exchange *exchange, uint32_t call)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t *begins = exchange->communicator->block_begins;
    const uint32_t block = choose_block(exchange, call);
    sample->comparing_rank = plan->collective == CSHIM_REDUCE ? (int)plan->root : 0;
    if (plan->schedule->division != CSHIM_BLOCKS)
        return (struct cshim_range){0, plan->count};
    if (plan->collective != CSHIM_ALLGATHER)
        sample->comparing_rank = (int)block;
    return (struct cshim_range){begins[block], begins[block + 1] - begins[block]};
}

void cshim_call_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                             uint32_t call)
{
    sample->taken = cshim_is_sampled(call);
    if (!sample->taken)
        return;
    const struct cshim_range range = choose_range(sample, exchange, call);
    /* Blocks of an all-to-all may differ between ranks: the only length that all ranks know is the
     * largest. */
    const struct cshim_plan *plan = exchange->plan;
    const bool is_alltoall = plan->collective == CSHIM_ALLTOALL;
    const uint64_t most = is_alltoall ? plan->block : range.length;
    sample->length = most < CSHIM_SAMPLE_MAX ? (uint32_t)most : CSHIM_SAMPLE_MAX;
    sample->available = range.length < sample->length ? (uint32_t)range.length : sample->length;
    sample->first = range.begin + cshim_sample_place(range.length, sample->available, call);
    memset(sample->values, 0, sizeof sample->values);
    /* If only one rank has the elements, the others contribute zeros. */
    const uint32_t source_rank =
        plan->collective == CSHIM_BROADCAST ? plan->root : choose_block(exchange, call);
    const uint64_t from = is_alltoall
                              ? exchange->communicator->sent_begins[source_rank] - range.begin
                              : 0 - exchange->source.begin;
    if (cshim_shapes[plan->collective].adds || (int)source_rank == exchange->communicator->rank)
        cshim_sample_widen(plan->dtype,
                           exchange->input + (sample->first + from) * exchange->element_bytes,
                           sample->available, sample->values);
}

void cshim_call_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange)
{
    double results[CSHIM_SAMPLE_MAX];
    if (!sample->taken)
        return;
    if (exchange->communicator->rank != sample->comparing_rank) {
        exchange->figures.bytes_wire += sample->length * sizeof(double);
        return;
    }
    const uint64_t first = sample->first - exchange->result.begin;
    cshim_sample_widen(exchange->plan->dtype, exchange->output + first * exchange->element_bytes,
                       sample->available, results);
    cshim_sample_add(&exchange->figures, results, sample->sums, sample->available);
}

/* Sums the sampled elements in float64 and compares them. Returns 0 or a transport error. */
static int end_sample(struct cshim_sample *sample, struct cshim_exchange *exchange)
{
    if (!sample->taken)
        return 0;
    const int status = exchange->communicator->transport->sum_at(
        exchange, sample->values, sample->sums, (int)sample->length, sample->comparing_rank);
    if (status == 0)
        cshim_call_sample_compare(sample, exchange);
    return status;
}

/* verify and check_ranks -------------------------------------------------------------------------
 *
 * At intervals, a reduction is also made natively, as an all-reduce, and compared; and the ranks'
 * results, if they should be equal, are compared with each other. The call's number, which is equal
 * on all ranks, selects the calls. */
/* Maximum number of elements of one native call: MPI's counts have 31 bits. */
#define NATIVE_PART ((uint64_t)1 << 28)

/* Sums natively, by calls of at most NATIVE_PART elements. Returns 0 or a transport error. */
static int sum_natively(const struct cshim_exchange *exchange, uint8_t *sum)
{
    const struct cshim_plan *plan = exchange->plan;
    int status = 0;
    for (uint64_t done = 0; done < plan->count && status == 0; done += NATIVE_PART) {
        const uint64_t left = plan->count - done;
        const uint64_t begin = done * exchange->element_bytes;
        status =
            exchange->communicator->transport->sum(exchange, exchange->input + begin, sum + begin,
                                                   left < NATIVE_PART ? left : NATIVE_PART);
    }
    return status;
}

/* Makes a native sum before a call that is to be verified. Sets *native to the sum, which the
 * caller frees, or to NULL if the call is not verified, a rank has no memory, or the transport
 * fails. Collective. Returns 0 or a transport error. */
static int begin_verifying(const struct cshim_exchange *exchange, uint32_t interval_index,
                           void **native)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint32_t every = plan->rule->verify;
    *native = NULL;
    if (every == 0 || interval_index % every != 0 || !cshim_shapes[plan->collective].adds)
        return 0;
    void *sum = malloc(plan->count * exchange->element_bytes);
    const uint64_t lacks = sum == NULL;
    uint64_t somewhere = 0;
    int status = exchange->communicator->transport->maximum(exchange, &lacks, &somewhere, 1);
    if (status == 0 && !somewhere)
        status = sum_natively(exchange, sum);
    if (status == 0 && !somewhere) {
        *native = sum;
        return status;
    }
    free(sum);
    if (status == 0 && exchange->communicator->rank == 0)
        cshim_log(CSHIM_LOG_WARN, "rule '%s': a rank has no memory to verify %llu bytes",
                  plan->rule->name, (unsigned long long)plan->count * exchange->element_bytes);
    return status;
}

/* Returns element `i` of a buffer of the call's type. */
static double load_element(const struct cshim_exchange *exchange, const uint8_t *buffer, uint64_t i)
{
    double value;
    cshim_sample_widen(exchange->plan->dtype, buffer + i * exchange->element_bytes, 1, &value);
    return value;
}

/* Compares the result with the native one; NULL: the call is not verified. */
static void end_verifying(struct cshim_exchange *exchange, const void *native)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_row *figures = &exchange->figures;
    if (native == NULL)
        return;
    figures->bytes_wire += verify_bytes(exchange);
    /* If all ranks get the same result, only rank 0 compares. */
    const bool compares =
        exchange->communicator->rank == 0 || !cshim_shapes[plan->collective].is_shared;
    figures->verified = exchange->communicator->rank == 0;
    if (compares) {
        for (uint64_t i = 0; i < exchange->result.length; i++) {
            const double want = load_element(exchange, native, exchange->result.begin + i);
            const double error = load_element(exchange, exchange->output, i) - want;
            if (!isfinite(error))
                continue;
            figures->verify_errors += error;
            figures->verify_error_squares += error * error;
            figures->verify_magnitudes += fabs(want);
            figures->verify_squares += want * want;
            figures->verify_largest = fmax(figures->verify_largest, fabs(error));
        }
    }
}

/* Returns a digest of the bytes: FNV-1a by 64-bit words, mixed so that high bits count. */
static uint64_t digest(const uint8_t *bytes, uint64_t length)
{
    uint64_t hash = CSHIM_HASH_EMPTY;
    for (uint64_t i = 0; i < length; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, length - i < sizeof word ? length - i : sizeof word);
        hash = cshim_hash_step(hash, word);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Compares digests of the ranks' results, if the call is due. Collective. Returns 0 or a transport
 * error. */
static int compare_ranks(struct cshim_exchange *exchange, uint32_t interval_index)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint32_t every = plan->rule->check_ranks;
    uint64_t own[2], most[2];
    if (every == 0 || interval_index % every != 0 || !cshim_shapes[plan->collective].is_shared)
        return 0;
    own[0] = digest(exchange->output, plan->count * exchange->element_bytes);
    own[1] = ~own[0]; /* the largest complement is that of the smallest digest */
    const int status = exchange->communicator->transport->maximum(exchange, own, most, 2);
    if (status != 0 || exchange->communicator->rank != 0)
        return status;
    exchange->figures.checked = 1;
    if (most[0] == ~most[1])
        return status;
    exchange->figures.differing = 1;
    cshim_log(
        CSHIM_LOG_ERROR,
        "rule '%s': the ranks hold different results of call %u (%llu x %s, %s by %s): please "
        "report this",
        plan->rule->name, exchange->sequence, (unsigned long long)plan->count,
        cshim_dtype_name(plan->dtype), cshim_codec_name(plan->codec),
        cshim_algorithm_name(plan->algorithm));
    return status;
}

/* The call ------------------------------------------------------------------------------------- */

static int run_call(struct cshim_exchange *exchange, double *took)
{
    struct cshim_communicator *comm = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const size_t rule = cshim_rule_index(comm->job->policy, plan->rule);
    const bool counts = exchange->number == 0;
    const uint32_t call = counts ? ++comm->calls_by_rule[rule] : exchange->number;
    struct cshim_sample sample;
    void *native = NULL;

    /* The numbers of gloo's calls follow from the program's tags, which may all be even, so they
     * are hashed. */
    const uint32_t interval_index = counts ? call : (uint32_t)cshim_mix(call);
    exchange->sequence = counts ? ++comm->sequence : exchange->number;
    cshim_call_sample_begin(&sample, exchange, call);
    int status = begin_verifying(exchange, interval_index, &native);
    const double began = cshim_seconds();
    cshim_call_set_options(exchange);
    if (status == 0)
        status = cshim_exchange_run(exchange);
    if (status == 0)
        status = check_tolerance(exchange);
    const double seconds = cshim_seconds() - began;
    *took = seconds;
    cshim_call_trace(exchange, began, seconds);
    if (status == 0)
        status = end_sample(&sample, exchange);
    if (status == 0)
        status = compare_ranks(exchange, interval_index);
    if (status == 0)
        end_verifying(exchange, native);
    free(native);
    cshim_call_count(exchange, seconds);
    return status;
}

/* Saves the program's floating-point environment, and restores it at the end. */
int cshim_call_run(struct cshim_exchange *exchange, double *seconds)
{
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    int status = cshim_call_acquire_scratch(exchange);
    if (status == 0)
        status = run_call(exchange, seconds);
    cshim_call_release_scratch(exchange, status);
    cshim_arithmetic_end(&saved);
    return status;
}
