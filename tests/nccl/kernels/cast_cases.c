/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/scalar.h"
#include "tests/nccl/kernels/cases.h"
#include "tests/nccl/kernels/machine.h"
#include "tests/nccl/kernels/products.h"

/* Makes an array for `count` elements of `element` bytes. */
static struct array make_elements(size_t element, uint64_t count, size_t shift)
{
    return count >> 32 != 0 ? make_large_elements(element, count)
                            : make_array(count * element, shift * element);
}

void test_cast(enum cshim_codec_id codec, enum cshim_dtype dtype, enum distribution kind,
               uint64_t all, size_t shift, enum factors factors)
{
    const uint32_t headroom = (uint32_t)(next_random() % 20);
    const size_t element = cshim_dtype_bytes(dtype), code = codec == CSHIM_CODEC_FP32 ? 4 : 2;
    const bool in_memory = factors == IN_MEMORY;
    const double factor = factors == BOTH || in_memory ? any_factor() : 1;
    const double mean = factors == BOTH ? any_factor() : factors == LITTLE ? 1 + 0x3p-10 : 1;
    const uint64_t count = all >> 32 != 0 ? large_kept(all) : all;
    struct array factor_at = make_factor(dtype, factor);
    const double multiplier = in_memory ? factor_of(dtype, &factor_at) : factor;
    struct array input = make_elements(element, all, shift);
    struct array output = make_elements(element, all, shift);
    struct array codes = make_elements(code, all, next_random() % 3);
    struct array largest = make_array(sizeof(uint32_t), 0);
    float *values = room_for(cshim_encoded_bytes(CSHIM_CODEC_FP32, dtype, count));
    /* The kernel only raises this word, which may hold a larger magnitude already. */
    uint32_t most = next_random() % 2 ? 0 : cshim_finite_magnitude(8 * value_of(NORMAL));
    fill(dtype, kind, input.host, count);
    memcpy(largest.host, &most, sizeof most);
    give_array(&input);
    give_array(&output);
    give_array(&codes);
    give_array(&largest);
    struct cshim_kernel_cast find = {.dtype = dtype,
                                     .input = input.device,
                                     .count = all,
                                     .factor = in_memory ? 3 : factor,
                                     .factor_at = in_memory ? factor_at.device : NULL,
                                     .largest = (uint32_t *)(void *)largest.device};
    machine_launch(CSHIM_KERNEL_LARGEST, CSHIM_CODEC_FP16, all, &find);
    struct cshim_kernel_cast cast = {.dtype = dtype,
                                     .input = input.device,
                                     .output = codes.device,
                                     .count = all,
                                     .headroom = headroom,
                                     .factor = in_memory ? 3 : factor,
                                     .factor_at = in_memory ? factor_at.device : NULL,
                                     .largest = (uint32_t *)(void *)largest.device};
    machine_launch(CSHIM_KERNEL_NARROW, codec, all, &cast);
    cast.input = codes.device;
    cast.output = output.device;
    cast.factor = mean;
    cast.factor_at = NULL;
    machine_launch(CSHIM_KERNEL_WIDEN, codec, all, &cast);
    if (dtype == CSHIM_FLOAT64)
        multiply_doubles(input.host, count, multiplier);
    cshim_encode(CSHIM_CODEC_FP32, dtype, input.host, count, values);
    if (dtype != CSHIM_FLOAT64)
        multiply(values, count, multiplier);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t magnitude = cshim_finite_magnitude(values[i]);
        most = magnitude > most ? magnitude : most;
    }
    memcpy(largest.host, &most, sizeof most);
    const int exponent = cshim_cast_exponent(most, (int)headroom);
    for (uint64_t i = 0; i < count; i++) {
        const uint16_t half = codec == CSHIM_CODEC_FP16 ? cshim_fp16_encode(values[i], exponent)
                                                        : cshim_bf16_encode(values[i]);
        if (codec == CSHIM_CODEC_FP32)
            memcpy(codes.host + 4 * i, values + i, 4);
        else
            memcpy(codes.host + 2 * i, &half, 2);
        if (codec == CSHIM_CODEC_FP16)
            values[i] = cshim_fp16_decode(half, exponent);
        else if (codec == CSHIM_CODEC_BF16)
            values[i] = cshim_bf16_decode(half);
    }
    if (dtype != CSHIM_FLOAT64)
        multiply(values, count, mean);
    narrow(dtype, values, count, output.host);
    if (dtype == CSHIM_FLOAT64)
        multiply_doubles(output.host, count, mean);
    judge(is_as_expected(&largest), "largest", CSHIM_CODEC_NONE, dtype, all, kind);
    judge(is_as_expected(&codes), "narrow", codec, dtype, all, kind);
    judge(is_as_expected(&output), "widen", codec, dtype, all, kind);
    free(values);
    drop_array(&input);
    drop_array(&output);
    drop_array(&codes);
    drop_array(&largest);
    drop_array(&factor_at);
}

void test_places(enum cshim_dtype dtype)
{
    const uint64_t count = 512, lane = 16;
    const uint32_t none = 0;
    for (uint64_t i = 0; i < 4 * lane; i++) {
        const uint64_t place = lane * (next_random() % (count / lane)) + i % lane;
        const float factor = i / lane % 2 == 0 ? 1 : 4;
        const uint32_t most = cshim_finite_magnitude(8 * factor);
        struct array input = make_elements(cshim_dtype_bytes(dtype), count, 0);
        struct array largest = make_array(sizeof most, 0);
        float *values = room_for(count * sizeof *values);
        for (uint64_t j = 0; j < count; j++)
            values[j] = value_of(NORMAL);
        values[place] = next_random() % 2 ? 8.0f : -8.0f;
        if (i >= 2 * lane)
            values[place ^ (1 + next_random() % 7)] = NAN;
        narrow(dtype, values, count, input.host);
        memcpy(largest.host, &none, sizeof none);
        give_array(&input);
        give_array(&largest);
        struct cshim_kernel_cast find = {.dtype = dtype,
                                         .input = input.device,
                                         .count = count,
                                         .factor = factor,
                                         .largest = (uint32_t *)(void *)largest.device};
        machine_launch(CSHIM_KERNEL_LARGEST, CSHIM_CODEC_FP16, count, &find);
        memcpy(largest.host, &most, sizeof most);
        judge(is_as_expected(&largest), "largest, by its place", CSHIM_CODEC_NONE, dtype, count,
              place);
        free(values);
        drop_array(&input);
        drop_array(&largest);
    }
}
