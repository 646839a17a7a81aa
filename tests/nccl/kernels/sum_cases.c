/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "codecs/scalar.h"
#include "tests/nccl/kernels/cases.h"
#include "tests/nccl/kernels/machine.h"
#include "tests/nccl/kernels/products.h"

/* Computes the expected sums times `factor`, and their encoding. Multiplies in float64 if the
 * elements are float64, otherwise in float32. */
static void multiply_sums(enum cshim_codec_id codec, enum cshim_dtype dtype,
                          const void *const *parts, unsigned ranks, uint64_t count, double factor,
                          void *output, void *reencoded, const struct cshim_encoding *encoding)
{
    const bool is_double = dtype == CSHIM_FLOAT64, is_raw = codec == CSHIM_CODEC_RAW && !is_double;
    const enum cshim_dtype wide = is_double ? CSHIM_FLOAT64 : CSHIM_FLOAT32;
    const size_t bytes = count * cshim_dtype_bytes(dtype);
    const size_t each = cshim_encoded_bytes(CSHIM_CODEC_FP32, dtype, count);
    unsigned char *floats = room_for(ranks * each);
    void *sums = room_for(count * sizeof(double)), *rounded = room_for(bytes);
    const void *added[RANKS_MAX];
    for (unsigned rank = 0; rank < ranks; rank++) {
        added[rank] = is_raw ? floats + rank * each : parts[rank];
        if (is_raw)
            cshim_encode(CSHIM_CODEC_FP32, dtype, parts[rank], count, floats + rank * each);
    }
    cshim_reduce(is_raw ? CSHIM_CODEC_FP32 : codec, wide, added, ranks, count, sums, NULL);
    if (is_double) {
        multiply_doubles(sums, count, factor);
        memcpy(rounded, sums, bytes);
    } else {
        multiply(sums, count, factor);
        narrow(dtype, sums, count, rounded);
    }
    if (output != NULL)
        memcpy(output, rounded, bytes);
    if (reencoded != NULL && is_raw)
        cshim_encode(codec, dtype, rounded, count, reencoded);
    else if (reencoded != NULL)
        cshim_encode_with(codec, wide, sums, count, encoding, reencoded);
    free(floats);
    free(rounded);
    free(sums);
}

void test_reduce(enum cshim_codec_id codec, enum cshim_dtype dtype, enum distribution kind,
                 uint64_t count, unsigned ranks, unsigned options)
{
    const struct shape shape = {count, count, 1, 0, 0};
    const size_t element = cshim_dtype_bytes(dtype), stride = stride_of(codec, dtype, &shape);
    const size_t bytes = HEADER + cshim_encoded_bytes(codec, dtype, count);
    struct array parts = make_array(stride * ranks, 0), reencoded = make_array(bytes, 0);
    struct array output = make_array(count * element, element * (next_random() % 4 % 3));
    struct array residual = make_array(count * sizeof(float), 0);
    struct array fault = make_array(4 * CSHIM_KERNEL_FAULT_WORDS, 0);
    const void *payloads[RANKS_MAX];
    const bool has_output = !(options & 8), has_reencoded = !(options & 16);
    /* Bit 2 of the options multiplies by 1/3 for float64, by -1/3 for other types. */
    const double factor = options & 4 ? (dtype == CSHIM_FLOAT64 ? -third : third) : 1;
    const uint64_t key = next_random(), first = next_random() / 256 * 256;
    void *input = room_for(count * element);
    for (unsigned rank = 0; rank < ranks; rank++) {
        fill(dtype, kind, input, count);
        put_header(parts.host + rank * stride, count);
        cshim_encode(codec, dtype, input, count, parts.host + rank * stride + HEADER);
        if (options & 32)
            damage(parts.host + rank * stride + HEADER, bytes - HEADER);
        payloads[rank] = parts.host + rank * stride + HEADER;
    }
    float *const lost = (float *)(void *)residual.host;
    for (uint64_t i = 0; i < count; i++)
        lost[i] = (i % 3 == 0 ? 10 : 0.01f) * value_of(NORMAL);
    memset(fault.host, 0, fault.bytes);
    give_array(&parts);
    give_array(&reencoded);
    give_array(&output);
    give_array(&residual);
    give_array(&fault);
    struct cshim_kernel_reduce parameters = {
        .dtype = dtype,
        .parts = parts.device,
        .stride = stride,
        .count = count,
        .ranks = ranks,
        .factor = factor,
        .fault = (uint32_t *)(void *)fault.device,
        .options = {.residual = options & 1 ? (float *)(void *)residual.device : NULL,
                    .key = key,
                    .first = first,
                    .stochastic = options >> 1 & 1},
    };
    memcpy(parameters.header, header, sizeof header);
    memcpy(parameters.reencoded_header, header, sizeof header);
    if (has_output) {
        parameters.output = output.device;
        machine_launch(CSHIM_KERNEL_REDUCE, codec, count, &parameters);
    }
    if (has_reencoded) {
        parameters.output = NULL;
        parameters.reencoded = reencoded.device;
        machine_launch(CSHIM_KERNEL_REDUCE, codec, count, &parameters);
    }
    const struct cshim_encoding encoding = {
        options & 1 ? lost : NULL, options >> 1 & 1, key, first, 0, 0};
    const struct cshim_encoding *const with = options & 3 ? &encoding : NULL;
    void *const sum = has_output ? output.host : NULL;
    void *const again = has_reencoded ? reencoded.host + HEADER : NULL;
    if (has_reencoded)
        put_header(reencoded.host, count);
    if (options & 4)
        multiply_sums(codec, dtype, payloads, ranks, count, factor, sum, again, with);
    else
        cshim_reduce_with(codec, dtype, payloads, ranks, count, sum, again, with);
    judge(is_as_expected(&output), "sum of", codec, dtype, count, ranks + 100 * kind);
    judge(is_as_expected(&reencoded), "reencoded sum of", codec, dtype, count, ranks + 100 * kind);
    judge(is_as_expected(&residual), "residual of the sum of", codec, dtype, count, options);
    judge(is_as_expected(&fault), "no fault of the sum of", codec, dtype, count, ranks);
    if (count == 1) {
        const unsigned damaged = ranks > 1 ? (unsigned)(next_random() % ranks) : 0;
        damage_header(parts.host + damaged * stride);
        give_array(&parts);
        machine_launch(CSHIM_KERNEL_REDUCE, codec, count, &parameters);
        uint32_t words[CSHIM_KERNEL_FAULT_WORDS];
        machine_read(words, fault.device, sizeof words);
        judge(words[0] == CSHIM_KERNEL_FAULT_WRITTEN && words[1] == damaged &&
                  memcmp(words + 2, parts.host + damaged * stride, HEADER) == 0,
              "the fault of the sum of", codec, dtype, count, ranks);
    }
    free(input);
    drop_array(&parts);
    drop_array(&reencoded);
    drop_array(&output);
    drop_array(&residual);
    drop_array(&fault);
}
