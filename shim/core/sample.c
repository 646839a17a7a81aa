/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/sample.h"

#include <math.h>
#include <string.h>

#include "codecs/floats.h"

uint64_t cshim_sample_block_bytes(uint32_t ranks)
{
    const uint64_t most = CSHIM_SAMPLE_FACTOR_BYTES + CSHIM_SAMPLE_MAX * sizeof(float);
    const uint64_t room = CSHIM_SAMPLE_GATHERED_BYTES / ranks / sizeof(double) * sizeof(double);
    if (room < CSHIM_SAMPLE_FACTOR_BYTES + sizeof(double))
        return 0;
    return room < most ? room : most;
}

uint32_t cshim_sample_block_elements(uint32_t ranks, enum cshim_dtype dtype, uint64_t count)
{
    const uint64_t bytes = cshim_sample_block_bytes(ranks);
    uint64_t length = CSHIM_SAMPLE_MAX;
    if (bytes == 0)
        return 0;
    const uint64_t room = (bytes - CSHIM_SAMPLE_FACTOR_BYTES) / cshim_dtype_bytes(dtype);
    length = room < length ? room : length;
    return (uint32_t)(length < count ? length : count);
}

uint64_t cshim_sample_place(uint64_t count, uint32_t length, uint32_t call)
{
    const uint64_t mixed = (call * CSHIM_GOLDEN) >> 16;
    return count > length ? mixed % (count - length + 1) : 0;
}

void cshim_sample_widen(enum cshim_dtype dtype, const void *from, uint32_t length, double *to)
{
    const uint8_t *elements = from;
    float narrow[CSHIM_SAMPLE_MAX];
    if (dtype == CSHIM_FLOAT64) {
        memcpy(to, from, length * sizeof *to);
        return;
    }
    for (uint32_t done = 0; done < length; done += CSHIM_SAMPLE_MAX) {
        const uint32_t left = length - done;
        const uint32_t part = left < CSHIM_SAMPLE_MAX ? left : CSHIM_SAMPLE_MAX;
        /* The payload of codec fp32 is an array of float32. */
        cshim_encode(CSHIM_CODEC_FP32, dtype, elements + done * cshim_dtype_bytes(dtype), part,
                     narrow);
        for (uint32_t i = 0; i < part; i++)
            to[done + i] = narrow[i];
    }
}

void cshim_sample_add(struct cshim_row *figures, const double *results, const double *sums,
                      uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        const double error = results[i] - sums[i];
        if (!isfinite(error * error) || !isfinite(sums[i] * sums[i]))
            continue;
        figures->error_squares += error * error;
        figures->sum_squares += sums[i] * sums[i];
        figures->samples++;
    }
}
