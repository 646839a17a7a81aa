/* SPDX-License-Identifier: Apache-2.0 */
/* fp32: float32 as it is, NaN payloads included; what float64 is narrowed to. */
#include "codecs/simd.h"

static void encode_scalar(const float *input, size_t count, uint8_t *payload, uint8_t *scales)
{
    (void)scales;
    memcpy(payload, input, count * sizeof *input);
}

static void decode_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,
                          float *output)
{
    (void)scales;
    memcpy(output, payload, count * sizeof *output);
}

static void add_scalar(const uint8_t *payload, const uint8_t *scales, size_t count, float *sum)
{
    (void)scales;
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, payload + 4 * i, sizeof value);
        sum[i] = cshim_sum(sum[i], value);
    }
}

#if CSHIM_X86
CSHIM_AVX2 static void add_avx2(const uint8_t *payload, const uint8_t *scales, size_t count,
                                float *sum)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(payload + 4 * i));
        cshim_put_avx2(sum + i, _mm256_castsi256_ps(bits), CSHIM_PUT_SUM);
    }
    add_scalar(payload + 4 * i, scales, count - i, sum + i);
}

CSHIM_AVX512 static void add_avx512(const uint8_t *payload, const uint8_t *scales, size_t count,
                                    float *sum)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        cshim_put_avx512(sum + i, _mm512_loadu_ps(payload + 4 * i), CSHIM_PUT_SUM);
    }
    add_scalar(payload + 4 * i, scales, count - i, sum + i);
}
#endif

const struct cshim_kernels cshim_fp32_kernels[CSHIM_LEVELS] = {
    {encode_scalar, decode_scalar, add_scalar},
#if CSHIM_X86
    {encode_scalar, decode_scalar, add_avx2},
    {encode_scalar, decode_scalar, add_avx512},
#endif
};
