/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/header.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codecs/floats.h"

/* The collective is in the upper half of the byte `step`. */
#define COLLECTIVE_SHIFT 4
#define STEP_MASK 7

uint64_t cshim_message_key(uint64_t seed, uint64_t number, uint32_t rank, uint32_t sequence,
                           enum cshim_message message)
{
    return cshim_mix(seed * CSHIM_GOLDEN + cshim_mix(number) + ((uint64_t)sequence << 32) +
                     ((uint64_t)message / CSHIM_ROW_MESSAGES << 31) +
                     (uint64_t)rank * CSHIM_ROW_MESSAGES + message % CSHIM_ROW_MESSAGES);
}

struct cshim_header cshim_header_make(const struct cshim_plan *plan, uint32_t sequence,
                                      uint64_t segment, enum cshim_message step, uint64_t elements,
                                      float error)
{
    return (struct cshim_header){
        .magic = CSHIM_HEADER_MAGIC,
        .sequence = sequence,
        .count = plan->count,
        .segment = (uint32_t)segment,
        .elements = (uint32_t)elements,
        .codec = (uint8_t)cshim_message_codec(plan, step),
        .dtype = (uint8_t)plan->dtype,
        .algorithm = (uint8_t)plan->algorithm,
        .step = (uint8_t)((unsigned)step | (unsigned)plan->collective << COLLECTIVE_SHIFT),
        .error = error,
    };
}

/* Describes a header's call in words; writes `otherwise` if it is no header. Returns the length of
 * the text. */
static size_t describe_header(const struct cshim_header *header, const char *otherwise, char *text,
                              size_t size)
{
    if (header->magic != CSHIM_HEADER_MAGIC)
        return (size_t)snprintf(text, size, "%s", otherwise);
    return (size_t)snprintf(
        text, size, "call %u, %s of %llu x %s in %s by %s, segment %u, step %u", header->sequence,
        cshim_collective_name((enum cshim_collective)(header->step >> COLLECTIVE_SHIFT)),
        (unsigned long long)header->count, cshim_dtype_name((enum cshim_dtype)header->dtype),
        cshim_codec_name((enum cshim_codec_id)header->codec),
        cshim_algorithm_name((enum cshim_algorithm)header->algorithm), header->segment,
        (unsigned)header->step & STEP_MASK);
}

bool cshim_header_is_shared(const void *message)
{
    return (((const uint8_t *)message)[offsetof(struct cshim_header, step)] &
            CSHIM_HEADER_SHARED) != 0;
}

bool cshim_header_check(const struct cshim_header *want, const void *message, float *error,
                        char text[CSHIM_MISMATCH_MAX])
{
    struct cshim_header got;
    memcpy(&got, message, sizeof got);
    *error = isfinite(got.error) && got.error > 0 ? got.error : 0;
    if (memcmp(want, &got, offsetof(struct cshim_header, error)) == 0)
        return true;
    size_t length = (size_t)snprintf(text, CSHIM_MISMATCH_MAX, "here: ");
    length += describe_header(want, "", text + length, CSHIM_MISMATCH_MAX - length);
    length += (size_t)snprintf(text + length, CSHIM_MISMATCH_MAX - length, "; there: ");
    describe_header(&got, "no message of this version", text + length, CSHIM_MISMATCH_MAX - length);
    return false;
}

void cshim_header_describe(const void *message, char text[CSHIM_MISMATCH_MAX])
{
    struct cshim_header header;
    memcpy(&header, message, sizeof header);
    describe_header(&header, "no compressed message", text, CSHIM_MISMATCH_MAX);
}
