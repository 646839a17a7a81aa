/* SPDX-License-Identifier: Apache-2.0 */
/* verify and check_ranks: every so often a compressed call is also made natively and compared, and
 * the ranks' results are compared with each other. Which calls follows from their number, which is
 * the same on all ranks. */
#include "shim/host/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/hash.h"
#include "shim/core/log.h"

#define NATIVE_PART ((uint64_t)1 << 28) /* elements: libraries count in 31 bits */

/* The library's own sum, in parts whose counts are ints. */
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

int cshim_verify_begin(const struct cshim_exchange *exchange, uint32_t call, void **native)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint32_t every = plan->rule->verify;
    *native = NULL;
    if (every == 0 || call % every != 0 || !cshim_schedule_adds(plan->schedule))
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

static double load(const struct cshim_exchange *exchange, const void *buffer, uint64_t i)
{
    float value[CSHIM_WIRE_ALIGN / sizeof(float)]; /* encoded sizes are multiples of that */
    const uint8_t *place = (const uint8_t *)buffer + i * exchange->element_bytes;
    if (exchange->plan->dtype == CSHIM_FLOAT64)
        return ((const double *)buffer)[i];
    cshim_encode(CSHIM_CODEC_FP32, exchange->plan->dtype, place, 1, value);
    return (double)value[0];
}

void cshim_verify_end(struct cshim_exchange *exchange, void *native)
{
    struct cshim_row *figures = &exchange->figures;
    if (native == NULL)
        return;
    /* Of results that are the same on all ranks, rank 0's is compared. */
    const bool compares =
        exchange->communicator->rank == 0 || !cshim_schedule_is_shared(exchange->plan->schedule);
    figures->verified = exchange->communicator->rank == 0;
    if (compares) {
        for (uint64_t i = 0; i < exchange->result.length; i++) {
            const double want = load(exchange, native, exchange->result.begin + i);
            const double error = load(exchange, exchange->output, i) - want;
            if (!isfinite(error))
                continue;
            figures->verify_errors += error;
            figures->verify_error_squares += error * error;
            figures->verify_magnitudes += fabs(want);
            figures->verify_squares += want * want;
            figures->verify_largest = fmax(figures->verify_largest, fabs(error));
        }
    }
    free(native);
}

/* A digest of the result's bytes: FNV-1a by words, mixed so that high bits count. */
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

int cshim_verify_ranks(struct cshim_exchange *exchange, uint32_t call)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint32_t every = plan->rule->check_ranks;
    uint64_t own[2], most[2];
    if (every == 0 || call % every != 0 || !cshim_schedule_is_shared(plan->schedule))
        return 0;
    own[0] = digest(exchange->output, plan->count * exchange->element_bytes);
    own[1] = ~own[0]; /* its largest tells the smallest digest */
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
