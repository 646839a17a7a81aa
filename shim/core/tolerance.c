/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/tolerance.h"

#include <math.h>

#include "codecs/scalar.h"
#include "shim/core/sample.h"

#define SAMPLES 16u

static size_t tensor_slot(size_t rule, uint64_t count)
{
    return (size_t)(cshim_mix(count + ((uint64_t)rule << 48)) % CSHIM_WATCH_SLOTS);
}

static double typical_error(enum cshim_codec_id codec)
{
    return cshim_codec_is_exact(codec) ? -1 : cshim_codec_info(codec)->typical;
}

/* Returns true if adaptive precision may replace a rule's codec by this one. topk needs error
 * feedback; the formats of OCP and NVIDIA are no more precise than others of about their size. */
static bool is_step(enum cshim_codec_id codec)
{
    return codec != CSHIM_CODEC_TOPK && cshim_format(codec).scale == CSHIM_SCALE_POWER;
}

static enum cshim_codec_id next_codec(enum cshim_codec_id codec, enum cshim_dtype dtype)
{
    enum cshim_codec_id next = CSHIM_CODEC_RAW;
    for (unsigned i = CSHIM_CODEC_RAW; i < CSHIM_CODEC_COUNT; i++) {
        const enum cshim_codec_id other = (enum cshim_codec_id)i;
        if (is_step(other) && cshim_codec_carries(other, dtype) &&
            typical_error(other) < typical_error(codec) &&
            typical_error(other) > typical_error(next))
            next = other;
    }
    return next;
}

enum cshim_codec_id cshim_tolerance_codec(const struct cshim_tolerance *tolerance, size_t rule,
                                          enum cshim_codec_id own, enum cshim_dtype dtype,
                                          uint64_t count)
{
    const enum cshim_codec_id moved =
        (enum cshim_codec_id)tolerance->codec[dtype][tensor_slot(rule, count)];
    if (moved == CSHIM_CODEC_NONE || typical_error(moved) >= typical_error(own))
        return CSHIM_CODEC_NONE;
    return moved;
}

enum cshim_codec_id cshim_tolerance_change(struct cshim_tolerance *tolerance, size_t rule,
                                           const struct cshim_plan *plan)
{
    const enum cshim_codec_id next = next_codec(plan->codec, plan->dtype);
    tolerance->codec[plan->dtype][tensor_slot(rule, plan->count)] = (uint8_t)next;
    return next;
}

/* Sums of squares, in a type that holds the square of every double. */
struct sums {
    long double errors;
    long double values;
};

static void add_sample(const struct cshim_plan *plan, const void *input, size_t length,
                       struct sums *sums)
{
    double values[CSHIM_GRAIN];
    float decoded[CSHIM_GRAIN];
    uint8_t encoded[CSHIM_GRAIN * sizeof(double)];
    cshim_sample_widen(plan->dtype, input, (uint32_t)length, values);
    cshim_encode(plan->codec, plan->dtype, input, length, encoded);
    cshim_decode(plan->codec, CSHIM_FLOAT32, encoded, length, decoded);
    for (size_t i = 0; i < length; i++) {
        if (!isfinite(values[i]))
            continue;
        /* A finite element that becomes infinite counts as an error of its whole magnitude. */
        const long double result = isfinite(decoded[i]) ? (long double)decoded[i] : 0;
        const long double error = result - (long double)values[i];
        sums->errors += error * error;
        sums->values += (long double)values[i] * (long double)values[i];
    }
}

float cshim_tolerance_measure(const struct cshim_plan *plan, const void *input, uint64_t count)
{
    const size_t element = cshim_dtype_bytes(plan->dtype);
    const uint64_t grains = (count + CSHIM_GRAIN - 1) / CSHIM_GRAIN;
    const uint64_t samples = grains < SAMPLES ? grains : SAMPLES;
    struct sums sums = {0};
    if (cshim_codec_is_exact(plan->codec))
        return 0;
    for (uint64_t i = 0; i < samples; i++) {
        const uint64_t begin = grains * i / samples * CSHIM_GRAIN;
        const uint64_t rest = count - begin;
        add_sample(plan, (const uint8_t *)input + begin * element,
                   rest < CSHIM_GRAIN ? (size_t)rest : CSHIM_GRAIN, &sums);
    }
    return sums.values > 0 ? (float)sqrtl(sums.errors / sums.values) : 0;
}
